//! Single rules of RFC 9260 and RFC 7829.

use netrig_core::{CloseReason, Data, Size, StreamId};
use netrig_transport::sctp::packet::{Cause, Chunk, Parameter, chunk};
use netrig_transport::sctp::{Config, ListenerResponse};
use netrig_transport::{Connection, Incident, Packet, PathId, PathState, Payload, Serial};

use super::failover::{failing, stubborn};
use super::pair::*;

/// An INIT with this tag and these parameters.
fn init(initiate_tag: u32, parameters: Vec<Parameter>) -> chunk::Init {
    chunk::Init {
        initiate_tag,
        a_rwnd: 10_000,
        outbound_streams: 10,
        inbound_streams: 10,
        initial_tsn: Serial(0),
        parameters,
    }
}

fn init_packet(to: Side, init: chunk::Init) -> Packet {
    forged(to, 0, 0, vec![Chunk::Init(Box::new(init))])
}

fn init_ack_of(chunks: &[Chunk]) -> &chunk::Init {
    match &chunks[0] {
        Chunk::InitAck(ack) => ack,
        other => panic!("INIT ACK, not {}", name_of(other)),
    }
}

fn cookie_of(ack: &chunk::Init) -> Vec<u8> {
    let cookie = ack.parameters.iter().find_map(|parameter| match parameter {
        Parameter::Cookie(cookie) => Some(cookie.clone()),
        _ => None,
    });
    cookie.expect("an INIT ACK has a cookie")
}

/// The INIT ACK with which a listener replies to an INIT.
fn answered(pair: &mut Pair, init: chunk::Init) -> chunk::Init {
    let Some(ListenerResponse::Reply(reply)) =
        pair.listener.handle_packet(pair.now, init_packet(Side::Server, init))
    else {
        panic!("INIT is answered")
    };
    let Payload::Sctp(body) = reply.payload else { panic!("SCTP") };
    init_ack_of(&body.chunks).clone()
}

/// The Tie-Tags of a cookie. They follow two times of eight bytes, two ports, five words and two numbers of streams.
fn tie_tags(cookie: &[u8]) -> [u32; 2] {
    [44, 48].map(|at| u32::from_be_bytes(cookie[at..at + 4].try_into().expect("four bytes")))
}

fn cookie_echo(to: Side, tag: u32, cookie: Vec<u8>) -> Packet {
    forged(to, 0, tag, vec![Chunk::CookieEcho(cookie)])
}

/// A client whose COOKIE ECHO was lost, one second before its retransmission.
fn echoed() -> Pair {
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    pair.lose(first(|crossing| crossing.has("COOKIE ECHO")));
    pair.open();
    pair.run_for(ms(500));
    assert_eq!(pair.log.last().map(Crossing::names).as_deref(), Some("COOKIE ECHO"));
    pair
}

/// Section 3.1: no port is 0.
#[test]
fn no_port_of_sctp_is_zero() {
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    for (port, answers) in [(1000, true), (0, false)] {
        let mut packet = init_packet(Side::Server, init(1, Vec::new()));
        packet.header.flow.src_port = port;
        if let Payload::Sctp(body) = &mut packet.payload {
            body.src_port = port;
        }
        assert_eq!(pair.listener.handle_packet(pair.now, packet).is_some(), answers, "port {port}");
    }
}

/// Section 3.3.3: each end uses the tag of the other. The window in INIT ACK is at least 1500 bytes.
#[test]
fn an_init_ack_names_tag_and_window() {
    let small = Config { receive_buffer: Size::from_bytes(100), ..rfc() };
    let mut pair = Pair::with(&rfc(), &small, 1, ms(100), 1);
    pair.open();
    pair.fill(1000);
    pair.run_for(s(2));
    let ack = init_ack_of(&pair.log[1].packet.chunks);
    assert_eq!(ack.a_rwnd, 1500);
    let (tag, own) = (ack.initiate_tag, pair.log[1].packet.verification_tag);
    assert!(pair.sent_by(Side::Client).skip(1).all(|crossing| crossing.packet.verification_tag == tag));
    assert!(pair.sent_by(Side::Server).all(|crossing| crossing.packet.verification_tag == own));
    assert_eq!(pair.server.bytes(), 1000);
}

/// Sections 3.3.11 and 5.1.3: a cookie contains only the necessary state.
#[test]
fn cookies_are_small() {
    for paths in 1..=4 {
        let mut pair = Pair::new(&rfc(), paths, ms(10));
        pair.open();
        pair.run_for(s(1));
        let cookie = cookie_of(init_ack_of(&pair.log[1].packet.chunks));
        assert!(cookie.len() <= 150 + 17 * paths, "{} bytes with {paths} addresses", cookie.len());
    }
}

/// Section 3.3.2.1.3: a requested extension of the cookie life is granted, but at most the cookie life itself.
#[test]
fn a_cookie_lives_twice_as_long_at_most() {
    let config = Config { cookie_life: s(60), ..rfc() };
    for (asked, after, accepted) in [
        (None, 60, true),
        (None, 61, false),
        (Some(30_000), 90, true),
        (Some(u32::MAX), 120, true),
        (Some(u32::MAX), 121, false),
    ] {
        let mut pair = Pair::new(&config, 1, ms(100));
        let wish = asked.map(Parameter::CookiePreservative).into_iter().collect();
        let ack = answered(&mut pair, init(1, wish));
        let echo = cookie_echo(Side::Server, ack.initiate_tag, cookie_of(&ack));
        let response = pair.listener.handle_packet(at(s(after)), echo);
        assert_eq!(
            matches!(response, Some(ListenerResponse::Accepted(_))),
            accepted,
            "{asked:?} after {after} s"
        );
    }
}

/// Section 3.3.3: an INIT ACK may be large.
#[test]
fn a_large_init_ack_is_taken() {
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    pair.lose(|_| true);
    pair.open();
    let tag = pair.client().local_tag();
    let cookie = vec![7; 1200];
    let unknown = Parameter::Unknown { kind: 0x8001, value: vec![1; 8000] };
    let large = init(5, vec![unknown, Parameter::Cookie(cookie.clone())]);
    let packet = through_bytes(forged(Side::Client, 0, tag, vec![Chunk::InitAck(Box::new(large))]));
    assert!(packet.header.ip_len > 9000);
    pair.deliver(Side::Client, packet);
    assert_eq!(pair.log.last().expect("an answer").packet.chunks[..], [Chunk::CookieEcho(cookie)]);
}

/// Section 5.1.5, step 3: a cookie is discarded if its tag or port differs from that of its packet.
#[test]
fn a_cookie_belongs_to_its_tag_and_ports() {
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    let ack = answered(&mut pair, init(1, Vec::new()));
    let good = cookie_echo(Side::Server, ack.initiate_tag, cookie_of(&ack));
    let with = |change: fn(&mut netrig_transport::sctp::Packet)| {
        let mut packet = good.clone();
        if let Payload::Sctp(body) = &mut packet.payload {
            change(body);
        }
        packet
    };
    for changed in [with(|body| body.verification_tag ^= 1), with(|body| body.src_port += 1)] {
        assert!(pair.listener.handle_packet(pair.now, changed).is_none());
    }
    assert!(matches!(pair.listener.handle_packet(pair.now, good), Some(ListenerResponse::Accepted(_))));
}

/// Section 5.1.5: DATA in the packet of the COOKIE ECHO is acknowledged after the COOKIE ACK.
#[test]
fn data_beside_a_cookie_is_acknowledged() {
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    let ack = answered(&mut pair, init(1, Vec::new()));
    let chunks = vec![Chunk::CookieEcho(cookie_of(&ack)), Chunk::Data(message_chunk(Serial(0), 300))];
    pair.deliver(Side::Server, forged(Side::Server, 0, ack.initiate_tag, chunks));
    assert_eq!(pair.server.bytes(), 300);
    let names: Vec<_> = pair.log.iter().map(Crossing::names).collect();
    assert_eq!(names.join("+"), "COOKIE ACK+SACK");
    let sack = pair.log.iter().find_map(Crossing::sack).expect("a SACK");
    assert_eq!(sack.cumulative_tsn, Serial(0));
}

/// Section 5.2.1: the reply to an INIT in COOKIE-ECHOED is the same as in COOKIE-WAIT: with the same tag and TSN, and
/// with both Tie-Tags in the cookie. Nothing else changes.
#[test]
fn an_init_after_the_cookie_echo_changes_nothing() {
    let mut pair = echoed();
    let (own, sent) = (pair.client().local_tag(), pair.log.len());
    let Chunk::Init(first) = &pair.log[0].packet.chunks[0] else { panic!("INIT") };
    let tsn = first.initial_tsn;
    let theirs = init_ack_of(&pair.log[1].packet.chunks).initiate_tag;
    pair.deliver(Side::Client, init_packet(Side::Client, init(4711, Vec::new())));
    assert_eq!(pair.log.len(), sent + 1);
    let answer = &pair.log[sent].packet;
    let ack = init_ack_of(&answer.chunks);
    assert_eq!((answer.verification_tag, ack.initiate_tag, ack.initial_tsn), (4711, own, tsn));
    assert_eq!(tie_tags(&cookie_of(ack)), [own, theirs]);
    pair.run_for(s(3));
    assert!(pair.client.connected().is_some());
}

/// Section 5.2.1: if the INIT adds addresses, an ABORT lists them, and nothing changes.
#[test]
fn an_init_after_the_cookie_echo_brings_no_addresses() {
    let mut pair = echoed();
    let stranger = Parameter::Address([192, 0, 2, 66].into());
    let parameters = vec![Parameter::Address(server_address(0)), stranger];
    pair.deliver(Side::Client, init_packet(Side::Client, init(4711, parameters)));
    let answer = &pair.log.last().expect("an answer").packet;
    let Chunk::Abort(abort) = &answer.chunks[0] else { panic!("ABORT") };
    assert_eq!((answer.verification_tag, abort.reflected), (4711, false));
    assert_eq!(abort.causes, [Cause::RestartWithNewAddresses(vec![0, 5, 0, 8, 192, 0, 2, 66])]);
    pair.run_for(s(3));
    assert!(pair.client.connected().is_some());
}

/// Section 5.2.2: if there is no association, the Tie-Tags are zero. Section 5.3.1: each association has its own tag
/// and TSN.
#[test]
fn a_new_association_has_new_tags() {
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    let [one, other] = [(); 2].map(|()| answered(&mut pair, init(1, Vec::new())));
    assert_eq!([&one, &other].map(|ack| tie_tags(&cookie_of(ack))), [[0; 2]; 2]);
    assert_ne!(one.initiate_tag, other.initiate_tag);
    assert_ne!(one.initial_tsn, other.initial_tsn);
}

/// Section 5.2.4: the reply to a stale cookie whose tags differ from those of the association is an ERROR. It has the
/// peer's tag from the cookie.
#[test]
fn a_stale_cookie_of_another_attempt_is_told() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    pair.deliver(Side::Server, init_packet(Side::Server, init(4711, Vec::new())));
    let ack = init_ack_of(&pair.log[0].packet.chunks).clone();
    pair.run_for(s(61));
    pair.log.clear();
    pair.deliver(Side::Server, cookie_echo(Side::Server, ack.initiate_tag, cookie_of(&ack)));
    let answer = &pair.log[0].packet;
    assert_eq!(answer.verification_tag, 4711);
    assert_eq!(answer.chunks[..], [Chunk::Error(vec![Cause::StaleCookie(1_000_000)])]);
    pair.fill(1000);
    pair.run_for(s(2));
    assert_eq!((pair.server.bytes(), pair.server.closed()), (1000, None));
}

/// Section 5.2.4, action C, and a case that the table does not list: two cookies are silently discarded. One is from
/// another attempt of the same peer: the peer's tag is that of the association, but this end's tag is not. The other
/// has two unknown tags and no Tie-Tags.
#[test]
fn cookies_of_other_attempts_are_discarded() {
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    pair.open();
    let tag = pair.client().local_tag();
    let attempts = [tag, 4711].map(|tag| answered(&mut pair, init(tag, Vec::new())));
    pair.run_for(s(1));
    assert!(pair.server.connected().is_some());
    pair.log.clear();
    for ack in attempts {
        pair.deliver(Side::Server, cookie_echo(Side::Server, ack.initiate_tag, cookie_of(&ack)));
    }
    assert_eq!(pair.log.len(), 0);
    pair.fill(1000);
    pair.run_for(s(2));
    assert_eq!((pair.server.bytes(), pair.server.closed()), (1000, None));
}

/// Section 5.2.4, action A: congestion windows are reset.
#[test]
fn a_restart_begins_with_the_first_window() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    let window = |pair: &mut Pair| pair.server().path_status(PathId(0)).expect("a path").cwnd;
    let first = window(&mut pair);
    pair.act(Side::Server, |server, now| server.send(now, StreamId(0), Data::Fill(300_000)));
    pair.run_for(s(5));
    assert!(window(&mut pair) > first);
    let fresh = Pair::with(&rfc(), &rfc(), 1, ms(100), 77).client.association;
    pair.client = End { association: fresh, ..End::default() };
    pair.open();
    pair.run_for(s(1));
    assert!(pair.client.connected().is_some());
    assert_eq!(window(&mut pair), first);
}

/// Section 5.2.4, action A in SHUTDOWN-ACK-SENT: the reply is SHUTDOWN ACK and ERROR, and no association is created.
#[test]
fn a_restart_waits_for_the_end_of_what_was() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    pair.deliver(Side::Server, init_packet(Side::Server, init(4711, Vec::new())));
    let ack = init_ack_of(&pair.log[0].packet.chunks).clone();
    pair.lose(|crossing| crossing.has("SHUTDOWN COMPLETE"));
    pair.act(Side::Client, |client, now| client.close(now));
    pair.run_for(ms(350));
    pair.log.clear();
    pair.deliver(Side::Server, cookie_echo(Side::Server, ack.initiate_tag, cookie_of(&ack)));
    let chunks: Vec<_> =
        pair.log.iter().flat_map(|crossing| crossing.packet.chunks.iter().cloned()).collect();
    assert_eq!(chunks, [Chunk::ShutdownAck, Chunk::Error(vec![Cause::CookieWhileShuttingDown])]);
    assert_eq!(pair.server.closed(), None);
}

/// Section 5.4: the COOKIE ACK is sent to the address to which the INIT ACK was sent, because that address is
/// confirmed. It is not sent to the source of the COOKIE ECHO.
#[test]
fn a_cookie_ack_goes_over_the_confirmed_path() {
    let mut pair = Pair::new(&rfc(), 2, ms(100));
    pair.lose(|crossing| crossing.path == 0 && crossing.has("COOKIE ECHO"));
    pair.open();
    pair.run_for(s(2));
    let acks: Vec<_> = pair.sent_by(Side::Server).filter(|crossing| crossing.has("COOKIE ACK")).collect();
    assert!(acks.iter().all(|crossing| crossing.path == 0) && !acks.is_empty(), "{acks:?}");
    assert!(pair.client.connected().is_some());
}

/// Sections 4 and 9.2: after the peer's SHUTDOWN, in SHUTDOWN-RECEIVED and SHUTDOWN-ACK-SENT, the user cannot send more
/// data.
#[test]
fn nothing_is_taken_from_the_user_behind_a_shutdown() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    // One packet of the server is lost, so that it is in SHUTDOWN-RECEIVED for a while.
    pair.lose(first(|crossing| crossing.from == Side::Server && crossing.packet.carries_data()));
    pair.act(Side::Server, |server, now| server.send(now, StreamId(0), Data::Fill(1000)));
    pair.act(Side::Client, |client, now| client.close(now));
    pair.run_for(ms(150));
    pair.act(Side::Server, |server, now| server.send(now, StreamId(0), Data::Fill(5000)));
    pair.run_while(at(s(20)), |pair| !pair.log.iter().any(|crossing| crossing.has("SHUTDOWN ACK")));
    pair.act(Side::Server, |server, now| server.send(now, StreamId(0), Data::Fill(7000)));
    pair.run_for(s(20));
    assert_eq!(pair.client.bytes(), 1000);
    assert_eq!(
        (pair.client.closed(), pair.server.closed()),
        (Some(CloseReason::Finished), Some(CloseReason::Finished))
    );
}

/// Section 6.2: a message without data is not sent.
#[test]
fn an_empty_message_is_not_sent() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    pair.fill(0);
    pair.run_for(s(2));
    assert_eq!(pair.log.len(), 0);
    pair.fill(10);
    pair.run_for(s(2));
    assert_eq!(pair.server.bytes(), 10);
}

/// Section 6.5: an unordered message has no position in a stream. It is delivered regardless of its stream sequence
/// number, and does not use up a number.
#[test]
fn unordered_messages_take_no_number() {
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    let ack = answered(&mut pair, init(1, Vec::new()));
    let echo = cookie_echo(Side::Server, ack.initiate_tag, cookie_of(&ack));
    pair.deliver(Side::Server, echo);
    let ordered = |tsn, ssn| chunk::Data { unordered: false, ssn, ..message_chunk(Serial(tsn), 10) };
    let unordered = |tsn, ssn| chunk::Data { ssn, ..message_chunk(Serial(tsn), 1) };
    for (data, bytes) in
        [(ordered(0, 0), 10), (unordered(1, 77), 11), (unordered(2, 1), 12), (ordered(3, 1), 22)]
    {
        pair.deliver(Side::Server, forged(Side::Server, 0, ack.initiate_tag, vec![Chunk::Data(data)]));
        assert_eq!(pair.server.bytes(), bytes);
    }
}

/// Section 6.6: the sender does not number unordered messages.
#[test]
fn unordered_messages_are_not_counted() {
    for (ordered, last) in [(true, 4), (false, 0)] {
        let mut pair = Pair::connected(&Config { ordered, ..rfc() }, 1, ms(100));
        (0..5).for_each(|_| pair.fill(1000));
        pair.run_for(s(2));
        let sent: Vec<_> = pair.data_packets().flat_map(Crossing::data).collect();
        assert_eq!((sent.len(), sent[4].ssn, sent[4].unordered), (5, last, !ordered));
    }
}

/// Section 8.2: the late acknowledgement of a chunk that counts as lost does not prove that the path works.
#[test]
fn a_late_sack_of_what_was_lost_clears_no_errors() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    let start = pair.now;
    let mut sent = 0;
    pair.rule(move |crossing| {
        sent += usize::from(crossing.from == Side::Client);
        match crossing.from {
            Side::Client if sent == 1 => Verdict::Drop,
            Side::Server if crossing.at < start + s(1) => Verdict::Late(ms(1500)),
            Side::Server if crossing.at < start + s(2) => Verdict::Drop,
            _ => Verdict::Pass,
        }
    });
    pair.fill(4000);
    pair.run_until(start + ms(1750));
    assert!(pair.client().counters().bytes_acknowledged > 2000, "the late SACK is here");
    assert_eq!(pair.status(0).errors, 1);
    pair.run_for(s(10));
    assert_eq!((pair.status(0).errors, pair.server.bytes()), (0, 4000));
}

/// Section 6.7: a SACK has as many gap blocks as fit a packet, beginning with the lowest.
#[test]
fn a_sack_has_the_lowest_gaps() {
    let mut pair = Pair::new(&Config { receive_buffer: Size::from_bytes(4_000_000), ..rfc() }, 1, ms(100));
    let ack = answered(&mut pair, init(1, Vec::new()));
    let echo = cookie_echo(Side::Server, ack.initiate_tag, cookie_of(&ack));
    pair.deliver(Side::Server, echo);
    for n in 0..600 {
        pair.log.clear();
        let packet =
            forged(Side::Server, 0, ack.initiate_tag, vec![Chunk::Data(message_chunk(Serial(2 * n + 1), 1))]);
        pair.deliver(Side::Server, packet);
    }
    let [crossing] = &pair.log[..] else { panic!("one packet: {:?}", pair.log) };
    let sack = crossing.sack().expect("a SACK");
    // Offsets from the cumulative TSN, which precedes the first TSN.
    let expected: Vec<_> = (1..=sack.gaps.len() as u16).map(|n| (2 * n, 2 * n)).collect();
    assert_eq!(sack.gaps.iter().map(|gap| (gap.start, gap.end)).collect::<Vec<_>>(), expected);
    assert!(sack.gaps.len() > 300 && crossing.ip_len <= 1500, "{} blocks", sack.gaps.len());
}

/// Section 6.10: the DATA chunks of a packet are in the order of their TSNs, including retransmitted chunks.
#[test]
fn chunks_of_a_packet_are_in_order() {
    let mut pair = Pair::connected(&Config { max_chunk: Size::from_bytes(200), ..rfc() }, 1, ms(100));
    let mut n = 0;
    pair.lose(move |crossing| {
        n += usize::from(crossing.packet.carries_data());
        crossing.packet.carries_data() && n % 7 == 0
    });
    pair.fill(200_000);
    pair.run_for(s(600));
    assert_eq!(pair.server.bytes(), 200_000);
    for crossing in pair.data_packets() {
        let tsns: Vec<_> = crossing.data().map(|data| data.tsn).collect();
        assert!(tsns.windows(2).all(|two| two[0].before(two[1])), "{tsns:?}");
    }
}

/// Section 7.2.1: the window of each path grows by the bytes that are acknowledged on it.
#[test]
fn only_the_path_that_carries_data_grows() {
    let mut pair = Pair::connected(&rfc(), 2, ms(100));
    let before = [0, 1].map(|path| pair.status(path).cwnd);
    pair.fill(200_000);
    pair.run_for(s(3));
    let after = [0, 1].map(|path| pair.status(path).cwnd);
    assert!(after[0] > before[0]);
    assert_eq!(after[1], before[1]);
}

/// Sections 8.1 and 8.3: a HEARTBEAT ACK clears the error count of the association. If two of every three heartbeats
/// are lost, the association lasts for an hour. If all are lost, it ends with the third.
#[test]
fn a_heartbeat_ack_clears_the_count_of_the_association() {
    for (passes, end) in [(true, None), (false, Some(CloseReason::TimedOut))] {
        let config = Config { association_max_retrans: 2, potentially_failed: false, ..rfc() };
        let mut pair = Pair::connected(&config, 1, ms(100));
        let mut n = 0;
        pair.lose(move |crossing| {
            let beat = crossing.from == Side::Client && crossing.has("HEARTBEAT");
            n += u32::from(beat);
            beat && !(passes && n % 3 == 0)
        });
        pair.run_for(s(3600));
        assert_eq!(pair.client.closed(), end);
    }
}

/// Section 9.2: SHUTDOWN ACK is also retransmitted at most Association.Max.Retrans times.
#[test]
fn shutdown_acks_are_counted_too() {
    let mut pair = Pair::connected(&Config { association_max_retrans: 3, ..rfc() }, 1, ms(100));
    pair.lose(|crossing| crossing.has("SHUTDOWN COMPLETE"));
    pair.act(Side::Client, |client, now| client.close(now));
    pair.run_for(s(100));
    let acks = pair.sent_by(Side::Server).filter(|crossing| crossing.has("SHUTDOWN ACK")).count();
    assert_eq!((acks, pair.server.closed()), (4, Some(CloseReason::TimedOut)));
}

/// Sections 6.2 and 9.2: in SHUTDOWN-SENT, the reply to DATA beyond a gap is a SHUTDOWN and a SACK that reports the
/// gap.
#[test]
fn a_gap_is_told_beside_the_shutdown() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    pair.lose(first(|crossing| crossing.from == Side::Server && crossing.packet.carries_data()));
    pair.act(Side::Server, |server, now| server.send(now, StreamId(0), Data::Fill(4000)));
    pair.act(Side::Client, |client, now| client.close(now));
    pair.run_for(ms(150));
    let answer = pair.sent_by(Side::Client).find(|crossing| crossing.sack().is_some()).expect("a SACK");
    assert!(answer.has("SHUTDOWN") && answer.sack().is_some_and(|sack| !sack.gaps.is_empty()), "{answer:?}");
    pair.run_for(s(20));
    assert_eq!((pair.client.bytes(), pair.client.closed()), (4000, Some(CloseReason::Finished)));
}

/// RFC 7829 sections 3.2 and 4: if no path is active, data is sent over a potentially failed path. This does not change
/// the state of any path.
#[test]
fn data_goes_on_over_potentially_failed_paths() {
    let config = Config { potentially_failed: true, pf_threshold: 0, ..stubborn(5) };
    let mut pair = failing(&config);
    pair.cut(1);
    let both = |pair: &mut Pair, state| [0, 1].map(|path| pair.status(path).state) == [state; 2];
    pair.run_for(s(6));
    assert!(both(&mut pair, PathState::PotentiallyFailed));
    let before = pair.data_packets().count();
    pair.run_for(s(16));
    assert!(pair.data_packets().count() > before);
    assert!(both(&mut pair, PathState::PotentiallyFailed));
    pair.mend(1);
    pair.run_for(s(150));
    assert_eq!([0, 1].map(|path| pair.status(path).state == PathState::Active), [false, true]);
}

/// RFC 7829 section 4.1: if all paths are inactive, data is sent over one of them. That path stays inactive until the
/// peer answers.
#[test]
fn data_goes_on_over_inactive_paths() {
    let mut pair = failing(&stubborn(1));
    pair.cut(1);
    let both = |pair: &mut Pair| [0, 1].map(|path| pair.status(path).state) == [PathState::Inactive; 2];
    pair.run_for(s(60));
    assert!(both(&mut pair));
    let (before, arrived) = (pair.data_packets().count(), pair.server.bytes());
    pair.run_for(s(200));
    assert!(pair.data_packets().count() > before);
    assert!(both(&mut pair));
    pair.mend(0);
    pair.mend(1);
    pair.run_for(s(120));
    assert!(pair.server.bytes() > arrived && !both(&mut pair));
}

/// RFC 7829 section 3.2: a path that works again starts with the window that it had after its time-out: one packet.
#[test]
fn a_path_that_works_again_begins_with_a_packet() {
    let config = Config { potentially_failed: true, pf_threshold: 0, ..stubborn(5) };
    let mut pair = failing(&config);
    pair.run_for(s(10));
    assert_eq!(pair.status(0).state, PathState::PotentiallyFailed);
    pair.mend(0);
    let active = |pair: &Pair| {
        let is = |incident: &Incident| {
            matches!(incident, Incident::PathChanged { path: PathId(0), state: PathState::Active })
        };
        pair.client.incidents.iter().any(|(at, incident)| *at == pair.now && is(incident))
    };
    pair.run_while(at(s(200)), |pair| !active(pair));
    let status = pair.status(0);
    assert_eq!(status.state, PathState::Active);
    assert!(status.cwnd <= 1500, "{}", status.cwnd);
}
