//! `netrig speed serve`, used by operators and clients.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use netrig_test_support::skip_unless;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::far_end::{interrupt, until_it_worked};
use crate::common::free_port::free_port;
use crate::common::machine::can_open;
use crate::common::{Guarded, as_json, connect_from, write_secret};

fn netrig(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
    command.arg("speed").args(arguments).stdin(Stdio::null());
    command
}

fn ended(arguments: &[&str]) -> Output {
    netrig(arguments).output().unwrap()
}

/// A running server.
struct Server {
    child: Guarded,
    /// Its stderr after the lines with the addresses.
    rest: BufReader<ChildStderr>,
    /// Its listening addresses, in the order of its output.
    addresses: Vec<String>,
}

impl Server {
    fn start(arguments: &[&str], listens: usize) -> Self {
        let all = [&["serve", "--listen", "127.0.0.1", "--port", "0"], arguments].concat();
        let mut child = netrig(&all).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut rest = BufReader::new(child.stderr.take().unwrap());
        let mut addresses = Vec::new();
        while addresses.len() < listens {
            let mut line = String::new();
            assert!(rest.read_line(&mut line).unwrap() > 0, "{addresses:?}");
            let address = line.split_whitespace().find(|word| word.starts_with("127.0.0.1:"));
            addresses.extend(address.map(str::to_owned));
        }
        Self { child: Guarded(child), rest, addresses }
    }

    /// Waits until the server's metrics report no session.
    fn wait_until_idle(&self) {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let told = fetched(TcpStream::connect(&self.addresses[0]).unwrap(), METRICS);
            assert!(told.contains("netrig_speed_measuring "), "{told}");
            if told.lines().any(|line| line == "netrig_speed_measuring 0") {
                return;
            }
            assert!(Instant::now() < until, "{told}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the server with a signal. Returns its stdout.
    fn end(mut self) -> String {
        interrupt(&self.child, Signal::INT);
        let (mut printed, mut said) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        self.rest.read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        printed
    }
}

/// Starts a client with a long measurement, and waits until data are being sent.
fn measuring(server: &Server, what: &[&str]) -> Child {
    let all = [&[server.addresses[0].as_str(), "--time", "60s", "--idle", "100ms", "--json"], what].concat();
    let child = netrig(&all).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The server uses processor time only after the measurement of the idle path. A throughput needs three readings.
    until_it_worked(&server.child, 300);
    child
}

const SHORT: [&str; 6] = ["--down", "--only", "connections", "--time", "1s", "-P2"];

#[test]
fn one_port_serves_our_client_as_itself_and_as_one_of_iperf3() {
    // The second port is for clients that use only iperf3's port. Here it is any free port.
    let free = free_port().to_string();
    let server = Server::start(&["--iperf3-port", &free, "--json"], 2);
    let [own, iperf3] = [0, 1].map(|which| server.addresses[which].clone());
    for (host, way) in [(&own, None), (&own, Some("--iperf3")), (&iperf3, Some("--iperf3"))] {
        let arguments: Vec<_> = [host.as_str()].into_iter().chain(SHORT).chain(way).collect();
        let ours = as_json(&ended(&[&arguments[..], &["--json"]].concat()));
        assert!(ours["phases"][0]["throughput"]["bytes"].as_u64() > Some(0), "{ours:#}");
        let theirs = as_json(&ended(&[&arguments[..], &["--json=iperf3"]].concat()));
        assert!(theirs["end"]["sum_received"]["bytes"].as_u64() > Some(0), "{theirs:#}");
        assert_eq!(theirs["start"]["test_start"]["num_streams"], 2, "{theirs:#}");
    }
    server.wait_until_idle();
    let told: Value = serde_json::from_str(&server.end()).unwrap();
    assert_eq!(
        (&told["protocols"]["netrig"]["sessions"], &told["protocols"]["iperf3"]["sessions"]),
        (&2.into(), &4.into())
    );
    assert_eq!((&told["failures"], &told["sentences"]), (&serde_json::json!([]), &serde_json::json!({})));
}

/// The document of every measurement and protocol conforms to the schema.
#[test]
fn the_document_of_a_meter_keeps_to_its_schema() {
    let contract = Command::new(env!("CARGO_BIN_EXE_netrig")).args(["schema", "--of", "speed"]).output();
    let contract = jsonschema::validator_for(&as_json(&contract.unwrap())).unwrap();
    let server = Server::start(&[], 1);
    for what in [
        &["--both", "--only", "connections"][..],
        &["--only", "capacity", "--most", "50Mbit/s"],
        &["--udp", "5Mbit/s", "--poisson"],
        &["--sctp", "-P2", "--down", "--no-rpm"],
        &["--down", "--only", "connections", "--idle", "0s"],
    ] {
        let told = [&[&server.addresses[0], "--time", "800ms", "--json"], what].concat();
        let told = as_json(&ended(&told));
        let wrong: Vec<_> = contract.iter_errors(&told).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{what:?}: {wrong:?}");
        assert_eq!((&told["format"], &told["partial"]), (&1.into(), &false.into()), "{what:?}");
        assert!(told["verdicts"].as_array().is_some_and(|verdicts| !verdicts.is_empty()), "{told:#}");
    }
    server.end();
}

#[test]
fn a_server_that_would_be_open_or_of_no_use_does_not_start() {
    let folder = std::env::temp_dir().join(format!("netrig-keys-{}", std::process::id()));
    std::fs::write(&folder, "ann 0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let keys = folder.to_str().unwrap().to_owned();
    let refused = |arguments: &[&str], words: &str| {
        let output = ended(&[&["serve"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(words), "{arguments:?}: {said}");
    };
    refused(&["--listen", "0.0.0.0"], "can be reached from other hosts: give a key");
    for option in ["--keys", "--key"] {
        refused(
            &[option, &keys],
            "other users can read it (its mode is 644), so it is no secret; `chmod 600 ",
        );
    }
    write_secret(&folder, "ann short\n");
    refused(&["--keys", &keys], "line 1: the key of ann has 5 bytes");
    std::fs::write(&folder, "ann 0123456789abcdef\nbob 0123456789abcdef0\n").unwrap();
    refused(
        &["--listen", "0.0.0.0", "--keys", &keys, "--iperf3-port"],
        "whose clients of iperf3 cannot prove a key",
    );
    let server = Server::start(&["--keys", &keys, "--per-key", "1"], 1);
    let key = folder.with_extension("key");
    write_secret(&key, "0123456789abcdef0\n");
    let host = server.addresses[0].clone();
    let arguments: Vec<_> = [host.as_str()].into_iter().chain(SHORT).collect();
    let output = ended(&[&arguments[..], &["--key", key.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{output:?}");
    let output = ended(&arguments);
    assert!(String::from_utf8_lossy(&output.stderr).contains("it requires a key"), "{output:?}");
    let said = server.end();
    assert!(said.contains("sessions of netrig: 1;"), "{said}");
    for count in ["--sessions", "--per-address", "--per-key"] {
        refused(&[count, "0"], "expected a whole number of at least 1");
    }
    std::fs::remove_file(&folder).unwrap();
    std::fs::remove_file(&key).unwrap();
}

/// An impossible measurement is rejected before a connection is opened. There is no server in this test.
#[test]
fn what_cannot_be_measured_is_refused_first() {
    let refused = |arguments: &[&str], words: &str| {
        let output = ended(&[&["127.0.0.1:1"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(words), "{arguments:?}: {said}");
    };
    refused(&["--sctp", "--json=iperf3"], "iperf3's document has no place");
    refused(&["--idle", "9ms"], "expected 10 ms or more, or 0s for none");
    refused(&["--idle", "2h"], "a phase of ");
    for size in ["27B", "65508B", "1MB"] {
        refused(&["--only", "capacity", "--size", size], "datagram");
    }
}

/// When the server ends, it reports failed connections and stray datagrams, as text and as a document.
#[test]
fn a_server_tells_what_it_has_counted() {
    for form in [&[][..], &["--json"]] {
        let server = Server::start(form, 1);
        let mut stranger = TcpStream::connect(&server.addresses[0]).unwrap();
        std::io::Write::write_all(&mut stranger, b"SSH-2.0-x\r\n").unwrap();
        // The read may return the end of the stream or an error.
        let _ = stranger.read(&mut [0; 9]);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"who is there", &server.addresses[0]).unwrap();
        let metrics = |wanted: &str| {
            let told = fetched(TcpStream::connect(&server.addresses[0]).unwrap(), METRICS);
            told.lines().any(|line| line == wanted)
        };
        while !metrics("netrig_speed_strays_total 1") {
            std::thread::sleep(Duration::from_millis(10));
        }
        let printed = server.end();
        if form.is_empty() {
            assert!(printed.contains("datagrams without a session: 1\n"), "{printed}");
            assert!(printed.contains("aborted: 1; a connection with an unsupported protocol"), "{printed}");
            continue;
        }
        let told: Value = serde_json::from_str(&printed).unwrap();
        let garbage = serde_json::json!([{ "protocol": "unknown", "kind": "garbage", "count": 1 }]);
        assert_eq!((&told["failures"], &told["strays"]), (&garbage, &1.into()), "{told:#}");
        let said = &told["sentences"]["a connection with an unsupported protocol"];
        assert_eq!(said, &1, "{told:#}");
    }
}

/// If the server is killed, the client reports the data until then as partial.
#[test]
fn of_a_server_that_is_killed_something_is_told() {
    for what in [
        ["--down", "--only", "connections"],
        ["--up", "--only", "connections"],
        ["--up", "--udp", "200Mbit/s"],
    ] {
        let mut server = Server::start(&[], 1);
        let client = measuring(&server, &what);
        server.child.kill().unwrap();
        let output = client.wait_with_output().unwrap();
        let told = as_json(&output);
        assert_eq!((output.status.code(), &told["partial"]), (Some(1), &true.into()), "{told:#}");
        let why = told["broken"].as_str().unwrap();
        assert!(why.contains("the server"), "{why}");
        assert!(told["phases"][0]["throughput"]["bits_per_s"].as_f64() > Some(0.0), "{told:#}");
    }
}

/// A client may be interrupted at any time. Its output is a document or empty, and the server can be used again.
#[test]
fn who_interrupts_it_gets_what_there_is() {
    let server = Server::start(&[], 1);
    let all = [&[server.addresses[0].as_str(), "--json"], &SHORT[..]].concat();
    for after_ms in [0, 20, 100, 400, 1000, 1500, 1800, 2200, 2600] {
        let client = netrig(&all).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(after_ms));
        interrupt(&client, Signal::INT);
        let output = client.wait_with_output().unwrap();
        // Before the client has installed its signal handler, the signal kills it.
        assert!(matches!(output.status.code(), None | Some(0 | 130)), "{after_ms} ms: {output:?}");
        if !output.stdout.is_empty() {
            let told = as_json(&output);
            assert_eq!(told["partial"], output.status.code() == Some(130), "{after_ms} ms: {told:#}");
        }
    }
    let told = as_json(&ended(&all));
    assert_eq!(told["partial"], false, "{told:#}");
    server.end();
}

/// Sends a request. Returns the response, or the received part of it.
fn fetched(mut stream: TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut told = String::new();
    // The connection may be closed before the response is complete.
    let _ = stream.read_to_string(&mut told);
    told
}

const METRICS: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// A thousand connections from four addresses send a byte each and are closed. They must not keep other clients from
/// being admitted.
#[test]
fn who_says_a_byte_and_goes_shuts_nobody_out() {
    let server = Server::start(&[], 1);
    let address = &server.addresses[0];
    for host in 2..6 {
        for _ in 0..270 {
            let mut stream = connect_from(&format!("127.0.0.{host}"), address).unwrap();
            stream.write_all(b"G").unwrap();
        }
    }
    let told = fetched(TcpStream::connect(address).unwrap(), METRICS);
    assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
    // Silent open connections must not do so either.
    let silent: Vec<_> = (2..8)
        .flat_map(|host| (0..250).map(move |_| host))
        .map(|host| connect_from(&format!("127.0.0.{host}"), address))
        .collect();
    let told = fetched(TcpStream::connect(address).unwrap(), METRICS);
    assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
    drop(silent);
    server.end();
}

/// Each connection that has begun a handshake has a thread. The number of these connections from one address is
/// limited, and a further connection gets the answer that the server is busy.
#[test]
fn who_finds_no_room_is_told_that_the_server_is_busy() {
    let server = Server::start(&["--connections-per-address", "33"], 1);
    let address = &server.addresses[0];
    let mut held = Vec::new();
    // The server closes them after ten seconds, so a busy machine may need more of them.
    let mut hold = || {
        for _ in 0..50 {
            let mut stream = TcpStream::connect(address).unwrap();
            // An error is ignored: the server may have rejected the connection.
            let _ = stream.write_all(b"\x16\x03\x01");
            held.push(stream);
        }
    };
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        hold();
        let told = fetched(TcpStream::connect(address).unwrap(), METRICS);
        if told.starts_with("HTTP/1.1 503 ") {
            assert!(
                told.contains("Retry-After: ")
                    && told.contains("your address has reached its limit of connections"),
                "{told}"
            );
            break;
        }
        assert!(told.starts_with("HTTP/1.1 200 ") && Instant::now() < until, "{told}");
    }
    loop {
        hold();
        let output = ended(&[&[address.as_str()][..], &SHORT].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("the server refuses the session: the server is full") {
            break;
        }
        assert!(output.status.success() && Instant::now() < until, "{said}");
    }
    // Other addresses are served. The first address is served again after its connections have been closed.
    let told = fetched(connect_from("127.0.0.9", address).unwrap(), METRICS);
    assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
    drop(held);
    loop {
        let told = fetched(TcpStream::connect(address).unwrap(), METRICS);
        if told.starts_with("HTTP/1.1 200 ") {
            break;
        }
        assert!(Instant::now() < until, "{told}");
    }
    server.end();
}

#[test]
fn a_web_page_of_another_site_may_not_measure_unless_it_is_allowed() {
    let asks = |server: &Server, origin: &str| {
        let request = format!(
            "GET /ndt/v7/download HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: net.measurementlab.ndt.v7\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        let mut stream = TcpStream::connect(&server.addresses[0]).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).unwrap();
        String::from_utf8_lossy(&first).into_owned()
    };
    let server = Server::start(&[], 1);
    assert_eq!(asks(&server, "https://evil.example"), "HTTP/1.1 403");
    assert_eq!(asks(&server, "http://localhost"), "HTTP/1.1 101");
    server.end();
    let server = Server::start(&["--allow-origin", "https://good.example"], 1);
    assert_eq!(asks(&server, "https://good.example"), "HTTP/1.1 101");
    assert_eq!(asks(&server, "https://evil.example"), "HTTP/1.1 403");
    server.end();
}

/// The server has room for 1024 connections that have not yet identified their protocol, and for 112 unverified
/// connections with a thread, because four sessions may measure. Each of the latter keeps at most 16 KiB of an HTTP
/// request or 64 KiB of a TLS handshake. The test fills all of this room. Each connection is from another /24, so no
/// limit of an address or a subnet applies.
#[test]
fn half_openings_of_a_speed_server_take_bounded_memory() {
    const THREADS: usize = 112;
    const DOOR: usize = 1024;
    skip_unless!(can_open(4000));
    let server = Server::start(&["--json"], 1);
    let address = &server.addresses[0];
    let before = crate::common::most_memory(&server.child);
    let from = |number: usize| format!("127.{}.{}.1", 10 + number / 250, number % 250);
    let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(16_000));
    // A ClientHello of 65,000 B without its last record.
    let record =
        |content: &[u8]| [&[22, 3, 1, (content.len() >> 8) as u8, content.len() as u8], content].concat();
    let mut hello = vec![1, 0, 0xfd, 0xe8];
    hello.resize(4 + 3 * (1 << 14), 3);
    let hello: Vec<u8> = hello.chunks(1 << 14).flat_map(record).collect();
    let hold = |number: usize, half: &[u8]| {
        let mut stream = connect_from(&from(number), address).unwrap();
        stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        // Errors are ignored: the server may close a connection in favour of another one.
        let _ = stream.write(half);
        stream
    };
    let half = |number: usize| if number.is_multiple_of(2) { head.as_bytes() } else { &hello[..] };
    let threads: Vec<_> = (0..2 * THREADS).map(|number| hold(number, half(number))).collect();
    let metrics = fetched(connect_from("127.200.0.1", address).unwrap(), METRICS);
    let connections = metrics.lines().find_map(|line| line.strip_prefix("netrig_speed_connections "));
    assert!(connections.is_some_and(|count| count.parse::<usize>().unwrap() >= THREADS), "{metrics}");
    let at_door: Vec<_> = (0..DOOR + 100).map(|number| hold(1000 + number, b"GET")).collect();
    std::thread::sleep(Duration::from_millis(500));
    let grown = crate::common::most_memory(&server.child) - before;
    println!("half openings at all places: {grown} B");
    drop((threads, at_door));
    let told: Value = serde_json::from_str(&server.end()).unwrap();
    let gave_way = &told["sentences"]["a silent connection that was closed for another one"];
    assert!(gave_way.as_u64() > Some(0), "the door was full: {told:#}");
    // A thread with an incomplete handshake takes at most 128 KiB, and one with an incomplete request less. A waiting
    // connection takes 1 KiB.
    let bound = (THREADS * (128 << 10) + DOOR * (1 << 10)) as u64;
    assert!(grown < bound, "{grown} B of {bound} B");
}

/// On the loopback interface, connections from one address or one /24 are limited only if a limit is set.
#[test]
fn connections_of_a_loopback_address_are_limited_if_that_is_asked_for() {
    let server = Server::start(&[], 1);
    let hold = |server: &Server, from: &str, count: usize| -> Vec<_> {
        let hold_one = |_| {
            let mut stream = connect_from(from, &server.addresses[0]).unwrap();
            // An error is ignored: the server may have rejected the connection.
            let _ = stream.write_all(b"\x16\x03\x01");
            stream
        };
        (0..count).map(hold_one).collect()
    };
    let asks = |server: &Server, from| fetched(connect_from(from, &server.addresses[0]).unwrap(), METRICS);
    let _held = hold(&server, "127.0.1.1", 60);
    let told = asks(&server, "127.0.1.1");
    assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
    server.end();
    for (option, also) in
        [("--connections-per-address", "127.0.1.1"), ("--connections-per-group", "127.0.1.2")]
    {
        let server = Server::start(&[option, "8"], 1);
        let until = Instant::now() + Duration::from_secs(60);
        let mut held = Vec::new();
        // The server closes them after ten seconds, so a busy machine may need more of them.
        let told = loop {
            held.extend(hold(&server, "127.0.1.1", 10));
            let told = asks(&server, also);
            if told.starts_with("HTTP/1.1 503 ") || Instant::now() > until {
                break told;
            }
        };
        assert!(told.contains("has reached its limit of connections (8)"), "{option}: {told}");
        let told = asks(&server, "127.0.2.1");
        assert!(told.starts_with("HTTP/1.1 200 "), "{option}: {told}");
        server.end();
    }
}
