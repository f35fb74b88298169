//! Setup of an association (RFC 9260 section 5).

use netrig_core::{CloseReason, ConnectionEvent, Data, Endpoint, Instant, Size, StreamId};
use netrig_transport::sctp::packet::{Cause, Chunk, Parameter, chunk};
use netrig_transport::sctp::{Association, Config, Endpoints, Listener, ListenerResponse, PathAddresses};
use netrig_transport::{Connection, Control, PathId, PathState, Payload, Profile};

use super::pair::*;

#[test]
fn four_ways_and_then_data() {
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    pair.open();
    pair.fill(1000);
    pair.run_for(s(2));
    let names: Vec<_> = pair.log.iter().map(Crossing::names).collect();
    assert_eq!(names, ["INIT", "INIT ACK", "COOKIE ECHO", "COOKIE ACK", "DATA", "SACK"]);
    assert_eq!(pair.server.connected(), Some(at(ms(300))));
    assert_eq!(pair.client.connected(), Some(at(ms(400))));
    assert_eq!(pair.server.bytes(), 1000);
    // RFC 9260 section 8.5.1 A: INIT has tag 0. All other packets have the tag of the receiver.
    let [Chunk::Init(init)] = &pair.log[0].packet.chunks[..] else { panic!("INIT") };
    let [Chunk::InitAck(ack)] = &pair.log[1].packet.chunks[..] else { panic!("INIT ACK") };
    let tags: Vec<_> = pair.log.iter().map(|crossing| crossing.packet.verification_tag).collect();
    let (theirs, ours) = (ack.initiate_tag, init.initiate_tag);
    assert_eq!(tags, [0, ours, theirs, ours, theirs, ours]);
}

/// An INIT or INIT ACK for one stream in each direction.
fn init(initiate_tag: u32, a_rwnd: u32, initial_tsn: u32, parameters: Vec<Parameter>) -> chunk::Init {
    chunk::Init {
        initiate_tag,
        a_rwnd,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: netrig_transport::Serial(initial_tsn),
        parameters,
    }
}

/// Tag and initial TSN that each end announces in INIT or INIT ACK.
fn announced(seed: u64) -> [(u32, u32); 2] {
    let mut pair = Pair::with(&rfc(), &rfc(), 1, ms(100), seed);
    pair.open();
    pair.run_for(ms(150));
    [0, 1].map(|n| match &pair.log[n].packet.chunks[0] {
        Chunk::Init(init) | Chunk::InitAck(init) => (init.initiate_tag, init.initial_tsn.0),
        other => panic!("a handshake, not {}", name_of(other)),
    })
}

/// RFC 9260 sections 3.3.2, 3.3.3, 5.1 and 5.3.1: tags and initial TSNs are random. They come from the random stream of
/// an end, so the same seed gives the same numbers. Over many seeds, no two numbers are equal, no tag is zero, and each
/// bit is set in about half of them.
#[test]
fn tags_and_first_tsns_are_random_and_follow_from_the_seed() {
    const SEEDS: usize = 400;
    assert_eq!(announced(7), announced(7));
    let all: Vec<_> = (0..SEEDS as u64).map(announced).collect();
    for end in [0, 1] {
        let tags: Vec<_> = all.iter().map(|ends| ends[end].0).collect();
        let tsns: Vec<_> = all.iter().map(|ends| ends[end].1).collect();
        assert!(!tags.contains(&0));
        for numbers in [tags, tsns] {
            // The probability that two of 400 numbers out of 2³² are equal is 2 in 100,000.
            assert_eq!(numbers.iter().collect::<std::collections::BTreeSet<_>>().len(), SEEDS);
            for bit in 0..32 {
                let set = numbers.iter().filter(|number| *number >> bit & 1 == 1).count();
                // The standard deviation for 400 numbers is ten.
                assert!(set.abs_diff(SEEDS / 2) < 50, "bit {bit} of end {end}: {set}");
            }
        }
    }
    let ends = |end: usize| all.iter().flat_map(move |ends| [ends[end].0, ends[end].1]);
    assert!(ends(0).zip(ends(1)).all(|(client, server)| client != server));
}

#[test]
fn a_single_address_is_not_listed_and_several_are() {
    for (paths, listed) in [(1, 0), (2, 2), (3, 3)] {
        let mut pair = Pair::new(&rfc(), paths, ms(10));
        pair.open();
        pair.run_for(s(1));
        for crossing in &pair.log[..2] {
            let (Chunk::Init(init) | Chunk::InitAck(init)) = &crossing.packet.chunks[0] else {
                panic!("INIT")
            };
            assert_eq!(init.addresses().count(), listed);
        }
    }
}

#[test]
fn each_lost_step_is_repeated_after_rto_initial() {
    for (lost, delay) in [("INIT", 1), ("INIT ACK", 1), ("COOKIE ECHO", 1), ("COOKIE ACK", 1)] {
        let mut pair = Pair::new(&rfc(), 1, ms(100));
        pair.lose(first(move |crossing| crossing.has(lost)));
        pair.open();
        pair.run_for(s(5));
        assert_eq!(pair.client.connected(), Some(at(ms(400) + s(delay))), "{lost}");
    }
}

#[test]
fn nobody_answers() {
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    pair.lose(|_| true);
    pair.open();
    pair.run_for(s(1000));
    assert_eq!(pair.client.closed(), Some(CloseReason::TimedOut));
    let times: Vec<_> = pair.log.iter().map(|crossing| crossing.at.as_secs_f64()).collect();
    // Max.Init.Retransmits is 8. RTO.Initial is 1 s and is doubled up to RTO.Max, 60 s.
    assert_eq!(times, [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 123.0, 183.0]);
    assert_eq!(pair.client.events.last().map(|(now, _)| now.as_secs_f64()), Some(243.0));
}

/// RFC 9260 section 4, 3): T1-cookie controls the retransmission of COOKIE ECHO like T1-init that of INIT.
#[test]
fn a_cookie_that_is_never_acknowledged_ends_the_attempt() {
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    pair.lose(|crossing| crossing.has("COOKIE ECHO"));
    pair.open();
    pair.run_for(s(1000));
    let echoes = pair.log.iter().filter(|crossing| crossing.has("COOKIE ECHO"));
    let times: Vec<_> = echoes.map(|crossing| crossing.at.as_secs_f64()).collect();
    assert_eq!(times, [0.2, 1.2, 3.2, 7.2, 15.2, 31.2, 63.2, 123.2, 183.2]);
    assert_eq!(pair.client.closed(), Some(CloseReason::TimedOut));
}

#[test]
fn a_dead_first_path_is_gone_round() {
    let mut pair = Pair::new(&rfc(), 2, ms(100));
    pair.lose(|crossing| crossing.path == 0);
    pair.open();
    pair.fill(10_000);
    pair.run_for(s(10));
    assert_eq!(pair.client.connected(), Some(at(ms(1400))));
    assert_eq!(pair.server.bytes(), 10_000);
}

#[test]
fn refused_by_a_host_that_does_not_listen() {
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    pair.lose(|_| true);
    pair.open();
    let init = pair.log[0].clone();
    let flow = forged(Side::Server, 0, 0, vec![]).header.flow;
    let answer = Pair::stranger(&init, flow).expect("INIT to nobody is answered by ABORT");
    pair.deliver(Side::Client, answer);
    assert_eq!(pair.client.closed(), Some(CloseReason::Refused));
}

#[test]
fn the_listener_keeps_nothing_before_the_cookie_comes_back() {
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    let size = format!("{:?}", pair.listener).len();
    for tag in 1..100 {
        let init = init(tag, 1500, 0, vec![]);
        let packet = forged(Side::Server, 0, 0, vec![Chunk::Init(Box::new(init))]);
        let Some(ListenerResponse::Reply(reply)) = pair.listener.handle_packet(pair.now, packet) else {
            panic!("INIT is answered")
        };
        let Payload::Sctp(body) = reply.payload else { panic!("SCTP") };
        assert_eq!(body.verification_tag, tag);
    }
    // Only the position of the listener's random stream may differ.
    assert!(format!("{:?}", pair.listener).len() <= size + 64);
}

fn first_cookie(pair: &Pair) -> Vec<u8> {
    pair.log
        .iter()
        .find_map(|crossing| match &crossing.packet.chunks[0] {
            Chunk::CookieEcho(cookie) => Some(cookie.clone()),
            _ => None,
        })
        .expect("a COOKIE ECHO")
}

#[test]
fn a_stale_cookie_is_refused_with_how_stale() {
    let mut pair = Pair::new(&Config { cookie_life: s(60), ..rfc() }, 1, ms(100));
    pair.rule(|crossing| if crossing.has("COOKIE ECHO") { Verdict::Late(s(61)) } else { Verdict::Pass });
    pair.open();
    pair.run_while(at(s(62)), |pair| !pair.log.iter().any(|crossing| crossing.has("ERROR")));
    let error = pair.log.iter().find(|crossing| crossing.has("ERROR")).expect("Stale Cookie");
    // The cookie was created at 100 ms and returned at 61.3 s, 1.2 s after the end of its life of 60 s.
    assert_eq!(error.packet.chunks[0], Chunk::Error(vec![Cause::StaleCookie(1_200_000)]));
    assert!(pair.server.association.is_none());
}

#[test]
fn after_a_stale_cookie_the_handshake_starts_over() {
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    let mut echoes = 0;
    pair.rule(move |crossing| {
        echoes += usize::from(crossing.has("COOKIE ECHO"));
        match crossing.has("COOKIE ECHO") {
            true if echoes == 1 => Verdict::Late(s(61)),
            true if crossing.at < at(s(61)) => Verdict::Drop,
            _ => Verdict::Pass,
        }
    });
    pair.open();
    pair.run_for(s(200));
    assert!(pair.client.connected().is_some_and(|when| when > at(s(61))));
}

#[test]
fn a_forged_cookie_is_ignored() {
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    pair.lose(|crossing| crossing.has("COOKIE ECHO"));
    pair.open();
    pair.run_for(ms(500));
    let mut cookie = first_cookie(&pair);
    let tag = pair.log[2].packet.verification_tag;
    cookie[10] ^= 1;
    let packet = forged(Side::Server, 0, tag, vec![Chunk::CookieEcho(cookie)]);
    assert!(pair.listener.handle_packet(pair.now, packet).is_none());
}

#[test]
fn a_cookie_that_comes_twice_makes_one_association() {
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    pair.rule(|crossing| if crossing.has("COOKIE ECHO") { Verdict::Twice } else { Verdict::Pass });
    pair.open();
    pair.fill(5000);
    pair.run_for(s(3));
    let connected = |end: &End| {
        end.events.iter().filter(|(_, event)| matches!(event, ConnectionEvent::Connected { .. })).count()
    };
    assert_eq!((connected(&pair.client), connected(&pair.server)), (1, 1));
    assert_eq!(pair.server.bytes(), 5000);
}

/// Section 5.2.4 action B: both ends open at the same time.
#[test]
fn two_that_call_each_other_get_one_association() {
    let config = rfc();
    let mut pair = Pair::new(&config, 1, ms(100));
    let endpoints = Endpoints {
        local_port: PORT,
        remote_port: 1000,
        primary: PathAddresses { local: server_address(0), remote: client_address(0) },
        alternates: Vec::new(),
        dscp: netrig_core::Dscp(0),
    };
    let other = Association::new(config, &endpoints, netrig_core::Seeds::new(5).stream("server"));
    pair.server.association = Some(Box::new(other));
    pair.act(Side::Server, |association, now| association.open(now));
    pair.open();
    pair.fill(30_000);
    pair.act(Side::Server, |association, now| association.send(now, StreamId(1), Data::Fill(7000)));
    pair.run_for(s(5));
    assert!(pair.client.connected().is_some() && pair.server.connected().is_some());
    assert_eq!((pair.server.bytes(), pair.client.bytes()), (30_000, 7000));
    assert_eq!((pair.client.closed(), pair.server.closed()), (None, None));
    // Each end has the same content in its INIT and its INIT ACK. The INIT ACK has the peer's tag.
    let said = |side| {
        let inits = pair.sent_by(side).filter_map(|crossing| match &crossing.packet.chunks[0] {
            Chunk::Init(init) => Some((false, init, crossing.packet.verification_tag)),
            Chunk::InitAck(ack) => Some((true, ack, crossing.packet.verification_tag)),
            _ => None,
        });
        let [(false, init, 0), (true, ack, tag)] = inits.collect::<Vec<_>>()[..] else { panic!("two") };
        assert_eq!((ack.initiate_tag, ack.initial_tsn), (init.initiate_tag, init.initial_tsn));
        (init.initiate_tag, tag)
    };
    let [(ours, to_them), (theirs, to_us)] = [Side::Client, Side::Server].map(said);
    assert_eq!((to_them, to_us), (theirs, ours));
}

/// Section 5.2.4 action A: the peer has lost its state, and opens again from the same addresses and ports.
#[test]
fn a_restarted_peer_gets_a_new_association_in_place_of_the_old() {
    let config = rfc();
    let mut pair = Pair::connected(&config, 1, ms(100));
    pair.fill(20_000);
    pair.run_for(s(2));
    let fresh = Pair::with(&config, &config, 1, ms(100), 77).client.association;
    pair.client = End { association: fresh, ..End::default() };
    pair.open();
    pair.fill(3000);
    pair.run_for(s(5));
    assert!(pair.client.connected().is_some());
    assert_eq!(pair.server.bytes(), 23_000);
    assert_eq!(pair.server.closed(), None);
}

#[test]
fn a_restart_must_not_bring_addresses_along() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    let init = init(
        4711,
        10_000,
        0,
        vec![Parameter::Address(client_address(0)), Parameter::Address([192, 0, 2, 66].into())],
    );
    pair.deliver(Side::Server, forged(Side::Server, 0, 0, vec![Chunk::Init(Box::new(init))]));
    let answer = pair.log.last().expect("an answer");
    assert_eq!(answer.packet.verification_tag, 4711);
    let Chunk::Abort(abort) = &answer.packet.chunks[0] else { panic!("ABORT, not {}", answer.names()) };
    assert!(matches!(abort.causes[0], Cause::RestartWithNewAddresses(_)));
    assert_eq!(pair.server.closed(), None);
}

/// The states of the two paths at one end.
fn states(pair: &mut Pair, side: Side) -> [PathState; 2] {
    let end = if side == Side::Client { pair.client() } else { pair.server() };
    [0, 1].map(|path| end.path_status(PathId(path)).expect("two paths").state)
}

/// RFC 9260 section 5.4: "Any addresses passed to the sender of the INIT chunk by its upper layer [...] are
/// automatically considered to be CONFIRMED". For the receiver of the COOKIE ECHO, only the address to which the INIT
/// ACK was sent is confirmed.
#[test]
fn other_paths_are_confirmed_before_data_may_use_them() {
    let mut pair = Pair::new(&rfc(), 2, ms(100));
    pair.lose(|crossing| crossing.path == 1);
    pair.open();
    pair.run_for(ms(400));
    assert_eq!(states(&mut pair, Side::Client), [PathState::Active, PathState::Active]);
    assert_eq!(states(&mut pair, Side::Server), [PathState::Active, PathState::Unconfirmed]);
    // The path is probed once per RTO, which doubles, and is never confirmed.
    pair.run_for(s(40));
    assert_eq!(states(&mut pair, Side::Server)[1], PathState::Unconfirmed);
    assert!(pair.sent_by(Side::Server).filter(|crossing| crossing.path == 1).count() >= 5);
    pair.rule(|_| Verdict::Pass);
    pair.run_for(s(70));
    assert_eq!(states(&mut pair, Side::Server)[1], PathState::Active);
}

/// RFC 9260 section 5.4: "An endpoint MUST NOT send any chunks to an UNCONFIRMED address". Heartbeats and their answers
/// are an exception.
#[test]
fn data_over_an_unconfirmed_path_is_acknowledged_over_another() {
    let mut pair = Pair::new(&rfc(), 2, ms(100));
    pair.lose(|crossing| crossing.path == 1 && crossing.has("HEARTBEAT ACK"));
    pair.open();
    pair.run_for(ms(400));
    pair.act(Side::Client, |client, now| client.control(now, Control::SetPrimary(PathId(1))));
    pair.fill(10_000);
    pair.run_for(s(5));
    assert_eq!(pair.server.bytes(), 10_000);
    assert!(pair.data_packets().all(|crossing| crossing.path == 1));
    assert_eq!(states(&mut pair, Side::Server)[1], PathState::Unconfirmed);
    let mut over_it = pair.sent_by(Side::Server).filter(|crossing| crossing.path == 1);
    assert!(over_it.all(|crossing| crossing.names().starts_with("HEARTBEAT")));
}

/// A host with several addresses may answer an INIT from another address, as usrsctp does. Returns the path of COOKIE
/// ECHO and the path of data in this case.
fn answered_from_another_address(alternates: Vec<PathAddresses>) -> (usize, usize) {
    let routes =
        [0, 1].map(|path| PathAddresses { local: client_address(path), remote: server_address(path) });
    let endpoints = Endpoints {
        local_port: 1000,
        remote_port: PORT,
        primary: routes[0],
        alternates,
        dscp: netrig_core::Dscp(0),
    };
    let seeds = netrig_core::Seeds::new(1);
    let mut client = Association::new(rfc(), &endpoints, seeds.stream("client"));
    let theirs = routes.map(|path| PathAddresses { local: path.remote, remote: path.local });
    let mut listener =
        Listener::new(rfc(), PORT, theirs.to_vec(), netrig_core::Dscp(0), seeds.stream("server"));
    let now = Instant::ZERO;
    let path = |packet: &netrig_transport::Packet| {
        routes.iter().position(|path| path.remote == packet.header.flow.dst).expect("one of the two")
    };
    client.open(now);
    let init = client.poll_transmit(now).expect("INIT");
    let Some(ListenerResponse::Reply(mut ack)) = listener.handle_packet(now, init) else {
        panic!("INIT ACK")
    };
    ack.header.flow.src = server_address(1);
    client.handle_packet(now, ack);
    let echo = client.poll_transmit(now).expect("COOKIE ECHO");
    let echoed = path(&echo);
    let Some(ListenerResponse::Accepted(mut server)) = listener.handle_packet(now, echo) else {
        panic!("accepted")
    };
    let ack = server.poll_transmit(now).expect("COOKIE ACK");
    client.handle_packet(now, ack);
    client.send(now, StreamId(0), Data::Fill(1000));
    let sent = std::iter::from_fn(|| client.poll_transmit(now));
    let data = sent.into_iter().find(|packet| packet.payload.carries_data()).expect("DATA");
    (echoed, path(&data))
}

/// RFC 9260 section 6.4: a reply is sent to the source of the request. By default, data uses the primary path.
#[test]
fn an_init_ack_from_another_address_does_not_move_the_primary() {
    let second = PathAddresses { local: client_address(1), remote: server_address(1) };
    assert_eq!(answered_from_another_address(vec![second]), (1, 0));
}

/// RFC 9260 section 5.4: a COOKIE ECHO to an unconfirmed address would need a heartbeat in the same packet.
#[test]
fn a_cookie_is_not_echoed_to_an_address_that_only_the_peer_vouches_for() {
    assert_eq!(answered_from_another_address(Vec::new()), (0, 0));
}

/// RFC 9260 section 5.4: the same holds if the handshake restarts after a stale cookie, and the first INIT ACK listed
/// the address.
#[test]
fn a_later_cookie_is_not_echoed_to_a_listed_address_either() {
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    pair.lose(|_| true);
    pair.open();
    let ack = |pair: &mut Pair, source| {
        let init = init(
            5,
            9999,
            1,
            vec![
                Parameter::Cookie(vec![1]),
                Parameter::Address(server_address(0)),
                Parameter::Address(server_address(1)),
            ],
        );
        let tag = pair.client().local_tag();
        let mut packet = forged(Side::Client, 0, tag, vec![Chunk::InitAck(Box::new(init))]);
        packet.header.flow.src = source;
        let now = pair.now;
        pair.client().handle_packet(now, packet);
        let echo = pair.client().poll_transmit(now).expect("COOKIE ECHO");
        assert_eq!(echo.header.flow.dst, server_address(0));
    };
    ack(&mut pair, server_address(0));
    let tag = pair.client().local_tag();
    pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![Chunk::Error(vec![Cause::StaleCookie(1)])]));
    assert_eq!(pair.log.last().map(Crossing::names).as_deref(), Some("INIT"));
    ack(&mut pair, server_address(1));
}

/// RFC 9260 section 5.1: COOKIE ECHO is retransmitted over all addresses, like INIT.
#[test]
fn cookies_are_echoed_over_the_other_path_too() {
    let mut pair = Pair::new(&rfc(), 2, ms(100));
    pair.lose(|crossing| crossing.path == 0 && crossing.has("COOKIE ECHO"));
    pair.open();
    pair.run_for(s(2));
    assert!(pair.client.connected().is_some());
}

#[test]
fn addresses_that_the_peer_does_not_list_are_not_used() {
    let mut pair = Pair::new(&rfc(), 2, ms(50));
    // A server that has a route for its first address only.
    let route = PathAddresses { local: server_address(0), remote: client_address(0) };
    pair.listener = Listener::new(
        rfc(),
        PORT,
        vec![route],
        netrig_core::Dscp(0),
        netrig_core::Seeds::new(1).stream("server"),
    );
    pair.open();
    pair.fill(100_000);
    pair.run_for(s(100));
    assert_eq!(pair.server.bytes(), 100_000);
    assert!(pair.sent_by(Side::Client).all(|crossing| crossing.path == 0));
}

#[test]
fn streams_are_as_many_as_both_ends_want() {
    let few = Config { streams: 3, ..rfc() };
    let many = Config { streams: 20, ..rfc() };
    let mut pair = Pair::with(&few, &many, 1, ms(10), 1);
    pair.open();
    pair.run_for(s(1));
    assert_eq!(pair.client().streams(), (3, 20));
    assert_eq!(pair.server().streams(), (20, 3));
    // netrig accepts any number of streams. If one end accepts two, both the listener and the active end use two.
    let init = chunk::Init {
        outbound_streams: 7,
        inbound_streams: 2,
        ..init(5, 9999, 1, vec![Parameter::Cookie(vec![1])])
    };
    let mut pair = Pair::with(&few, &many, 1, ms(10), 1);
    pair.lose(|_| true);
    pair.open();
    let tag = pair.client().local_tag();
    pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![Chunk::InitAck(Box::new(init.clone()))]));
    assert_eq!(pair.client().streams(), (2, 7));
    pair.deliver(Side::Server, forged(Side::Server, 0, 0, vec![Chunk::Init(Box::new(init))]));
    let Chunk::InitAck(ack) = &pair.log.last().expect("INIT ACK").packet.chunks[0] else {
        panic!("INIT ACK")
    };
    let (tag, cookie) = (ack.initiate_tag, ack.cookie().expect("a cookie").to_vec());
    pair.deliver(Side::Server, forged(Side::Server, 0, tag, vec![Chunk::CookieEcho(cookie)]));
    assert_eq!(pair.server().streams(), (2, 7));
}

#[test]
fn unknown_parameters_are_reported_as_their_highest_bits_say() {
    let mut pair = Pair::new(&rfc(), 1, ms(10));
    let unknown = |kind| Parameter::Unknown { kind, value: vec![1, 2, 3] };
    // Skip silently, skip and report, then stop and report. The stop hides the parameters after it.
    let init = init(5, 9999, 1, vec![unknown(0x8001), unknown(0xC001), unknown(0x4001), unknown(0xC002)]);
    let packet = through_bytes(forged(Side::Server, 0, 0, vec![Chunk::Init(Box::new(init))]));
    let Some(ListenerResponse::Reply(reply)) = pair.listener.handle_packet(pair.now, packet) else {
        panic!("reply")
    };
    let Payload::Sctp(body) = reply.payload else { panic!("SCTP") };
    let Chunk::InitAck(ack) = &body.chunks[0] else { panic!("INIT ACK") };
    let reported: Vec<_> = ack
        .parameters
        .iter()
        .filter_map(|parameter| match parameter {
            Parameter::Unrecognized(bytes) => Some(u16::from_be_bytes([bytes[0], bytes[1]])),
            _ => None,
        })
        .collect();
    assert_eq!(reported, [0xC001, 0x4001]);
}

/// RFC 9260 sections 3.3.2, 5.1 and 12.3: a listener or an existing association replies to an invalid INIT with an
/// ABORT, or not at all. The ABORT has the cause and the tag of the INIT, and is sent to the source of the INIT.
#[test]
fn impossible_inits_are_answered_by_abort_or_silence() {
    let good = init(5, 1500, 1, vec![]);
    let host = Parameter::HostName(b"example.net\0".to_vec());
    // The parameter has type 11 and 16 bytes, including the header.
    let named = Cause::UnresolvableAddress(b"\0\x0b\0\x10example.net\0".to_vec());
    let parts = |init: chunk::Init| vec![Chunk::Init(Box::new(init))];
    let with_another = [parts(good.clone()), vec![Chunk::CookieAck]].concat();
    let silence = None;
    let invalid = Some(vec![Cause::InvalidParameter]);
    let cases = [
        (parts(good.clone()), 1, silence.clone()),
        (with_another, 0, silence.clone()),
        (parts(chunk::Init { initiate_tag: 0, ..good.clone() }), 0, silence),
        (parts(chunk::Init { outbound_streams: 0, ..good.clone() }), 0, invalid.clone()),
        (parts(chunk::Init { inbound_streams: 0, ..good.clone() }), 0, invalid.clone()),
        (parts(chunk::Init { a_rwnd: 1499, ..good.clone() }), 0, invalid),
        (parts(chunk::Init { parameters: vec![host], ..good.clone() }), 0, Some(vec![named])),
    ];
    for established in [false, true] {
        for (chunks, tag, causes) in &cases {
            let mut pair = Pair::new(&rfc(), 1, ms(100));
            if established {
                pair = Pair::connected(&rfc(), 1, ms(100));
            }
            pair.deliver(Side::Server, forged(Side::Server, 0, *tag, chunks.clone()));
            let answers: Vec<_> = pair
                .log
                .iter()
                .map(|answer| (answer.packet.verification_tag, answer.packet.chunks.to_vec()))
                .collect();
            let abort = |causes: &Vec<Cause>| {
                (5, vec![Chunk::Abort(chunk::Abort { reflected: false, causes: causes.clone() })])
            };
            assert_eq!(answers, causes.iter().map(abort).collect::<Vec<_>>(), "{chunks:?}");
            // In each case, an existing association continues, and a new one can be opened.
            pair.log.clear();
            pair.open();
            pair.fill(1000);
            pair.run_for(s(2));
            assert_eq!((pair.server.bytes(), pair.server.closed()), (1000, None), "{chunks:?}");
        }
    }
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    pair.deliver(Side::Server, forged(Side::Server, 0, 0, parts(good)));
    assert_eq!(pair.log.iter().map(Crossing::names).collect::<Vec<_>>(), ["INIT ACK"]);
}

/// RFC 9260 section 5.2.2: the reply to an INIT for an established association has the tag of the INIT. It contains a
/// new tag of this end, and the same streams and addresses as before. The association continues.
#[test]
fn an_unexpected_init_gets_a_new_tag_and_changes_nothing() {
    let mut pair = Pair::connected(&Config { streams: 7, ..rfc() }, 2, ms(100));
    let (tag, peer) = (pair.server().local_tag(), pair.client().local_tag());
    let init = chunk::Init { outbound_streams: 10, inbound_streams: 10, ..init(4711, 10_000, 0, vec![]) };
    pair.deliver(Side::Server, forged(Side::Server, 0, 0, vec![Chunk::Init(Box::new(init))]));
    let [answer] = &pair.log[..] else { panic!("one answer: {:?}", pair.log) };
    let [Chunk::InitAck(ack)] = &answer.packet.chunks[..] else { panic!("INIT ACK alone") };
    assert_eq!((answer.packet.verification_tag, answer.path), (4711, 0));
    assert!(![0, tag, peer, 4711].contains(&ack.initiate_tag), "{}", ack.initiate_tag);
    assert_eq!(ack.outbound_streams, 7);
    assert_eq!(ack.addresses().collect::<Vec<_>>(), [0, 1].map(server_address));
    pair.fill(50_000);
    pair.act(Side::Server, |server, now| server.send(now, StreamId(0), Data::Fill(30_000)));
    pair.run_for(s(3));
    assert_eq!((pair.server.bytes(), pair.client.bytes()), (50_000, 30_000));
    assert_eq!((pair.server().local_tag(), pair.client().local_tag()), (tag, peer));
}

/// RFC 9260 section 3.3.3: an INIT ACK without tag or streams, or with a host name, ends the attempt. An INIT ACK with
/// a window that is too small has no effect. All are answered with an ABORT.
#[test]
fn impossible_init_acks_are_answered_by_abort() {
    let good = init(5, 1500, 1, vec![Parameter::Cookie(vec![1])]);
    let host = Parameter::HostName(b"example.net\0".to_vec());
    let named = Cause::UnresolvableAddress(b"\0\x0b\0\x10example.net\0".to_vec());
    let refused = Some(CloseReason::Refused);
    let invalid = || vec![Cause::InvalidParameter];
    for (init, causes, closed) in [
        (chunk::Init { initiate_tag: 0, ..good.clone() }, Vec::new(), refused),
        (chunk::Init { outbound_streams: 0, ..good.clone() }, invalid(), refused),
        (chunk::Init { inbound_streams: 0, ..good.clone() }, invalid(), refused),
        (chunk::Init { parameters: vec![host], ..good.clone() }, vec![named], refused),
        // Parameter type 7 is the cookie.
        (
            chunk::Init { parameters: Vec::new(), ..good.clone() },
            vec![Cause::MissingParameters(vec![7])],
            refused,
        ),
        (chunk::Init { a_rwnd: 1499, ..good }, invalid(), None),
    ] {
        let mut pair = Pair::new(&rfc(), 1, ms(100));
        pair.lose(|crossing| crossing.at < at(ms(500)));
        pair.open();
        let own = pair.client().local_tag();
        let reflected = init.initiate_tag == 0;
        let tag = if reflected { own } else { init.initiate_tag };
        let packet = forged(Side::Client, 0, own, vec![Chunk::InitAck(Box::new(init.clone()))]);
        pair.deliver(Side::Client, packet);
        let answer = &pair.log.last().expect("an answer").packet;
        let Chunk::Abort(abort) = &answer.chunks[0] else { panic!("ABORT for {init:?}") };
        assert_eq!(abort.causes, causes, "{init:?}");
        assert_eq!(
            (answer.verification_tag, abort.reflected, pair.client.closed()),
            (tag, reflected, closed)
        );
        pair.run_for(s(5));
        assert_eq!(pair.client.connected().is_some(), closed.is_none(), "{init:?}");
    }
}

/// RFC 9260 sections 5.2.3, 5.2.5, 5.2.6, 8.5.1 C and 9.2; section 6 for chunks that arrive too early.
#[test]
fn chunks_in_the_wrong_state_are_discarded() {
    let init = init(5, 9999, 1, vec![Parameter::Cookie(vec![1])]);
    let early = vec![
        Chunk::CookieAck,
        Chunk::Error(vec![Cause::StaleCookie(1)]),
        Chunk::ShutdownComplete { reflected: false },
    ];
    let mut late = early.clone();
    late.push(Chunk::InitAck(Box::new(chunk::Init { initiate_tag: 0, ..init.clone() })));
    late.push(Chunk::InitAck(Box::new(chunk::Init { outbound_streams: 0, ..init.clone() })));
    late.push(Chunk::InitAck(Box::new(init)));
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    let tag = pair.client().local_tag();
    for chunk in late {
        pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![chunk]));
    }
    assert_eq!((pair.log.len(), pair.client.closed()), (0, None));
    pair.fill(1000);
    pair.run_for(s(2));
    assert_eq!(pair.server.bytes(), 1000);

    let mut pair = Pair::new(&rfc(), 1, ms(100));
    pair.lose(|crossing| crossing.at < at(ms(500)));
    pair.open();
    let tag = pair.client().local_tag();
    let data = chunk::Data { immediate: true, ..message_chunk(netrig_transport::Serial(0), 100) };
    let sack = chunk::Sack {
        cumulative_tsn: netrig_transport::Serial(9),
        a_rwnd: 0,
        gaps: Default::default(),
        duplicates: Vec::new(),
    };
    let chunks = [Chunk::Data(data), Chunk::Sack(sack), Chunk::Shutdown(netrig_transport::Serial(0))];
    for chunk in chunks.into_iter().chain(early) {
        pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![chunk]));
    }
    assert_eq!((pair.log.len(), pair.client.closed()), (1, None), "nothing but the INIT");
    pair.run_for(s(5));
    assert!(pair.client.connected().is_some());
}

#[test]
fn profiles_shake_hands_with_each_other() {
    for client in Profile::ALL {
        for server in Profile::ALL {
            let mut pair = Pair::with(&Config::of(client), &Config::of(server), 2, ms(20), 3);
            pair.over_wire = true;
            pair.open();
            pair.fill(100_000);
            pair.run_for(s(20));
            assert_eq!(pair.server.bytes(), 100_000, "{client} to {server}");
        }
    }
}

#[test]
fn small_receive_buffers_are_told() {
    let mut pair = Pair::new(&Config { receive_buffer: Size::from_bytes(100), ..rfc() }, 1, ms(10));
    pair.open();
    let Chunk::Init(init) = &pair.log[0].packet.chunks[0] else { panic!("INIT") };
    // RFC 9260 section 3.3.2: the window is at least 1500.
    assert_eq!(init.a_rwnd, 1500);
}
