//! The limits that `netrig speed` names, compared with limits that the test has created ("planted"). The tests need
//! root on Linux; otherwise each test prints that it was skipped.
#![cfg(target_os = "linux")]

use std::io::Write as _;
use std::process::{Command, Stdio};

use netrig_test_support::skip_unless;
use serde_json::Value;

use crate::common::Guarded;
use crate::common::machine::can;
use crate::common::speed_lab::{Line, SpeedLab};

/// A planted cause: the settings that create a limit, and the limit that must be named.
#[derive(Clone, Copy)]
struct Planted {
    /// The kind of the limit.
    cause: &'static str,
    /// The end that has the limit, `client` or `server`; `None` if it is neither.
    end: Option<&'static str>,
    line: Line,
    /// Shell command in the namespace of the client.
    client: &'static str,
    server: &'static str,
    /// Command prefixes of the client and of the server.
    before: [&'static [&'static str]; 2],
    /// The direction, and further arguments.
    arguments: &'static [&'static str],
    /// Whether other programs use all processors.
    burnt: bool,
}

const fn line(mbit: f64, delay_ms: f64, loss: f64) -> Line {
    Line { mbit: [mbit, mbit], delay_ms, queue_ms: 40.0, loss }
}

const PLAIN: Planted = Planted {
    cause: "line",
    end: None,
    line: line(100.0, 20.0, 0.0),
    client: "true",
    server: "true",
    before: [&[], &[]],
    arguments: &["--down"],
    burnt: false,
};

const SMALL_WINDOW: &str = "sysctl -qw net.ipv4.tcp_rmem='4096 16384 65536'";
const SMALL_BUFFER: &str = "sysctl -qw net.ipv4.tcp_wmem='4096 16384 65536'";
const SHORT_PACKETS: &str = "ip link set line mtu 400";
/// Received packets above 1400 B are dropped without an ICMP error.
const BLACK_HOLE: &str = "nft 'add table inet t; add chain inet t c { type filter hook prerouting priority 0; }; \
                          add rule inet t c meta length gt 1400 drop'";
/// A policer of 20 Mbit/s without a queue. The kernel's token bucket holds the bytes of a second and 30 kB (nft_limit).
const POLICER: &str = "nft 'add table inet t; add chain inet t c { type filter hook output priority 0; }; \
                       add rule inet t c limit rate over 2500 kbytes/second burst 30 kbytes drop'";
/// Receive buffers with room for two or three datagrams.
const SMALL_SOCKET: [&[&str]; 2] = [
    &["--down", "--udp", "200 Mbit/s", "--size", "1400 B", "--receive-buffer", "4 KB"],
    &["--down", "--udp", "100 Mbit/s", "--poisson", "--size", "1000 B", "--receive-buffer", "3 KB"],
];
const IDLE: &[&str] = &["nice", "-n", "19"];
const CUBIC: [&[&str]; 2] = [&["--down", "--congestion", "cubic"], &["--up", "--congestion", "cubic"]];

/// The planted causes: three variants of each kind, but only two of the policers, the buffers and the return path.
const PLANTED: [Planted; 24] = [
    Planted { line: line(10.0, 1.0, 0.0), ..PLAIN },
    Planted { line: Line { mbit: [100.0, 12.5], ..line(100.0, 20.0, 0.0) }, arguments: &["--up"], ..PLAIN },
    Planted { line: line(50.0, 40.0, 0.0), arguments: &["--down", "-P", "1"], ..PLAIN },
    Planted { cause: "way-back", line: SLOW_BACK[0], ..PLAIN },
    Planted { cause: "way-back", line: SLOW_BACK[1], ..PLAIN },
    Planted { cause: "loss", line: line(100.0, 40.0, 0.01), arguments: CUBIC[0], ..PLAIN },
    Planted { cause: "loss", line: line(50.0, 40.0, 0.01), arguments: CUBIC[1], ..PLAIN },
    Planted { cause: "loss", line: line(100.0, 20.0, 0.02), arguments: CUBIC[0], ..PLAIN },
    Planted { cause: "window", end: Some("client"), client: SMALL_WINDOW, ..PLAIN },
    Planted { cause: "window", end: Some("server"), server: SMALL_WINDOW, arguments: &["--up"], ..PLAIN },
    Planted { cause: "window", end: Some("client"), arguments: &["--down", "--window", "30 KB"], ..PLAIN },
    Planted {
        cause: "send-buffer",
        end: Some("client"),
        client: SMALL_BUFFER,
        arguments: &["--up"],
        ..PLAIN
    },
    Planted { cause: "send-buffer", end: Some("server"), server: SMALL_BUFFER, ..PLAIN },
    Planted { cause: "socket-buffer", end: Some("client"), arguments: SMALL_SOCKET[0], line: FAST, ..PLAIN },
    Planted { cause: "socket-buffer", end: Some("client"), arguments: SMALL_SOCKET[1], line: FAST, ..PLAIN },
    Planted { cause: "policer", server: POLICER, arguments: CUBIC[0], ..PLAIN },
    Planted { cause: "policer", client: POLICER, arguments: CUBIC[1], ..PLAIN },
    Planted {
        cause: "processor",
        end: Some("client"),
        line: FAST,
        before: [IDLE, &[]],
        burnt: true,
        ..PLAIN
    },
    Planted {
        cause: "processor",
        end: Some("server"),
        line: FAST,
        before: [&[], IDLE],
        burnt: true,
        ..PLAIN
    },
    Planted {
        cause: "processor",
        end: Some("client"),
        line: FAST,
        before: [IDLE, &[]],
        burnt: true,
        arguments: &["--up"],
        ..PLAIN
    },
    Planted {
        cause: "processor",
        end: Some("server"),
        line: FAST,
        before: [&[], IDLE],
        burnt: true,
        arguments: &["--up"],
        ..PLAIN
    },
    Planted {
        cause: "packet-size",
        client: SHORT_PACKETS,
        server: SHORT_PACKETS,
        line: line(10.0, 5.0, 0.0),
        ..PLAIN
    },
    Planted { cause: "black-hole", client: BLACK_HOLE, ..PLAIN },
    Planted { cause: "black-hole", server: BLACK_HOLE, arguments: &["--up"], ..PLAIN },
];

/// Asymmetric lines: the upstream has room for the acknowledgements of about half and about a third of the downstream
/// rate (RFC 3449 section 2.1).
const SLOW_BACK: [Line; 2] = [
    Line { mbit: [10.0, 0.1], queue_ms: 300.0, ..line(10.0, 5.0, 0.0) },
    Line { mbit: [50.0, 0.3], queue_ms: 200.0, ..line(50.0, 10.0, 0.0) },
];

const FAST: Line = line(900.0, 1.0, 0.0);

/// Starts programs, each of which uses a whole processor.
fn burning(count: usize) -> Vec<Guarded> {
    let burn = || Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn();
    (0..count).map(|_| Guarded(burn().expect("a shell starts"))).collect()
}

/// The measured server.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    Netrig,
    Iperf3,
}

/// The document of `netrig speed` with a planted cause.
fn told(planted: &Planted, of: Of) -> Value {
    let mut lab = SpeedLab::build(planted.line);
    lab.set("client", planted.client);
    lab.set("server", planted.server);
    let flags: &[&str] = match of {
        Of::Netrig => {
            lab.serve(planted.before[1]);
            &["--time", "3s"]
        }
        Of::Iperf3 => {
            lab.serve_iperf3();
            &["--time", "3s", "--iperf3"]
        }
    };
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let burning = planted.burnt.then(|| burning(2 * processors));
    let document = lab.measure(planted.before[0], &[planted.arguments, flags].concat());
    drop(burning);
    lab.close();
    document
}

/// Whether `netrig speed` names the planted cause and its end. Prints the verdict.
fn is_named(planted: &Planted, of: Of) -> bool {
    let document = told(planted, of);
    let verdict = &document["verdicts"][0];
    let limit = &verdict["limit"];
    let is_right = limit["kind"] == planted.cause && planted.end.is_none_or(|wanted| limit["end"] == wanted);
    let sign = if is_right { " " } else { "!" };
    let planted = format!("{} {}", planted.cause, planted.end.unwrap_or_default());
    let mut err = std::io::stderr();
    let _ = writeln!(err, "{sign} {planted:<20} {}: {}", verdict["sentence"], verdict["proof"]);
    if !is_right {
        let _ = writeln!(err, "# {}", document["phases"]);
    }
    is_right
}

/// The most frequent causes. The rules for all other causes are tested in virtual time (`netrig_speed::cause`).
#[test]
fn a_planted_cause_of_the_common_kinds_is_named() {
    skip_unless!(can(&["ip", "sysctl"]));
    ["line", "loss"].into_iter().for_each(first_is_named);
}

/// Checks that the first planted cause of this kind is named.
fn first_is_named(cause: &str) {
    let planted = PLANTED.iter().find(|planted| planted.cause == cause).expect("it is among them");
    assert!(is_named(planted, Of::Netrig), "{cause}");
}

/// Tests that need a processor without other processes.
mod alone {
    use super::*;

    /// If other programs use the processors, the receiver reads late, and a processor is rightly named.
    #[test]
    fn a_planted_window_is_named() {
        if can(&["ip", "sysctl"]) {
            first_is_named("window");
        }
    }

    #[test]
    fn a_planted_processor_is_named() {
        if can(&["ip", "nice", "sysctl"]) {
            first_is_named("processor");
        }
    }
}

mod validate {
    use super::*;

    #[test]
    #[ignore = "six minutes: make validate runs it"]
    fn what_was_planted_is_named() {
        skip_unless!(can(&["ip", "nft", "nice", "sysctl"]));
        let wrong = PLANTED.iter().filter(|planted| !is_named(planted, Of::Netrig)).count();
        assert!(wrong <= 1, "{wrong} of {} were named wrongly", PLANTED.len());
    }
}

/// Causes that can be recognised without reports of the server. An iperf3 server does not report the values of its
/// kernel. The kernel of the client provides them for uploads, and the round-trip time for downloads.
const PLANTED_OF_IPERF3: [Planted; 5] = [
    Planted { line: line(10.0, 1.0, 0.0), ..PLAIN },
    Planted { line: line(10.0, 5.0, 0.0), arguments: &["--up"], ..PLAIN },
    Planted { cause: "loss", line: line(50.0, 40.0, 0.01), arguments: CUBIC[1], ..PLAIN },
    Planted { cause: "window", end: Some("server"), server: SMALL_WINDOW, arguments: &["--up"], ..PLAIN },
    Planted {
        cause: "send-buffer",
        end: Some("client"),
        client: SMALL_BUFFER,
        arguments: &["--up"],
        ..PLAIN
    },
];

#[test]
fn what_was_planted_is_named_of_a_server_of_iperf3() {
    skip_unless!(can(&["ip", "ss", "iperf3", "sysctl"]));
    let wrong = PLANTED_OF_IPERF3.iter().filter(|planted| !is_named(planted, Of::Iperf3)).count();
    assert_eq!(wrong, 0);
}
