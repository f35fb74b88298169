//! The sessions of ndt7 over sockets: with each other, and with M-Lab's own client (`@m-lab/ndt7` of npm, in Node). Where
//! that is not installed its test says that it was skipped.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "programs of others are processes, sockets and threads"
)]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_core::{Duration, Instant, Seeds};
use netrig_speed::http::Head;
use netrig_speed::ndt7::{
    ClientEvent, ClientSession, ConnectionInfo, Load, Measurement, ServerError, ServerEvent, ServerSession,
    TcpInfo, Test, Upgrade,
};
use serde_json::Value;

/// What came of a test.
#[derive(Debug)]
struct Ended {
    upgrade: Upgrade,
    outcome: Result<(), ServerError>,
    bytes: u64,
    seconds: f64,
}

/// A server that takes any number of tests, as long as the other end of the channel is there.
fn server() -> (SocketAddr, Receiver<Ended>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, ended) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, sender) = (stream.unwrap(), sender.clone());
            std::thread::spawn(move || serve(stream, &sender));
        }
    });
    (address, ended)
}

fn serve(mut stream: TcpStream, to: &Sender<Ended>) {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    let (upgrade, len) = loop {
        let len = stream.read(&mut buffer).unwrap();
        bytes.extend_from_slice(&buffer[..len]);
        if let Some((head, len)) = Head::read(&bytes).unwrap() {
            match Upgrade::read(&head) {
                Ok(upgrade) => break (upgrade, len),
                Err(error) => return stream.write_all(&error.response()).unwrap(),
            }
        }
        assert!(len > 0, "a request ends");
    };
    stream.write_all(&upgrade.response()).unwrap();
    let name = |address: std::io::Result<SocketAddr>| address.unwrap().to_string();
    let connection =
        ConnectionInfo { client: name(stream.peer_addr()), server: name(stream.local_addr()), uuid: None };
    let epoch = StdInstant::now();
    let now = || Instant::ZERO + Duration::from(epoch.elapsed());
    let mut session = ServerSession::new(now(), &upgrade, connection);
    session.handle_bytes(&bytes[len..]);
    stream.set_nonblocking(true).unwrap();
    let mut unsent = Vec::new();
    let outcome = loop {
        session.handle_timeout(now());
        match session.poll_event() {
            Some(ServerEvent::Measure) => {
                let acked = i64::try_from(session.bytes()).unwrap();
                session.measured(now(), Some(TcpInfo { bytes_acked: Some(acked), ..TcpInfo::default() }));
            }
            Some(ServerEvent::Client(_)) => {}
            Some(ServerEvent::Over(outcome)) => {
                unsent.extend(session.poll_transmit().unwrap_or_default());
                stream.set_nonblocking(false).unwrap();
                let _ = stream.write_all(&unsent);
                break outcome;
            }
            None => {}
        }
        let moved = send(&mut stream, &mut unsent, || {
            session.poll_transmit().or_else(|| whole(session.poll_load()?))
        });
        match stream.read(&mut buffer) {
            Ok(0) => session.handle_close(),
            Ok(len) => session.handle_bytes(&buffer[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if !moved {
                    std::thread::sleep(StdDuration::from_millis(1));
                }
            }
            Err(_) => session.handle_close(),
        }
    };
    let _ =
        to.send(Ended { upgrade, outcome, bytes: session.bytes(), seconds: epoch.elapsed().as_secs_f64() });
}

/// A message of zeros.
fn whole(load: Load) -> Option<Vec<u8>> {
    let payload = load.key.unwrap_or_default().repeat(load.len as usize / 4);
    Some([load.head, payload].concat())
}

/// Sends what is left, and then what is next. Whether it could.
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

/// What our client found: bytes, and what the server said.
fn run(address: SocketAddr, test: Test) -> (u64, Vec<Measurement>) {
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
        let moved = send(&mut stream, &mut unsent, || {
            session.poll_transmit().or_else(|| whole(session.poll_load()?))
        });
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
    let (address, ended) = server();
    let download = std::thread::spawn(move || run(address, Test::Download));
    let (sent, of_upload) = run(address, Test::Upload);
    let (received, of_download) = download.join().unwrap();
    for _ in 0..2 {
        let ended = ended.recv().unwrap();
        assert_eq!(ended.outcome, Ok(()));
        match ended.upgrade.test {
            Test::Download => assert!(received >= ended.bytes && ended.bytes > 0, "{received} {ended:?}"),
            // The server stops counting at its ten seconds, and the client sending at its own.
            Test::Upload => assert!(ended.bytes > 0 && sent > 0, "{sent} {ended:?}"),
        }
    }
    for (measured, test) in [(of_upload, Test::Upload), (of_download, Test::Download)] {
        let last = measured.last().unwrap();
        assert_eq!(
            (last.test, last.connection_info.as_ref().unwrap().server.clone()),
            (Some(test), address.to_string())
        );
    }
}

/// Where `scripts/setup --peers` puts what npm has.
fn packages() -> PathBuf {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers");
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
    let (address, ended) = server();
    let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ndt7/client.js");
    let output = Command::new("node").arg(driver).arg(folder).arg(address.to_string()).output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert!(output.status.success() && told["errors"] == serde_json::json!([]), "{told:#}");

    let (down, up) = (ended.recv().unwrap(), ended.recv().unwrap());
    assert_eq!((down.upgrade.test, up.upgrade.test), (Test::Download, Test::Upload));
    assert_eq!((&down.outcome, &up.outcome), (&Ok(()), &Ok(())));
    let name = ("client_name".to_owned(), "netrig tests".to_owned());
    assert!(down.upgrade.metadata.contains(&name) && up.upgrade.metadata.contains(&name));
    assert!(down.bytes >= 250_000_000 || down.seconds >= 10.0, "{down:?}");
    for (way, ended) in [("download", &down), ("upload", &up)] {
        let client = told[way]["LastClientMeasurement"]["NumBytes"].as_f64().unwrap();
        assert!(client > 0.0 && ended.bytes > 0, "{told:#}");
        let server = &told[way]["LastServerMeasurement"];
        assert_eq!((&server["Test"], &server["Origin"]), (&way.into(), &"server".into()));
        assert_eq!(server["ConnectionInfo"]["Server"], address.to_string());
        // Both count the same data, and neither sees the end that the other does.
        assert!(server["AppInfo"]["NumBytes"].as_u64().unwrap() <= ended.bytes, "{told:#} {ended:?}");
    }
    let client = told["download"]["LastClientMeasurement"]["NumBytes"].as_f64().unwrap();
    assert!(client <= down.bytes as f64 + (2 << 20) as f64, "{told:#} {down:?}");
}
