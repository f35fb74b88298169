//! Loads with additional messages in calls, and with other targets, times and forms of requests.

use std::path::Path;

use netrig_sip::Name;
use serde_json::Value;

use crate::common;
use crate::common::as_json;
use crate::common::sip_peer::{SipPeer, response};
use crate::common::sip_server::SipServer;
use crate::common::text;

fn load(folder: &Path, arguments: &[&str]) -> std::process::Output {
    common::netrig(folder, &[&["sip", "load"][..], arguments].concat())
}

fn told(folder: &Path, arguments: &[&str]) -> Value {
    let output = load(folder, &[arguments, &["--json", "--cpus", "1"]].concat());
    as_json(&output)
}

/// The kept messages of a load, each in netrig's output form.
fn kept(folder: &Path) -> Vec<Value> {
    let output = common::netrig(folder, &["sip", "show", "sip-messages.log", "--json"]);
    let document = as_json(&output);
    document["messages"].as_array().unwrap().clone()
}

const OWN: &str = r#"
[[messages]]
step = "invite"
set = { Subject = "call of [user] to [peer]", Allow = "" }
add = ["X-Way: [transport] [local_ip]:[local_port]", "X-Way: second"]
parts = [
    { type = "application/sdp" },
    { type = "application/vnd.example+json", text = '{ "call": "[call_id]", "numbers": [1, 2] }', headers = ["Content-ID: <[user]@[domain]>"] },
]

[[messages]]
step = "bye"
add = ['Reason: SIP;cause=200;text="\x5Bdone]"']

[[messages]]
step = "answer"
body = { type = "application/sdp", text = """
v=0
o=- 5 5 IN IP[local_ip_type] [local_ip]
s=own
c=IN IP[local_ip_type] [local_ip]
t=0 0
m=audio 4000 RTP/AVP 8
""" }
"#;

/// Calls through a proxy to the tester's callee. Each message has the requested content and conforms to the grammar.
#[test]
fn messages_say_what_their_file_says() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("own.toml"), OWN).unwrap();
    let server = SipServer::start(&["proxy", "--listen", "udp:127.0.0.1:0"]);
    let target = format!("udp:{}", server.address("udp"));
    let report = told(
        folder.path(),
        &[
            &*target,
            "--callee",
            "own",
            "--count",
            "2",
            "--rate",
            "50/s",
            "--messages",
            "own.toml",
            "--keep",
            "all",
        ],
    );
    assert_eq!(report["outcomes"][0]["succeeded"], 2, "{report}");
    let messages = kept(folder.path());
    let of = |start: &str| -> Vec<String> {
        let texts = messages.iter().map(|message| message["text"].as_str().unwrap().to_owned());
        texts.filter(|text| text.starts_with(start)).collect()
    };
    let invites = of("INVITE ");
    assert_eq!(invites.len(), 4, "sent and received");
    for invite in &invites {
        let lines: Vec<&str> = invite.lines().collect();
        assert!(lines.iter().any(|line| line.starts_with("Subject: call of user00000")), "{invite}");
        assert!(!lines.iter().any(|line| line.starts_with("Allow:")), "{invite}");
        assert_eq!(lines.iter().filter(|line| line.starts_with("X-Way: ")).count(), 2, "{invite}");
        let name = lines.iter().find_map(|line| line.strip_prefix("Call-ID: ")).unwrap();
        assert!(invite.contains(&format!("{{ \"call\": \"{name}\", \"numbers\": [1, 2] }}")), "{invite}");
        let length = lines.iter().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
        let body = invite.split_once("\r\n\r\n").unwrap().1;
        assert_eq!(length.parse::<usize>().unwrap(), body.len(), "{invite}");
        assert!(invite.contains("Content-Type: multipart/mixed;boundary=part-1\r\n"), "{invite}");
    }
    assert!(of("BYE ").iter().all(|bye| bye.contains("Reason: SIP;cause=200;text=\"[done]\"\r\n")));
    let answers: Vec<_> = of("SIP/2.0 200").into_iter().filter(|text| text.contains("s=own\r\n")).collect();
    assert_eq!(answers.len(), 4);
    assert!(answers[0].contains("c=IN IP4 127.0.0.1\r\n"), "{}", answers[0]);
}

#[test]
fn a_file_of_messages_that_cannot_be_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    for (file, words) in [
        ("", "it has no message"),
        ("[[messages]]\nstep = \"invit\"\nadd = []", "unknown variant `invit`"),
        ("[[messages]]\nstep = \"bye\"\nwith = 1", "line 3"),
        (
            "[[messages]]\nstep = \"bye\"\nset = { Y = \"1\" }\n[[messages]]\nstep = \"ack\"\nset = { Via = \"x\" }",
            "message 2, of the step `ack`: `Via` cannot be changed",
        ),
        ("[[messages]]\nstep = \"bye\"\nset = { Y = \"[us]\" }", "`[us]` is not a keyword"),
    ] {
        std::fs::write(folder.path().join("own.toml"), file).unwrap();
        let output = load(folder.path(), &["udp:127.0.0.1:9", "--messages", "own.toml"]);
        assert_eq!(output.status.code(), Some(2), "{file}");
        let said = text(&output.stderr);
        assert!(said.contains("own.toml") && said.contains(words), "{file}: {said}");
    }
}

/// Calls to a redirect server reach the callees in its Contact header fields.
#[test]
fn calls_go_where_a_redirect_server_points() {
    let folder = tempfile::tempdir().unwrap();
    let server = SipServer::start(&["redirect", "--listen", "udp:127.0.0.1:0"]);
    let target = format!("udp:{}", server.address("udp"));
    let calls = [&*target, "--callee", "own", "--count", "5", "--rate", "50/s"];
    let report = told(folder.path(), &[&calls[..], &["--follow-redirects"]].concat());
    assert_eq!(
        (&report["outcomes"][0]["succeeded"], &report["redirects_followed"]),
        (&Value::from(5), &Value::from(5))
    );
    let table = text(&load(folder.path(), &[&calls[..], &["--follow-redirects"]].concat()).stdout);
    assert!(table.contains("contacts of 3xx asked"), "{table}");
    let report = told(folder.path(), &calls);
    assert_eq!(
        (&report["outcomes"][0]["succeeded"], &report["redirects_followed"]),
        (&Value::from(0), &Value::Null)
    );
}

/// Calls are repeated after the time in `Retry-After`, when the server is available again.
#[test]
fn calls_come_again_after_retry_after() {
    let folder = tempfile::tempdir().unwrap();
    let server = SipPeer::start(|request| {
        let is_first = request.headers.cseq().ok()??.number == 1;
        match request.method.as_str() {
            "ACK" => None,
            "INVITE" if is_first => Some(response(request, 503, &[(Name::RetryAfter, "1")])),
            _ => Some(response(request, 200, &[])),
        }
    });
    let calls = [&*server.target(), "--count", "3", "--rate", "50/s", "--sdp", "0B"];
    let report = told(folder.path(), &[&calls[..], &["--retries", "1"]].concat());
    assert_eq!((&report["outcomes"][0]["succeeded"], &report["retried"]), (&Value::from(3), &Value::from(3)));
    let report = told(folder.path(), &calls);
    assert_eq!((&report["outcomes"][0]["succeeded"], &report["retried"]), (&Value::from(0), &Value::Null));
}

/// RFC 3261 section 18.1.1, with a server that listens over UDP and TCP, and with one that listens over UDP only.
#[test]
fn large_requests_go_over_tcp_and_in_datagrams_where_nobody_takes_it() {
    let transports_of = |listen: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let server = SipServer::start(&[&["uas"][..], listen].concat());
        let target = format!("udp:{}", server.address("udp"));
        let calls =
            ["--count", "4", "--rate", "50/s", "--sdp", "2KB", "--large-requests", "tcp", "--keep", "all"];
        let report = told(folder.path(), &[&[&*target][..], &calls].concat());
        assert_eq!(report["outcomes"][0]["succeeded"], 4, "{report}");
        let messages = kept(folder.path());
        let of = |start: &str| -> Vec<String> {
            let those =
                messages.iter().filter(|message| message["text"].as_str().unwrap().starts_with(start));
            those.map(|message| message["transport"].as_str().unwrap().to_owned()).collect()
        };
        (of("INVITE "), of("BYE "), of("SIP/2.0 200"))
    };
    // One port for both transports, at an address that no other test uses.
    let [udp, tcp] = ["udp", "tcp"].map(|transport| format!("{transport}:127.77.31.1:5071"));
    let (invites, byes, answers) = transports_of(&["--listen", &udp, "--listen", &tcp]);
    // The Contact in a response over TCP has `transport=tcp`, so the dialog stays on TCP.
    assert_eq!((invites, byes), (vec!["TCP".to_owned(); 4], vec!["TCP".to_owned(); 4]));
    assert_eq!(answers, vec!["TCP"; 8]);
    let (invites, ..) = transports_of(&["--listen", "udp:127.0.0.1:0"]);
    // Messages for connections that could not be opened are not kept, because they were not sent.
    assert_eq!(invites, ["UDP"; 4]);
}
