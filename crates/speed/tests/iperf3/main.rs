//! The sessions of iperf3 with the program itself, which nobody here wrote: as its server and as its client, in every mode.
//! Where it is not installed each test says that it was skipped.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "programs of others are processes, sockets and threads"
)]

mod client;
mod flow;
mod server;

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};

use netrig_speed::iperf3::datagram::Counter;
use netrig_speed::iperf3::{Direction, Limits, Parameters, Results, SessionError, Transport};
use serde_json::Value;
use server::Server;

/// Whether the program is there; a line that says so, if not.
fn there() -> bool {
    let there =
        Command::new("iperf3").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !there {
        eprintln!("skipped: needs iperf3");
    }
    there
}

/// What is asked for, as the program's arguments and as ours.
fn modes() -> Vec<(&'static str, Parameters)> {
    let tcp = || Parameters { time: 1, ..Parameters::default() };
    let udp = || Parameters { transport: Transport::Udp, len: 1000, rate: 2_000_000, ..tcp() };
    let (down, both) = (Direction::Download, Direction::Both);
    vec![
        ("", tcp()),
        ("-R", Parameters { direction: down, ..tcp() }),
        ("--bidir", Parameters { direction: both, ..tcp() }),
        ("-P 4", Parameters { parallel: 4, ..tcp() }),
        ("-P 2 --bidir -b 8M", Parameters { parallel: 2, direction: both, rate: 8_000_000, ..tcp() }),
        ("-b 8M", Parameters { rate: 8_000_000, ..tcp() }),
        ("-O 1", Parameters { omit: 1, ..tcp() }),
        ("-u -l 1000 -b 2M", udp()),
        ("-u -l 1000 -b 2M -R", Parameters { direction: down, ..udp() }),
        ("-u -l 1000 -b 2M --bidir", Parameters { direction: both, ..udp() }),
        ("-u -l 1000 -b 2M -P 4", Parameters { parallel: 4, ..udp() }),
        ("-u -l 1000 -b 2M -O 1", Parameters { omit: 1, ..udp() }),
        ("-u -l 1000 -b 2M --udp-counters-64bit", Parameters { counter: Counter::Bits64, ..udp() }),
    ]
}

/// The program as a client of whoever listens there.
fn iperf3(server: SocketAddr, arguments: &str) -> Child {
    let mut command = Command::new("iperf3");
    command.args(["-J", "-c", &server.ip().to_string(), "-p", &server.port().to_string()]);
    command.args(arguments.split_whitespace());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The program as a server of one test.
fn iperf3_server() -> (SocketAddr, Child) {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    (address, iperf3_server_at(address))
}

fn iperf3_server_at(address: SocketAddr) -> Child {
    let mut command = Command::new("iperf3");
    command.args(["-J", "-s", "-1", "-B", "127.0.0.1", "-p", &address.port().to_string()]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What it printed, and that it succeeded.
fn printed(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{:?}: {json:#}", output.status);
    assert_eq!(json.get("error"), None, "{json:#}");
    json
}

fn bytes(results: &Results, of: impl Fn(u32) -> bool) -> u64 {
    results.streams.iter().filter(|stream| of(stream.id)).map(|stream| stream.bytes).sum()
}

fn uploads(asked: &Parameters, id: u32) -> bool {
    asked.uploads(if id == 1 { 0 } else { id - 2 })
}

/// What the program says in the end is what the sessions of both ends found.
fn agrees(json: &Value, asked: &Parameters, client: &Results, server: &Results) {
    let number =
        |row: &str, name: &str| json["end"][row][name].as_u64().unwrap_or_else(|| panic!("{row} {name}"));
    for up in [true, false] {
        let of = |id| uploads(asked, id) == up;
        let (sender, receiver) = if up { (client, server) } else { (server, client) };
        if !sender.streams.iter().any(|stream| of(stream.id)) {
            continue;
        }
        let suffix = if !up && asked.direction == Direction::Both { "_bidir_reverse" } else { "" };
        let (sent, received) = (format!("sum_sent{suffix}"), format!("sum_received{suffix}"));
        assert_eq!(number(&sent, "bytes"), bytes(sender, of), "{json:#}");
        assert_eq!(number(&received, "bytes"), bytes(receiver, of), "{json:#}");
        assert!(bytes(receiver, of) > 0, "{json:#}");
        if asked.omit == 0 {
            assert!(bytes(receiver, of) <= bytes(sender, of), "{json:#}");
        }
    }
}

/// What was received is what was sent, but for what was lost on the way or still is on it.
fn accounts_for_all(asked: &Parameters, sender: &Results, receiver: &Results, of: impl Fn(u32) -> bool) {
    for stream in receiver.streams.iter().filter(|stream| of(stream.id)) {
        let sent = sender.stream(stream.id).unwrap();
        assert!(stream.packets <= sent.packets, "{sent:?} {stream:?}");
        if asked.omit == 0 {
            assert_eq!(stream.bytes, (stream.packets - stream.errors) * u64::from(asked.len), "{stream:?}");
        }
    }
}

#[test]
fn its_client_uses_our_server() {
    if !there() {
        return;
    }
    let server = Server::start(Limits::default(), false);
    for (arguments, expected) in modes() {
        let child = iperf3(server.address, &format!("-t 1 {arguments}"));
        let ended = server.next();
        assert!(ended.outcome.is_ok(), "{arguments}: {ended:?}");
        let json = printed(child);
        let (asked, ours, theirs) = (ended.asked.unwrap(), ended.ours.unwrap(), ended.theirs.unwrap());
        let told =
            Parameters { pacing_timer: 1000, client_version: asked.client_version.clone(), ..expected };
        assert_eq!(asked, told, "{arguments}");
        agrees(&json, &asked, &theirs, &ours);
        if asked.transport == Transport::Udp {
            accounts_for_all(&asked, &theirs, &ours, |id| uploads(&asked, id));
            accounts_for_all(&asked, &ours, &theirs, |id| !uploads(&asked, id));
        } else if asked.direction == Direction::Upload && asked.omit == 0 {
            assert_eq!(
                bytes(&ours, |_| true),
                bytes(&theirs, |_| true),
                "{arguments}: all that was sent arrived"
            );
        }
    }
}

#[test]
fn our_client_uses_its_server() {
    if !there() {
        return;
    }
    for (arguments, asked) in modes() {
        let (address, child) = iperf3_server();
        let ended = client::run(address, &asked);
        let json = printed(child);
        assert!(ended.outcome.is_ok(), "{arguments}: {ended:?}");
        let (ours, theirs) = (ended.ours.unwrap(), ended.theirs.unwrap());
        // It prints before it hears what the client found, so it knows its own end alone.
        for up in
            [true, false].into_iter().filter(|up| theirs.streams.iter().any(|s| uploads(&asked, s.id) == *up))
        {
            let suffix = if !up && asked.direction == Direction::Both { "_bidir_reverse" } else { "" };
            let row = format!("{}{suffix}", if up { "sum_received" } else { "sum_sent" });
            let of = |id| uploads(&asked, id) == up;
            assert_eq!(json["end"][&row]["bytes"], bytes(&theirs, of), "{arguments}: {json:#}");
            let (sent, received) = if up { (&ours, &theirs) } else { (&theirs, &ours) };
            if asked.omit == 0 {
                assert!(bytes(received, of) <= bytes(sent, of), "{arguments}: {sent:?} {received:?}");
            }
            if asked.transport == Transport::Udp {
                accounts_for_all(&asked, sent, received, of);
            } else if asked.direction == Direction::Download && asked.omit == 0 {
                assert_eq!(bytes(received, of), bytes(sent, of), "{arguments}: all that was sent arrived");
            }
        }
    }
}

#[test]
fn a_number_of_bytes_ends_a_test() {
    if !there() {
        return;
    }
    let server = Server::start(Limits::default(), false);
    for (arguments, most) in [("-n 1M", 2 << 20), ("-k 5", 2 << 20), ("-n 1M -R -b 100M", u64::MAX)] {
        let json = printed(iperf3(server.address, arguments));
        let ended = server.next();
        assert!(ended.outcome.is_ok(), "{arguments}: {ended:?}");
        let received = json["end"]["sum_received"]["bytes"].as_u64().unwrap();
        assert!((500_000..most).contains(&received), "{arguments}: {received}");
        agrees(&json, &ended.asked.unwrap(), &ended.theirs.unwrap(), &ended.ours.unwrap());
    }
    let (address, child) = iperf3_server();
    let asked = Parameters { time: 0, bytes: 1 << 20, ..Parameters::default() };
    let ended = client::run(address, &asked);
    assert!(ended.outcome.is_ok(), "{ended:?}");
    assert_eq!(printed(child)["end"]["sum_received"]["bytes"], bytes(&ended.theirs.unwrap(), |_| true));
}

#[test]
fn many_use_one_port_at_once() {
    if !there() {
        return;
    }
    let server = Server::start(Limits::default(), false);
    let arguments = ["-P 2", "-u -b 1M -P 2", "-u -b 1M -R", "--bidir -b 10M", "-u -b 1M --bidir"];
    let children: Vec<_> =
        arguments.iter().cycle().take(10).map(|one| iperf3(server.address, &format!("-t 2 {one}"))).collect();
    for child in children {
        let json = printed(child);
        assert!(json["end"]["sum_received"]["bytes"].as_u64().unwrap() > 0, "{json:#}");
    }
    for _ in 0..10 {
        let ended = server.next();
        assert!(ended.outcome.is_ok(), "{ended:?}");
    }
}

#[test]
fn its_client_prints_why_it_is_refused() {
    if !there() {
        return;
    }
    let limits = Limits { time: 60, streams: 8, rate: Some(1_000_000_000) };
    let (server, full) = (Server::start(limits, false), Server::start(limits, true));
    for (server, arguments, words) in [
        (&server, "-t 61", "test duration"),
        (&server, "-P 9", "parallel streams"),
        (&server, "-b 2G", "larger than server limit"),
        (&server, "-A 0,0", "CPU affinity"),
        (&full, "-t 1", "the server is busy"),
    ] {
        let output = iperf3(server.address, arguments).wait_with_output().unwrap();
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let error = json["error"].as_str().unwrap();
        assert!(error.contains(words), "{arguments}: {error}");
        assert!(server.next().outcome.is_err());
    }
}

#[test]
fn its_client_prints_what_our_server_would() {
    if !there() {
        return;
    }
    let server = Server::start(Limits::default(), false);
    let json = printed(iperf3(server.address, "-t 1 --get-server-output -T name --extra-data more"));
    assert_eq!(json["server_output_text"], "what a server of netrig would print\n");
    let asked = server.next().asked.unwrap();
    assert_eq!((asked.title.as_deref(), asked.extra_data.as_deref()), (Some("name"), Some("more")));
    let (address, child) = iperf3_server();
    let ended = client::run(address, &Parameters { time: 1, server_output: true, ..Parameters::default() });
    assert!(ended.outcome.is_ok(), "{ended:?}");
    printed(child);
    let document: Value = serde_json::from_str(&ended.document).unwrap();
    assert!(document["server_output_json"]["end"].is_object(), "{document:#}");
}

#[test]
fn its_server_refuses_us_in_words() {
    if !there() {
        return;
    }
    // It needs the port of UDP as well, which somebody else has.
    let taken = loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        if let Ok(taken) = UdpSocket::bind(listener.local_addr().unwrap()) {
            break taken;
        }
    };
    let address = taken.local_addr().unwrap();
    let mut child = iperf3_server_at(address);
    let asked = Parameters {
        transport: Transport::Udp,
        len: 1000,
        rate: 1_000_000,
        time: 1,
        ..Parameters::default()
    };
    let ended = client::run(address, &asked);
    let error = ended.outcome.unwrap_err().to_string();
    assert!(
        error.starts_with("the server refused the test: it could not open or read a stream ("),
        "{error}"
    );
    let document: Value = serde_json::from_str(&ended.document).unwrap();
    assert_eq!((&document["error"], &document["end"]), (&error.into(), &serde_json::json!({})));
    // Of one test, but this was none.
    let _ = child.kill();
    child.wait().unwrap();
}

#[test]
fn its_server_is_busy_for_one_at_a_time() {
    if !there() {
        return;
    }
    let (address, child) = iperf3_server();
    let asked = Parameters { time: 2, rate: 8_000_000, ..Parameters::default() };
    let first = std::thread::spawn(move || client::run(address, &asked));
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let second = client::run(address, &Parameters { time: 1, ..Parameters::default() });
    let error = second.outcome.unwrap_err();
    assert!(matches!(error, SessionError::Busy | SessionError::Closed(_)), "{error}");
    assert!(first.join().unwrap().outcome.is_ok());
    printed(child);
}

/// The names of all values, with what is in a list under one.
fn names(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| names(value, &format!("{path}.{name}"), found))
        }
        Value::Array(elements) => elements.iter().for_each(|value| names(value, &format!("{path}[]"), found)),
        other => {
            let kind = match other {
                Value::Number(_) => "number",
                Value::String(_) => "text",
                _ => "flag",
            };
            found.insert(format!("{path}: {kind}"));
        }
    }
}

fn all_names(document: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    names(&serde_json::from_str(document).unwrap(), "", &mut found);
    found
}

#[test]
fn the_document_has_its_names_in_each_mode() {
    if !there() {
        return;
    }
    for (arguments, asked) in modes() {
        let (address, child) = iperf3_server();
        // A server that is still starting has no port yet.
        std::thread::sleep(std::time::Duration::from_millis(300));
        let of_client = printed(iperf3(address, &format!("-t 1 {arguments}"))).to_string();
        let of_server = printed(child).to_string();

        let server = Server::start(Limits::default(), false);
        let ours = client::run(server.address, &asked);
        assert!(ours.outcome.is_ok(), "{arguments}: {ours:?}");
        assert_eq!(all_names(&ours.document), all_names(&of_client), "client {arguments}");
        assert_eq!(all_names(&server.next().document.unwrap()), all_names(&of_server), "server {arguments}");
    }
}
