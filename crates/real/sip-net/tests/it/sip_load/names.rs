//! Servers that are looked up by name: in a table, and by a DNS server of netrig or of the test.

use netrig_sip::settings::LookupSettings;
use std::thread::JoinHandle;

use netrig_sip::Uri;
use netrig_sip::load::Unlocated;
use netrig_sip::location::{Kind, Question, Zone};
use netrig_sip_net::ListeningPoint;
use netrig_sip_net::dns::message::query;
use netrig_sip_net::dns::{
    Asking, Found, LocateError, Location, NameServer, NameServerOrder, NameSource, NameTally, Reach, locate,
};

use super::*;
use crate::it::sip_server::name_server;

/// A DNS server that ends with the test.
struct Names {
    listens: Vec<ListeningPoint>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<NameTally>>,
}

impl Names {
    fn start(zone: &str, delay: Option<&str>, loss: f64) -> Self {
        let delay = delay.map(|law| law.parse::<SpanDistribution>().unwrap());
        let order = NameServerOrder { delay, loss, ..name_server(zone) };
        Self::run(NameServer::open(order).unwrap())
    }

    /// Starts a server over UDP and TCP on the same port.
    fn at_both(zone: &str) -> Self {
        let taken = |port| -> Option<NameServer> {
            let at = |transport| ListeningPoint { transport, address: ([127, 0, 0, 1], port).into() };
            let listen = vec![at(Transport::Udp), at(Transport::Tcp)];
            NameServer::open(NameServerOrder { listen, ..name_server(zone) }).ok()
        };
        Self::run((20_000..32_000).find_map(taken).unwrap())
    }

    fn run(server: NameServer) -> Self {
        let (listens, stop) = (server.listens().to_vec(), Arc::new(AtomicBool::new(false)));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || server.serve(None, &flag).unwrap());
        Self { listens, stop, thread: Some(thread) }
    }

    fn source(&self) -> NameSource {
        asked(self.listens[0].address)
    }

    fn finish(mut self) -> NameTally {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The DNS server as a source of names, with retransmissions after 100 ms and three transmissions in all.
fn asked(server: SocketAddr) -> NameSource {
    NameSource::Server(Asking { server, retry: Duration::from_millis(100), tries: 3 })
}

fn table(zone: &str) -> NameSource {
    NameSource::Table(Arc::new(Zone::parse(zone).unwrap()))
}

fn location(uri: &str, source: NameSource, lookup: LookupSettings) -> Location {
    let uri: Uri = uri.parse().unwrap();
    Location { uri: uri.as_sip().unwrap().clone(), source, lookup }
}

fn located(uri: &str, source: NameSource) -> Result<Found, LocateError> {
    let reach =
        Reach { transports: vec![Transport::Udp, Transport::Tcp], families: vec![Kind::A], may_test: false };
    locate(&location(uri, source, LookupSettings::Once), reach, Seeds::new(1), || false)
}

fn hops(found: &Found) -> Vec<String> {
    found.hops.iter().map(|hop| format!("{} {}", hop.transport.name(), hop.address)).collect()
}

#[track_caller]
fn unlocated(found: Result<Found, LocateError>) -> Unlocated {
    match found {
        Err(LocateError::Unlocated(why)) => why,
        other => panic!("{other:?}"),
    }
}

const ZONE: &str = r#"
$TTL 60
example.test NAPTR 20 10 "s" "SIP+D2T" "" _sip._tcp.example.test
example.test NAPTR 10 10 "s" "SIP+D2U" "" _sip._udp.example.test
_sip._udp.example.test SRV 1 0 5062 b.example.test
_sip._udp.example.test SRV 0 0 5061 a.example.test
_sip._tcp.example.test SRV 0 0 5063 a.example.test
a.example.test A 127.0.0.1
b.example.test A 127.0.0.2
public.test A 8.8.8.8
six.test AAAA ::1
"#;

/// The same table is used directly and by a DNS server.
#[test]
fn a_name_leads_to_the_same_places_by_a_table_and_by_a_server() {
    let server = Names::start(ZONE, Some("30 ms"), 0.0);
    for source in [table(ZONE), server.source()] {
        let is_asked = matches!(source, NameSource::Server(_));
        let found = located("sip:example.test", source.clone()).unwrap();
        assert_eq!(hops(&found), ["UDP 127.0.0.1:5061", "UDP 127.0.0.2:5062", "TCP 127.0.0.1:5063"]);
        // The three queries for NAPTR, SRV and addresses follow each other, each with a delay of 30 ms.
        assert!(!is_asked || found.took >= Duration::from_millis(90), "{found:?}");
        assert_eq!(unlocated(located("sip:nowhere.test", source.clone())), Unlocated::NoSuchName);
        assert_eq!(unlocated(located("sip:public.test", source.clone())), Unlocated::Forbidden);
        let tcp_only = located("sip:example.test;transport=tcp", source).unwrap();
        assert_eq!(hops(&tcp_only), ["TCP 127.0.0.1:5063"]);
    }
    assert_eq!(server.finish().lost, 0);
}

/// Forty hosts do not fit into a datagram, so the query is repeated over TCP.
#[test]
fn what_is_too_long_for_a_datagram_comes_over_tcp() {
    let name = "a-host-with-a-name-of-some-length-that-nobody-would-type-in-by-hand";
    let zone: String = (0..40)
        .map(|number| {
            format!("_sip._udp.example.test SRV 0 0 {} {name}-{number}.test\n", 5000 + number)
                + &format!("{name}-{number}.test A 127.0.0.1\n")
        })
        .collect();
    let zone = zone.replace(name, "a-host-with-a-name-of-some-length-that-nobody-would-type");
    let server = Names::at_both(&zone);
    let found = located("sip:example.test;transport=udp", server.source()).unwrap();
    // At most 32 records of a response are read.
    assert_eq!(found.hops.len(), 32);
    assert_eq!(server.finish().over_tcp, 1);
}

/// A fake DNS server that calls `answer` for each query.
fn fake(mut answer: impl FnMut(&UdpSocket, SocketAddr, &[u8]) + Send + 'static) -> NameSource {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok((len, from)) = socket.recv_from(&mut bytes) {
            answer(&socket, from, &bytes[..len]);
        }
    });
    asked(address)
}

/// The response to a query with this response code and without records.
fn refused(question: &[u8], code: u8) -> Vec<u8> {
    let mut answer = question.to_vec();
    answer[2] |= 0x80;
    answer[3] = code;
    answer
}

#[test]
fn what_the_dns_fails_to_do_is_told_by_its_kind() {
    let once = |answer: fn(&[u8]) -> Vec<u8>| {
        let source = fake(move |socket, from, bytes| drop(socket.send_to(&answer(bytes), from)));
        unlocated(located("sip:example.test:5060", source))
    };
    assert_eq!(once(|question| refused(question, 2)), Unlocated::Refused);
    assert_eq!(once(|question| refused(question, 5)), Unlocated::Refused);
    assert_eq!(once(|question| refused(question, 3)), Unlocated::NoSuchName);
    // The response announces forty records and has none.
    let garbled = |question: &[u8]| {
        let mut answer = refused(question, 0);
        answer[7] = 40;
        answer
    };
    assert_eq!(once(garbled), Unlocated::Malformed);
    // The server does not respond to any of the three transmissions.
    let heard = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&heard);
    let silent = fake(move |_, _, _| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(unlocated(located("sip:example.test:5060", silent)), Unlocated::NoAnswer);
    assert_eq!(heard.load(Ordering::Relaxed), 3);
}

/// Responses with another ID, with another question or from another port are ignored. The correct response after them
/// is used.
#[test]
fn answers_of_others_are_ignored() {
    let zone = Zone::parse("example.test A 127.0.0.1").unwrap();
    let forged = Zone::parse("example.test A 127.0.0.66\nother.test A 127.0.0.66").unwrap();
    let source = fake(move |socket, from, bytes| {
        let answer = |zone| netrig_sip_net::dns::message::answer(bytes, zone, true).unwrap();
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        stranger.send_to(&answer(&forged), from).unwrap();
        let mut other_number = answer(&forged);
        other_number[0] ^= 1;
        socket.send_to(&other_number, from).unwrap();
        let id = u16::from_be_bytes([bytes[0], bytes[1]]);
        let question = Question { kind: Kind::A, name: "other.test".into() };
        let asks = query(id, &question).unwrap();
        let other = netrig_sip_net::dns::message::answer(&asks, &forged, true).unwrap();
        socket.send_to(&other, from).unwrap();
        socket.send_to(&answer(&zone), from).unwrap();
    });
    let found = located("sip:example.test:5060", source).unwrap();
    assert_eq!(hops(&found), ["UDP 127.0.0.1:5060"]);
}

/// A zone with NAPTR, SRV and address records that lead to this server.
fn zone_of(server: SocketAddr) -> String {
    let (ip, port) = (server.ip(), server.port());
    format!(
        "$TTL 60\nexample.test NAPTR 1 1 s SIP+D2U \"\" _sip._udp.example.test\n\
         _sip._udp.example.test SRV 0 0 {port} a.test\na.test A {ip}\n"
    )
}

/// Each attempt looks up its server. The duration of the look-up is reported as a separate delay and is not part of any
/// other delay.
#[test]
fn attempts_look_for_their_server_and_that_is_measured() {
    let server = answering(Answer::Accept(Duration::ZERO));
    for (work, what, delay) in [
        (CALL, What::Call, Delay::Connection),
        (Work::Call(Scenario::Options), What::Options, Delay::Options),
    ] {
        for lookup in [LookupSettings::PerAttempt, LookupSettings::Cached] {
            let names = Names::start(&zone_of(address(&server)), Some("20 ms"), 0.0);
            // The order's address is already that of the server.
            let location = Some(location("sip:example.test", names.source(), lookup));
            let report = carried_out(&LoadOrder { location, ..order(address(&server), work, 40) });
            assert_all_well(&report, what, 40);
            let took = report.delay(Delay::Lookup).unwrap();
            assert_eq!(took.n, 40);
            let dns = report.tester.dns;
            if lookup == LookupSettings::PerAttempt {
                assert!(took.min_us >= 60_000.0, "{took:?}");
                assert_eq!((dns.asked, dns.kept), (120, 0));
            } else {
                // Each of the two threads sends its own three queries. Attempts that start meanwhile wait for the same
                // responses.
                assert_eq!(dns.asked, 6, "{dns:?}");
                assert!(took.min_us < 20_000.0, "{took:?}");
            }
            // The look-up is not part of other delays.
            let row = report.delay(delay).unwrap();
            assert!(lookup == LookupSettings::Cached || row.min_us < 60_000.0, "{row:?}");
            assert_eq!(names.finish().over_udp, dns.asked);
        }
    }
}

/// Registrations wait for their look-up too. No user has two pending registrations.
#[test]
fn registrations_look_for_their_server() {
    let registrar = Running::start(sockets(&UDP), ordered(Role::Registrar));
    let names = Names::start(&zone_of(address(&registrar)), Some("exponential:10 ms"), 0.0);
    let location = Some(location("sip:example.test", names.source(), LookupSettings::PerAttempt));
    let domain = address(&registrar).to_string();
    let order = with(order(address(&registrar), Work::Register, 40), |plan| plan.domain = Some(domain));
    let report = carried_out(&LoadOrder { location, ..order });
    assert_all_well(&report, What::Register, 40);
    assert_eq!(report.delay(Delay::Lookup).unwrap().n, 40);
}

/// An attempt whose look-up finds no server is not counted in failures, ratios or thresholds of a server.
#[test]
fn what_finds_no_server_is_held_against_none() {
    let server = answering(Answer::Accept(Duration::ZERO));
    for (zone, loss, why) in [
        ("other.test A 127.0.0.1".to_owned(), 0.0, Unlocated::NoSuchName),
        (zone_of(address(&server)), 1.0, Unlocated::NoAnswer),
        (zone_of(([8, 8, 8, 8], 5060).into()), 0.0, Unlocated::Forbidden),
        ("_sip._udp.example.test SRV 0 0 0 .".to_owned(), 0.0, Unlocated::NoService),
    ] {
        let names = Names::start(&zone, None, loss);
        let location = Some(location("sip:example.test", names.source(), LookupSettings::PerAttempt));
        let report = carried_out(&LoadOrder { location, ..order(address(&server), CALL, 10) });
        let row = report.outcome(What::Call).unwrap();
        assert_eq!((row.counts.begun, row.counts.failed, row.counts.unlocated), (10, 0, 10));
        let failure = &report.failures[0];
        assert_eq!((failure.kind.name(), &*failure.why, failure.count), ("dns", &*why.to_string(), 10));
        assert!(report.thresholds.is_empty() && report.ratios.isa.is_none() && report.delays.is_empty());
        assert!(report.notes.iter().any(|note| note.contains("10 attempts found no server")));
        assert_eq!(report.tester.dns.again > 0, why == Unlocated::NoAnswer);
    }
}

/// Lost responses cause retransmissions of queries, which lengthen the look-up.
#[test]
fn lost_answers_are_asked_for_again() {
    let server = answering(Answer::Accept(Duration::ZERO));
    let names = Names::start(&zone_of(address(&server)), None, 0.2);
    let asking = Asking { tries: 20, ..Asking::new(names.listens[0].address) };
    let source = NameSource::Server(Asking { retry: Duration::from_millis(50), ..asking });
    let location = Some(location("sip:example.test", source, LookupSettings::PerAttempt));
    let report = carried_out(&LoadOrder { location, ..order(address(&server), CALL, 40) });
    assert_all_well(&report, What::Call, 40);
    let lost = names.finish().lost;
    assert!(lost > 0 && report.tester.dns.again >= lost, "{lost}: {:?}", report.tester.dns);
    assert!(report.delay(Delay::Lookup).unwrap().max_us >= 50_000.0);
}

/// The server with the best priority is dead, and the next one is used (RFC 3263 section 4.3).
#[test]
fn the_next_by_priority_takes_over() {
    let dead = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = answering(Answer::Accept(Duration::ZERO));
    let [first, second] = [dead.local_addr().unwrap(), address(&server)].map(|at| at.port());
    let zone = format!(
        "_sip._udp.example.test SRV 0 0 {first} a.test\n_sip._udp.example.test SRV 1 0 {second} a.test\na.test A 127.0.0.1\n"
    );
    for lookup in [LookupSettings::Once, LookupSettings::PerAttempt] {
        let location = Some(location("sip:example.test", table(&zone), lookup));
        let target = dead.local_addr().unwrap();
        let order = with(order(target, CALL, 10), |plan| plan.domain = Some("example.test".into()));
        let report = carried_out(&LoadOrder { location, ..order });
        assert_all_well(&report, What::Call, 10);
        assert_eq!(report.tolerated.failed_over, 10);
    }
}

/// Two servers with the same priority share the attempts by their weights.
#[test]
fn attempts_are_shared_by_weights() {
    let heard = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
    let servers = heard.clone().map(|heard| {
        let counted = move |message: &Message| {
            let is_invite = matches!(message, Message::Request(request) if request.method == Method::Invite);
            heard.fetch_add(u64::from(is_invite), Ordering::Relaxed);
            true
        };
        deaf(sockets(&UDP), ordered(Role::UserAgent(manners(Answer::Accept(Duration::ZERO)))), counted)
    });
    let [first, second] = [0, 1].map(|place: usize| address(&servers[place]).port());
    let zone = format!(
        "_sip._udp.example.test SRV 0 30 {} a.test\n_sip._udp.example.test SRV 0 10 {} a.test\na.test A 127.0.0.1\n",
        first, second
    );
    let location = Some(location("sip:example.test", table(&zone), LookupSettings::PerAttempt));
    let report = carried_out(&LoadOrder { location, ..order(address(&servers[0]), CALL, 400) });
    assert_all_well(&report, What::Call, 400);
    let [most, least] = heard.map(|heard| heard.load(Ordering::Relaxed) as f64);
    assert!(most + least >= 400.0, "{most} and {least}");
    // The first server is chosen for 31 of 41 numbers (RFC 2782). The tolerance is five standard errors of 400 draws.
    let share = 31.0 / 41.0;
    let error = (share * (1.0 - share) / 400.0_f64).sqrt();
    assert!((most / (most + least) - share).abs() < 5.0 * error, "{most} and {least}");
}

/// A load with a look-up per attempt is refused if the DNS server has a public address.
#[test]
fn a_public_dns_server_is_not_loaded() {
    let location = |lookup| Some(location("sip:example.test", asked(([8, 8, 8, 8], 53).into()), lookup));
    let order =
        |lookup| LoadOrder { location: location(lookup), ..order(([127, 0, 0, 1], 5060).into(), CALL, 1) };
    order(LookupSettings::Once).check().unwrap();
    for lookup in [LookupSettings::PerAttempt, LookupSettings::Cached] {
        let why = order(lookup).check().unwrap_err().to_string();
        assert!(why.contains("a DNS server of others"), "{why}");
    }
}
