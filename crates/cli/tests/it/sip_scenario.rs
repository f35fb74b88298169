//! `netrig sip scenario`: scenario files of SIPp are read, and errors are reported with their file and line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_test_support::skip_unless;

use crate::common::as_json;
use crate::common::free_port::free_port;
use crate::common::machine::skipped;
use crate::common::sip_server::SipServer;
use crate::common::{Guarded, netrig, text};

#[test]
fn what_is_wrong_in_a_scenario_has_its_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("call.xml"),
        "<?xml version=\"1.0\"?>\n<scenario name=\"call\">\n<send><![CDATA[\nOPTIONS sip:[tenant] SIP/2.0\n]]></send>\n\
         <recv response=\"200\" next=\"nowhere\"/>\n</scenario>\n",
    )
    .unwrap();
    std::fs::write(
        folder.path().join("pattern.xml"),
        "<?xml version=\"1.0\"?>\n<scenario>\n<recv request=\"INVITE\"><action>\n<ereg regexp=\"(\" search_in=\"msg\" \
         assign_to=\"1\"/></action></recv>\n<Reference variables=\"1\"/></scenario>\n",
    )
    .unwrap();
    for (arguments, code, words) in [
        (&["call.xml"][..], 2, "call.xml: line 3: there is no keyword [tenant]"),
        (&["call.xml", "--key", "tenant=acme"], 2, "call.xml: line 6: there is no label nowhere"),
        (&["call.xml", "--key", "tenant"], 2, "expected NAME=VALUE"),
        (&["pattern.xml"], 2, "pattern.xml: line 3: the regular expression `(`"),
        (&["absent.xml"], 2, "cannot read absent.xml"),
    ] {
        let output = netrig(folder.path(), &[&["sip", "scenario", "check"][..], arguments].concat());
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(code) && told.contains(words), "{arguments:?}: {told}");
    }
}

/// The ten built-in scenarios of SIPp.
#[test]
fn the_scenarios_of_sipp_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let names = [
        "uac", "uas", "regexp", "branchc", "branchs", "uac_pcap", "3pcc-C-A", "3pcc-C-B", "3pcc-A", "3pcc-B",
    ];
    skip_unless!(written_by_sipp(folder.path(), &names));
    for name in names {
        let output = netrig(folder.path(), &["sip", "scenario", "check", &format!("{name}.xml")]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
        let told = text(&output.stdout);
        assert!(!told.contains("warning"), "{name}: {told}");
    }
}

/// Writes built-in scenarios of SIPp, which SIPp prints. Returns false if SIPp is not installed.
fn written_by_sipp(folder: &Path, names: &[&str]) -> bool {
    for name in names {
        let Ok(printed) = Command::new("sipp").args(["-sd", name]).output() else {
            skipped("sipp");
            return false;
        };
        std::fs::write(folder.join(format!("{name}.xml")), &printed.stdout).unwrap();
    }
    true
}

/// A SIPp process that ends with the test.
fn sipp(folder: &Path, arguments: &[&str]) -> Guarded {
    let mut command = Command::new("sipp");
    command.args(arguments).args(["-nostdin", "-timeout", "60"]).current_dir(folder);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Guarded(child.expect("sipp starts"))
}

/// netrig is the caller and the callee, over each transport.
#[test]
fn a_scenario_calls_and_another_answers() {
    let folder = tempfile::tempdir().unwrap();
    skip_unless!(written_by_sipp(folder.path(), &["uac", "uas"]));
    let uas = folder.path().join("uas.xml");
    for transport in ["udp", "tcp", "tls"] {
        let listen = format!("{transport}:127.0.0.1:0");
        let server = SipServer::start(&["scenario", uas.to_str().unwrap(), "--listen", &listen, "--json"]);
        let target = format!("{transport}:{}", server.address(transport));
        for connections in [&[][..], &["--connections", "per-attempt"]] {
            if transport == "udp" && !connections.is_empty() {
                continue;
            }
            let load =
                ["sip", "load", &target, "-sf", "uac.xml", "--rate", "100/s", "--count", "50", "--json"];
            let output = netrig(folder.path(), &[&load[..], connections].concat());
            let told = as_json(&output);
            assert_eq!((&told["succeeded"], &told["failed"]), (&50.into(), &0.into()), "{transport}: {told}");
            // If a busy machine makes the caller late, the run is invalid, but its calls are correct.
            let valid = told["valid"].as_bool().unwrap();
            assert_eq!(output.status.code(), Some(if valid { 0 } else { 3 }), "{transport}: {told}");
            // The steps are INVITE, 100, 180, 183, 200, ACK, the pause, BYE and 200.
            let done: Vec<u64> =
                told["steps"].as_array().unwrap().iter().map(|step| step["done"].as_u64().unwrap()).collect();
            assert_eq!(done, [50, 0, 50, 0, 50, 50, 50, 50, 50], "{transport}");
            assert_eq!(told["delays"][0]["n"], 50, "{transport}");
        }
        let served = server.finish();
        let calls = if transport == "udp" { 50 } else { 100 };
        // The last call may still wait for retransmissions.
        assert_eq!(
            (&served["begun"], &served["strays"]),
            (&calls.into(), &0.into()),
            "{transport}: {served}"
        );
    }
}

/// A server over TCP with one connection at a time: it accepts the next one after the peer has closed the present one.
/// Returns the number of connections.
fn one_connection_after_the_other(listener: &TcpListener, is_over: &AtomicBool) -> usize {
    let mut connections = 0;
    loop {
        let (stream, _) = listener.accept().unwrap();
        if is_over.load(Ordering::Relaxed) {
            return connections;
        }
        connections += 1;
        let mut writer = stream.try_clone().unwrap();
        let mut fields = Vec::new();
        for line in BufReader::new(stream).lines() {
            let line = line.unwrap();
            let is_copied = ["Via", "From", "To", "Call-ID", "CSeq"]
                .iter()
                .any(|name| line.split_once(':').is_some_and(|(own, _)| own == *name));
            if is_copied {
                fields.push(line);
            } else if line.is_empty() {
                let answer =
                    format!("SIP/2.0 200 OK\r\n{}\r\nContent-Length: 0\r\n\r\n", fields.join("\r\n"));
                writer.write_all(answer.as_bytes()).unwrap();
                fields.clear();
            }
        }
    }
}

/// Checks how many connections the calls of one user open one after the other. If a connection stayed open too long,
/// the next call would get no answer.
#[test]
fn connections_of_calls_are_closed_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let options = "<send><![CDATA[
OPTIONS sip:b@[remote_ip] SIP/2.0
Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
From: <sip:a@[local_ip]>;tag=[call_number]
To: <sip:b@[remote_ip]>
Call-ID: [call_id]
CSeq: [cseq] OPTIONS
Max-Forwards: 70
Content-Length: 0

]]></send><recv response=\"200\"/>";
    for (sets_destination, closes, arguments, expected) in [
        (false, false, &["--connections", "per-attempt"][..], 3),
        (false, false, &[], 1),
        // Each call opens a second connection after it has closed the first.
        (false, true, &["--connections", "per-attempt"], 6),
        // The next call uses the connection that the previous call has reopened.
        (false, true, &[], 4),
        (true, false, &[], 3),
        (true, true, &[], 6),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let unused = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = if sets_destination { unused.local_addr().unwrap() } else { address };
        let destination = if sets_destination {
            format!(
                "<nop><action><setdest host=\"127.0.0.1\" port=\"{}\" protocol=\"tcp\"/></action></nop>",
                address.port()
            )
        } else {
            String::new()
        };
        let closing =
            if closes { format!("<nop><action><closecon/></action></nop>{options}") } else { String::new() };
        let text = format!("<?xml version=\"1.0\"?>\n<scenario>{destination}{options}{closing}</scenario>");
        std::fs::write(folder.path().join("call.xml"), text).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let told_so = Arc::clone(&is_over);
        let served = std::thread::spawn(move || one_connection_after_the_other(&listener, &told_so));
        let target = format!("tcp:{server}");
        let load = ["sip", "load", &target, "-sf", "call.xml", "--users", "1", "--count", "3", "--json"];
        let output = netrig(folder.path(), &[&load[..], arguments].concat());
        let told = as_json(&output);
        is_over.store(true, Ordering::Relaxed);
        drop(std::net::TcpStream::connect(address).unwrap());
        let connections = served.join().unwrap();
        let words = format!("setdest {sets_destination}, closecon {closes}, {arguments:?}: {told}");
        assert_eq!((&told["succeeded"], &told["failed"]), (&3.into(), &0.into()), "{words}");
        assert_eq!(connections, expected, "{words}");
    }
}

/// The other side of each call is SIPp with a built-in scenario.
#[test]
fn scenarios_call_sipp_and_answer_it() {
    let folder = tempfile::tempdir().unwrap();
    skip_unless!(written_by_sipp(folder.path(), &["uac", "uas", "branchc", "branchs", "regexp"]));
    for (own, other, kind) in [
        ("uac", "uas", "udp"),
        ("uac", "uas", "tcp"),
        ("branchc", "branchs", "udp"),
        ("regexp", "uas", "udp"),
    ] {
        let port = free_port().to_string();
        let way = if kind == "udp" { "u1" } else { "t1" };
        let _sipp = sipp(folder.path(), &["-sn", other, "-i", "127.0.0.1", "-p", &port, "-t", way]);
        let target = format!("{kind}:127.0.0.1:{port}");
        // SIPp may not listen yet. Over UDP the first request is then retransmitted, and over TCP the call is repeated.
        let file = format!("{own}.xml");
        let load =
            ["sip", "load", &target, "--scenario-file", &file, "--rate", "50/s", "--count", "20", "--json"];
        let told = loop {
            let output = netrig(folder.path(), &load);
            let told = as_json(&output);
            if kind == "udp" || !told["failures"].to_string().contains("refused") {
                break told;
            }
        };
        assert_eq!((&told["succeeded"], &told["failed"]), (&20.into(), &0.into()), "{own}: {told}");
    }
    for (own, other, kind) in [("uas", "uac", "udp"), ("uas", "uac", "tcp"), ("branchs", "branchc", "udp")] {
        let file = folder.path().join(format!("{own}.xml"));
        let listen = format!("{kind}:127.0.0.1:0");
        let server = SipServer::start(&["scenario", file.to_str().unwrap(), "--listen", &listen, "--json"]);
        let port = free_port().to_string();
        let way = if kind == "udp" { "u1" } else { "t1" };
        let sipp = Command::new("sipp")
            .args(["-sn", other, server.address(kind), "-i", "127.0.0.1", "-p", &port, "-t", way])
            .args(["-m", "20", "-r", "50", "-nostdin", "-timeout", "30"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(sipp.status.code(), Some(0), "{other}: {}", text(&sipp.stdout));
        let served = server.finish();
        assert_eq!(served["begun"], 20, "{own}: {served}");
    }
}

#[test]
fn what_a_scenario_must_not_do_is_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let scenario =
        |steps: &str| format!("<?xml version=\"1.0\"?>\n<scenario name=\"x\">\n{steps}\n</scenario>\n");
    let send = "<send><![CDATA[\nOPTIONS sip:[remote_ip] SIP/2.0\nCall-ID: [call_id]\n]]></send>";
    for (name, steps) in [
        ("send", send.to_owned()),
        ("receive", "<recv request=\"OPTIONS\"/>".to_owned()),
        ("exec", format!("{send}\n<nop><action><exec command=\"true\"/></action></nop>")),
        ("play", format!("{send}\n<nop><action><exec play_pcap_audio=\"absent.pcap\"/></action></nop>")),
        ("link", "<sendCmd><![CDATA[\nCall-ID: [call_id]\n]]></sendCmd>".to_owned()),
    ] {
        std::fs::write(folder.path().join(format!("{name}.xml")), scenario(&steps)).unwrap();
    }
    std::fs::write(folder.path().join("bad.csv"), "alice;secret\n").unwrap();
    let target = "udp:127.0.0.1:9";
    for (arguments, words) in [
        (&["load", target, "--scenario-file", "receive.xml"][..], "netrig sip serve scenario receive.xml"),
        (&["serve", "scenario", "send.xml"], "netrig sip load TARGET --scenario-file send.xml"),
        (&["load", target, "--scenario-file", "exec.xml"], "line 7: the scenario starts a program"),
        (&["load", target, "--scenario-file", "play.xml"], "line 7: cannot read absent.pcap"),
        (&["load", target, "--scenario-file", "link.xml"], "line 3: <sendCmd> needs another process"),
        (&["load", target, "-sf", "send.xml", "-inf", "bad.csv"], "bad.csv: line 1: expected SEQUENTIAL"),
        (&["load", target, "-sf", "send.xml", "-set", "x", "1"], "no <Global> variable `x`"),
        (&["load", target, "--service", "bob"], "--service belongs to a scenario"),
        (&["load", target, "-sf", "send.xml", "--callee", "own"], "cannot be used with"),
        (&["load", target, "-sf", "send.xml", "--messages", "own.toml"], "cannot be used with"),
        (&["load", target, "--media", "pcmu", "--ring", "1s"], "cannot be used with"),
        (&["load", "udp:8.8.8.8:5060", "-sf", "send.xml"], "8.8.8.8 is a public address"),
        (&["serve", "scenario", "receive.xml", "--listen", "udp:192.0.2.1:5060"], "with --open"),
    ] {
        let output = netrig(folder.path(), &[&["sip"][..], arguments].concat());
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(words), "{arguments:?}: {told}");
    }
}

/// A scenario has the same effect in SIPp's form, in netrig's own form, and when it is made from a captured call.
#[test]
fn a_scenario_is_converted_and_made_from_a_captured_call() {
    let folder = tempfile::tempdir().unwrap();
    skip_unless!(written_by_sipp(folder.path(), &["uac", "uas"]));
    let run = |arguments: &[&str]| {
        let output = netrig(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    run(&["sip", "scenario", "convert", "uac.xml", "--out", "uac.toml"]);
    run(&["sip", "scenario", "convert", "uas.xml", "--out", "uas.toml"]);
    let listed = run(&["sip", "scenario", "check", "uac.toml"]);
    assert!(listed.contains("sends INVITE, again after 500 ms"), "{listed}");
    let answers = folder.path().join("uas.toml");
    let server = SipServer::start(&["scenario", answers.to_str().unwrap(), "--listen", "udp:127.0.0.1:0"]);
    let target = format!("udp:{}", server.address("udp"));
    let load = ["sip", "load", &target, "--scenario-file", "uac.toml", "--count", "2", "--rate", "50/s"];
    run(&[&load[..], &["--keep", "all", "--keep-to", "kept"]].concat());
    let output = netrig(folder.path(), &["sip", "scenario", "from", "kept.pcapng"]);
    assert!(text(&output.stderr).contains("it has 2 calls: say which"), "{}", text(&output.stderr));
    let calls = run(&["sip", "show", "kept.pcapng"]);
    let call =
        calls.lines().find_map(|line| line.split(' ').next_back().filter(|word| word.contains("@127")));
    run(&["sip", "scenario", "from", "kept.pcapng", call.unwrap(), "--out", "captured.toml"]);
    run(&["sip", "load", &target, "--scenario-file", "captured.toml", "--count", "2", "--rate", "50/s"]);
    run(&["sip", "scenario", "from", "kept.log", call.unwrap(), "--side", "callee", "--out", "callee.toml"]);
    let answers = folder.path().join("callee.toml");
    let server = SipServer::start(&["scenario", answers.to_str().unwrap(), "--listen", "udp:127.0.0.1:0"]);
    let target = format!("udp:{}", server.address("udp"));
    run(&["sip", "load", &target, "--scenario-file", "captured.toml", "--count", "2", "--rate", "50/s"]);
}

/// Third-party call control with two controllers, each of which calls one user agent; the controllers exchange the
/// session descriptions. One controller is netrig. The other one and both user agents are SIPp.
#[test]
fn controllers_of_netrig_and_sipp_connect_two_user_agents() {
    let folder = tempfile::tempdir().unwrap();
    skip_unless!(written_by_sipp(folder.path(), &["3pcc-C-A", "3pcc-C-B"]));
    for own in ["3pcc-C-A", "3pcc-C-B"] {
        let [first, second, link, other] = std::array::from_fn(|_| free_port().to_string());
        let agent = |name, port: &str| sipp(folder.path(), &["-sn", name, "-i", "127.0.0.1", "-p", port]);
        let _agents = [agent("3pcc-A", &first), agent("3pcc-B", &second)];
        let link = format!("127.0.0.1:{link}");
        let of_controller = |name: &str| if name == "3pcc-C-A" { &first } else { &second };
        let controller = |name: &str| {
            let target = format!("127.0.0.1:{}", of_controller(name));
            let file = format!("{name}.xml");
            let more = ["-3pcc", &link, "-i", "127.0.0.1", "-p", &other, "-m", "2", "-r", "2"];
            sipp(folder.path(), &[&["-sf", &file, &target][..], &more].concat())
        };
        let target = format!("udp:127.0.0.1:{}", of_controller(own));
        let file = format!("{own}.xml");
        let load = [
            "sip", "load", &target, "-sf", &file, "-3pcc", &link, "--count", "2", "--rate", "2/s", "--for",
            "20s", "--json",
        ];
        // The controller that accepts the connection must listen before the other one starts.
        let told = if own == "3pcc-C-A" {
            let _other = controller("3pcc-C-B");
            until_listening(&link);
            as_json(&netrig(folder.path(), &load))
        } else {
            let folder = folder.path().to_owned();
            let words: Vec<String> = load.iter().map(|word| (*word).to_owned()).collect();
            let own = std::thread::spawn(move || {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                as_json(&netrig(&folder, &words))
            });
            until_listening(&link);
            let _other = controller("3pcc-C-A");
            own.join().unwrap()
        };
        assert_eq!((&told["succeeded"], &told["failed"]), (&2.into(), &0.into()), "{own}: {told}");
    }
}

/// Waits until a process listens at a TCP address.
fn until_listening(address: &str) {
    let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    let line = format!(":{port:04X} 00000000:0000 0A");
    while !std::fs::read_to_string("/proc/net/tcp").unwrap().contains(&line) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// The packets of a capture are sent to the address in the session description of the other side.
#[test]
fn captures_streams_and_digits_are_played() {
    let folder = tempfile::tempdir().unwrap();
    let capture = Path::new("/usr/share/sip-tester/g711a.pcap");
    if !capture.exists() || !written_by_sipp(folder.path(), &["uac_pcap", "uas"]) {
        eprintln!("skipped: needs the captures of sip-tester");
        return;
    }
    std::fs::create_dir(folder.path().join("pcap")).unwrap();
    for name in ["g711a.pcap", "dtmf_2833_1.pcap"] {
        let to = folder.path().join("pcap").join(name);
        std::fs::copy(Path::new("/usr/share/sip-tester").join(name), to).unwrap();
    }
    let call = std::fs::read_to_string(folder.path().join("uac_pcap.xml")).unwrap();
    // A DTMF digit, and a stream of 25 packets.
    let actions = "<action><exec play_dtmf=\"1\"/><exec rtp_stream=\"tone.raw,1,8\"/></action>";
    let call = call.replacen(
        "<pause milliseconds=\"8000\"/>",
        &format!("<pause milliseconds=\"2000\"/><nop>{actions}</nop>"),
        1,
    );
    std::fs::write(folder.path().join("call.xml"), call).unwrap();
    std::fs::write(folder.path().join("tone.raw"), vec![0xD5; 25 * 160]).unwrap();
    let answers = folder.path().join("uas.xml");
    let server = SipServer::start(&[
        "scenario",
        answers.to_str().unwrap(),
        "--listen",
        "udp:127.0.0.1:0",
        "--media-port",
        "19000",
        "--json",
    ]);
    let target = format!("udp:{}", server.address("udp"));
    let load = ["sip", "load", &target, "-sf", "call.xml", "--count", "1", "--media-port", "19100", "--json"];
    let told = as_json(&netrig(folder.path(), &load));
    assert_eq!((&told["succeeded"], &told["failed"]), (&1.into(), &0.into()), "{told}");
    let media = &told["media"];
    // The stream and the digit have 36 packets. The call ends before the captures do, so the number of their sent
    // packets varies.
    assert!(media["sent"].as_u64().unwrap() > 36 && media["unsent"] == 0, "{media}");
}

/// A response without an ACK is retransmitted, although the source address of its request may be forged.
#[test]
fn no_scenario_sends_a_stranger_more_than_three_times_what_came() {
    let folder = tempfile::tempdir().unwrap();
    skip_unless!(written_by_sipp(folder.path(), &["uas"]));
    let file = folder.path().join("uas.xml");
    let server =
        SipServer::start(&["scenario", file.to_str().unwrap(), "--listen", "udp:127.0.0.1:0", "--json"]);
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let own = stranger.local_addr().unwrap();
    let invite = format!(
        "INVITE sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bKs\r\nFrom: <sip:s@b>;tag=1\r\nTo: <sip:a@b>\r\nCall-ID: s\r\n\
         CSeq: 1 INVITE\r\nContact: <sip:s@{own}>\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
    );
    stranger.send_to(invite.as_bytes(), server.address("udp")).unwrap();
    // Without a limit there would be four retransmissions of the 200 within this time.
    stranger.set_read_timeout(Some(std::time::Duration::from_secs(4))).unwrap();
    let (mut buffer, mut came) = ([0; 65_535], 0);
    while let Ok(length) = stranger.recv(&mut buffer) {
        came += length;
    }
    assert!(came > 0 && came <= 3 * invite.len(), "{came} bytes for {}", invite.len());
    // The call without an ACK fails, and therefore the command.
    let told = server.finish_failed();
    assert!(told["withheld"].as_u64().unwrap() > 0, "{told}");
}
