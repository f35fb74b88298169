//! Look-ups of servers by name with third-party DNS programs: netrig queries dnsmasq, and dig queries netrig. If these
//! are not installed, each test prints that it was skipped.

use std::io::{ErrorKind, Read as _, Write as _};
use std::process::{Command, Stdio};

use netrig_sip::location::{Kind, Question};
use netrig_sip_net::dns::message::query;
use netrig_test_support::skip_unless;
use serde_json::Value;

use crate::common;
use crate::common::Guarded;
use crate::common::as_json;
use crate::common::free_port::free_port;
use crate::common::machine::has;
use crate::common::sip_server::SipServer;
use crate::common::text;

fn load(arguments: &[&str]) -> std::process::Output {
    let folder = tempfile::tempdir().unwrap();
    common::netrig(folder.path(), &[&["sip", "load"][..], arguments].concat())
}

/// A dnsmasq server that ends with the test.
struct Dnsmasq {
    _process: Guarded,
    port: u16,
}

impl Dnsmasq {
    fn start(records: &[String]) -> Self {
        let port = free_port();
        let mut command = Command::new("dnsmasq");
        command.args([
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--no-resolv",
            "--no-hosts",
            "--pid-file=",
        ]);
        command.args(["--listen-address=127.0.0.1", "--bind-interfaces", "--user=root", "--local-ttl=60"]);
        // dnsmasq answers that names without a record do not exist.
        command.args(["--local=/test/", &format!("--port={port}")]).args(records);
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let server = Self { _process: Guarded(child), port };
        let is_there = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        for _ in 0..500 {
            if is_there() {
                return server;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("dnsmasq does not listen");
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

#[test]
fn a_server_is_found_by_dnsmasq() {
    skip_unless!(has("dnsmasq"));
    let server = SipServer::start(&["uas", "--listen", "udp:127.0.0.1:0"]);
    let at: std::net::SocketAddr = server.address("udp").parse().unwrap();
    let mut records = vec![
        "--naptr-record=example.test,20,10,s,SIP+D2T,,_sip._tcp.example.test".to_owned(),
        "--naptr-record=example.test,10,10,s,SIP+D2U,,_sip._udp.example.test".to_owned(),
        format!("--srv-host=_sip._udp.example.test,alias.test,{},0,1", at.port()),
        "--srv-host=_sip._udp.example.test,a.test,5999,1,1".to_owned(),
        "--host-record=a.test,127.0.0.1".to_owned(),
        "--cname=alias.test,a.test".to_owned(),
    ];
    // The response with these hosts does not fit into a datagram of 1232 bytes.
    for number in 0..60 {
        records.push(format!("--srv-host=_sip._udp.many.test,a.test,{},0,1", 6000 + number));
    }
    let dnsmasq = Dnsmasq::start(&records);
    let resolver = dnsmasq.address();
    let quick = ["--resolver", &*resolver, "--rate", "100/s", "--count", "20", "--cpus", "1", "--json"];
    for lookup in ["once", "per-attempt", "cached"] {
        let output = load(&[&["sip:example.test", "--lookup", lookup][..], &quick].concat());
        let told = as_json(&output);
        let hops = &told["location"]["hops"];
        let expected = [format!("udp:{at}"), "udp:127.0.0.1:5999".to_owned()].map(Value::from);
        assert_eq!(*hops, Value::from(expected.to_vec()), "{told}");
        assert_eq!(told["outcomes"][0]["succeeded"], 20, "{told}");
        let looked = told["delays"].as_array().unwrap().iter().find(|row| row["name"] == "lookup");
        assert_eq!(looked.map(|row| row["n"].clone()), (lookup != "once").then(|| 20.into()), "{lookup}");
        let asked = told["tester"]["dns"]["asked"].as_u64().unwrap();
        assert_eq!(asked > 0, lookup != "once");
    }
    let output = load(&[&["sip:nowhere.test"][..], &quick].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("the DNS has no such name"), "{}", text(&output.stderr));
    // The first server in the TCP response does not listen. The test only checks that the response arrived.
    let many = ["sip:many.test;transport=udp", "--lookup", "per-attempt", "--t1", "5ms"];
    let output = load(&[&many[..], &quick].concat());
    let told = as_json(&output);
    assert_eq!(told["location"]["hops"].as_array().unwrap().len(), 32, "{told}");
    assert_eq!(told["tester"]["dns"]["over_tcp"], 20, "{told}");
}

const NAMES: &str = r#"
$TTL 60
example.test 30 NAPTR 10 10 "s" "SIP+D2U" "" _sip._udp.example.test
_sip._udp.example.test SRV 0 3 5060 a.example.test
_sip._udp.example.test SRV 1 0 5061 b.example.test
a.example.test A 192.0.2.1
b.example.test AAAA 2001:db8::1
"#;

#[test]
fn dig_is_answered() {
    skip_unless!(has("dig"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("names.zone");
    let many: String = (0..60)
        .map(|number| format!("_sip._udp.many.test SRV 0 0 {} a.example.test\n", 6000 + number))
        .collect();
    std::fs::write(&file, NAMES.to_owned() + &many).unwrap();
    let port = free_port().to_string();
    let [udp, tcp] = ["udp", "tcp"].map(|transport| format!("{transport}:127.0.0.1:{port}"));
    let names = file.display().to_string();
    let _server = SipServer::start(&["dns", "--zone", &names, "--listen", &udp, "--listen", &tcp]);
    let dig = |arguments: &[&str]| {
        let output = Command::new("dig").args(["@127.0.0.1", "-p", &port]).args(arguments).output().unwrap();
        let said = text(&output.stdout);
        assert!(!said.contains("Warning") || said.contains("recursion requested"), "{said}");
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for over in ["+notcp", "+tcp"] {
        let answer = |name, kind| dig(&["+noall", "+answer", over, name, kind]);
        let naptr = r#"example.test. 30 IN NAPTR 10 10 "s" "SIP+D2U" "" _sip._udp.example.test."#;
        assert_eq!(answer("EXAMPLE.test", "NAPTR").to_lowercase(), naptr.to_lowercase());
        let srv = answer("_sip._udp.example.test", "SRV");
        assert!(srv.contains("_sip._udp.example.test. 60 IN SRV 0 3 5060 a.example.test."), "{srv}");
        assert_eq!(answer("a.example.test", "A"), "a.example.test. 60 IN A 192.0.2.1");
        assert_eq!(answer("b.example.test", "AAAA"), "b.example.test. 60 IN AAAA 2001:db8::1");
        let none = dig(&[over, "nowhere.test", "A"]);
        assert!(none.contains("status: NXDOMAIN") && none.contains("AUTHORITY: 1"), "{none}");
        let nothing = dig(&[over, "a.example.test", "AAAA"]);
        assert!(nothing.contains("status: NOERROR") && nothing.contains("ANSWER: 0"), "{nothing}");
    }
    // A longer answer is truncated over UDP. dig then repeats the query over TCP, where the answer is complete.
    let cut = dig(&["+ignore", "+noedns", "_sip._udp.many.test", "SRV"]);
    assert!(cut.contains("flags: qr aa tc") && cut.contains("ANSWER: 0"), "{cut}");
    let whole = dig(&["+noedns", "_sip._udp.many.test", "SRV"]);
    assert!(whole.contains("ANSWER: 60"), "{whole}");
}

/// An explicit limit also applies to loopback addresses.
#[test]
fn a_dns_server_closes_the_connections_of_an_address_beyond_its_limit_and_answers_others() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("names.zone");
    std::fs::write(&file, NAMES).unwrap();
    let names = file.display().to_string();
    let dns = ["dns", "--zone", &*names, "--listen", "tcp:127.0.0.1:0", "--json"];
    let server = SipServer::start(&[&dns[..], &["--connections-per-address", "2"]].concat());
    let connect = |from| {
        let stream = common::connect_from(from, server.address("tcp")).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        stream
    };
    let silent = [(); 2].map(|()| connect("127.0.0.2"));
    let read = connect("127.0.0.2").read(&mut [0]);
    assert!(matches!(read.map_err(|error| error.kind()), Ok(0) | Err(ErrorKind::ConnectionReset)));
    let question = query(7, &Question { kind: Kind::A, name: "a.example.test".to_owned() }).unwrap();
    let mut other = connect("127.0.0.3");
    other.write_all(&u16::try_from(question.len()).unwrap().to_be_bytes()).unwrap();
    other.write_all(&question).unwrap();
    let mut head = [0; 4];
    other.read_exact(&mut head).unwrap();
    assert_eq!(head[2..], [0, 7], "the answer has the question's number");
    drop(silent);
    let told = server.finish();
    assert_eq!((told["answered"].as_u64(), told["refused"].as_u64()), (Some(1), Some(1)), "{told}");
}

/// Impossible settings are rejected before anything is sent.
#[test]
fn what_cannot_be_asked_for_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("names.zone");
    std::fs::write(&file, "a.test A 127.0.0.1\npublic.test A 8.8.8.8\nbroken.test MX 1 x\n").unwrap();
    let names = file.display().to_string();
    let said = |arguments: &[&str], code: i32, words: &str| {
        let output = load(arguments);
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(code) && error.contains(words), "{arguments:?}: {error}");
    };
    said(&["sip:a.test"], 2, "with --resolver, or in which table, with --zone");
    said(&["sip:a.test", "--zone", &names], 2, "line 3: `MX` is not a type of this table");
    said(&["udp:127.0.0.1", "--lookup", "per-attempt"], 2, "--zone");
    let whole = "a.test A 127.0.0.1\npublic.test A 8.8.8.8\n_sip._udp.gone.test SRV 0 0 0 .\n";
    std::fs::write(&file, whole).unwrap();
    said(&["sip:public.test", "--zone", &names], 2, "not permitted to be tested");
    said(&["sip:public.test", "--zone", &names, "--i-may-test", "a.test"], 2, "--i-may-test names");
    said(&["sip:nowhere.test", "--zone", &names], 2, "the DNS has no such name");
    let no_service = "the domain has no such service (SRV target \".\", RFC 2782)";
    for target in ["sip:gone.test", "udp:gone.test"] {
        said(&[target, "--zone", &names], 2, no_service);
    }
    said(&["sips:a.test;transport=udp", "--zone", &names], 2, "no TLS");
    let open = common::netrig(
        folder.path(),
        &["sip", "serve", "dns", "--zone", &names, "--listen", "udp:192.0.2.1:0"],
    );
    assert!(text(&open.stderr).contains("--open"), "{}", text(&open.stderr));
}
