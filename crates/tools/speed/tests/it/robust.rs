//! Tests of a server with many clients and with malicious clients. All clients are served, none gets more than its
//! limit, the memory does not grow, and malicious clients do not affect others.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration as StdDuration;

use netrig_core::{Duration, Rate, Size};
use netrig_host::ConnectionLimits;

use netrig_probe::stamp::HmacKey;
use netrig_speed::admission::AdmissionLimits;
use netrig_speed::carry::LiveReading;
use netrig_speed::flows::{self, TestOrder};
use netrig_speed::iperf3::TestParameters;
use netrig_speed::measure::{CallOrder, PhaseEvent, SpeedCall, SpeedError};
use netrig_speed::protocol::{
    Carrier, DataDirection, DatagramLoad, EchoDatagram, Keyring, MeasurementPhase, Preamble,
};
use netrig_speed::serve::{ClientProtocol, Server, ServerOrder};

use crate::common::{call_order, order, serving, until};

fn call(server: SocketAddr, key: Option<&[u8]>, rate: Option<Rate>) -> Result<SpeedCall, SpeedError> {
    let order = CallOrder { rate, ..call_order(server, key.and_then(HmacKey::new)) };
    SpeedCall::connect(order, &AtomicBool::new(false), &mut |_, _| {})
}

fn phase(carrier: Carrier, millis: u64) -> MeasurementPhase {
    MeasurementPhase::new(carrier, Duration::from_millis(millis), Duration::from_millis(50))
}

const fn tcp(way: DataDirection) -> Carrier {
    Carrier::Tcp { way, streams: 1, congestion: None }
}

fn carried(
    call: &mut SpeedCall,
    phase: MeasurementPhase,
) -> Result<netrig_speed::measure::CarriedPhase, SpeedError> {
    call.carry(phase, &AtomicBool::new(false), &mut |_: PhaseEvent<'_>| {})
}

/// The resident memory of this process, bytes (proc(5): VmRSS).
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Two hundred clients connect at the same time, and twenty may measure, each with an equal share of the rate. All are
/// served within their share. The fifth time, the server needs no more memory than the second time.
#[test]
fn two_hundred_at_once_are_served_within_limits_of_twenty() {
    let limits = AdmissionLimits {
        sessions: 20,
        queue: 200,
        per_address: 20,
        queue_per_address: 200,
        max_rate: Some(Rate::from_bits_per_s(200_000_000)),
        ..AdmissionLimits::default()
    };
    serving(ServerOrder { limits, ..order(20) }, |address, server| {
        let (most, served) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let one = || {
            let mut call = call(address, None, None).unwrap();
            most.fetch_max(server.now().measuring, Ordering::Relaxed);
            let mut has_some = false;
            let carriage =
                call.carry(phase(tcp(DataDirection::Down), 20_000), &AtomicBool::new(false), &mut |news| {
                    match news {
                        PhaseEvent::Near(LiveReading::Bytes { received, .. }) => {
                            has_some |= received > 100_000
                        }
                        PhaseEvent::Tick(steering) => steering.enough = has_some,
                        PhaseEvent::Near(_) | PhaseEvent::Far(_) => {}
                    }
                });
            let carriage = carriage.unwrap();
            let received = carriage.near.counted.iter().map(|counted| counted.received).max().unwrap();
            // The limit is the equal share of the rate, plus the data that the kernel sends in advance.
            let most = (carriage.span[1] - carriage.span[0]) / 1000 * 10 / 8 + (4 << 20);
            assert!((1..most).contains(&received), "{received} of {most}");
            served.fetch_add(1, Ordering::Relaxed);
            call.close();
        };
        let mut memory = Vec::new();
        for _ in 0..5 {
            std::thread::scope(|scope| (0..200).for_each(|_| drop(scope.spawn(one))));
            until("all have gone", || server.now().connections == 0);
            memory.push(resident());
        }
        assert_eq!(served.load(Ordering::Relaxed), 1000);
        assert_eq!(server.tally().sessions(ClientProtocol::Netrig), 1000);
        assert_eq!(server.tally().failures(), Default::default());
        assert!(most.load(Ordering::Relaxed) <= 20);
        println!("resident after each 200: {memory:?} B");
        // Allocators keep some freed memory.
        assert!(memory[4] < memory[1] + (16 << 20), "{memory:?}");
    });
}

/// Runs `mischief` against a server while another client measures continuously and must get correct results.
fn while_another_measures(order: ServerOrder, mischief: impl FnOnce(SocketAddr, &Server)) {
    serving(order, |address, server| {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let good = scope.spawn(|| {
                let mut call = call(address, None, None).unwrap();
                let fixed = DatagramLoad::Fixed { bits_per_s: 2_000_000 };
                let mut phases = 0;
                while !over.load(Ordering::Relaxed) || phases == 0 {
                    let load = Carrier::Udp { way: DataDirection::Up, size: 500, load: fixed };
                    let carriage = carried(&mut call, phase(load, 500)).unwrap();
                    let (sent, came) =
                        (carriage.near.report.datagrams.unwrap(), carriage.far.report.datagrams.unwrap());
                    assert!(sent.sent > 0 && came.received * 20 >= sent.sent * 19, "{sent:?} {came:?}");
                    phases += 1;
                }
                call.close();
            });
            until("the good one measures", || server.now().measuring == 1);
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| mischief(address, server)));
            over.store(true, Ordering::Relaxed);
            good.join().unwrap();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    });
}

/// The server limits the rate of connections. A client gets the same rate alone as beside a flood of unknown datagrams,
/// clients that exceed their budget, and a client that exceeds its rate.
#[test]
fn others_get_what_they_had_while_some_misbehave() {
    let limits = AdmissionLimits {
        max_rate: Some(Rate::from_bits_per_s(80_000_000)),
        max_size: Size::from_bytes(30_000_000),
        ..order(4).limits
    };
    serving(ServerOrder { limits, ..order(4) }, |address, server| {
        let goodput = || {
            let mut call = call(address, None, None).unwrap();
            let carriage = carried(&mut call, phase(tcp(DataDirection::Down), 3000)).unwrap();
            call.close();
            carriage.course(DataDirection::Down).throughput().unwrap().bits_per_s
        };
        let alone = goodput();
        assert!((19e6..21e6).contains(&alone), "{alone}");
        let over = AtomicBool::new(false);
        let beside = std::thread::scope(|scope| {
            scope.spawn(|| {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                while !over.load(Ordering::Relaxed) {
                    (0..100).for_each(|_| drop(socket.send_to(&[0; 1000], address)));
                    std::thread::sleep(StdDuration::from_millis(5));
                }
            });
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let mut glutton = call(address, None, Some(Rate::from_bits_per_s(20_000_000))).unwrap();
                    let up = DatagramLoad::Fixed { bits_per_s: 20_000_000 };
                    let up = Carrier::Udp { way: DataDirection::Both, size: 1200, load: up };
                    let _ = carried(&mut glutton, phase(up, 10_000));
                }
            });
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    iperf3_that_lies(address);
                }
            });
            let beside = goodput();
            over.store(true, Ordering::Relaxed);
            beside
        });
        assert!((beside / alone - 1.0).abs() < 0.05, "{beside} beside them, {alone} alone");
        assert!(server.tally().strays.load(Ordering::Relaxed) > 0);
        assert!(failures(server, "faster than its admitted rate") > 0);
    });
}

/// Opens a connection from this address of this host.
fn from(local: [u8; 4], to: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType};
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((local, 0))).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    socket.into()
}

/// A data connection with the token of a session, but from another address, does not belong to the session.
#[test]
fn a_connection_from_elsewhere_is_none_of_a_session() {
    let limits = order(4).limits;
    while_another_measures(ServerOrder { limits, ..order(4) }, |address, _| {
        let mut call = call(address, None, None).unwrap();
        let preamble = Preamble { token: call.budget().token, phase: 1, stream: 0 };
        std::thread::scope(|scope| {
            let stranger = scope.spawn(move || {
                let mut stranger = from([127, 0, 0, 2], address);
                stranger.write_all(&preamble.encode()).unwrap();
                stranger.set_read_timeout(Some(StdDuration::from_secs(20))).unwrap();
                let mut came = Vec::new();
                // The connection is closed without any data.
                let _ = stranger.read_to_end(&mut came);
                came.len()
            });
            let carriage = carried(&mut call, phase(tcp(DataDirection::Down), 1000)).unwrap();
            assert!(!carriage.cut_short && carriage.near.counted.iter().any(|counted| counted.received > 0));
            assert_eq!(stranger.join().unwrap(), 0);
        });
    });
}

fn failures(server: &Server, sentence: &str) -> u64 {
    let failures = server.tally().failures();
    failures.iter().filter(|(why, _)| why.contains(sentence)).map(|(_, count)| count).sum()
}

#[test]
fn who_floods_with_datagrams_is_cut_off() {
    let limits = AdmissionLimits { max_size: Size::from_bytes(20_000_000), ..order(4).limits };
    while_another_measures(ServerOrder { limits, ..order(4) }, |address, server| {
        // These datagrams belong to no session. They are counted and dropped.
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        (0..20_000).for_each(|_| drop(socket.send_to(&[0; 1000], address)));
        assert!(server.tally().strays.load(Ordering::Relaxed) > 0);
        // This client requests a higher rate than it was admitted with.
        let mut flooder = call(address, None, Some(Rate::from_bits_per_s(1_000_000))).unwrap();
        let load = |bits_per_s| Carrier::Udp {
            way: DataDirection::Up,
            size: 1200,
            load: DatagramLoad::Fixed { bits_per_s },
        };
        let error = carried(&mut flooder, phase(load(400_000_000), 3000)).unwrap_err().to_string();
        assert!(error.contains("was admitted with 1000000"), "{error}");
        // These clients stay within their rate but exceed their limit of bytes.
        let mut glutton = call(address, None, None).unwrap();
        let error = carried(&mut glutton, phase(load(400_000_000), 5000)).unwrap_err().to_string();
        assert!(error.contains("the session exceeded its limit of bytes"), "{error}");
        let mut glutton = call(address, None, None).unwrap();
        let down = Carrier::Udp {
            way: DataDirection::Down,
            size: 1200,
            load: DatagramLoad::Fixed { bits_per_s: 400_000_000 },
        };
        let error = carried(&mut glutton, phase(down, 5000)).unwrap_err().to_string();
        assert!(error.contains("the session exceeded its limit of bytes"), "{error}");
        until("both are counted", || failures(server, "the session exceeded its limit of bytes") == 2);
    });
}

#[test]
fn who_lies_about_its_address_or_its_rate_gets_nothing_by_it() {
    let limits = AdmissionLimits { max_rate: Some(Rate::from_bits_per_s(40_000_000)), ..order(4).limits };
    while_another_measures(ServerOrder { limits, ..order(4) }, |address, server| {
        let mut liar = call(address, None, Some(Rate::from_bits_per_s(1_000_000))).unwrap();
        let token = liar.budget().token;
        let error = std::thread::scope(|scope| {
            scope.spawn(|| {
                let load = DatagramLoad::Fixed { bits_per_s: 1_000_000 };
                let quiet = Carrier::Udp { way: DataDirection::Up, size: 100, load };
                assert!(!carried(&mut liar, phase(quiet, 500)).unwrap().cut_short);
            });
            // Another address uses the token of the session. Its datagrams do not count and are not answered.
            let stranger = UdpSocket::bind("127.0.0.2:0").unwrap();
            stranger.set_read_timeout(Some(StdDuration::from_millis(300))).unwrap();
            let preamble = Preamble { token, phase: 1, stream: 0 };
            let echo = EchoDatagram { preamble, number: 0, sent_ns: 0, there_ns: [0; 2] };
            stranger.send_to(&echo.encode(), address).unwrap();
            stranger.send_to(&preamble.encode(), address).unwrap();
            stranger.recv(&mut [0; 100]).unwrap_err()
        });
        assert!(matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut));
        assert!(server.tally().strays.load(Ordering::Relaxed) >= 2);
        // This iperf3 client requests 1 Mbit/s and sends as fast as it can.
        let lies = iperf3_that_lies(address);
        assert!(lies.contains("the rate is above its limit"), "{lies}");
        until("it is counted", || {
            failures(server, "iperf3: the client sends faster than its admitted rate") == 1
        });
    });
}

/// Runs an iperf3 client that requests 1 Mbit/s and sends as fast as it can. Returns its error.
fn iperf3_that_lies(address: SocketAddr) -> String {
    use netrig_speed::iperf3::{ClientEvent, ClientSession, Cookie, TestTransport, datagram};
    let asked = TestParameters {
        transport: TestTransport::Udp,
        rate: 1_000_000,
        len: 1200,
        time: 20,
        ..Default::default()
    };
    let begun = std::time::Instant::now();
    let now = || netrig_core::Instant::ZERO + Duration::from(begun.elapsed());
    let mut control = TcpStream::connect(address).unwrap();
    control.set_read_timeout(Some(StdDuration::from_millis(1))).unwrap();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(address).unwrap();
    let (mut session, mut floods) = (ClientSession::new(now(), Cookie::new([7; 36]), asked), false);
    loop {
        match session.poll_event() {
            Some(ClientEvent::Open) => drop(socket.send(&datagram::CONNECT).unwrap()),
            Some(ClientEvent::Start) => floods = true,
            Some(ClientEvent::Over(outcome)) => return outcome.unwrap_err().to_string(),
            _ => {}
        }
        if let Some(bytes) = session.poll_transmit() {
            control.write_all(&bytes).unwrap();
        }
        if floods {
            (0..200).for_each(|_| drop(socket.send(&[1; 1200])));
        }
        let mut buffer = [0; 4096];
        match control.read(&mut buffer) {
            Ok(0) => session.handle_close(),
            Ok(len) => session.handle_bytes(now(), &buffer[..len]),
            Err(_) => {}
        }
        session.handle_timeout(now());
    }
}

#[test]
fn garbage_and_sudden_ends_are_counted_and_the_others_go_on() {
    while_another_measures(order(4), |address, server| {
        let say = |bytes: &[u8]| {
            let mut socket = TcpStream::connect(address).unwrap();
            socket.write_all(bytes).unwrap();
            socket
        };
        for _ in 0..50 {
            drop(say(b"\x00\x01\x02\x03garbage"));
            drop(say(b"\x16\x03\x01"));
            drop(say(b"abcdefghijklmnopqrstuvwxyz234567abcd\0"));
            drop(say(b"GET /ndt/v7/upload HTTP/1.1\r\n"));
        }
        // Connections whose protocol is not known yet do not count.
        let refused = || failures(server, "unsupported protocol");
        until("those have come and gone", || refused() == 50 && server.now().connections == 1);
        // The first client sends invalid parameters, the second an excessive length.
        let mut socket = say(b"bbcdefghijklmnopqrstuvwxyz234567abcd\0\0\0\0\x05{{{{{");
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).unwrap();
        assert_eq!(answer[1], 0xfe, "an error of iperf3's: {answer:?}");
        let mut socket = say(b"cbcdefghijklmnopqrstuvwxyz234567abcd\0\xff\xff\xff\xff");
        socket.read_to_end(&mut answer).unwrap();
        // This client closes its connection during a phase.
        let mut gone = call(address, None, None).unwrap();
        let cut = AtomicBool::new(false);
        let carriage = gone.carry(phase(tcp(DataDirection::Down), 20_000), &cut, &mut |news| {
            if matches!(news, PhaseEvent::Near(_)) {
                cut.store(true, Ordering::Relaxed);
            }
        });
        assert!(carriage.unwrap().cut_short);
        drop(gone);
        until("all others have gone", || server.now().connections == 1);
        assert!(failures(server, "iperf3: the other end closed the connection") >= 1);
        until("it is counted", || failures(server, "JSON of 4294967295 bytes") == 1);
        assert_eq!(server.now().measuring, 1);
    });
}

/// An admitted client that does nothing keeps its slot until its time limit, and no longer.
#[test]
fn who_holds_a_place_and_does_nothing_loses_it() {
    let limits = AdmissionLimits { max_time: Duration::from_secs(5), ..order(1).limits };
    serving(ServerOrder { limits, ..order(1) }, |address, server| {
        let holds = call(address, None, None).unwrap();
        // The next client waits until the slot is free.
        let mut next = call(address, None, None).unwrap();
        until("it is counted", || failures(server, "the session exceeded its time limit") == 1);
        assert!(!carried(&mut next, phase(tcp(DataDirection::Up), 200)).unwrap().cut_short);
        drop((holds, next));
        // The same applies to a client that requests an object and does not read it.
        until("its place is free", || server.now().measuring == 0);
        let mut holds = TcpStream::connect(address).unwrap();
        holds.write_all(b"GET /object/900000000 HTTP/1.1\r\n\r\n").unwrap();
        until("it has its place", || server.now().measuring == 1);
        until("it is cut off", || failures(server, "HTTP: the session exceeded its time limit") == 1);
    });
}

/// One address opens as many silent connections as it may have. Other sessions are served meanwhile, and the address is
/// served again after these connections have ended.
#[test]
fn silent_connections_keep_nobody_out() {
    // Addresses that are not loopback addresses have such a limit by default.
    let connections = ConnectionLimits { connections_per_address: Some(72), ..ConnectionLimits::default() };
    let order = ServerOrder { connections, ..order(4) };
    while_another_measures(order, |address, server| {
        let silent: Vec<_> = (0..400).filter_map(|_| TcpStream::connect(address).ok()).collect();
        until("some are turned away", || {
            failures(server, "your address has reached its limit of connections") > 0
        });
        drop(silent);
        let asked = TestParameters { time: 1, direction: DataDirection::Both, ..TestParameters::default() };
        let order = TestOrder { server: address, host: "h".into(), asked, every: Duration::from_millis(100) };
        until("there is room again", || {
            flows::test(&order, &AtomicBool::new(false), &mut |_, _| {})
                .is_ok_and(|tested| tested.error.is_none())
        });
    });
}

#[test]
fn keys_have_names_and_as_many_places_as_they_may() {
    let keys = Keyring::read("ann 0123456789abcdef\nbob fedcba9876543210").unwrap();
    let limits = AdmissionLimits { per_key: Some(1), queue_per_address: 8, ..order(4).limits };
    serving(ServerOrder { keys, limits, ..order(4) }, |address, server| {
        let (ann, bob) = (&b"0123456789abcdef"[..], &b"fedcba9876543210"[..]);
        let first = call(address, Some(ann), None).unwrap();
        let other = call(address, Some(bob), None).unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| call(address, Some(ann), None).unwrap());
            until("it waits for its own", || server.now().waiting == 1);
            first.close();
            second.join().unwrap().close();
        });
        other.close();
        let error = call(address, Some(b"0000000000000000"), None).err().unwrap().to_string();
        assert!(error.contains("its key is different"), "{error}");
    });
}
