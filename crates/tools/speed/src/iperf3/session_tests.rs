//! Tests of both ends of an iperf3 test that are connected in memory, and of their reaction to invalid bytes.

use netrig_core::{Duration, Instant};
use proptest::prelude::*;

use super::*;
use crate::protocol::DataDirection;

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn cookie() -> Cookie {
    Cookie::new([7; COOKIE_LEN - 1])
}

fn found(streams: u32) -> TestResults {
    let stream =
        |nth| StreamResult { id: stream_id(nth), bytes: 100, seconds: Some(2.0), ..StreamResult::default() };
    TestResults { streams: (0..streams).map(stream).collect(), ..TestResults::default() }
}

fn server_events(server: &mut ServerSession) -> Vec<ServerEvent> {
    std::iter::from_fn(|| server.poll_event()).collect()
}

fn client_events(client: &mut ClientSession) -> Vec<ClientEvent> {
    std::iter::from_fn(|| client.poll_event()).collect()
}

/// Exchanges the bytes of both ends in pieces of `piece` bytes until both ends are silent.
fn exchange(client: &mut ClientSession, server: &mut ServerSession, now: Instant, piece: usize) {
    loop {
        let up = client.poll_transmit();
        let down = server.poll_transmit();
        if up.is_none() && down.is_none() {
            return;
        }
        for bytes in up.unwrap_or_default().chunks(piece) {
            server.handle_bytes(now, bytes);
        }
        for bytes in down.unwrap_or_default().chunks(piece) {
            client.handle_bytes(now, bytes);
        }
    }
}

/// Runs a whole test over a connection that delivers pieces of `piece` bytes.
fn whole_test(asked: &TestParameters, piece: usize) {
    let mut client = ClientSession::new(at(0), cookie(), asked.clone());
    assert_eq!(client.poll_transmit(), Some(cookie().bytes().to_vec()));
    let mut server = ServerSession::new(at(0), TestLimits::default());
    exchange(&mut client, &mut server, at(0), piece);
    let [ServerEvent::Asked(heard)] = &server_events(&mut server)[..] else { panic!("{server:?}") };
    assert_eq!(**heard, *asked);
    assert_eq!((client.poll_timeout(), server.poll_timeout()), (None, None), "it may have to wait for long");

    server.admit(at(1));
    exchange(&mut client, &mut server, at(1), piece);
    assert!(matches!(client_events(&mut client)[..], [ClientEvent::Open]));
    let places: Vec<_> = std::iter::from_fn(|| server.open_stream(at(1))).collect();
    let expected: Vec<_> = (0..asked.streams()).map(|nth| (stream_id(nth), asked.uploads(nth))).collect();
    assert_eq!(places, expected);
    exchange(&mut client, &mut server, at(1), piece);
    assert!(matches!(server_events(&mut server)[..], [ServerEvent::Start]));
    assert!(matches!(client_events(&mut client)[..], [ClientEvent::Start]));

    let over = at(1 + u64::from(asked.time + asked.omit));
    assert_eq!(client.poll_timeout(), Some(over));
    client.handle_timeout(over);
    assert!(matches!(client_events(&mut client)[..], [ClientEvent::TimeUp]));
    client.stop(over);
    exchange(&mut client, &mut server, over, piece);
    assert!(matches!(server_events(&mut server)[..], [ServerEvent::Stop]));
    assert!(client_events(&mut client).is_empty(), "the server is still stopping");
    let streams = asked.streams();
    // The client's results arrive first, because the output of a server contains them.
    server.results(over, move |theirs| {
        assert_eq!(*theirs, found(streams));
        found(streams)
    });
    exchange(&mut client, &mut server, over, piece);
    assert!(matches!(client_events(&mut client)[..], [ClientEvent::Stop]));
    client.results(over, &found(asked.streams()));
    exchange(&mut client, &mut server, over, piece);
    let [ServerEvent::Results(theirs), ServerEvent::Over(Ok(()))] = &server_events(&mut server)[..] else {
        panic!("{server:?}")
    };
    assert_eq!(**theirs, found(asked.streams()));
    assert!(matches!(client_events(&mut client)[..], [ClientEvent::Results(_), ClientEvent::Over(Ok(()))]));
    assert_eq!((client.poll_timeout(), server.poll_timeout()), (None, None));
}

#[test]
fn a_test_is_the_same_however_its_bytes_are_cut() {
    for direction in [DataDirection::Up, DataDirection::Down, DataDirection::Both] {
        let asked = TestParameters { direction, parallel: 3, omit: 2, time: 5, ..TestParameters::default() };
        for piece in [1, 2, 3, 7, usize::MAX] {
            whole_test(&asked, piece);
        }
    }
}

/// Passes these bytes to a server that has requested the parameters. Returns the bytes that the server sends, and its
/// events.
fn heard(bytes: &[u8]) -> (Vec<u8>, Vec<ServerEvent>) {
    let mut server = ServerSession::new(at(0), TestLimits::default());
    assert_eq!(server.poll_transmit(), Some(vec![9]));
    server.handle_bytes(at(0), bytes);
    (server.poll_transmit().unwrap_or_default(), server_events(&mut server))
}

#[test]
fn a_client_is_told_why_it_is_refused() {
    let asks = |json: &str| [&(json.len() as u32).to_be_bytes(), json.as_bytes()].concat();
    for (bytes, code) in [
        (asks(r#"{"sctp":true}"#), 18),
        (asks(r#"{"parallel":0}"#), 6),
        (asks("{"), 114),
        (vec![0, 0, 32, 1], 114),
        (vec![0; 4], 114),
        (asks(r#"{"reverse":true,"bidirectional":true}"#), 25),
    ] {
        let (said, events) = heard(&bytes);
        assert_eq!(said, [&[0xfe, 0, 0, 0, code][..], &[0; 4]].concat(), "{bytes:?}");
        assert!(matches!(events[..], [ServerEvent::Over(Err(_))]), "{events:?}");
    }
}

fn admitted() -> ServerSession {
    let mut server = ServerSession::new(at(0), TestLimits::default());
    server.handle_bytes(at(0), &[&[0, 0, 0, 2][..], b"{}"].concat());
    server.admit(at(0));
    server
}

fn outcome(server: &mut ServerSession) -> String {
    match server_events(server).pop() {
        Some(ServerEvent::Over(Err(error))) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_that_goes_or_is_silent_ends_its_session() {
    let mut server = admitted();
    server.handle_timeout(at(29));
    assert_eq!(server.phase(), SessionPhase::Opening);
    server.handle_timeout(at(30));
    assert!(outcome(&mut server).contains("sent nothing for too long while its streams were opened"));
    assert_eq!(server.poll_transmit().unwrap()[2..], [0xfe, 0, 0, 0, 204, 0, 0, 0, 0]);

    let mut server = admitted();
    server.open_stream(at(1)).unwrap();
    assert_eq!(server.open_stream(at(1)), None, "there is one");
    assert_eq!(server.poll_timeout(), Some(at(1 + 10 + 40)));
    server.handle_timeout(at(51));
    assert!(outcome(&mut server).contains("did not end"));

    let mut server = admitted();
    server.handle_close();
    server.handle_close();
    assert!(outcome(&mut server).contains("closed the connection"));

    let mut server = admitted();
    server.handle_bytes(at(1), &[12, 12]);
    assert!(outcome(&mut server).contains("aborted the test"));
    assert!(server.poll_event().is_none());
}

#[test]
fn a_server_that_has_no_room_says_so() {
    for (give_up, words) in [
        (ServerSession::deny as fn(&mut _), "the server is busy"),
        (ServerSession::terminate, "the other end aborted the test"),
    ] {
        let mut client = ClientSession::new(at(0), cookie(), TestParameters::default());
        client.poll_transmit();
        let mut server = ServerSession::new(at(0), TestLimits::default());
        exchange(&mut client, &mut server, at(0), 100);
        give_up(&mut server);
        exchange(&mut client, &mut server, at(0), 1);
        let Some(ClientEvent::Over(Err(error))) = client.poll_event() else { panic!() };
        assert!(error.to_string().starts_with(words), "{error}");
    }
}

#[test]
fn a_client_says_why_it_was_refused() {
    let mut client =
        ClientSession::new(at(0), cookie(), TestParameters { omit: 601, ..TestParameters::default() });
    client.poll_transmit();
    let mut server = ServerSession::new(at(0), TestLimits::default());
    exchange(&mut client, &mut server, at(0), 1);
    let Some(ClientEvent::Over(Err(error))) = client.poll_event() else { panic!() };
    assert_eq!(error.to_string(), "the server refused the test: the warm-up is too long");
}

#[test]
fn half_a_refusal_is_one() {
    for (said, words) in
        [(&[0xfe, 0, 0, 0, 142][..], "a user's name and password"), (&[0xfe, 0, 0], "closed the connection")]
    {
        let mut client = ClientSession::new(at(0), cookie(), TestParameters::default());
        client.handle_bytes(at(0), said);
        client.handle_close();
        let [ClientEvent::Over(Err(error))] = &client_events(&mut client)[..] else { panic!() };
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_silent_server_ends_the_session() {
    let mut client = ClientSession::new(at(0), cookie(), TestParameters::default());
    client.handle_timeout(at(30));
    assert!(matches!(client_events(&mut client)[..], [ClientEvent::Over(Err(SessionError::Silent(_)))]));
    let mut client = ClientSession::new(at(0), cookie(), TestParameters::default());
    client.handle_bytes(at(0), b"HTTP/1.1 400 Bad Request\r\n");
    let [ClientEvent::Over(Err(error))] = &client_events(&mut client)[..] else { panic!() };
    assert!(error.to_string().contains("is it iperf3?"), "{error}");
}

/// Generates bytes that are likely to be valid messages, and arbitrary bytes.
fn words() -> impl Strategy<Value = Vec<u8>> {
    let state = prop_oneof![(0_u8..17), Just(0xff), Just(0xfe), any::<u8>()].prop_map(|byte| vec![byte]);
    let json = prop_oneof![
        Just(b"{}".to_vec()),
        Just(br#"{"udp":true,"parallel":2}"#.to_vec()),
        Just(found(1).write()),
        Just(found(2).write()),
        proptest::collection::vec(any::<u8>(), 0..20),
    ];
    let framed = json.prop_map(|json| inbox::framed(&json));
    proptest::collection::vec(prop_oneof![state, framed], 0..12).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn a_server_survives_any_bytes(bytes in words(), piece in 1_usize..40) {
        let mut server = ServerSession::new(at(0), TestLimits::default());
        let (mut streams, mut over) = (1, 0);
        for bytes in bytes.chunks(piece) {
            server.handle_bytes(at(0), bytes);
            while let Some(event) = server.poll_event() {
                match event {
                    ServerEvent::Asked(asked) => {
                        streams = asked.streams();
                        server.admit(at(0));
                        while server.open_stream(at(0)).is_some() {}
                    }
                    ServerEvent::Stop => server.results(at(0), move |_| found(streams)),
                    ServerEvent::Over(_) => over += 1,
                    ServerEvent::Start | ServerEvent::Results(_) => {}
                }
            }
        }
        server.handle_close();
        over += server_events(&mut server).len();
        prop_assert_eq!(over, 1, "a session ends once");
    }

    #[test]
    fn a_client_survives_any_bytes(bytes in words(), piece in 1_usize..40) {
        let mut client = ClientSession::new(at(0), cookie(), TestParameters { parallel: 2, ..TestParameters::default() });
        for bytes in bytes.chunks(piece) {
            client.handle_bytes(at(0), bytes);
            while let Some(event) = client.poll_event() {
                match event {
                    ClientEvent::Start => client.stop(at(0)),
                    ClientEvent::Stop => client.results(at(0), &found(2)),
                    _ => {}
                }
            }
        }
        let _ = client.poll_transmit();
    }

    /// Parameters and the bytes after them have the same effect in one piece as in several, if no answer is needed in
    /// between.
    #[test]
    fn delivery_in_pieces_is_delivery(json in proptest::collection::vec(any::<u8>(), 0..60), piece in 1_usize..20) {
        let bytes = inbox::framed(&json);
        let end = |piece| {
            let mut server = ServerSession::new(at(0), TestLimits::default());
            for bytes in bytes.chunks(piece) {
                server.handle_bytes(at(0), bytes);
            }
            (server.poll_transmit(), format!("{:?}", server_events(&mut server)))
        };
        prop_assert_eq!(end(piece), end(usize::MAX));
    }
}
