//! Tests of both ends of an ndt7 test that are connected in memory, and of the reaction of a server to invalid bytes.

use netrig_core::{Duration, Instant, Seeds};
use netrig_host::http::message::{HttpError, HttpRequest};
use netrig_speed::ndt7::frame::{self, CloseCode, Opcode, close, message};
use netrig_speed::ndt7::{
    ConnectionInfo, LoadMessage, MeasurementOrigin, Ndt7Test, ServerError, ServerEvent, ServerSession,
    TcpInfo, Upgrade,
};
use proptest::prelude::*;

use crate::any_websocket::{ClientError, ClientEvent, ClientSession};

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn upgrade(test: Ndt7Test) -> Upgrade {
    let mut client = ClientSession::new(at(0), test, "h", Seeds::new(1).stream("client"));
    let request = client.poll_transmit().unwrap();
    Upgrade::read(&HttpRequest::read(&request).unwrap().unwrap().0).unwrap()
}

fn server(test: Ndt7Test) -> ServerSession {
    ServerSession::new(at(0), &upgrade(test), ConnectionInfo::default())
}

fn over(server: &mut ServerSession) -> Option<Result<(), ServerError>> {
    let events = std::iter::from_fn(|| server.poll_event());
    events
        .filter_map(|event| if let ServerEvent::Over(outcome) = event { Some(outcome) } else { None })
        .last()
}

/// Runs a whole test over a connection that transfers a message every 50 ms, in pieces of `piece` bytes.
fn whole_test(test: Ndt7Test, piece: usize) {
    let mut client = ClientSession::new(at(0), test, "h", Seeds::new(1).stream("client"));
    let request = client.poll_transmit().unwrap();
    let (head, len) = HttpRequest::read(&request).unwrap().unwrap();
    assert_eq!(len, request.len());
    let upgrade = Upgrade::read(&head).unwrap();
    assert_eq!((upgrade.test, &upgrade.metadata[..]), (test, &[("client_name".into(), "netrig".into())][..]));
    let mut server = ServerSession::new(at(0), &upgrade, ConnectionInfo::default());
    for bytes in upgrade.response().to_string().as_bytes().chunks(piece) {
        client.handle_bytes(at(0), bytes);
    }
    let (mut measured, mut ended) = (Vec::new(), (None, None));
    for now in (0..13_000).step_by(50).map(at) {
        client.handle_timeout(now);
        server.handle_timeout(now);
        let load = |load: LoadMessage| [load.head, vec![0; load.len as usize]].concat();
        let up = [client.poll_transmit().unwrap_or_default(), client.poll_load().unwrap_or_default()];
        up.concat().chunks(piece).for_each(|bytes| server.handle_bytes(bytes));
        let down =
            [server.poll_transmit().unwrap_or_default(), server.poll_load().map(load).unwrap_or_default()];
        down.concat().chunks(piece).for_each(|bytes| client.handle_bytes(now, bytes));
        while let Some(event) = server.poll_event() {
            match event {
                ServerEvent::Measure => {
                    server.measured(now, Some(TcpInfo { rtt: Some(5), ..TcpInfo::default() }))
                }
                ServerEvent::Over(outcome) => ended.0 = Some((now, outcome)),
                ServerEvent::Client(_) => panic!("it says nothing"),
            }
        }
        while let Some(event) = client.poll_event() {
            match event {
                ClientEvent::Start => assert_eq!(now, at(0)),
                ClientEvent::Server(measurement) => measured.push(*measurement),
                ClientEvent::Over(outcome) => ended.1 = Some((now, outcome)),
            }
        }
    }
    let (server_end, client_end) = (ended.0.unwrap(), ended.1.unwrap());
    assert_eq!((server_end.1, client_end.1), (Ok(()), Ok(())));
    assert!(server_end.0 <= at(10_050) && client_end.0 <= at(10_050));
    let (sent, arrived) = match test {
        Ndt7Test::Download => (server.bytes(), client.bytes()),
        Ndt7Test::Upload => (client.bytes(), server.bytes()),
    };
    // `sent` does not include the last message, which may not have been sent.
    assert!(arrived >= sent && sent > 1 << 24, "{sent} {arrived}");
    assert!((38..=40).contains(&measured.len()), "{} measurements", measured.len());
    let last = measured.last().unwrap();
    assert_eq!((last.test, last.origin), (Some(test), Some(MeasurementOrigin::Server)));
    assert_eq!((last.tcp_info.unwrap().rtt, last.tcp_info.unwrap().elapsed_time), (Some(5), Some(9_750_000)));
    assert_eq!((server.poll_timeout(), client.poll_timeout()), (None, None));
}

#[test]
fn an_ndt7_test_is_the_same_however_its_bytes_are_cut() {
    for test in [Ndt7Test::Download, Ndt7Test::Upload] {
        for piece in [1 << 12, usize::MAX] {
            whole_test(test, piece);
        }
    }
}

#[test]
fn a_client_that_does_not_close_is_cut_off() {
    let mut server = server(Ndt7Test::Upload);
    assert_eq!(server.poll_timeout(), Some(at(250)));
    server.handle_timeout(at(10_000));
    assert_eq!(server.poll_transmit(), Some(close(CloseCode::NORMAL, "", None)));
    server.handle_bytes(&message(Opcode::Binary, &[0; 100], Some([1; 4])));
    assert_eq!(server.bytes(), 0, "the test is over");
    assert_eq!(server.poll_timeout(), Some(at(13_000)));
    server.handle_timeout(at(13_000));
    assert_eq!(over(&mut server), Some(Err(ServerError::Overtime)));
}

#[test]
fn a_client_that_breaks_the_rules_is_told() {
    let key = Some([1, 2, 3, 4]);
    for (test, bytes, code, error) in [
        (Ndt7Test::Download, message(Opcode::Binary, b"x", key), CloseCode::UNSUPPORTED, ServerError::Data),
        (
            Ndt7Test::Upload,
            message(Opcode::Binary, b"x", None),
            CloseCode::PROTOCOL,
            frame::FrameError::Mask.into(),
        ),
        (
            Ndt7Test::Upload,
            message(Opcode::Text, b"{}", key).repeat(300),
            CloseCode::POLICY,
            ServerError::Flood,
        ),
    ] {
        let mut server = server(test);
        server.handle_bytes(&bytes);
        assert_eq!(server.poll_transmit(), Some(close(code, "", None)));
        assert_eq!(over(&mut server), Some(Err(error)));
        server.handle_bytes(&bytes);
        assert_eq!((server.poll_transmit(), over(&mut server)), (None, None));
    }
}

#[test]
fn pings_are_answered_and_not_without_end() {
    let ping = message(Opcode::Ping, &[7; 100], Some([9; 4]));
    let mut server = server(Ndt7Test::Upload);
    server.handle_bytes(&ping);
    assert_eq!(server.poll_transmit(), Some(message(Opcode::Pong, &[7; 100], None)));
    server.handle_bytes(&ping.repeat(1000));
    assert_eq!(over(&mut server), Some(Err(ServerError::Flood)));
    assert!(server.poll_transmit().unwrap().len() <= 64 * 1024);
}

#[test]
fn a_client_may_close_and_may_vanish() {
    let mut server_end = server(Ndt7Test::Upload);
    server_end.handle_bytes(&close(CloseCode(1001), "bye", Some([1; 4])));
    assert_eq!(server_end.poll_transmit(), Some(close(CloseCode(1001), "", None)));
    assert_eq!(over(&mut server_end), Some(Ok(())));
    let mut server_end = server(Ndt7Test::Upload);
    server_end.handle_close();
    assert_eq!(over(&mut server_end), Some(Err(ServerError::Closed)));
}

#[test]
fn a_download_ends_early_if_asked() {
    let mut upgrade = upgrade(Ndt7Test::Download);
    upgrade.early_exit = Some(1_000);
    let mut server = ServerSession::new(at(0), &upgrade, ConnectionInfo::default());
    let acked = |bytes| Some(TcpInfo { bytes_acked: Some(bytes), ..TcpInfo::default() });
    server.measured(at(250), acked(999));
    assert!(server.poll_load().is_some());
    server.measured(at(500), acked(1_000));
    assert!(server.poll_load().is_none());
}

#[test]
fn a_server_that_opens_no_websocket_is_told_of() {
    for (answer, error) in [
        (&b"HTTP/1.1 404 Not Found\r\n\r\n"[..], ClientError::Status(404)),
        (b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", ClientError::Answer),
        (b"nonsense\r\n\r\n", ClientError::Http(HttpError::FirstLine("nonsense".into()))),
    ] {
        let mut client = ClientSession::new(at(0), Ndt7Test::Upload, "h", Seeds::new(1).stream("client"));
        client.handle_bytes(at(0), answer);
        assert_eq!(client.poll_event(), Some(ClientEvent::Over(Err(error))));
    }
}

proptest! {
    #[test]
    fn an_ndt7_server_survives_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300), upload in any::<bool>()) {
        let test = if upload { Ndt7Test::Upload } else { Ndt7Test::Download };
        let mut whole = server(test);
        whole.handle_bytes(&bytes);
        let mut single = server(test);
        bytes.chunks(1).for_each(|byte| single.handle_bytes(byte));
        prop_assert_eq!(whole.poll_transmit(), single.poll_transmit());
        prop_assert_eq!((over(&mut whole), whole.bytes()), (over(&mut single), single.bytes()));
    }
}
