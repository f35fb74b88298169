//! Tests of netrig's server with the client of the program iperf3, and of netrig's client with the server of iperf3, in
//! every mode. If iperf3 is not installed, each test reports that it was skipped.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration as StdDuration;

use netrig_core::{Duration, Rate, Size};

use netrig_speed::admission::AdmissionLimits;
use netrig_speed::flows::{self, TestError, TestOrder, TestOutcome};
use netrig_speed::iperf3::datagram::CounterWidth;
use netrig_speed::iperf3::{ServerOutput, SessionError, TestParameters, TestResults, TestTransport};
use netrig_speed::measure::{Iperf3Order, PhaseEvent, SpeedCall, measure_iperf3};
use netrig_speed::protocol::{Carrier, DataDirection, DatagramLoad, MeasurementPhase};
use netrig_speed::request::SpeedServerSettings;
use netrig_speed::serve::{ClientProtocol, ServerOrder};
use netrig_test_support::{has, skip_unless};
use serde_json::Value;

use crate::common::{call_order, listening_at, order, serving, until};

/// The modes of a test, each as arguments of iperf3 and as netrig's parameters.
fn modes() -> Vec<(&'static str, TestParameters)> {
    let tcp = || TestParameters { time: 1, ..TestParameters::default() };
    let udp = || TestParameters { transport: TestTransport::Udp, len: 1000, rate: 2_000_000, ..tcp() };
    let (down, both) = (DataDirection::Down, DataDirection::Both);
    vec![
        ("", tcp()),
        ("-R", TestParameters { direction: down, ..tcp() }),
        ("--bidir", TestParameters { direction: both, ..tcp() }),
        ("-P 4", TestParameters { parallel: 4, ..tcp() }),
        ("-P 2 --bidir -b 8M", TestParameters { parallel: 2, direction: both, rate: 8_000_000, ..tcp() }),
        ("-b 8M", TestParameters { rate: 8_000_000, ..tcp() }),
        ("-O 1", TestParameters { omit: 1, ..tcp() }),
        ("-u -l 1000 -b 2M", udp()),
        ("-u -l 1000 -b 2M -R", TestParameters { direction: down, ..udp() }),
        ("-u -l 1000 -b 2M --bidir", TestParameters { direction: both, ..udp() }),
        ("-u -l 1000 -b 2M -P 4", TestParameters { parallel: 4, ..udp() }),
        ("-u -l 1000 -b 2M -O 1", TestParameters { omit: 1, ..udp() }),
        ("-u -l 1000 -b 2M --udp-counters-64bit", TestParameters { counter: CounterWidth::Bits64, ..udp() }),
    ]
}

/// Starts iperf3 as a client of the server at this address.
fn iperf3(server: SocketAddr, arguments: &str) -> Child {
    let mut command = Command::new("iperf3");
    command.args(["-J", "-c", &server.ip().to_string(), "-p", &server.port().to_string()]);
    command.args(arguments.split_whitespace());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Starts iperf3 as a server for one test.
fn iperf3_server() -> (SocketAddr, Child) {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    (address, iperf3_server_at(address))
}

fn iperf3_server_at(address: SocketAddr) -> Child {
    let mut command = Command::new("iperf3");
    command.args(["-J", "-s", "-1", "-B", "127.0.0.1", "-p", &address.port().to_string()]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until iperf3 ends, checks that it succeeded, and returns its output.
fn printed(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{:?}: {json:#}", output.status);
    assert_eq!(json.get("error"), None, "{json:#}");
    json
}

/// Runs netrig's client, with a reading every tenth of a second.
fn run(server: SocketAddr, asked: &TestParameters) -> Result<TestOutcome, TestError> {
    let order = TestOrder {
        server,
        host: server.ip().to_string(),
        asked: asked.clone(),
        every: Duration::from_millis(100),
    };
    let begun = std::time::Instant::now();
    loop {
        // A server that has just been started may not listen yet, so the connection is retried.
        match flows::test(&order, &AtomicBool::new(false), &mut |_, _| {}) {
            Err(TestError::Connect { .. }) if begun.elapsed() < StdDuration::from_secs(20) => {
                std::thread::sleep(StdDuration::from_millis(20));
            }
            done => return done,
        }
    }
}

fn bytes(results: &TestResults, of: impl Fn(u32) -> bool) -> u64 {
    results.streams.iter().filter(|stream| of(stream.id)).map(|stream| stream.bytes).sum()
}

fn uploads(asked: &TestParameters, id: u32) -> bool {
    asked.uploads(if id == 1 { 0 } else { id - 2 })
}

/// Checks that each datagram that was sent was received, lost, or still in flight.
fn accounts_for_all(
    asked: &TestParameters,
    sender: &TestResults,
    receiver: &TestResults,
    of: impl Fn(u32) -> bool,
) {
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
    skip_unless!(has("iperf3"));
    serving(order(1), |address, server| {
        for (number, (arguments, asked)) in (1..).zip(modes()) {
            let json = printed(iperf3(address, &format!("-t 1 {arguments} --get-server-output")));
            assert_eq!(server.tally().sessions(ClientProtocol::Iperf3), number, "{arguments}");
            until("its place is free", || server.now().measuring == 0);
            // Both ends report the same: the client's output agrees with the output of netrig's server.
            let ours = &json["server_output_json"];
            let row = |document: &Value, row: &str| document["end"][row]["bytes"].as_u64();
            for up in [true, false] {
                let suffix =
                    if !up && asked.direction == DataDirection::Both { "_bidir_reverse" } else { "" };
                let (sent, received) = (format!("sum_sent{suffix}"), format!("sum_received{suffix}"));
                let (sender, receiver) = if up { (&json, ours) } else { (ours, &json) };
                if asked.direction == (if up { DataDirection::Down } else { DataDirection::Up }) {
                    continue;
                }
                let [sent_bytes, received_bytes] = [row(sender, &sent), row(receiver, &received)];
                assert_eq!(row(&json, &sent), sent_bytes, "{arguments}: {json:#}");
                assert_eq!(row(&json, &received), received_bytes, "{arguments}: {json:#}");
                assert_eq!(row(ours, &received), received_bytes, "{arguments}: {json:#}");
                assert!(received_bytes > Some(0), "{arguments}: {json:#}");
                if asked.omit == 0 {
                    assert!(received_bytes <= sent_bytes, "{arguments}: {json:#}");
                }
                if asked.transport == TestTransport::Tcp && up && asked.omit == 0 {
                    assert_eq!(received_bytes, sent_bytes, "{arguments}: all that was sent arrived");
                }
            }
        }
        assert_eq!(server.tally().failures(), Default::default());
    });
}

#[test]
fn our_client_uses_its_server() {
    skip_unless!(has("iperf3"));
    for (arguments, asked) in modes() {
        let (address, child) = iperf3_server();
        let tested = run(address, &asked).unwrap();
        let json = printed(child);
        assert!(tested.error.is_none(), "{arguments}: {tested:?}");
        let (ours, theirs) = (tested.found.results(), tested.theirs.unwrap());
        // The iperf3 server prints before it receives the client's results, so its output has only its own counts.
        for up in
            [true, false].into_iter().filter(|up| theirs.streams.iter().any(|s| uploads(&asked, s.id) == *up))
        {
            let suffix = if !up && asked.direction == DataDirection::Both { "_bidir_reverse" } else { "" };
            let row = format!("{}{suffix}", if up { "sum_received" } else { "sum_sent" });
            let of = |id| uploads(&asked, id) == up;
            assert_eq!(json["end"][&row]["bytes"], bytes(&theirs, of), "{arguments}: {json:#}");
            let (sent, received) = if up { (&ours, &theirs) } else { (&theirs, &ours) };
            if asked.omit == 0 {
                assert!(bytes(received, of) <= bytes(sent, of), "{arguments}: {sent:?} {received:?}");
            }
            if asked.transport == TestTransport::Udp {
                accounts_for_all(&asked, sent, received, of);
            } else if asked.direction == DataDirection::Down && asked.omit == 0 {
                assert_eq!(bytes(received, of), bytes(sent, of), "{arguments}: all that was sent arrived");
            }
        }
    }
}

#[test]
fn options_of_its_client_are_heeded() {
    skip_unless!(has("iperf3"));
    serving(order(1), |address, server| {
        for (arguments, most) in [
            ("-n 1M", 2_u64 << 20),
            ("-k 5", 2 << 20),
            ("-n 1M -R -b 100M", u64::MAX),
            ("-t 1 -w 64K -N -M 1000 -S 0x28", u64::MAX),
            ("-t 1 -C reno -R", u64::MAX),
            ("-t 1 -l 1000 -R", u64::MAX),
            ("-t 1 -u -b 0 -l 1400 -R", u64::MAX),
            ("-t 1 -u -b 1M -l 16", u64::MAX),
            ("-t 1 -Z --fq-rate 10M -R", u64::MAX),
        ] {
            let json = printed(iperf3(address, arguments));
            let received = json["end"]["sum_received"]["bytes"].as_u64().unwrap();
            assert!((1..most).contains(&received), "{arguments}: {received}");
            if arguments.contains("-C") {
                assert_eq!(json["end"]["sender_tcp_congestion"], "reno");
            }
            until("its place is free", || server.now().measuring == 0);
        }
        let output = iperf3(address, "-t 1 -R -C cubicle").wait_with_output().unwrap();
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(json["error"].as_str().unwrap().contains("congestion"), "{json:#}");
        until("its place is free", || server.now().measuring == 0);
    });
}

#[test]
fn ten_use_one_port_at_once() {
    skip_unless!(has("iperf3"));
    serving(order(10), |address, server| {
        let arguments = ["-P 2", "-u -b 1M -P 2", "-u -b 1M -R", "--bidir -b 10M", "-u -b 1M --bidir"];
        let children: Vec<_> =
            arguments.iter().cycle().take(10).map(|one| iperf3(address, &format!("-t 3 {one}"))).collect();
        until("ten at once", || server.now().measuring == 10);
        for child in children {
            let json = printed(child);
            assert!(json["end"]["sum_received"]["bytes"].as_u64().unwrap() > 0, "{json:#}");
        }
        assert_eq!(server.tally().failures(), Default::default());
    });
}

#[test]
fn its_client_prints_why_it_is_refused() {
    skip_unless!(has("iperf3"));
    let limits = AdmissionLimits {
        max_time: Duration::from_secs(60),
        max_rate: Some(Rate::from_bits_per_s(1_000_000_000)),
        ..order(1).limits
    };
    let refused = |address: SocketAddr, arguments: &str, words: &str| {
        let output = iperf3(address, arguments).wait_with_output().unwrap();
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let error = json["error"].as_str().unwrap_or_else(|| panic!("{arguments}: {json:#}"));
        assert!(error.contains(words), "{arguments}: {error}");
    };
    serving(ServerOrder { limits, ..order(1) }, |address, server| {
        refused(address, "-t 61", "test duration");
        refused(address, "-b 2G", "larger than server limit");
        refused(address, "-A 0,0", "CPU affinity");
        let first = iperf3(address, "-t 2 -b 1M");
        until("the first is let in", || server.now().measuring == 1);
        refused(address, "-t 1", "the server is busy");
        printed(first);
        let refusals = server.tally().refusals();
        assert_eq!(refusals.get(&(ClientProtocol::Iperf3, "busy")), Some(&1), "{refusals:?}");
    });
    let much = AdmissionLimits { max_size: Size::from_bytes(2_000_000), ..order(1).limits };
    serving(ServerOrder { limits: much, ..order(1) }, |address, server| {
        for arguments in ["-t 20", "-t 20 -R", "-t 20 -u -b 100M", "-t 20 -u -b 100M -R"] {
            refused(address, arguments, "larger than server limit");
            until("its place is free", || server.now().measuring == 0 && server.now().connections == 0);
        }
        let failures = server.tally().failures();
        assert_eq!(failures.get("iperf3: the session exceeded its limit of bytes"), Some(&4), "{failures:?}");
    });
}

/// An iperf3 client cannot use a server that requires a key, unless the server is open to all clients.
#[test]
fn its_client_has_no_key() {
    let key = netrig_probe::stamp::HmacKey::new(b"0123456789abcdef");
    let Some(address) = outward() else {
        eprintln!("skipped: needs an address beside those of loopback");
        return;
    };
    let closed = ServerOrder { settings: listening_at(address), keys: key.clone().into(), ..order(4) };
    serving(closed, |address, server| {
        let error =
            run(address, &TestParameters { time: 1, ..TestParameters::default() }).unwrap_err().to_string();
        assert!(error.contains("a user's name and password"), "{error}");
        // The client is informed before the server counts the failure.
        until("it is counted", || !server.tally().failures().is_empty());
        assert_eq!(server.tally().failures().get("a client of iperf3, which cannot prove a key"), Some(&1));
    });
    let free = TcpListener::bind((address, 0)).and_then(|listener| listener.local_addr()).unwrap().port();
    let settings = SpeedServerSettings { iperf3_port: Some(free), open: true, ..listening_at(address) };
    let open = ServerOrder { settings, keys: key.into(), ..order(4) };
    serving(open, |_, server| {
        let tested =
            run(server.addresses()[1], &TestParameters { time: 1, ..TestParameters::default() }).unwrap();
        assert!(tested.error.is_none(), "{tested:?}");
    });
}

/// An address of this host that other hosts may reach, if there is one.
fn outward() -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // Nothing is sent. The kernel only selects the source address.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    match socket.local_addr().ok()? {
        SocketAddr::V4(local) if !local.ip().is_loopback() => Some(*local.ip()),
        _ => None,
    }
}

#[test]
fn its_server_refuses_us_in_words() {
    skip_unless!(has("iperf3"));
    // The server also needs the UDP port, which is occupied by this socket.
    let taken = loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        if let Ok(taken) = UdpSocket::bind(listener.local_addr().unwrap()) {
            break taken;
        }
    };
    let address = taken.local_addr().unwrap();
    let mut child = iperf3_server_at(address);
    let asked = TestParameters {
        transport: TestTransport::Udp,
        len: 1000,
        rate: 1_000_000,
        time: 1,
        ..Default::default()
    };
    let error = run(address, &asked).unwrap_err().to_string();
    assert!(
        error.starts_with("the server refused the test: it could not open or read a stream ("),
        "{error}"
    );
    // The server waits for its single test, which did not start, so it is killed.
    let _ = child.kill();
    child.wait().unwrap();
}

#[test]
fn its_server_is_busy_for_one_at_a_time() {
    skip_unless!(has("iperf3"));
    let (address, child) = iperf3_server();
    let asked = TestParameters { time: 2, rate: 8_000_000, ..TestParameters::default() };
    let first = std::thread::spawn(move || run(address, &asked));
    std::thread::sleep(StdDuration::from_millis(1500));
    let error = run(address, &TestParameters { time: 1, ..TestParameters::default() }).unwrap_err();
    assert!(matches!(error, TestError::Session(SessionError::Busy | SessionError::Closed(_))), "{error}");
    assert!(first.join().unwrap().unwrap().error.is_none());
    printed(child);
}

/// Datagrams go only to an address that has requested them over TCP.
#[test]
fn nothing_is_sent_to_who_did_not_ask() {
    use std::io::{Read as _, Write as _};
    serving(order(4), |address, server| {
        let connect =
            |from: &UdpSocket| drop(from.send_to(&netrig_speed::iperf3::datagram::CONNECT, address));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let stranger = UdpSocket::bind("127.0.0.2:0").unwrap();
        let hears = |socket: &UdpSocket| {
            socket.set_read_timeout(Some(StdDuration::from_millis(300))).unwrap();
            socket.recv(&mut [0; 2000]).is_ok()
        };
        connect(&socket);
        assert!(!hears(&socket), "nobody has asked");
        // A download is requested from 127.0.0.1. It cannot be directed to another address.
        let mut control = TcpStream::connect(address).unwrap();
        let asked = TestParameters {
            transport: TestTransport::Udp,
            direction: DataDirection::Down,
            len: 1000,
            rate: 1_000_000,
            time: 5,
            ..TestParameters::default()
        };
        let json = asked.write();
        let mut word = [0];
        control.write_all(b"abcdefghijklmnopqrstuvwxyz234567abcd\0").unwrap();
        control.read_exact(&mut word).unwrap();
        control.write_all(&[&(json.len() as u32).to_be_bytes()[..], &json].concat()).unwrap();
        control.read_exact(&mut word).unwrap();
        assert_eq!(word[0], netrig_speed::iperf3::TestState::CreateStreams.byte());
        connect(&stranger);
        assert!(!hears(&stranger), "another address has not asked");
        connect(&socket);
        assert!(hears(&socket), "it has asked");
        assert_eq!(server.tally().strays.load(std::sync::atomic::Ordering::Relaxed), 2);
    });
}

/// Collects the names of all values. The elements of a list have the same name.
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
    skip_unless!(has("iperf3"));
    for (arguments, asked) in modes() {
        let (address, child) = iperf3_server();
        // A server that is still starting does not listen yet.
        std::thread::sleep(std::time::Duration::from_millis(300));
        let of_client = printed(iperf3(address, &format!("-t 1 {arguments}"))).to_string();
        let of_server = printed(child).to_string();

        serving(order(1), |address, _| {
            let ours = run(address, &asked).unwrap();
            assert!(ours.error.is_none(), "{arguments}: {ours:?}");
            assert_eq!(all_names(&ours.document().json()), all_names(&of_client), "client {arguments}");
            let asked = TestParameters { server_output: true, ..asked };
            let Some(ServerOutput::Json(server)) =
                run(address, &asked).unwrap().theirs.unwrap().server_output
            else {
                panic!("{arguments}: what our server would print")
            };
            assert_eq!(all_names(&server.to_string()), all_names(&of_server), "server {arguments}");
        });
    }
}

/// The document of a measurement with netrig's own protocol has the same names as a document of iperf3.
#[test]
fn a_measurement_of_ours_is_read_as_one_of_iperf3() {
    skip_unless!(has("iperf3"));
    let udp = DatagramLoad::Fixed { bits_per_s: 2_000_000 };
    for (arguments, carrier) in [
        ("-P 2", Carrier::Tcp { way: DataDirection::Up, streams: 2, congestion: None }),
        ("-R", Carrier::Tcp { way: DataDirection::Down, streams: 1, congestion: None }),
        ("--bidir", Carrier::Tcp { way: DataDirection::Both, streams: 1, congestion: None }),
        ("-u -l 1000 -b 2M", Carrier::Udp { way: DataDirection::Up, size: 1000, load: udp }),
        ("-u -l 1000 -b 2M -R", Carrier::Udp { way: DataDirection::Down, size: 1000, load: udp }),
    ] {
        serving(order(2), |address, _| {
            let theirs = printed(iperf3(address, &format!("-t 1 {arguments}"))).to_string();

            let (never, mut no_listener) = (AtomicBool::new(false), |_: PhaseEvent<'_>| {});
            let mut call = SpeedCall::connect(call_order(address, None), &never, &mut |_, _| {}).unwrap();
            let carriage = call.carry(phase(carrier), &never, &mut no_listener).unwrap();
            let ours = carriage.document("127.0.0.1", address, call.ends()[0]).unwrap().json();
            // An end that does not send data does not report its congestion control.
            let told = |document| {
                let mut names = all_names(document);
                names.retain(|name| !name.ends_with("_tcp_congestion: text"));
                names
            };
            assert_eq!(told(&ours), told(&theirs), "{arguments}: {ours}");
            let json: Value = serde_json::from_str(&ours).unwrap();
            assert!(json["end"]["sum_received"]["bytes"].as_u64() > Some(0), "{ours}");
            if arguments.starts_with("-u") {
                let rows = json["intervals"].as_array().unwrap().iter().map(|rows| &rows["sum"]);
                let changes = rows.chain([&json["end"]["sum"]]).filter_map(|row| row["jitter_ms"].as_f64());
                assert!(changes.clone().count() > 0 && changes.clone().all(|ms| ms > 0.0), "{ours}");
            }
        });
    }
}

const fn phase(carrier: Carrier) -> MeasurementPhase {
    MeasurementPhase::new(carrier, Duration::from_secs(1), Duration::from_millis(100))
}

fn iperf3_order(server: SocketAddr, carriers: &[Carrier]) -> Iperf3Order {
    Iperf3Order { server, host: "h".into(), phases: carriers.iter().cloned().map(phase).collect() }
}

/// The report of a measurement against an iperf3 server.
#[test]
fn its_server_is_measured_as_ours_is() {
    skip_unless!(has("iperf3"));
    serving(order(1), |address, server| {
        let udp = DatagramLoad::Fixed { bits_per_s: 2_000_000 };
        let carriers = [
            Carrier::Tcp { way: DataDirection::Down, streams: 2, congestion: None },
            Carrier::Tcp { way: DataDirection::Both, streams: 1, congestion: None },
            Carrier::Udp { way: DataDirection::Up, size: 1000, load: udp },
            Carrier::Udp { way: DataDirection::Down, size: 1000, load: udp },
        ];
        let order = iperf3_order(address, &carriers);

        let (report, documents) = measure_iperf3(&order, &AtomicBool::new(false), &mut |_| {}).unwrap();
        assert_eq!(
            (report.partial, documents.len()),
            (false, 4),
            "{:?}",
            documents.last().map(|last| &last.error)
        );
        let ways: Vec<_> = report.phases.iter().map(|phase| phase.way).collect();
        assert_eq!(
            ways,
            [
                DataDirection::Down,
                DataDirection::Down,
                DataDirection::Up,
                DataDirection::Up,
                DataDirection::Down
            ]
        );
        for phase in &report.phases {
            let throughput = phase.throughput.unwrap_or_else(|| panic!("{phase:?}"));
            assert!(throughput.bytes > 0 && throughput.lasted_s >= 0.9, "{phase:?}");
            let ours = if phase.way == DataDirection::Up { &phase.sender } else { &phase.receiver };
            assert!(ours.threads_ns > 0 && ours.ran_ns > 0 && !ours.host.processors.is_empty(), "{phase:?}");
        }
        // For data that this end sends, its kernel reports all counters; for received data, only the round-trip time.
        let told = |at: usize| report.phases[at].connections.unwrap();
        assert!(told(2).busy > Some(0.0) && told(2).window_limited.is_some() && told(2).cwnd.is_some());
        for down in [0, 1] {
            assert!(told(down).busy.is_none() && told(down).window_limited.is_none(), "{:?}", told(down));
            assert!(told(down).least_round_trip_s.is_some(), "{:?}", told(down));
        }
        let datagrams = &report.phases[3];
        let (sent, came) = (datagrams.sender.datagrams.unwrap(), datagrams.receiver.datagrams.unwrap());
        assert_eq!(came.received + came.lost, sent.sent, "{datagrams:?}");
        // The server does not report reordered and duplicated datagrams.
        assert_eq!((came.reordered, came.duplicated), (None, None));
        let here = report.phases[4].receiver.datagrams.unwrap();
        assert_eq!((here.reordered, here.duplicated), (Some(0), Some(0)));
        assert!(came.jitter_s > Some(0.0) && here.jitter_s > Some(0.0), "{came:?} {here:?}");
        assert_eq!(server.tally().failures(), Default::default());
    });
    let search = Carrier::Udp { way: DataDirection::Up, size: 1000, load: DatagramLoad::Told };
    let order = iperf3_order("127.0.0.1:1".parse().unwrap(), &[search]);

    let error = measure_iperf3(&order, &AtomicBool::new(false), &mut |_| {}).unwrap_err().to_string();
    assert!(error.starts_with("iperf3 has no search"), "{error}");
}
