//! A receiver over loopback, with and without a key, and with misbehaving probes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use netrig_core::{Duration, Rate};

use super::*;
use crate::control::{ControlConnection, FromFarEnd, FromProbe, PROBE, StreamRequest, call};
use crate::stamp::{ErrorEstimate, Format, HmacKey, TestPacket};
use crate::{FarEnd, FarEndOrder, FarEndSettings, FarEndTally, MOST_PACKETS, StreamDirection};
use netrig_host::frames::{read_frame, write_frame};
use netrig_host::{monotonic_nanos, realtime_nanos};

const LOOPBACK: [&str; 2] = ["127.0.0.1", "::1"];

fn order(at: &str, key: Option<HmacKey>) -> FarEndOrder {
    let settings = FarEndSettings {
        listen: vec![at.parse().unwrap()],
        stamp_port: 0,
        control_port: 0,
        max_rate: Rate::from_bits_per_s(1_000_000),
        ..FarEndSettings::default()
    };
    FarEndOrder { settings, key, slots: FarEndOrder::SLOTS }
}

/// Starts a far end, runs `guest` with its address, and returns the counters of the far end.
fn with_far_end(at: &str, key: Option<HmacKey>, guest: impl FnOnce(SocketAddr)) -> FarEndTally {
    let far_end = FarEnd::open(order(at, key)).unwrap();
    let address = far_end.control_addresses()[0];
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| far_end.serve(&stop));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| guest(address)));
        stop.store(true, Ordering::Relaxed);
        let tally = serving.join().unwrap().unwrap();
        outcome.unwrap();
        tally
    })
}

#[test]
fn datagrams_are_told_of_with_their_times_over_both_versions_of_ip() {
    for at in LOOPBACK {
        let tally = with_far_end(at, None, |address| {
            let mut remote = Remote::connect(address, None).unwrap();
            let to = remote.receive(Duration::from_secs(5), 4).unwrap();
            assert!(remote.has_our_clock());
            let socket = UdpSocket::bind((address.ip(), 0)).unwrap();
            let before = monotonic_nanos();
            for number in 0..100_u8 {
                socket.send_to(&[number; 10], to).unwrap();
            }
            let ReceivedDatagrams { arrivals, dropped, .. } = remote.report().unwrap();
            assert_eq!(dropped, 0);
            let numbers: Vec<u8> = arrivals.iter().map(|arrival| arrival.head[0]).collect();
            assert_eq!(numbers, (0..100).collect::<Vec<_>>());
            assert!(arrivals.iter().all(|arrival| arrival.len == 10 && arrival.head.len() == 4));
            let within = before - 1_000_000..monotonic_nanos();
            assert!(arrivals.iter().all(|arrival| within.contains(&arrival.at_ns)));
        });
        assert_eq!((tally.streams, tally.failures.total()), (1, 0));
    }
}

/// More packets are pending than fit into one batch. Each is answered, or the reason why not is counted.
#[test]
fn of_a_burst_of_stamp_packets_none_goes_uncounted() {
    const BURST: u64 = 2_000;
    let far_end = FarEnd::open(order(LOOPBACK[0], None)).unwrap();
    let target = far_end.stamp_addresses()[0];
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let error = ErrorEstimate::new(true, Format::Ntp, 1);
    let packet =
        TestPacket { sequence: 1, timestamp: Format::Ntp.encode(realtime_nanos()), error, session: 3 }
            .encode(None);
    (0..BURST).for_each(|_| assert_eq!(sender.send_to(&packet, target).unwrap(), packet.len()));
    let stop = AtomicBool::new(false);
    let mut asked = BURST;
    let tally = std::thread::scope(|scope| {
        let serving = scope.spawn(|| far_end.serve(&stop));
        // This packet is answered after all others, once the socket has room for it.
        let last = UdpSocket::bind("127.0.0.1:0").unwrap();
        last.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        while {
            asked += 1;
            last.send_to(&packet, target).unwrap();
            last.recv(&mut [0; 100]).is_err()
        } {}
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap()
    });
    let unanswered: u64 = tally.unanswered.total();
    assert_eq!(tally.answered + unanswered, asked, "{tally:?}");
}

#[test]
fn a_key_is_asked_for_and_proved() {
    let [right, wrong] =
        [b"0123456789abcdef", b"fedcba9876543210"].map(|octets| HmacKey::new(octets).unwrap());
    with_far_end(LOOPBACK[0], Some(right.clone()), |address| {
        assert!(Remote::connect(address, Some(&right)).is_ok());
        let refusals = [Remote::connect(address, Some(&wrong)), Remote::connect(address, None)];
        let why = refusals.map(|refusal| refusal.unwrap_err().to_string());
        assert!(
            why[0].contains("its key is different, or there is a man in the middle; give both"),
            "{}",
            why[0]
        );
        assert!(why[1].contains("it requires a key; give the same --key"), "{}", why[1]);
    });
}

/// Bytes that are not a frame, an endless frame and an invalid request each end their own session and no other.
#[test]
fn guests_who_do_not_behave() {
    with_far_end(LOOPBACK[0], None, |address| {
        for garbage in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xFF; 100], &[0, 0, 0, 4, b'n', b'u'], b"\0\0\0\x06\"sent\""]
        {
            let mut stream = TcpStream::connect(address).unwrap();
            PROBE.greet_server(&mut stream, None, &[]).unwrap();
            write_frame(&mut stream, &FromProbe::Media).unwrap();
            stream.write_all(garbage).unwrap();
            // The far end may already have reset the connection, because it does not read all bytes.
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut reply = Vec::new();
            let _ = stream.read_to_end(&mut reply);
        }
        let mut remote = Remote::connect(address, None).unwrap();
        assert!(remote.report().is_err(), "nothing was to be received");
        assert!(Remote::connect(address, None).is_ok(), "the next guest is served");
    });
}

/// Each connection has a thread, so their number is limited.
#[test]
fn more_connections_than_are_granted_are_refused_in_words() {
    with_far_end(LOOPBACK[0], None, |address| {
        let sink =
            |connections| Remote::connect(address, None).unwrap().sink(connections, Duration::from_secs(5));
        assert!(sink(MOST_CONNECTIONS).is_ok());
        for connections in [MOST_CONNECTIONS + 1, u16::MAX] {
            let why = sink(connections).unwrap_err().to_string();
            assert!(why.ends_with(&format!("{connections} connections: expected at most 64")), "{why}");
        }
    });
}

/// Three streams of the maximum number of packets leave no memory for a fourth until one of them ends. A probe that
/// needs little memory is served meanwhile.
#[test]
fn probes_share_what_a_far_end_may_keep() {
    let stream = StreamRequest {
        direction: StreamDirection::There,
        token: 1,
        count: MOST_PACKETS,
        poisson: false,
        gap_ns: 1_000_000,
        wait_ns: 1_000_000_000,
        seed: 1,
        size: 100,
        dscp: 0,
    };
    with_far_end(LOOPBACK[0], None, |address| {
        let ask = || {
            let ControlConnection { stream: mut control, .. } = call(address, None).unwrap();
            write_frame(&mut control, &FromProbe::Stream(stream.clone())).unwrap();
            let answer: FromFarEnd = read_frame(&mut control).unwrap().unwrap();
            (control, answer)
        };
        let mut asked: Vec<_> = (0..3).map(|_| ask()).collect();
        assert!(asked.iter().all(|(_, answer)| matches!(answer, FromFarEnd::Ready { .. })));
        let (_, FromFarEnd::Refused { why }) = ask() else { panic!("a fourth was taken") };
        assert!(why.starts_with("the memory for all peers (268435456 B) is used up"), "{why}");
        assert!(Remote::connect(address, None).unwrap().sink(1, Duration::from_secs(5)).is_ok());
        drop(asked.pop());
        // The far end needs a moment to notice the end.
        while !matches!(ask().1, FromFarEnd::Ready { .. }) {}
    });
}

/// Silent connections, and probes with an hour of time left, do not delay the end of the far end. All connections stay
/// open until it has ended.
#[test]
fn it_ends_with_probes_connected() {
    let far_end = FarEnd::open(order(LOOPBACK[0], None)).unwrap();
    let address = far_end.control_addresses()[0];
    let (stop, (over, ended)) = (AtomicBool::new(false), mpsc::channel());
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || over.send(far_end.serve(stop).unwrap()));
        let unknown = TcpStream::connect(address).unwrap();
        let silent = Remote::connect(address, None).unwrap();
        let mut busy = [(); 2].map(|()| Remote::connect(address, None).unwrap());
        busy[0].receive(LONGEST, 4).unwrap();
        busy[1].sink(1, LONGEST).unwrap();
        stop.store(true, Ordering::Relaxed);
        // 20 s are shorter than the time-out of a session, which is at least 30 s.
        let tally = ended.recv_timeout(std::time::Duration::from_secs(20));
        drop((unknown, silent, busy));
        assert_eq!(tally.expect("it has ended").failures.total(), 1);
    });
}

#[test]
fn nobody_there_is_a_sentence() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = Remote::connect(address, None).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot connect to {address}: ")), "{error}");
    assert!(error.ends_with("is `netrig probe reflect` running there?"), "{error}");
}
