//! SIP servers on the sockets of the loopback interface.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a server is a thread, and clients are sockets that wait"
)]

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::num::NonZeroU8;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use bytes::Bytes;
use netrig_core::{Duration, Seeds};
use netrig_host::tls::{self, Trust};
use netrig_sip::dialog::Dialog;
use netrig_sip::digest::{Algorithm, DigestChallenge, DigestSession};
use netrig_sip::header::Transport;
use netrig_sip::partitioning::Partitioning;
use netrig_sip::server::{AnsweringPolicy, Role, ServerOrder, User};
use netrig_sip::{Framed, Host, Message, Method, Name, Request, Response, Status};
use netrig_sip_net::server::{Limits, Names, PartitionedSockets, ServeError, Sockets, SocketsOrder};
use netrig_sip_net::{Bounds, SipStream, server_name};
use rustix::net::{AddressFamily, SocketType};

use crate::it::sip_server::{Running, server, sockets};

const PATIENCE: StdDuration = StdDuration::from_secs(30);

fn machine() -> Role {
    Role::UserAgent(AnsweringPolicy::new("127.0.0.1:9".parse().unwrap()))
}

/// A peer of a server, over any transport.
enum Client {
    Datagrams(UdpSocket, SocketAddr),
    Stream(Box<SipStream>, Transport, Vec<Bytes>),
}

impl Client {
    fn new(transport: Transport, to: SocketAddr) -> Self {
        let local = SocketAddr::new(to.ip(), 0);
        if transport == Transport::Udp {
            let socket = UdpSocket::bind(local).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            return Self::Datagrams(socket, to);
        }
        let config = tls::client(&Trust::Anyone, None).unwrap();
        let name = server_name(&Host::Address(to.ip())).unwrap();
        let tls = (transport == Transport::Tls).then_some((&config, name));
        let stream = SipStream::connect(local, to, tls, Bounds::default()).unwrap();
        Self::Stream(Box::new(stream), transport, Vec::new())
    }

    /// A client with a TCP connection from the address `local`.
    fn tcp_from(local: [u8; 4], to: SocketAddr) -> Self {
        let stream = SipStream::connect((local, 0).into(), to, None, Bounds::default()).unwrap();
        Self::Stream(Box::new(stream), Transport::Tcp, Vec::new())
    }

    fn transport(&self) -> Transport {
        match self {
            Self::Datagrams(..) => Transport::Udp,
            Self::Stream(_, transport, _) => *transport,
        }
    }

    fn local(&self) -> SocketAddr {
        match self {
            Self::Datagrams(socket, _) => socket.local_addr().unwrap(),
            Self::Stream(stream, ..) => stream.local().unwrap(),
        }
    }

    fn send(&mut self, message: impl Into<Message>) {
        let bytes = message.into().to_bytes();
        match self {
            Self::Datagrams(socket, to) => assert_eq!(socket.send_to(&bytes, *to).unwrap(), bytes.len()),
            Self::Stream(stream, ..) => {
                stream.queue(bytes).unwrap();
                stream.flush().unwrap();
            }
        }
    }

    fn receive(&mut self) -> Message {
        match self {
            Self::Datagrams(socket, to) => {
                let mut buffer = [0; 65_535];
                let (len, from) = socket.recv_from(&mut buffer).expect("an answer comes");
                assert_eq!(from, *to, "it comes from where it was asked");
                Message::parse(&Bytes::copy_from_slice(&buffer[..len])).unwrap()
            }
            Self::Stream(stream, _, came) => {
                let until = StdInstant::now() + PATIENCE;
                while came.is_empty() {
                    assert!(StdInstant::now() < until, "an answer comes");
                    let received = stream.receive(true, |framed, _| {
                        if let Framed::Message(bytes) = framed {
                            came.push(bytes);
                        }
                    });
                    // The end of the connection may be reported together with the last message.
                    if came.is_empty() {
                        received.unwrap();
                        stream.flush().unwrap();
                    }
                    std::thread::sleep(StdDuration::from_millis(1));
                }
                Message::parse(&came.remove(0)).unwrap()
            }
        }
    }

    /// The next final response.
    fn answer(&mut self) -> Response {
        loop {
            match self.receive() {
                Message::Response(response) if response.status.is_final() => return response,
                Message::Response(_) => {}
                Message::Request(request) => panic!("{request:?}"),
            }
        }
    }

    /// The next message over UDP, which must be a response; `None` if none arrives in time.
    fn answer_within(&mut self, patience: StdDuration) -> Option<Response> {
        let Self::Datagrams(socket, _) = self else { panic!("over UDP") };
        socket.set_read_timeout(Some(patience)).unwrap();
        let has_come = socket.peek(&mut [0]).is_ok();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        has_come.then(|| self.answer())
    }

    fn via(&self, branch: &str) -> String {
        format!("SIP/2.0/{} {};branch=z9hG4bK{branch};rport", self.transport().name(), self.local())
    }

    fn request(&self, method: Method, uri: &str, number: u32) -> Request {
        let mut request = Request::new(method, uri.parse().unwrap());
        let cseq = format!("{number} {}", request.method);
        for (name, value) in [
            (Name::Via, self.via(&format!("{number}{}", request.method))),
            (Name::MaxForwards, "70".to_owned()),
            (Name::From, "<sip:caller@elsewhere.example>;tag=1".to_owned()),
            (Name::To, format!("<{uri}>")),
            (Name::CallId, format!("c{number}")),
            (Name::CSeq, cseq),
            (Name::Contact, format!("<sip:caller@{}>", self.local())),
        ] {
            request.headers.push(name, value);
        }
        request
    }
}

fn ask(server: &Running, transport: Transport, method: Method, uri: &str, number: u32) -> Response {
    let mut client = Client::new(transport, server.address(transport));
    let request = client.request(method, uri, number);
    client.send(request);
    client.answer()
}

#[test]
fn calls_go_through_over_each_transport_and_version_of_ip() {
    [1, 3].into_iter().for_each(calls_go_through);
}

fn calls_go_through(threads: u8) {
    let points = ["udp:127.0.0.1:0", "udp:[::1]:0", "tcp:127.0.0.1:0", "tcp:[::1]:0", "tls:127.0.0.1:0"];
    let running = Running::threaded(sockets(&points), server(machine()), threads);
    for ((transport, address), number) in running.listens.clone().into_iter().zip(1..) {
        let mut client = Client::new(transport, address);
        // Each client makes a different call, because the same request from two sources is refused (RFC 3261 section
        // 8.2.2.2).
        let mut invite = client.request(Method::Invite, &format!("sip:bob@{address}"), number);
        // The response with its session description must not exceed three times the bytes that the unvalidated address
        // sent.
        invite.headers.push(Name::Subject, "x".repeat(400));
        client.send(invite.clone());
        let answer = client.answer();
        assert_eq!(answer.status, Status::OK);
        let contact = answer.headers.get(&Name::Contact).unwrap();
        assert!(contact.contains(&address.to_string()), "{contact} at {address}");
        let mut dialog = Dialog::caller(&invite, &answer).unwrap();
        let mut ack = dialog.acknowledgement(&invite);
        ack.headers.push_front(Name::Via, client.via("ack"));
        client.send(ack);
        let mut bye = dialog.request(Method::Bye).unwrap();
        bye.headers.push_front(Name::Via, client.via("bye"));
        client.send(bye);
        assert_eq!(client.answer().status, Status::OK, "{}", transport.name());
    }
    let tally = running.finish();
    assert_eq!(
        ["INVITE", "ACK", "BYE"].map(|method| tally.received.requests[method]),
        [points.len() as u64; 3]
    );
    assert_eq!(tally.sent.responses["2xx"], 2 * points.len() as u64);
    assert_eq!((tally.connections.accepted, tally.unsent.total(), tally.unreadable.total()), (3, 0, 0));
}

/// A response comes from the socket that got the request (RFC 3581 section 4): `Client::receive` checks it.
#[test]
fn each_of_several_sockets_answers_for_itself() {
    let points = ["udp:127.0.0.1:0", "udp:127.0.0.1:0", "udp:127.0.0.2:0"];
    let running = Running::start(sockets(&points), server(machine()));
    for (number, (transport, address)) in (1..).zip(running.listens.clone()) {
        let mut client = Client::new(transport, address);
        client.send(client.request(Method::Options, "sip:bob@127.0.0.1", number));
        assert_eq!(client.answer().status, Status::OK);
    }
    running.finish();
}

#[test]
fn users_prove_who_they_are_by_either_algorithm() {
    for (algorithm, threads) in [(Algorithm::MD5, 1), (Algorithm::SHA_256, 1), (Algorithm::MD5, 4)] {
        let bob = User { name: "bob".into(), password: "zanzibar".into(), contact: None };
        let order = ServerOrder {
            digest: Some(algorithm),
            users: Some(vec![bob]),
            domains: vec![Host::Name("example.com".into())],
            ..server(Role::Registrar)
        };
        let running = Running::threaded(sockets(&["udp:127.0.0.1:0"]), order, threads);
        let mut client = Client::new(Transport::Udp, running.address(Transport::Udp));
        let mut register = client.request(Method::Register, "sip:example.com", 1);
        register.headers.set(Name::To, "<sip:bob@example.com>");
        client.send(register.clone());
        let refusal = client.answer();
        assert_eq!(refusal.status, Status::UNAUTHORIZED);
        let challenges = refusal.headers.challenges(&Name::WwwAuthenticate).unwrap();
        let challenge = DigestChallenge::read(&challenges[0]).unwrap();
        assert_eq!((challenge.realm.as_str(), challenge.algorithm), ("example.com", algorithm));
        for (number, password, expected) in [(2, "tanzania", 401), (3, "zanzibar", 200)] {
            let mut session = DigestSession::new(challenge.clone(), "bob", password);
            let answer = session.answer(&Method::Register, "sip:example.com", b"", "0a4f113b");
            register.headers.set(Name::CSeq, format!("{number} REGISTER"));
            register.headers.set(Name::Via, client.via(&number.to_string()));
            register.headers.set(Name::Authorization, answer.write());
            client.send(register.clone());
            assert_eq!(client.answer().status.code(), expected);
        }
        running.finish();
    }
}

/// Reads one message of a blocking connection.
fn read_one(stream: &mut TcpStream) -> Message {
    let mut all = Vec::new();
    let mut byte = [0];
    while !all.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        all.push(byte[0]);
    }
    Message::parse(&all.into()).unwrap()
}

#[test]
fn a_proxy_stands_between_transports_and_finds_names_in_its_table() {
    [1, 3].into_iter().for_each(a_proxy_stands_between_transports);
}

fn a_proxy_stands_between_transports(threads: u8) {
    let callee = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut names = Names::default();
    names.add("callee.example", IpAddr::from([127, 0, 0, 1]).into());
    let sockets = SocketsOrder { names, ..sockets(&["udp:127.0.0.1:0", "tcp:127.0.0.1:0"]) };
    let contact =
        format!("sip:{{user}}@callee.example:{};transport=tcp", callee.local_addr().unwrap().port());
    // One contact has a host name that is not in the table. At the other, no server listens.
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = format!("sip:x@{unused};transport=tcp");
    let user = |name: &str, contact: Option<&str>| User {
        name: name.into(),
        password: String::new(),
        contact: contact.map(Into::into),
    };
    let users =
        vec![user("bob", None), user("carol", Some("sip:x@nowhere.example")), user("dave", Some(&refused))];
    let order = ServerOrder {
        users: Some(users),
        contact: Some(contact),
        ..server(Role::Proxy { record_route: true })
    };
    let running = Running::threaded(sockets, order, threads);
    let (udp, tcp) = (running.address(Transport::Udp), running.address(Transport::Tcp));
    let mut caller = Client::new(Transport::Udp, udp);
    caller.send(caller.request(Method::Invite, &format!("sip:bob@{udp}"), 1));
    let (mut stream, _) = callee.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let Message::Request(invite) = read_one(&mut stream) else { panic!("a request comes") };
    let vias: Vec<&str> = invite.headers.all(&Name::Via).collect();
    assert_eq!(vias.len(), 2);
    assert!(vias[0].starts_with(&format!("SIP/2.0/TCP {tcp};")), "{}", vias[0]);
    let route = invite.headers.get(&Name::RecordRoute).unwrap();
    assert!(route.starts_with(&format!("<sip:{tcp}")) && route.contains("lr"), "{route}");
    let mut ok = invite.response(Status::OK);
    let to = invite.headers.to().unwrap().unwrap().with_tag("callee");
    ok.headers.set(Name::To, to);
    stream.write_all(&Message::from(ok).to_bytes()).unwrap();
    let answer = caller.answer();
    assert_eq!((answer.status, answer.headers.all(&Name::Via).count()), (Status::OK, 1));
    for (name, number) in [("carol", 2), ("dave", 3)] {
        let answer = ask(&running, Transport::Udp, Method::Invite, &format!("sip:{name}@{udp}"), number);
        assert_eq!(answer.status, Status::SERVER_INTERNAL_ERROR, "a 503 of its own is told as 500: {name}");
    }
    let answer = ask(&running, Transport::Udp, Method::Invite, "sip:x@elsewhere.example", 4);
    assert_eq!(answer.status.code(), 403, "a stranger's request goes to users only");
    let tally = running.finish();
    let unsent: Vec<&str> = tally.unsent.0.keys().map(String::as_str).collect();
    let expected = [
        "connection refused",
        "no address of `nowhere.example` is known: the table has none, and no DNS is asked",
    ];
    assert_eq!(unsent, expected);
    assert_eq!(tally.connections.accepted, 0);
}

/// RFC 3261 section 18.1.1: a request that is too long for UDP is sent over TCP.
#[test]
fn a_long_request_goes_over_tcp_where_somebody_takes_it() {
    let points = ["udp:127.0.0.1:0", "tcp:127.0.0.1:0"];
    // Reserves a TCP port without listening on it.
    let port = || {
        let streams = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&streams, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = SocketAddr::try_from(rustix::net::getsockname(&streams).unwrap()).unwrap();
        UdpSocket::bind(address).ok().map(|datagrams| (streams, datagrams, address))
    };
    let (streams, datagrams, callee) = std::iter::repeat_with(port).flatten().next().unwrap();
    datagrams.set_read_timeout(Some(PATIENCE)).unwrap();
    let bob = User { name: "bob".into(), password: String::new(), contact: None };
    let order = ServerOrder {
        users: Some(vec![bob]),
        contact: Some(format!("sip:{{user}}@{callee}")),
        ..server(Role::Proxy { record_route: false })
    };
    let running = Running::start(sockets(&points), order);
    let proxy = running.address(Transport::Udp);
    let mut caller = Client::new(Transport::Udp, proxy);
    let mut call = |number| {
        let mut invite = caller.request(Method::Invite, &format!("sip:bob@{proxy}"), number);
        invite.headers.push(Name::Subject, "x".repeat(1300));
        caller.send(invite);
    };
    call(1);
    let mut buffer = [0; 65_535];
    let len = datagrams.recv(&mut buffer).expect("nobody takes it over TCP");
    let invite = Message::parse(&Bytes::copy_from_slice(&buffer[..len])).unwrap();
    assert_eq!(invite.headers().top_via().unwrap().unwrap().transport, Ok(Transport::Udp));
    rustix::net::listen(&streams, 1).unwrap();
    let listener = TcpListener::from(streams);
    call(2);
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let invite = read_one(&mut stream);
    assert_eq!(invite.headers().top_via().unwrap().unwrap().transport, Ok(Transport::Tcp));
    assert_eq!(invite.headers().get(&Name::CSeq), Some("2 INVITE"));
    running.finish();
}

#[test]
fn responses_wait_as_long_as_they_are_told() {
    let sockets = SocketsOrder { delay: Some("30 ms".parse().unwrap()), ..sockets(&["udp:127.0.0.1:0"]) };
    let running = Running::start(sockets, server(machine()));
    let mut client = Client::new(Transport::Udp, running.address(Transport::Udp));
    for number in 1..6 {
        let before = StdInstant::now();
        client.send(client.request(Method::Options, "sip:bob@127.0.0.1", number));
        assert_eq!(client.answer().status, Status::OK);
        assert!(before.elapsed() >= StdDuration::from_millis(30));
    }
    running.finish();
}

/// Whether the peer closes a connection.
fn is_closed(mut stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// A TCP client may close its sending direction and still receive (RFC 9293 section 3.6). Its last request is answered
/// even if the response is delayed, and its connection is closed after the last response.
#[test]
fn a_client_that_half_closes_is_answered() {
    let sockets = SocketsOrder { delay: Some("100 ms".parse().unwrap()), ..sockets(&["tcp:127.0.0.1:0"]) };
    let running = Running::start(sockets, server(machine()));
    let mut stream = TcpStream::connect(running.address(Transport::Tcp)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let options = |number: u32| {
        format!(
            "OPTIONS sip:bob@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/TCP h;branch=z9hG4bK{number}\r\nMax-Forwards: 70\r\n\
             From: <sip:a@b>;tag=1\r\nTo: <sip:c@d>\r\nCall-ID: {number}\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
        )
    };
    stream.write_all((options(1) + &options(2)).as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("SIP/2.0 200 OK").count(), 2, "{answers}");
    // A connection without a pending request is closed as soon as the peer closes its sending direction.
    let silent = TcpStream::connect(running.address(Transport::Tcp)).unwrap();
    silent.shutdown(Shutdown::Write).unwrap();
    assert!(is_closed(&silent));
    let tally = running.finish();
    assert_eq!((tally.unsent.total(), tally.connections.broken.total()), (0, 0), "{tally:?}");
}

#[test]
fn hostile_peers_lose_their_connections_and_others_are_served() {
    let patience = Duration::from_millis(300);
    let bounds = Bounds { message: 10_000, unsent: 20_000 };
    let limits = Limits { connections: Some(3), patience, bounds, ..Limits::default() };
    let sockets =
        SocketsOrder { limits, ..sockets(&["udp:127.0.0.1:0", "tcp:127.0.0.1:0", "tls:127.0.0.1:0"]) };
    let running = Running::start(sockets, server(machine()));
    let (udp, tcp) = (running.address(Transport::Udp), running.address(Transport::Tcp));
    let connect = |to: SocketAddr| TcpStream::connect(to).unwrap();
    let say = |bytes: &[u8]| {
        let mut stream = connect(tcp);
        // The server may close the connection before all bytes are written.
        let _ = stream.write_all(bytes);
        assert!(is_closed(&stream));
    };
    say(&[b'x'; 20_000]);
    say(b"OPTIONS sip:a SIP/2.0\r\nContent-Length: 99999999\r\n\r\n");
    say(&b"nonsense\r\nContent-Length: 0\r\n\r\n".repeat(20));
    say(b"OPTIONS sip:a SI");
    assert!(is_closed(&connect(running.address(Transport::Tls))), "no handshake comes");
    // If there are too many connections, the last one is refused, and the others stay open.
    let kept: Vec<TcpStream> = (0..3).map(|_| connect(tcp)).collect();
    assert!(is_closed(&connect(tcp)));
    // A connection whose peer receives nothing is closed.
    let mut greedy = &kept[0];
    greedy.set_write_timeout(Some(PATIENCE)).unwrap();
    let options = |number: u32| {
        let text = format!(
            "OPTIONS sip:bob@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/TCP h;branch=z9hG4bK{number}\r\nMax-Forwards: 70\r\n\
             From: <sip:a@b>;tag=1\r\nTo: <sip:c@d>\r\nCall-ID: {number}\r\nCSeq: 1 OPTIONS\r\nX: {}\r\nContent-Length: 0\r\n\r\n",
            "x".repeat(5000)
        );
        // The response copies the long From header field.
        text.replace("From: <sip:a@b>", &format!("From: \"{}\" <sip:a@b>", "y".repeat(4000)))
    };
    let broke = (0..1_000_000).any(|number| greedy.write_all(options(number).as_bytes()).is_err());
    assert!(broke);
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    for bytes in [&b"\xff\xfe nothing"[..], b"", b"\r\n\r\n", &[b'A'; 60_000], b"SIP/2.0 200 OK\r\n\r\n"] {
        datagrams.send_to(bytes, udp).unwrap();
    }
    assert_eq!(ask(&running, Transport::Udp, Method::Options, "sip:bob@127.0.0.1", 1).status, Status::OK);
    drop(kept);
    let tally = running.finish();
    assert_eq!(tally.connections.refused, 1, "{tally:?}");
    let broken = &tally.connections.broken.0;
    for why in [
        "the received bytes are not SIP",
        "the peer did not finish a message",
        "the peer did not finish its handshake",
    ] {
        assert!(broken.contains_key(why), "{why}: {broken:?}");
    }
    assert!(tally.unreadable.total() >= 2 && tally.keep_alives >= 1, "{tally:?}");
}

#[test]
fn a_connection_beyond_the_limit_of_its_address_gets_503() {
    let limits = Limits { per_address: Some(2), ..Limits::default() };
    let sockets = SocketsOrder { limits, ..sockets(&["tcp:127.0.0.1:0"]) };
    let running = Running::start(sockets, server(machine()));
    let to = running.address(Transport::Tcp);
    let ask = |client: &mut Client, number: u32| {
        let request = client.request(Method::Options, "sip:bob@127.0.0.1", number);
        client.send(request);
        client.answer()
    };
    let mut kept: Vec<_> = (0..2).map(|_| Client::new(Transport::Tcp, to)).collect();
    for (client, number) in kept.iter_mut().zip(1..) {
        assert_eq!(ask(client, number).status, Status::OK);
    }
    let refused = ask(&mut Client::new(Transport::Tcp, to), 3);
    assert_eq!(refused.status, Status::SERVICE_UNAVAILABLE);
    assert!(refused.headers.get(&Name::RetryAfter).is_some());
    assert_eq!(ask(&mut Client::tcp_from([127, 0, 0, 2], to), 4).status, Status::OK, "another address");
    let connections = running.finish().connections;
    assert_eq!((connections.accepted, connections.refused), (3, 1), "{connections:?}");
}

/// Messages without credentials do not validate the peer of a connection.
#[test]
fn strangers_without_a_password_do_not_shut_out_a_user() {
    let bob = User { name: "bob".into(), password: "zanzibar".into(), contact: None };
    let order =
        ServerOrder { digest: Some(Algorithm::MD5), users: Some(vec![bob]), ..server(Role::Registrar) };
    let limits = Limits { connections: Some(16), shared: true, ..Limits::default() };
    let running = Running::start(SocketsOrder { limits, ..sockets(&["tcp:127.0.0.1:0"]) }, order);
    let to = running.address(Transport::Tcp);
    let mut strangers = Vec::new();
    for number in 1..=16 {
        let mut stranger = Client::tcp_from([127, 1, 1, number], to);
        let options = stranger.request(Method::Options, &format!("sip:{to}"), number.into());
        stranger.send(options);
        assert_eq!(stranger.answer().status, Status::OK);
        strangers.push(stranger);
    }
    let mut user = Client::tcp_from([127, 2, 2, 1], to);
    let uri = format!("sip:{to}");
    let mut register = user.request(Method::Register, &uri, 50);
    register.headers.set(Name::To, format!("<sip:bob@{to}>"));
    user.send(register.clone());
    let refusal = user.answer();
    assert_eq!(refusal.status, Status::UNAUTHORIZED);
    let challenges = refusal.headers.challenges(&Name::WwwAuthenticate).unwrap();
    let mut session = DigestSession::new(DigestChallenge::read(&challenges[0]).unwrap(), "bob", "zanzibar");
    register.headers.set(Name::CSeq, "51 REGISTER");
    register.headers.set(Name::Via, user.via("51"));
    register
        .headers
        .set(Name::Authorization, session.answer(&Method::Register, &uri, b"", "0a4f113b").write());
    user.send(register);
    assert_eq!(user.answer().status, Status::OK);
    let connections = running.finish().connections;
    assert_eq!((connections.accepted, connections.refused), (17, 0), "{connections:?}");
}

/// Only a message that can be parsed validates the peer of a connection.
#[test]
fn what_is_no_sip_proves_no_connection() {
    let limits = Limits { connections: Some(16), shared: true, ..Limits::default() };
    let sockets = SocketsOrder { limits, ..sockets(&["tcp:127.0.0.1:0"]) };
    let running = Running::start(sockets, server(machine()));
    let to = running.address(Transport::Tcp);
    let mut strangers = Vec::new();
    for number in 1..=16 {
        let mut stranger =
            SipStream::connect(([127, 1, 1, number], 0).into(), to, None, Bounds::default()).unwrap();
        stranger.queue("nonsense\r\nContent-Length: 0\r\n\r\n".into()).unwrap();
        while stranger.has_unsent() {
            stranger.flush().unwrap();
        }
        strangers.push(stranger);
    }
    let mut user = Client::tcp_from([127, 2, 2, 1], to);
    let options = user.request(Method::Options, &format!("sip:{to}"), 50);
    user.send(options);
    assert_eq!(user.answer().status, Status::OK);
    drop(strangers);
    let connections = running.finish().connections;
    assert_eq!((connections.accepted, connections.refused), (17, 0), "{connections:?}");
}

/// The ACK, the BYE and a second INVITE of a call have a source address other than that of the INVITE, so the kernel
/// may pass them to another thread.
#[test]
fn all_messages_of_a_call_reach_the_thread_that_has_it() {
    const CALLS: u32 = 24;
    let running = Running::threaded(sockets(&["udp:127.0.0.1:0", "tcp:127.0.0.1:0"]), server(machine()), 4);
    for transport in [Transport::Udp, Transport::Tcp] {
        let address = running.address(transport);
        for number in 1..=CALLS {
            let [mut first, mut second] = [(); 2].map(|()| Client::new(transport, address));
            let mut invite = first.request(Method::Invite, &format!("sip:bob@{address}"), number);
            invite.headers.set(Name::CallId, format!("{}{number}", transport.name()));
            invite.headers.push(Name::Subject, "x".repeat(400));
            first.send(invite.clone());
            let answer = first.answer();
            assert_eq!(answer.status, Status::OK);
            let mut merged = invite.clone();
            merged.headers.set(Name::Via, second.via("merged"));
            second.send(merged);
            assert_eq!(second.answer().status, Status::LOOP_DETECTED);
            let mut dialog = Dialog::caller(&invite, &answer).unwrap();
            let mut ack = dialog.acknowledgement(&invite);
            ack.headers.push_front(Name::Via, second.via("ack"));
            second.send(ack);
            let mut bye = dialog.request(Method::Bye).unwrap();
            bye.headers.push_front(Name::Via, second.via("bye"));
            second.send(bye);
            assert_eq!(second.answer().status, Status::OK);
        }
    }
    let tally = running.finish();
    let received = ["INVITE", "ACK", "BYE"].map(|method| tally.received.requests[method]);
    // The caller does not acknowledge the 482 to the second INVITE.
    assert_eq!(received.map(u32::try_from), [4 * CALLS, 2 * CALLS, 2 * CALLS].map(Ok));
    assert_eq!((tally.connections.accepted, tally.unreadable.total()), (u64::from(2 * CALLS), 0));
}

/// A call to a user takes the connection of the registration, even if another thread owns that connection. If the
/// connection has ended, the caller gets an error.
#[test]
fn a_user_is_reached_along_a_connection_of_another_thread() {
    let order = ServerOrder {
        domains: vec![Host::Name("example.com".into())],
        ..server(Role::Proxy { record_route: true })
    };
    let running = Running::threaded(sockets(&["udp:127.0.0.1:0", "tcp:127.0.0.1:0"]), order, 4);
    let (udp, tcp) = (running.address(Transport::Udp), running.address(Transport::Tcp));
    let mut caller = Client::new(Transport::Udp, udp);
    for number in 1..=16 {
        let (user, mut callee) = (format!("user{number}"), Client::new(Transport::Tcp, tcp));
        // Requests within a call have the contact as Request-URI. Its user part differs from the user's name.
        let contact = format!("sip:line{number}@{};transport=tcp", callee.local());
        let mut register = callee.request(Method::Register, "sip:example.com", number);
        register.headers.set(Name::To, format!("<sip:{user}@example.com>"));
        register.headers.set(Name::Contact, format!("<{contact}>"));
        callee.send(register);
        assert_eq!(callee.answer().status, Status::OK);
        let uri = format!("sip:{user}@example.com");
        let request = caller.request(Method::Invite, &uri, 100 + number);
        caller.send(request.clone());
        let Message::Request(invite) = callee.receive() else { panic!("a request comes") };
        let mut ok = invite.response(Status::OK);
        ok.headers.set(Name::To, invite.headers.to().unwrap().unwrap().with_tag("callee"));
        ok.headers.set(Name::Contact, format!("<{contact}>"));
        for route in invite.headers.all(&Name::RecordRoute) {
            ok.headers.push(Name::RecordRoute, route);
        }
        callee.send(ok);
        let answer = caller.answer();
        assert_eq!(answer.status, Status::OK);
        let mut dialog = Dialog::caller(&request, &answer).unwrap();
        let mut ack = dialog.acknowledgement(&request);
        ack.headers.push_front(Name::Via, caller.via(&format!("ack{number}")));
        caller.send(ack);
        let mut bye = dialog.request(Method::Bye).unwrap();
        bye.headers.push_front(Name::Via, caller.via(&format!("bye{number}")));
        caller.send(bye);
        // A caller without a dialog sends a request to the contact of a user.
        caller.send(caller.request(Method::Options, &contact, 300 + number));
        for (method, answers) in [(Method::Ack, false), (Method::Bye, true), (Method::Options, true)] {
            let Message::Request(request) = callee.receive() else { panic!("a request comes") };
            assert_eq!(request.method, method);
            if answers {
                callee.send(request.response(Status::OK));
                assert_eq!(caller.answer().status, Status::OK);
            }
        }
        drop(callee);
        // If the server has not yet noticed the end of the connection, the request is lost, and a proxy does not send
        // 408 for it (RFC 4320 section 4.2).
        let mut other = Client::new(Transport::Udp, udp);
        let gone = (1..).find_map(|again| {
            other.send(other.request(Method::Options, &uri, 1000 * again + number));
            other.answer_within(StdDuration::from_millis(500))
        });
        let status = gone.map(|response| response.status);
        assert_eq!(status, Some(Status::SERVER_INTERNAL_ERROR), "a 503 of its own is told as 500");
    }
    assert_eq!(running.finish().connections.accepted, 16);
}

/// A second server cannot listen on the address, although its threads share it with `SO_REUSEPORT`.
#[test]
fn an_address_that_several_threads_share_is_taken() {
    let running = Running::threaded(sockets(&["udp:127.0.0.1:0", "tcp:127.0.0.1:0"]), server(machine()), 2);
    for (transport, address) in running.listens.clone() {
        let order = sockets(&[&format!("{}:{address}", transport.name().to_lowercase())]);
        let partitioning = Partitioning::new(&machine(), NonZeroU8::MIN.saturating_add(1), &Seeds::new(1));
        assert!(matches!(PartitionedSockets::open(order, &partitioning), Err(ServeError::Taken(_))));
    }
    running.finish();
}

#[test]
fn an_address_that_is_taken_is_named() {
    let open = |point: &str| Sockets::open(sockets(&[point]));
    let (datagrams, listener) =
        (UdpSocket::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    for (transport, address) in
        [("udp", datagrams.local_addr().unwrap()), ("tcp", listener.local_addr().unwrap())]
    {
        let Err(error) = open(&format!("{transport}:{address}")) else { panic!("{address} is taken") };
        assert_eq!(
            error.to_string(),
            format!("{transport}:{address} is taken: another program listens there")
        );
    }
    // TEST-NET-1 (RFC 5737).
    assert!(matches!(open("udp:192.0.2.1:5060").err(), Some(ServeError::NotOurs(_))));
}
