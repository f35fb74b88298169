//! Tests of the server over HTTP: with the ndt7 client of these tests, with M-Lab's own client (`@m-lab/ndt7` of npm,
//! in Node), and with requests for objects and counters. If M-Lab's client is not installed, its test reports that it
//! was skipped.

mod session;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_core::prometheus::CONTENT_TYPE;
use netrig_core::{Duration, Instant, Seeds, Size};
use netrig_host::http::message::HttpResponse;
use netrig_speed::admission::AdmissionLimits;
use netrig_speed::ndt7::{Measurement, Ndt7Test};
use netrig_speed::serve::{ClientProtocol, ServerOrder};
use serde_json::Value;

use crate::any_websocket::{ClientEvent, ClientSession};
use crate::common::{order, serving, until};

/// Sends the unsent bytes or, if there are none, the next ones. Returns whether any bytes were sent.
fn send(stream: &mut TcpStream, unsent: &mut Vec<u8>, mut next: impl FnMut() -> Option<Vec<u8>>) -> bool {
    if unsent.is_empty() {
        let Some(bytes) = next() else { return false };
        *unsent = bytes;
    }
    match stream.write(unsent) {
        Ok(len) => {
            unsent.drain(..len);
            true
        }
        Err(_) => false,
    }
}

/// Runs the client of these tests. Returns its count of bytes and the server's measurements.
fn run(address: SocketAddr, test: Ndt7Test) -> (u64, Vec<Measurement>) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nonblocking(true).unwrap();
    let epoch = StdInstant::now();
    let now = || Instant::ZERO + Duration::from(epoch.elapsed());
    let mut session = ClientSession::new(now(), test, &address.to_string(), Seeds::new(1).stream("client"));
    let (mut unsent, mut measured, mut buffer) = (Vec::new(), Vec::new(), vec![0; 1 << 16]);
    loop {
        session.handle_timeout(now());
        match session.poll_event() {
            Some(ClientEvent::Server(measurement)) => measured.push(*measurement),
            Some(ClientEvent::Over(outcome)) => {
                outcome.unwrap();
                unsent.extend(session.poll_transmit().unwrap_or_default());
                stream.set_nonblocking(false).unwrap();
                let _ = stream.write_all(&unsent);
                return (session.bytes(), measured);
            }
            Some(ClientEvent::Start) | None => {}
        }
        let moved =
            send(&mut stream, &mut unsent, || session.poll_transmit().or_else(|| session.poll_load()));
        match stream.read(&mut buffer) {
            Ok(0) => session.handle_close(),
            Ok(len) => session.handle_bytes(now(), &buffer[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if !moved {
                    std::thread::sleep(StdDuration::from_millis(1));
                }
            }
            Err(_) => session.handle_close(),
        }
    }
}

#[test]
fn our_client_uses_our_server() {
    serving(order(2), |address, server| {
        let download = std::thread::spawn(move || run(address, Ndt7Test::Download));
        let (sent, of_upload) = run(address, Ndt7Test::Upload);
        let (received, of_download) = download.join().unwrap();
        until("both places are free", || server.now().measuring == 0);
        let [came, went] = server.tally().bytes(ClientProtocol::Ndt7);
        // The server counts all bytes of the sockets, including the heads of messages. The client counts the bytes of
        // the messages that it sent or received.
        assert!(sent > 0 && received > 0 && went >= received, "{sent} {came} {received} {went}");
        assert_eq!(
            (server.tally().sessions(ClientProtocol::Ndt7), server.tally().failures()),
            (2, Default::default())
        );
        for (measured, test) in [(of_upload, Ndt7Test::Upload), (of_download, Ndt7Test::Download)] {
            let last = measured.last().unwrap();
            assert_eq!(
                (last.test, last.connection_info.as_ref().unwrap().server.clone()),
                (Some(test), address.to_string())
            );
            let kernel = last.tcp_info.unwrap();
            assert!(kernel.rtt > Some(0) && kernel.elapsed_time > Some(0), "{kernel:?}");
        }
    });
}

/// The folder into which `scripts/setup --peers` installs npm packages.
fn packages() -> PathBuf {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/peers");
    std::env::var_os("NETRIG_PEERS").map_or(default, PathBuf::from)
}

#[test]
fn the_client_of_m_lab_uses_our_server() {
    let folder = packages();
    let node = Command::new("node").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !node || !folder.join("node_modules/@m-lab/ndt7").exists() || !folder.join("node_modules/ws").exists()
    {
        eprintln!("skipped: needs node, and @m-lab/ndt7 and ws of npm");
        return;
    }
    serving(order(1), |address, server| {
        let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/ndt7/client.js");
        let output = Command::new("node").arg(driver).arg(folder).arg(address.to_string()).output().unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        assert!(output.status.success() && told["errors"] == serde_json::json!([]), "{told:#}");
        until("its place is free", || server.now().measuring == 0);
        assert_eq!(
            (server.tally().sessions(ClientProtocol::Ndt7), server.tally().failures()),
            (2, Default::default())
        );
        let [received, sent] = server.tally().bytes(ClientProtocol::Ndt7);
        for (way, carried) in [("download", sent), ("upload", received)] {
            let client = told[way]["LastClientMeasurement"]["NumBytes"].as_f64().unwrap();
            let server = &told[way]["LastServerMeasurement"];
            assert!(client > 0.0 && carried > 0, "{told:#}");
            assert_eq!((&server["Test"], &server["Origin"]), (&way.into(), &"server".into()));
            assert_eq!(server["ConnectionInfo"]["Server"], address.to_string());
            assert!(server["TCPInfo"]["RTT"].as_u64().unwrap() > 0, "{told:#}");
            // Both ends count the same data, but at different times.
            assert!(server["AppInfo"]["NumBytes"].as_u64().unwrap() <= carried, "{told:#} {carried}");
        }
        let client = told["download"]["LastClientMeasurement"]["NumBytes"].as_f64().unwrap();
        assert!(client <= sent as f64, "{told:#} {sent}");
    });
}

/// Sends a request and returns the whole response: its head and its body.
fn answered(address: SocketAddr, request: &str) -> (HttpResponse, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let (response, len) = HttpResponse::read(&bytes).unwrap().unwrap();
    (response, bytes.split_off(len))
}

#[test]
fn objects_and_counters_are_there_by_http() {
    let limits = AdmissionLimits { max_size: Size::from_bytes(50_000_000), ..order(1).limits };
    serving(ServerOrder { limits, ..order(1) }, |address, server| {
        let get = |path: &str| answered(address, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let (response, body) = get("/object/20000000");
        assert_eq!((response.status, body.len()), (200, 20_000_000));
        assert_eq!(get("/object/50000001").0.status, 404, "it is longer than a session may carry");
        assert_eq!(get("/elsewhere").0.status, 404);
        assert_eq!(get("/ndt/v7/download").0.status, 426);
        assert_eq!(answered(address, "POST /object/1 HTTP/1.1\r\n\r\n").0.status, 405);
        assert_eq!(answered(address, "GET \x01 HTTP/1.1\r\n: x\r\n\r\n").0.status, 400);
        until("its place is free", || server.now().measuring == 0);
        let (response, body) = get("/metrics");
        let text = String::from_utf8(body).unwrap();
        assert_eq!(response.field("content-type"), Some(CONTENT_TYPE));
        for line in [
            "netrig_speed_sessions_total{protocol=\"http\"} 1",
            "netrig_speed_bytes_total{protocol=\"http\",direction=\"sent\"} 20000000",
            "netrig_speed_failures_total{protocol=\"ndt7\",kind=\"garbage\"} 1",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in {text}");
        }
    });
}

#[test]
fn who_finds_no_place_is_told_when_to_come_again() {
    serving(order(1), |address, server| {
        // This client requests a large object and does not read it.
        let mut holds = TcpStream::connect(address).unwrap();
        holds.write_all(b"GET /object/500000000 HTTP/1.1\r\n\r\n").unwrap();
        until("it has its place", || server.now().measuring == 1);
        let (response, body) = answered(address, "GET /object/1 HTTP/1.1\r\n\r\n");
        assert_eq!((response.status, response.field("retry-after")), (503, Some("30")));
        assert!(String::from_utf8(body).unwrap().starts_with("the server is busy"));
        drop(holds);
        until("its place is free", || server.now().measuring == 0);
        assert_eq!(answered(address, "GET /object/1 HTTP/1.1\r\n\r\n").0.status, 200);
    });
}
