//! What SIP and DNS servers send over UDP to a stranger, which is an unvalidated address.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a server is a thread, and strangers are sockets that wait"
)]

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_core::Duration;
use netrig_sip::digest::{Algorithm, DigestChallenge, DigestSession};
use netrig_sip::header::Transport;
use netrig_sip::location::{Kind, Question};
use netrig_sip::server::{AnsweringPolicy, Role, ServerOrder, User};
use netrig_sip::transaction::Timing;
use netrig_sip::{Method, Name, Response};
use netrig_sip_net::dns::NameServer;
use netrig_sip_net::dns::message::query;

use crate::it::sip_server::{Running, name_server, server, sockets};
use netrig_test_support::stranger_table::{self, Stranger};

fn request(method: &str, to: SocketAddr, from: SocketAddr, more: &str) -> Vec<u8> {
    format!(
        "{method} sip:bob@{to} SIP/2.0\r\nv:SIP/2.0/UDP {from};branch=z9hG4bK{}\r\nf:<sip:bob@{to}>;tag=1\r\nt:<sip:bob@{to}>\r\n\
         i:c{from}\r\nCSeq:1 {method}\r\n{more}\r\n",
        from.ip()
    )
    .into_bytes()
}

/// Registers sixteen long contacts of one user, from an address that no other part of the test uses.
fn register_many(to: SocketAddr) {
    let socket = UdpSocket::bind((Ipv4Addr::new(127, 7, 8, 1), 0)).unwrap();
    let from = socket.local_addr().unwrap();
    for number in 0..16 {
        let register = format!(
            "REGISTER sip:{to} SIP/2.0\r\nv:SIP/2.0/UDP {from};branch=z9hG4bKr{number}\r\nf:<sip:bob@{to}>;tag=1\r\n\
             t:<sip:bob@{to}>\r\ni:r{number}\r\nCSeq:1 REGISTER\r\nm:<sip:{}{number}@127.7.9.1:9>\r\n\r\n",
            "x".repeat(900)
        );
        socket.send_to(register.as_bytes(), to).unwrap();
    }
}

/// Timers so short that all retransmissions fit into a second.
fn fast() -> Timing {
    let default = Timing::default();
    Timing { t1: Duration::from_millis(10), t2: Duration::from_millis(40), ..default }
}

const REQUESTS: [&str; 16] = [
    "INVITE",
    "REGISTER",
    "OPTIONS",
    "SUBSCRIBE",
    "CANCEL",
    "BYE",
    "ACK",
    "PUBLISH",
    "MESSAGE",
    "PRACK",
    "UPDATE",
    "REFER",
    "INFO",
    "NOTIFY",
    "FOO",
    "X",
];

#[test]
fn no_sip_server_sends_a_stranger_more_than_three_times_what_came() {
    let bob =
        User { name: "bob".into(), password: "zanzibar".into(), contact: Some("sip:bob@127.7.9.2:9".into()) };
    let known = |role| ServerOrder { users: Some(vec![bob.clone()]), ..server(role) };
    let orders = [
        ("uas", server(Role::UserAgent(AnsweringPolicy::new("127.0.0.1:9".parse().unwrap())))),
        ("registrar", server(Role::Registrar)),
        ("redirect", server(Role::Redirect)),
        ("proxy", server(Role::Proxy { record_route: true })),
        (
            "proxy, digest",
            ServerOrder { digest: Some(Algorithm::MD5), ..known(Role::Proxy { record_route: false }) },
        ),
        ("stateless-proxy", known(Role::StatelessProxy)),
    ];
    let mut rows = Vec::new();
    for (name, order) in orders {
        let order = ServerOrder { timing: fast(), ..order };
        let running = Running::start(sockets(&["udp:127.0.0.1:0"]), order);
        let to = running.address(Transport::Udp);
        if ["registrar", "redirect", "proxy"].contains(&name) {
            register_many(to);
            std::thread::sleep(StdDuration::from_millis(200));
        }
        let mut strangers = Vec::new();
        for (number, method) in (1..).zip(REQUESTS) {
            strangers.push(Stranger::new(number, method, to, |from| request(method, to, from, "")));
        }
        let contact = "m:<sip:a@127.7.9.9>\r\nSupported:100rel\r\n";
        for (number, other, bytes) in [
            (50, "garbage", b"GARBAGE / HTTP/1.1\r\n\r\n".to_vec()),
            (51, "keep-alive", b"\r\n\r\n".to_vec()),
            (52, "zeros", vec![0; 64]),
            (53, "no header", b"INVITE sip:bob@x SIP/2.0\r\n\r\n".to_vec()),
        ] {
            strangers.push(Stranger::new(number, other, to, |_| bytes));
        }
        strangers
            .push(Stranger::new(54, "INVITE with contact", to, |from| request("INVITE", to, from, contact)));
        std::thread::sleep(StdDuration::from_millis(1500));
        rows.extend(strangers.iter().map(|stranger| stranger.row(name)));
        let own = &rows[rows.len() - strangers.len()..];
        let answered = own.iter().filter(|row| row.datagrams > 0).count();
        // The stateless proxy only forwards requests. All other servers answer them.
        assert!(answered > 0 || name == "stateless-proxy", "{name} answers strangers");
        running.finish();
    }
    stranger_table::check("SIP servers", &rows);
}

/// The sender of a datagram chooses the transport in its `Via`. Neither the response to such a datagram nor a response
/// without a request may open a connection to an address in the datagram.
#[test]
fn a_datagram_of_a_stranger_opens_no_connection() {
    let carol =
        User { name: "carol".into(), password: String::new(), contact: Some("sip:carol@127.7.9.2:9".into()) };
    for role in [
        Role::UserAgent(AnsweringPolicy::new("127.0.0.1:9".parse().unwrap())),
        Role::Registrar,
        Role::Redirect,
        Role::Proxy { record_route: true },
        Role::StatelessProxy,
    ] {
        let order = ServerOrder { timing: fast(), users: Some(vec![carol.clone()]), ..server(role.clone()) };
        let running = Running::start(sockets(&["udp:127.0.0.1:0", "tcp:127.0.0.1:0"]), order);
        let to = running.address(Transport::Udp);
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 7, 6, 1), 0)).unwrap();
        let victim = TcpListener::bind((Ipv4Addr::new(127, 7, 6, 1), 0)).unwrap();
        victim.set_nonblocking(true).unwrap();
        let named = victim.local_addr().unwrap();
        for method in ["OPTIONS", "INVITE", "REGISTER"] {
            let text = String::from_utf8(request(method, to, named, "")).unwrap();
            let text = text.replace("sip:bob@", "sip:unknown@").replace("v:SIP/2.0/UDP", "v:SIP/2.0/TCP");
            socket.send_to(text.as_bytes(), to).unwrap();
        }
        let response = format!(
            "SIP/2.0 200 OK\r\nv:SIP/2.0/UDP {to};branch=z9hG4bKx\r\nv:SIP/2.0/TCP {named};branch=z9hG4bKy\r\n\
             f:<sip:a@b>;tag=1\r\nt:<sip:c@d>;tag=2\r\ni:r\r\nCSeq:1 INVITE\r\n\r\n"
        );
        socket.send_to(response.as_bytes(), to).unwrap();
        std::thread::sleep(StdDuration::from_millis(300));
        let opened = victim.accept().map(|(_, from)| from);
        assert!(opened.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "{role:?}");
        let tally = running.finish();
        assert_eq!((tally.connections.opened, tally.received.total()), (0, 4), "{role:?}: {tally:?}");
    }
}

/// A zone with many records of each kind.
#[test]
fn no_dns_server_sends_a_stranger_more_than_three_times_what_came() {
    let mut zone = String::from("$TTL 60\n");
    for number in 0..20 {
        zone += &format!(
            "big.test A 192.0.2.{number}\nbig.test AAAA 2001:db8::{number}\nbig.test SRV 0 0 5060 host{number}.big.test\n\
             big.test NAPTR 10 {number} \"s\" \"SIP+D2U\" \"\" _sip._udp.host{number}.big.test\n"
        );
    }
    let server = NameServer::open(name_server(&zone)).unwrap();
    let (to, stop) = (server.listens()[0].address, Arc::new(AtomicBool::new(false)));
    let flag = Arc::clone(&stop);
    let thread = std::thread::spawn(move || server.serve(None, &flag).unwrap());
    let mut strangers = Vec::new();
    let kinds = [Kind::A, Kind::Aaaa, Kind::Srv, Kind::Naptr];
    let names = ["big.test", "nobody.test", "t"];
    for (number, (kind, name)) in (1..).zip(kinds.iter().flat_map(|kind| names.map(|name| (*kind, name)))) {
        let question = query(7, &Question { kind, name: name.to_owned() }).unwrap();
        strangers.push(Stranger::new(number, &format!("{kind:?} of {name}"), to, |_| question));
    }
    strangers.push(Stranger::new(60, "broken question", to, |_| vec![0, 7, 1, 0, 0, 9, 0, 0, 0, 0, 0, 0]));
    strangers.push(Stranger::new(61, "no question", to, |_| vec![0; 11]));
    std::thread::sleep(StdDuration::from_millis(300));
    let rows: Vec<_> = strangers.iter().map(|stranger| stranger.row("dns")).collect();
    let answered = rows.iter().filter(|row| row.datagrams > 0).count();
    stranger_table::check("DNS server", &rows);
    assert!(answered >= 12, "questions are answered, if only by a cut answer");
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
}

/// A user with the password gets a long list over UDP; a stranger gets the short response.
#[test]
fn who_has_proved_who_it_is_gets_its_whole_list() {
    let bob = User { name: "bob".into(), password: "zanzibar".into(), contact: None };
    let order =
        ServerOrder { digest: Some(Algorithm::MD5), users: Some(vec![bob]), ..server(Role::Registrar) };
    let running = Running::start(sockets(&["udp:127.0.0.1:0"]), order);
    let to = running.address(Transport::Udp);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(StdDuration::from_secs(30))).unwrap();
    let from = socket.local_addr().unwrap();
    let mut session: Option<DigestSession> = None;
    let mut ask = |number: u32, contacts: &str| -> Response {
        let uri = format!("sip:{to}");
        let proof = session.as_mut().map_or(String::new(), |session| {
            let answer = session.answer(&Method::Register, &uri, b"", "0a4f113b");
            format!("Authorization:{}\r\n", answer.write())
        });
        let register = format!(
            "REGISTER {uri} SIP/2.0\r\nv:SIP/2.0/UDP {from};branch=z9hG4bK{number}\r\nf:<sip:bob@{to}>;tag=1\r\nt:<sip:bob@{to}>\r\n\
             i:c\r\nCSeq:{number} REGISTER\r\n{proof}{contacts}\r\n"
        );
        socket.send_to(register.as_bytes(), to).unwrap();
        let mut buffer = vec![0; 65_535];
        let length = socket.recv(&mut buffer).unwrap();
        let bytes = bytes::Bytes::copy_from_slice(&buffer[..length]);
        let response = netrig_sip::Message::parse(&bytes).unwrap().as_response().unwrap().clone();
        if let Ok(challenges) = response.headers.challenges(&Name::WwwAuthenticate)
            && let Some(challenge) = challenges.first()
        {
            session = Some(DigestSession::new(DigestChallenge::read(challenge).unwrap(), "bob", "zanzibar"));
        }
        response
    };
    assert_eq!(ask(1, "").status.code(), 401);
    for number in 0..16 {
        let contact = format!("m:<sip:{}{number}@127.7.9.1>\r\n", "x".repeat(900));
        assert_eq!(ask(2 + number, &contact).status.code(), 200);
    }
    let whole = ask(30, "");
    assert_eq!((whole.status.code(), whole.headers.all(&Name::Contact).count()), (200, 16));
    running.finish();
}

/// However many queries wait, the server checks its duration and its stop flag between batches, and answers other
/// clients.
#[test]
fn a_flood_of_questions_ends_with_the_server() {
    for by_flag in [false, true] {
        let server = NameServer::open(name_server("$TTL 60\na.test A 192.0.2.1\n")).unwrap();
        let to = server.listens()[0].address;
        let question = query(7, &Question { kind: Kind::A, name: "a.test".to_owned() }).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let floods: Vec<_> = (0..2)
            .map(|_| {
                let (over, question) = (Arc::clone(&over), question.clone());
                std::thread::spawn(move || {
                    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                    let until = StdInstant::now() + StdDuration::from_secs(60);
                    // The flood continues until the server has ended.
                    while !over.load(Ordering::Relaxed) {
                        assert!(StdInstant::now() < until, "the server ends while it is flooded");
                        let _ = socket.send_to(&question, to);
                    }
                })
            })
            .collect();
        let stop = Arc::new(AtomicBool::new(false));
        let asker = by_flag.then(|| {
            let (stop, question) = (Arc::clone(&stop), question.clone());
            std::thread::spawn(move || {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                socket.set_read_timeout(Some(StdDuration::from_millis(50))).unwrap();
                // The query is repeated, because it may be dropped during the flood.
                let is_answered = (0..600).any(|_| {
                    let _ = socket.send_to(&question, to);
                    socket.recv(&mut [0; 512]).is_ok()
                });
                stop.store(true, Ordering::Relaxed);
                is_answered
            })
        });
        let time = if by_flag { Duration::from_secs(60) } else { Duration::from_millis(500) };
        let began = StdInstant::now();
        let tally = server.serve(Some(time), &stop).unwrap();
        over.store(true, Ordering::Relaxed);
        floods.into_iter().for_each(|flood| flood.join().unwrap());
        assert!(tally.over_udp > 0 && tally.answered > 0, "{tally:?}");
        if let Some(asker) = asker {
            assert!(asker.join().unwrap(), "another's question is answered");
            assert!(began.elapsed() < StdDuration::from_secs(50), "its flag ends it, not its time");
        }
    }
}
