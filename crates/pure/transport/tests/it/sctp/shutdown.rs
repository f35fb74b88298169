//! Ends of associations (RFC 9260 sections 8.4, 8.5 and 9).

use netrig_core::{CloseReason, Data, StreamId};
use netrig_transport::sctp::Config;
use netrig_transport::sctp::packet::{Cause, Chunk, chunk};
use netrig_transport::{Connection, Serial};

use super::pair::*;

fn close(pair: &mut Pair, side: Side) {
    pair.act(side, |association, now| association.close(now));
}

fn closed(pair: &Pair) -> (Option<CloseReason>, Option<CloseReason>) {
    (pair.client.closed(), pair.server.closed())
}

const DONE: (Option<CloseReason>, Option<CloseReason>) =
    (Some(CloseReason::Finished), Some(CloseReason::Finished));

#[test]
fn three_ways_to_the_end() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    close(&mut pair, Side::Client);
    pair.run_for(s(2));
    let names: Vec<_> = pair.log.iter().map(Crossing::names).collect();
    assert_eq!(names, ["SHUTDOWN", "SHUTDOWN ACK", "SHUTDOWN COMPLETE"]);
    assert_eq!(closed(&pair), DONE);
}

#[test]
fn what_was_given_still_arrives() {
    for closing in [Side::Client, Side::Server] {
        let mut pair = Pair::connected(&rfc(), 1, ms(100));
        let mut random = netrig_core::Seeds::new(3).stream("loss");
        pair.lose(move |_| random.chance(0.05));
        pair.fill(300_000);
        pair.act(Side::Server, |server, now| server.send(now, StreamId(0), Data::Fill(200_000)));
        close(&mut pair, closing);
        // After the close, no more data is accepted.
        pair.act(closing, |end, now| end.send(now, StreamId(0), Data::Fill(1)));
        pair.run_for(s(600));
        assert_eq!((pair.server.bytes(), pair.client.bytes()), (300_000, 200_000));
        assert_eq!(closed(&pair), DONE);
    }
}

#[test]
fn both_close_at_the_same_moment() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    close(&mut pair, Side::Client);
    close(&mut pair, Side::Server);
    pair.run_for(s(2));
    assert_eq!(closed(&pair), DONE);
}

#[test]
fn closing_before_the_handshake_is_done() {
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    pair.open();
    pair.fill(5000);
    close(&mut pair, Side::Client);
    pair.run_for(s(5));
    assert_eq!(pair.server.bytes(), 5000);
    assert_eq!(closed(&pair), DONE);
}

#[test]
fn each_lost_step_is_repeated() {
    for lost in ["SHUTDOWN", "SHUTDOWN ACK", "SHUTDOWN COMPLETE"] {
        let mut pair = Pair::connected(&rfc(), 1, ms(100));
        pair.lose(first(move |crossing| crossing.has(lost)));
        close(&mut pair, Side::Client);
        pair.run_for(s(5));
        assert_eq!(closed(&pair), DONE, "{lost}");
    }
}

#[test]
fn a_peer_that_is_gone_is_given_up() {
    let mut pair = Pair::connected(&Config { association_max_retrans: 3, ..rfc() }, 1, ms(100));
    pair.lose(|_| true);
    close(&mut pair, Side::Client);
    pair.run_for(s(100));
    assert_eq!(pair.client.closed(), Some(CloseReason::TimedOut));
    // T2-shutdown: the RTO after the handshake is RTO.Min, so the timer runs for 1 + 2 + 4 + 8 s.
    assert_eq!(pair.client.events.last().map(|(at, _)| at.as_secs_f64()), Some(0.8 + 15.0));
}

/// T5-shutdown-guard expires after five times RTO.Max, independent of the error counters.
#[test]
fn the_guard_ends_what_never_ends() {
    let config = Config { association_max_retrans: 1000, heartbeats: false, rto_max: s(10), ..rfc() };
    let mut pair = Pair::connected(&config, 1, ms(100));
    let start = pair.now;
    pair.lose(|_| true);
    close(&mut pair, Side::Client);
    pair.run_for(s(200));
    assert_eq!(pair.client.events.last().map(|(at, _)| *at), Some(start + s(50)));
    assert_eq!(pair.log.last().map(Crossing::names).as_deref(), Some("ABORT"));
}

#[test]
fn abort_ends_both_at_once() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    pair.fill(1_000_000);
    pair.run_for(ms(300));
    pair.act(Side::Client, |client, now| client.abort(now));
    let at = pair.now;
    pair.run_for(s(10));
    assert_eq!(closed(&pair), (Some(CloseReason::Aborted), Some(CloseReason::Aborted)));
    assert_eq!(
        pair.sent_by(Side::Client)
            .filter(|crossing| crossing.at >= at)
            .map(Crossing::names)
            .collect::<Vec<_>>()
            .first()
            .map(String::as_str),
        Some("ABORT")
    );
    // RFC 9260 section 9.1: the receiver of the ABORT, which arrives 100 ms later, sends nothing.
    let late = pair.sent_by(Side::Server).filter(|crossing| crossing.at >= at + ms(100));
    assert_eq!(late.map(Crossing::names).collect::<Vec<_>>(), [""; 0]);
    // No event follows `Closed`, and no timer is running.
    let end = pair.now;
    pair.log.clear();
    pair.run_for(s(1000));
    assert_eq!(pair.log.len(), 0, "after {end}");
}

/// RFC 9260 sections 8.4 and 9.1: a packet with an ABORT is not answered, whatever other chunks it contains. This is so
/// if the ABORT ends the association, if the association has already ended, and if the ABORT has a wrong tag.
#[test]
fn no_abort_is_answered() {
    let abort = |reflected| Chunk::Abort(chunk::Abort { reflected, causes: vec![Cause::OutOfResource] });
    for (reflected, fits) in [(false, true), (true, true), (false, false), (true, false)] {
        let mut pair = Pair::connected(&rfc(), 1, ms(100));
        let (own, peer) = (pair.server().local_tag(), pair.client().local_tag());
        let tag = if reflected == fits { peer } else { own };
        pair.act(Side::Server, |server, now| server.send(now, StreamId(0), Data::Fill(1000)));
        pair.log.clear();
        let unknown = Chunk::Unknown(chunk::Unknown { kind: 0xC1, flags: 0, value: vec![1] });
        let packet = |tag| forged(Side::Server, 0, tag, vec![abort(reflected), unknown.clone()]);
        pair.deliver(Side::Server, packet(tag));
        assert_eq!(pair.server.closed(), fits.then_some(CloseReason::Aborted));
        if fits {
            pair.deliver(Side::Server, packet(tag));
            pair.deliver(Side::Server, packet(tag ^ 1));
        }
        assert_eq!(pair.sent_by(Side::Server).count(), 0, "reflected {reflected}, fits {fits}");
    }
}

#[test]
fn an_abort_with_a_wrong_tag_is_ignored() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    let (own, peer) = (pair.client().local_tag(), pair.server().local_tag());
    let abort = |reflected| Chunk::Abort(chunk::Abort { reflected, causes: vec![Cause::OutOfResource] });
    for (tag, reflected) in [(own ^ 1, false), (peer, false), (own, true), (0, false), (0, true)] {
        pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![abort(reflected)]));
        assert_eq!(pair.client.closed(), None);
    }
    // RFC 9260 section 8.5.1 B: with the T bit set, the peer's own tag is valid.
    pair.deliver(Side::Client, forged(Side::Client, 0, peer, vec![abort(true)]));
    assert_eq!(pair.client.closed(), Some(CloseReason::Aborted));
}

#[test]
fn every_chunk_needs_the_tag() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    let tag = pair.client().local_tag() ^ 1;
    let data = chunk::Data { immediate: true, ..message_chunk(Serial(0), 100) };
    // One of the two acknowledges unsent data. If it were accepted, the association would end.
    let sack = |tsn| chunk::Sack {
        cumulative_tsn: Serial(tsn),
        a_rwnd: 0,
        gaps: Default::default(),
        duplicates: Vec::new(),
    };
    let chunks = [
        Chunk::Data(data),
        Chunk::Sack(sack(0)),
        Chunk::Sack(sack(1 << 31)),
        Chunk::Shutdown(Serial(0)),
        Chunk::ShutdownAck,
        Chunk::ShutdownComplete { reflected: false },
        Chunk::Heartbeat(chunk::Heartbeat { info: vec![1] }),
        Chunk::CookieAck,
        Chunk::CookieEcho(vec![1; 200]),
        Chunk::Error(Vec::new()),
        Chunk::Unknown(chunk::Unknown { kind: 0xC0, flags: 0, value: Vec::new() }),
    ];
    for chunk in chunks {
        pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![chunk]));
    }
    assert_eq!(pair.log.len(), 0);
    assert_eq!((pair.client.closed(), pair.client.bytes()), (None, 0));
}

#[test]
fn unknown_chunks_are_treated_as_their_highest_bits_say() {
    for (kind, reported, goes_on) in
        [(0x3F, false, false), (0x7F, true, false), (0xBF, false, true), (0xFF, true, true)]
    {
        let mut pair = Pair::connected(&rfc(), 1, ms(100));
        let tag = pair.client().local_tag();
        let unknown = Chunk::Unknown(chunk::Unknown { kind, flags: 7, value: vec![1, 2, 3] });
        let beat = Chunk::Heartbeat(chunk::Heartbeat { info: vec![9] });
        pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![unknown, beat]));
        let names: String = pair.log.iter().map(Crossing::names).collect::<Vec<_>>().join(" ");
        assert_eq!(names.contains("ERROR"), reported, "{kind:#x}: {names}");
        assert_eq!(names.contains("HEARTBEAT ACK"), goes_on, "{kind:#x}: {names}");
        if reported {
            let cause = Cause::UnrecognizedChunk(vec![kind, 7, 0, 7, 1, 2, 3]);
            assert_eq!(pair.log[0].packet.chunks[0], Chunk::Error(vec![cause]));
        }
    }
}

#[test]
fn data_without_data_aborts() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    let tag = pair.client().local_tag();
    let empty = message_chunk(Serial(5), 0);
    pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![Chunk::Data(empty)]));
    let Chunk::Abort(abort) = &pair.log[0].packet.chunks[0] else { panic!("ABORT") };
    assert_eq!(abort.causes, [Cause::NoUserData(5)]);
}

#[test]
fn data_on_a_stream_that_does_not_exist_is_reported() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    pair.fill(100);
    let (tag, packet) = (pair.server().local_tag(), pair.log[0].packet.clone());
    let Chunk::Data(mut data) = packet.chunks[0].clone() else { panic!("DATA") };
    pair.run_for(s(1));
    data.tsn = data.tsn.plus(1);
    data.stream = StreamId(4000);
    let told = data.tsn;
    pair.log.clear();
    pair.deliver(Side::Server, forged(Side::Server, 0, tag, vec![Chunk::Data(data)]));
    assert_eq!(pair.log[0].packet.chunks[0], Chunk::Error(vec![Cause::InvalidStream(4000)]));
    assert_eq!(pair.server.bytes(), 100);
    // The chunk is acknowledged like any other chunk.
    pair.run_for(s(1));
    let sack = pair.sent_by(Side::Server).find_map(Crossing::sack).expect("a SACK");
    assert_eq!(sack.cumulative_tsn, told);
}

/// Section 8.4: replies of a host to packets that belong to no association.
#[test]
fn out_of_the_blue() {
    let flow = forged(Side::Server, 0, 0, vec![]).header.flow;
    let answer = |chunk: Chunk| {
        let packet = forged(Side::Server, 0, 77, vec![chunk]);
        netrig_transport::sctp::out_of_the_blue(
            &packet.header,
            match &packet.payload {
                netrig_transport::Payload::Sctp(body) => body,
                _ => panic!("SCTP"),
            },
        )
        .map(|answer| {
            assert_eq!(answer.header.flow, flow.reversed());
            let netrig_transport::Payload::Sctp(body) = answer.payload else { panic!("SCTP") };
            (body.chunks[0].clone(), body.verification_tag)
        })
    };
    let abort = Chunk::Abort(chunk::Abort { reflected: true, causes: Vec::new() });
    assert_eq!(answer(Chunk::Shutdown(Serial(1))), Some((abort.clone(), 77)));
    assert_eq!(answer(Chunk::Heartbeat(chunk::Heartbeat { info: vec![] })), Some((abort.clone(), 77)));
    assert_eq!(answer(Chunk::ShutdownAck), Some((Chunk::ShutdownComplete { reflected: true }, 77)));
    let data = message_chunk(Serial(5), 100);
    let sack = chunk::Sack {
        cumulative_tsn: Serial(5),
        a_rwnd: 1500,
        gaps: Default::default(),
        duplicates: Vec::new(),
    };
    let init_ack = chunk::Init {
        initiate_tag: 5,
        a_rwnd: 1500,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Serial(1),
        parameters: Vec::new(),
    };
    for chunk in [
        Chunk::Data(data),
        Chunk::Sack(sack),
        Chunk::InitAck(Box::new(init_ack)),
        Chunk::CookieEcho(vec![1]),
        Chunk::HeartbeatAck(chunk::Heartbeat { info: vec![] }),
        Chunk::Error(vec![Cause::InvalidStream(1)]),
        Chunk::Unknown(chunk::Unknown { kind: 0x3F, flags: 0, value: vec![] }),
    ] {
        let name = name_of(&chunk);
        assert_eq!(answer(chunk), Some((abort.clone(), 77)), "{name}");
    }
    assert_eq!(answer(abort), None);
    assert_eq!(answer(Chunk::ShutdownComplete { reflected: false }), None);
    assert_eq!(answer(Chunk::CookieAck), None);
    assert_eq!(answer(Chunk::Error(vec![Cause::StaleCookie(1)])), None);
}

/// RFC 9260 section 9.2: DATA from the peer resets the count of SHUTDOWN retransmissions.
#[test]
fn a_peer_that_still_sends_is_waited_for() {
    let config = Config { association_max_retrans: 2, ..rfc() };
    let mut pair = Pair::with(&config, &rfc(), 1, ms(100), 1);
    pair.open();
    pair.run_for(s(1));
    pair.lose(|crossing| crossing.has("SHUTDOWN"));
    close(&mut pair, Side::Client);
    for _ in 0..10 {
        pair.run_for(s(5));
        pair.act(Side::Server, |server, now| server.send(now, StreamId(0), Data::Fill(100)));
    }
    assert_eq!(closed(&pair), (None, None));
    pair.rule(|_| Verdict::Pass);
    pair.run_for(s(60));
    assert_eq!(closed(&pair), DONE);
}

/// RFC 9260 section 8.3: heartbeats are "discontinued after sending either a SHUTDOWN chunk or SHUTDOWN ACK chunk".
#[test]
fn no_heartbeats_after_shutdown() {
    let mut pair = Pair::connected(&rfc(), 2, ms(100));
    pair.lose(|crossing| crossing.has("SHUTDOWN"));
    close(&mut pair, Side::Client);
    pair.run_for(s(100));
    assert!(pair.sent_by(Side::Client).all(|crossing| !crossing.has("HEARTBEAT")));
}

/// RFC 9260 sections 8.5.1 E and 9.2: a SHUTDOWN ACK during a handshake belongs to an association that this host has
/// removed. The reply is a SHUTDOWN COMPLETE with the tag of the received packet, and the handshake continues.
#[test]
fn an_association_in_the_making_ends_one_that_is_forgotten() {
    for echoed in [false, true] {
        let mut pair = Pair::new(&rfc(), 1, ms(100));
        pair.lose(move |crossing| crossing.has(if echoed { "COOKIE ECHO" } else { "INIT" }));
        pair.open();
        pair.run_for(ms(300));
        pair.log.clear();
        pair.deliver(Side::Client, forged(Side::Client, 0, 4711, vec![Chunk::ShutdownAck]));
        let answer = pair.log.last().expect("an answer");
        assert_eq!(answer.packet.chunks[..], [Chunk::ShutdownComplete { reflected: true }]);
        assert_eq!(answer.packet.verification_tag, 4711);
        pair.rule(|_| Verdict::Pass);
        pair.run_for(s(5));
        assert!(pair.client.connected().is_some() && pair.client.closed().is_none());
    }
}

/// RFC 9260 sections 9.2 and 12.4: a HEARTBEAT in the packet of a SHUTDOWN ACK is not answered, because the only reply
/// is a packet with just SHUTDOWN COMPLETE. A HEARTBEAT after a SHUTDOWN ACK that is out of the blue is not answered
/// either, because its packet is discarded.
#[test]
fn a_heartbeat_does_not_hold_up_the_last_word() {
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    pair.lose(|crossing| crossing.has("COOKIE ECHO"));
    pair.open();
    pair.run_for(ms(300));
    let tag = pair.client().local_tag();
    pair.log.clear();
    let beat = Chunk::Heartbeat(chunk::Heartbeat { info: vec![1] });
    pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![Chunk::ShutdownAck, beat]));
    assert_eq!(pair.log.iter().map(Crossing::names).collect::<Vec<_>>(), ["SHUTDOWN COMPLETE"]);

    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    pair.lose(|crossing| crossing.has("SHUTDOWN ACK"));
    close(&mut pair, Side::Client);
    pair.run_for(ms(350));
    let tag = pair.client().local_tag();
    pair.log.clear();
    let beat = Chunk::Heartbeat(chunk::Heartbeat { info: vec![1] });
    pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![beat, Chunk::ShutdownAck]));
    assert_eq!(pair.log.iter().map(Crossing::names).collect::<Vec<_>>(), ["SHUTDOWN COMPLETE"]);
    pair.run_for(s(1));
    assert_eq!(closed(&pair), DONE);
}

/// RFC 9260 section 9.1: abort by the user.
#[test]
fn an_abort_of_the_user_says_so() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    pair.act(Side::Client, |client, now| client.abort(now));
    let Chunk::Abort(abort) = &pair.log[0].packet.chunks[0] else { panic!("ABORT") };
    assert!(matches!(abort.causes[..], [Cause::UserAbort(_)]));
}

/// RFC 9260 sections 4 and 9.2: an end that has sent SHUTDOWN answers each packet with DATA immediately, with a
/// SHUTDOWN and a SACK.
#[test]
fn data_after_shutdown_is_answered_at_once() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    // The first data of an association is acknowledged immediately in any case.
    pair.act(Side::Server, |server, now| server.send(now, StreamId(0), Data::Fill(100)));
    pair.run_for(s(1));
    pair.lose(|crossing| crossing.has("SHUTDOWN"));
    close(&mut pair, Side::Client);
    pair.act(Side::Server, |server, now| server.send(now, StreamId(0), Data::Fill(100)));
    let arrives = pair.now + ms(100);
    pair.log.clear();
    pair.run_for(ms(150));
    let answers: Vec<_> =
        pair.sent_by(Side::Client).map(|crossing| (crossing.at, crossing.names())).collect();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(answers[0].0 == arrives && answers[0].1.contains("SACK") && answers[0].1.contains("SHUTDOWN"));
}

/// RFC 9260 section 9.2: the reply to an INIT for an association in SHUTDOWN-ACK-SENT is a SHUTDOWN ACK.
#[test]
fn an_init_for_an_association_that_ends_gets_a_shutdown_ack() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    pair.lose(|crossing| crossing.has("SHUTDOWN COMPLETE"));
    close(&mut pair, Side::Client);
    pair.run_for(ms(350));
    pair.log.clear();
    let init = chunk::Init {
        initiate_tag: 4711,
        a_rwnd: 10_000,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Serial(0),
        parameters: Vec::new(),
    };
    pair.deliver(Side::Server, forged(Side::Server, 0, 0, vec![Chunk::Init(Box::new(init))]));
    assert_eq!(pair.log[0].packet.chunks[..], [Chunk::ShutdownAck]);
    assert_eq!(pair.server.closed(), None);
}
