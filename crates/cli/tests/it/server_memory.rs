//! The memory that peers can make a server use. Each documented limit is measured while peers try to exceed it.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use netrig_host::frames::{read_frame, write_frame};
use netrig_probe::control::{FromProbe, PROBE};
use netrig_probe::greeting::{ClientGreeting, ServerGreeting};
use netrig_probe::{MOST_PROBES, receiver};
use netrig_sip::location::{Kind, Question};
use netrig_sip_net::dns::message::query;
use netrig_test_support::skip_unless;
use serde_json::{Value, json};

use crate::common::far_end::FarEnd;
use crate::common::machine::can_open;
use crate::common::sip_server::SipServer;
use crate::common::words;

const MIB: u64 = 1 << 20;

/// The memory that a server needs in addition to the limits: tables that grow by doubling, buffers, threads.
const SLACK: u64 = 16 * MIB;

fn options(number: usize, more: &str) -> String {
    format!(
        "OPTIONS sip:bob@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/TCP 127.0.0.1;branch=z9hG4bK{number}\r\nMax-Forwards: 70\r\n\
         From: <sip:a@b>;tag=1\r\nTo: <sip:c@d>\r\nCall-ID: {number}{more}\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
    )
}

/// Writes `bytes` repeatedly, up to `most` bytes, until the peer reads nothing for a second. Returns the number of
/// written bytes.
fn write_until_stuck(stream: &mut TcpStream, bytes: &[u8], most: usize) -> usize {
    stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut written = 0;
    while written < most {
        match stream.write(&bytes[..bytes.len().min(most - written)]) {
            Ok(0) => break,
            Ok(len) => written += len,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    written
}

/// Bindings take at most 1 MiB and 1 KiB for each of `--max-users`; here this is 3 MiB. The test registers contacts of
/// 30 MB. The registrar rejects registrations when the memory is full.
#[test]
fn contacts_take_no_more_than_their_bound() {
    let server = SipServer::start(&words(
        "registrar --listen tcp:127.0.0.1:0 --max-users 2000 --domain example.com --json",
    ));
    let before = server.most_memory();
    let mut stream = TcpStream::connect(server.address("tcp")).unwrap();
    let (mut statuses, mut answer) = (BTreeSet::new(), vec![0; 1 << 17]);
    for number in 0..8000 {
        let (user, contact) = (number / 16, "x".repeat(3800));
        let register = format!(
            "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/TCP 127.0.0.1;branch=z9hG4bK{number}\r\nMax-Forwards: 70\r\n\
             From: <sip:u{user}@example.com>;tag=1\r\nTo: <sip:u{user}@example.com>\r\nCall-ID: {user}\r\nCSeq: {number} REGISTER\r\n\
             Contact: <sip:{contact}{number}@192.0.2.1>\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(register.as_bytes()).unwrap();
        let mut len = 0;
        while !answer[..len].ends_with(b"\r\n\r\n") {
            len += stream.read(&mut answer[len..]).unwrap();
        }
        statuses.insert(String::from_utf8_lossy(&answer[8..11]).into_owned());
    }
    assert!(statuses.contains("200") && statuses.contains("503"), "{statuses:?}");
    let grown = server.most_memory() - before;
    assert!(grown < 3 * MIB + SLACK, "{grown} B");
    server.finish();
}

/// The incomplete messages of all connections take at most 64 MiB. Here 2000 connections send incomplete messages of
/// 120 MB in total.
#[test]
fn half_messages_take_no_more_than_their_bound() {
    skip_unless!(can_open(6000));
    // An eighth of the connections is reserved for those that have carried no message.
    let server =
        SipServer::start(&["uas", "--listen", "tcp:127.0.0.1:0", "--max-connections", "16000", "--json"]);
    let before = server.most_memory();
    let half = format!("INVITE sip:a@b SIP/2.0\r\nX: {}", "x".repeat(60_000));
    let streams: Vec<_> = (0..2000)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address("tcp")).unwrap();
            // Errors are ignored: the server may close a connection for lack of memory.
            let _ = write_until_stuck(&mut stream, half.as_bytes(), half.len());
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    let grown = server.most_memory() - before;
    assert!(grown > 20 * MIB, "halves are kept: {grown} B");
    assert!(grown < 64 * MIB + 2 * SLACK, "{grown} B");
    let told = server.finish();
    let broken = &told["connections"]["broken"];
    assert!(broken["the memory limit of all connections was reached"].as_u64() > Some(0), "{broken}");
    drop(streams);
}

/// If a peer does not read, the answers to its keep-alives are only counted, and its other answers take at most 256
/// KiB.
#[test]
fn slow_readers_take_no_more_than_their_bound() {
    let server =
        SipServer::start(&["uas", "--listen", "tcp:127.0.0.1:0", "--max-transactions", "2000", "--json"]);
    let before = server.most_memory();
    let mut pinging = TcpStream::connect(server.address("tcp")).unwrap();
    let pings = "\r\n\r\n".repeat(1 << 14);
    let written = write_until_stuck(&mut pinging, pings.as_bytes(), 64 << 20);
    assert!(written >= 1 << 20, "{written} B of keep-alives");
    let grown = server.most_memory() - before;
    assert!(grown < SLACK, "{grown} B for {written} B of keep-alives");
    let long = "c".repeat(8000);
    let asked: String = (0..100).map(|number| options(number, &long)).collect();
    let mut readers: Vec<_> = (0..20).map(|_| TcpStream::connect(server.address("tcp")).unwrap()).collect();
    for stream in &mut readers {
        write_until_stuck(stream, asked.as_bytes(), 16 << 20);
    }
    let grown = server.most_memory() - before;
    assert!(grown < 20 * MIB / 4 + 2 * SLACK, "{grown} B");
    drop(readers);
    server.finish();
}

/// At most 65,536 answers wait for `--delay`. Further queries get no answer.
#[test]
fn delayed_answers_of_a_dns_server_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let zone = folder.path().join("zone");
    std::fs::write(&zone, "$TTL 60\na.test A 192.0.2.1\n").unwrap();
    let server = SipServer::start(&[
        "dns",
        "--zone",
        zone.to_str().unwrap(),
        "--listen",
        "udp:127.0.0.1:0",
        "--delay",
        "24h",
    ]);
    let before = server.most_memory();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let question = query(7, &Question { kind: Kind::A, name: "a.test".to_owned() }).unwrap();
    for number in 0..400_000 {
        socket.send_to(&question, server.address("udp")).unwrap();
        if number % 1000 == 0 {
            // The server gets time to read the received queries.
            std::thread::sleep(Duration::from_millis(3));
        }
    }
    let grown = server.most_memory() - before;
    assert!(grown > 2 * MIB, "answers wait: {grown} B");
    // Each answer takes at most 1 KiB including its structures. The answers to all queries would take 280 MB.
    assert!(grown < 64 * MIB + SLACK, "{grown} B");
}

/// The data of all connections of a DNS server take at most 64 MiB, of which the answers for one connection are at most
/// 256 KiB and one answer. Here 20 peers request 4 GB of answers and read none, and 980 peers send incomplete queries
/// of 64 MB in total.
#[test]
fn half_questions_and_unread_answers_of_a_dns_server_take_no_more_than_their_bound() {
    skip_unless!(can_open(3000));
    let folder = tempfile::tempdir().unwrap();
    let zone = folder.path().join("zone");
    let records = (0..3700).map(|number| format!("many.test A 10.0.{}.{}\n", number / 256, number % 256));
    std::fs::write(&zone, "$TTL 60\n".to_owned() + &records.collect::<String>()).unwrap();
    let zone = zone.to_str().unwrap();
    let server = SipServer::start(&["dns", "--zone", zone, "--listen", "tcp:127.0.0.1:0", "--json"]);
    let before = server.most_memory();
    let question = query(7, &Question { kind: Kind::A, name: "many.test".to_owned() }).unwrap();
    let length = u16::try_from(question.len()).unwrap().to_be_bytes();
    let asked = [&length[..], &question[..]].concat().repeat(140_000 / (2 + question.len()));
    let half = [&u16::MAX.to_be_bytes()[..], &[0; 65_000]].concat();
    let begun = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(server.address("tcp")).unwrap();
        // Errors are ignored: the server closes a connection for lack of memory.
        let _ = write_until_stuck(&mut stream, bytes, bytes.len());
        stream
    };
    let readers: Vec<_> = (0..20).map(|_| begun(&asked)).collect();
    let halves: Vec<_> = (0..980).map(|_| begun(&half)).collect();
    let until = Instant::now() + Duration::from_secs(20);
    while server.most_memory() - before < 50 * MIB && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(100));
    }
    std::thread::sleep(Duration::from_secs(1));
    let grown = server.most_memory() - before;
    assert!(grown > 20 * MIB, "questions and answers are kept: {grown} B");
    assert!(grown < 64 * MIB + 2 * SLACK, "{grown} B");
    let told = server.finish();
    assert!(told["refused"].as_u64() > Some(0), "{told}");
    drop((readers, halves));
}

/// A stateful reflector stores the sequence numbers of 1024 sessions, and discards the oldest session.
#[test]
fn sessions_of_a_reflector_are_bounded() {
    let far_end = FarEnd::start(&["--stateful"]);
    let before = far_end.most_memory();
    let mut packet = vec![0; 44];
    packet[12] = 0x80;
    packet[13] = 1;
    packet[4] = 0xee;
    let reflector: SocketAddr = far_end.stamp[0].parse().unwrap();
    for number in 0..60_000_u32 {
        let [_, _, third, fourth] = number.to_be_bytes();
        let bind = || UdpSocket::bind((Ipv4Addr::new(127, 9, third, fourth.max(1)), 0)).unwrap();
        // A reflector does not answer packets from the port number on which it receives.
        let mut sockets = std::iter::repeat_with(bind);
        let socket = sockets.find(|socket| socket.local_addr().unwrap().port() != reflector.port()).unwrap();
        socket.send_to(&packet, &far_end.stamp[0]).unwrap();
        // After every 50 packets the test waits for an answer, so that the reflector's receive buffer does not
        // overflow.
        if number % 50 == 49 {
            socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            socket.recv(&mut [0; 100]).unwrap();
        }
    }
    let grown = far_end.most_memory() - before;
    assert!(grown < SLACK / 4, "{grown} B");
    let told = far_end.finish();
    assert_eq!(told["answered"], 60_000, "{told:#}");
}

/// The control connection of a probe, admitted by a far end without a key.
fn let_in(far_end: &FarEnd) -> TcpStream {
    let mut stream = TcpStream::connect(&far_end.probes[0]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert!(matches!(read_frame(&mut stream).unwrap(), Some(ServerGreeting::Hello { keyed: false, .. })));
    write_frame(&mut stream, &ClientGreeting::Hello { version: PROBE.version, nonce: [7; 32], tag: None })
        .unwrap();
    assert!(matches!(read_frame(&mut stream).unwrap(), Some(ServerGreeting::Welcome { .. })));
    stream
}

/// Starts a receiver at a far end that keeps all bytes of each datagram. Returns the control connection, and a socket
/// connected to the receiver.
fn receiving(far_end: &FarEnd) -> (TcpStream, UdpSocket) {
    let mut stream = let_in(far_end);
    write_frame(&mut stream, &FromProbe::Media).unwrap();
    write_frame(&mut stream, &json!({ "receive": { "lasts_ms": 600_000, "keep": u16::MAX } })).unwrap();
    let told: Value = read_frame(&mut stream).unwrap().unwrap();
    let port = told["ready"]["port"].as_u64().unwrap_or_else(|| panic!("{told}"));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect((Ipv4Addr::LOCALHOST, u16::try_from(port).unwrap())).unwrap();
    (stream, socket)
}

/// The number of datagrams that the socket at this port of 127.0.0.1 has dropped (proc_net_tcp.rst).
fn dropped_at(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/udp").unwrap();
    let at = format!("0100007F:{port:04X}");
    let own = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let mut own = own.filter(|words| words[1] == at);
    own.next().map_or(0, |words| words.last().unwrap().parse().unwrap())
}

/// A far end keeps at most 64 MiB of datagrams for one probe and 256 MiB for all. Here four probes send more than 64
/// MiB each, so nothing is kept for a fifth.
#[test]
fn datagrams_of_a_far_end_take_no_more_than_their_bound() {
    let far_end = FarEnd::start(&[]);
    let before = far_end.most_memory();
    let datagram = vec![7; 60_000];
    let mut probes = Vec::new();
    for _ in 0..4 {
        let (stream, socket) = receiving(&far_end);
        let port = socket.peer_addr().unwrap().port();
        let until = Instant::now() + Duration::from_secs(60);
        let mut sent = 0;
        // Datagrams are sent until as many have arrived as the far end may keep.
        while sent < receiver::MOST_BYTES / datagram.len() + dropped_at(port) {
            assert!(Instant::now() < until, "{sent} datagrams were sent");
            sent += (0..20).filter(|_| socket.send(&datagram).is_ok()).count();
            std::thread::sleep(Duration::from_millis(2));
        }
        probes.push(stream);
    }
    let (mut fifth, socket) = receiving(&far_end);
    for _ in 0..100 {
        socket.send(&datagram).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    write_frame(&mut fifth, &json!("sent")).unwrap();
    let told: Value = read_frame(&mut fifth).unwrap().unwrap();
    let why = told["error"]["why"].as_str().unwrap_or_else(|| panic!("{told}"));
    assert!(why.contains("the memory for all peers (268435456 B) is used up"), "{why}");
    let grown = far_end.most_memory() - before;
    println!("datagrams of four probes: {grown} B");
    assert!(grown > 250 * MIB, "datagrams are kept: {grown} B");
    assert!(grown < receiver::MOST_BYTES_TOGETHER as u64 + 2 * SLACK, "{grown} B");
    drop(probes);
    far_end.finish();
}

/// A control message of a probe has at most 4096 B, before and after the admission. Here all permitted connections send
/// incomplete messages of 4 MB.
#[test]
fn half_words_of_probes_take_no_more_than_their_bound() {
    let far_end = FarEnd::start(&[]);
    let before = far_end.most_memory();
    let half = [&(4_u32 << 20).to_be_bytes()[..], &vec![b' '; 3 << 20]].concat();
    let known: Vec<_> = (0..MOST_PROBES).map(|_| let_in(&far_end)).collect();
    let strangers = (0..64).map(|_| TcpStream::connect(&far_end.probes[0]).unwrap());
    let mut all: Vec<_> = known.into_iter().chain(strangers).collect();
    for stream in &mut all {
        // Errors are ignored: the far end closes the connection before the message is complete.
        let _ = stream.write_all(&half);
    }
    let grown = far_end.most_memory() - before;
    println!("half words of {} probes: {grown} B", all.len());
    assert!(grown < SLACK, "{grown} B of {} B", all.len() * half.len());
    drop(all);
    let told = far_end.finish();
    let failures = told["failures"].as_object().unwrap();
    let too_long: u64 = failures
        .iter()
        .filter(|(why, _)| why.contains("4194304"))
        .filter_map(|(_, count)| count.as_u64())
        .sum();
    assert!(too_long >= 70, "{told:#}");
}
