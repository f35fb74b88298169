//! A receiver over loopback, with and without a key, and with guests who do not behave.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use netrig_core::Duration;

use super::*;
use crate::monotonic_nanos;
use crate::probe::ProbeFailure;

const LOOPBACK: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

/// Runs `guest` against a receiver; what it complained of.
fn with_receiver(at: &str, key: Option<Key>, guest: impl FnOnce(SocketAddr)) -> Vec<String> {
    let receiver = Arc::new(Receiver::bind(at.parse().unwrap(), key).unwrap());
    let address = receiver.local_addr().unwrap();
    let (stop, complaints) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let serving = scope
            .spawn(|| receiver.serve(&stop, &|_, error| complaints.lock().unwrap().push(error.to_string())));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| guest(address)));
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        outcome.unwrap();
    });
    complaints.into_inner().unwrap()
}

#[test]
fn datagrams_are_told_of_with_their_times_over_both_versions_of_ip() {
    for at in LOOPBACK {
        let complaints = with_receiver(at, None, |address| {
            let mut remote = Remote::connect(address, None).unwrap();
            let (to, clock) = remote.receive(Duration::from_secs(5), 4).unwrap();
            assert_eq!(clock, FarClock::Ours);
            let socket = UdpSocket::bind((address.ip(), 0)).unwrap();
            let before = monotonic_nanos();
            for number in 0..100_u8 {
                socket.send_to(&[number; 10], to).unwrap();
            }
            let (arrivals, dropped) = remote.came().unwrap();
            assert_eq!(dropped, 0);
            let numbers: Vec<u8> = arrivals.iter().map(|arrival| arrival.head[0]).collect();
            assert_eq!(numbers, (0..100).collect::<Vec<_>>());
            assert!(arrivals.iter().all(|arrival| arrival.len == 10 && arrival.head.len() == 4));
            let within = before - 1_000_000..monotonic_nanos();
            assert!(arrivals.iter().all(|arrival| within.contains(&arrival.at_ns)));
        });
        assert_eq!(complaints, Vec::<String>::new());
    }
}

#[test]
fn a_key_is_asked_for_and_proved() {
    let [right, wrong] = ["0123456789abcdef", "fedcba9876543210"].map(|text| Key::new(text).unwrap());
    with_receiver(LOOPBACK[0], Some(right.clone()), |address| {
        assert!(Remote::connect(address, Some(&right)).is_ok());
        let refusals = [Remote::connect(address, Some(&wrong)), Remote::connect(address, None)];
        let why = refusals.map(|refusal| refusal.unwrap_err().to_string());
        assert!(why[0].ends_with("that is not the key"), "{}", why[0]);
        assert!(why[1].ends_with("it wants a key: give --key"), "{}", why[1]);
    });
}

#[test]
fn without_a_key_only_this_host_is_served() {
    let error = Receiver::bind("0.0.0.0:0".parse().unwrap(), None).unwrap_err();
    assert!(matches!(error, ProbeFailure::Refused { .. }), "{error}");
}

/// Bytes that are no frame, a frame that never ends, a request without a proof: each is the end of that talk and of no
/// other.
#[test]
fn guests_who_do_not_behave() {
    with_receiver(LOOPBACK[0], None, |address| {
        for garbage in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xFF; 100], &[0, 0, 0, 4, b'n', b'u'], b"\0\0\0\x06\"Sent\""]
        {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(garbage).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut said = Vec::new();
            // It may be reset with bytes unread.
            let _ = stream.read_to_end(&mut said);
        }
        let mut remote = Remote::connect(address, None).unwrap();
        assert!(remote.sunk().is_err() || remote.came().is_err());
        assert!(Remote::connect(address, None).is_ok(), "the next guest is served");
    });
}

#[test]
fn nobody_there_is_a_sentence() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = Remote::connect(address, None).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot connect to {address}: ")), "{error}");
    assert!(error.ends_with("is `netrig probe listen` running there?"), "{error}");
}
