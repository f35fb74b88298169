//! Ports for other servers, which need a given port.

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

/// A free port of the loopback interface, for UDP or TCP, that the system assigns to no other program: below its ephemeral
/// range.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let is_free = |port: &u16| {
        TcpListener::bind(("127.0.0.1", *port)).is_ok() && UdpSocket::bind(("127.0.0.1", *port)).is_ok()
    };
    // Tests that run at the same time, each in its own process, look in different ranges.
    let slot = std::env::var("NEXTEST_TEST_GLOBAL_SLOT").ok().and_then(|slot| slot.parse::<u32>().ok());
    let first = slot.map_or(std::process::id(), |slot| slot * 180);
    let ports = std::iter::repeat_with(|| first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)));
    let mut ports = ports.map(|number| 20_000 + (number % 12_000) as u16);
    ports.find(is_free).expect("one of them is free")
}

/// An even port from which eight are free over UDP: SIPp takes pairs for audio and video.
pub fn free_media_port() -> u16 {
    let are_free = |port: &u16| {
        port.is_multiple_of(2) && (*port..*port + 8).all(|port| UdpSocket::bind(("127.0.0.1", port)).is_ok())
    };
    std::iter::repeat_with(free_port).find(are_free).expect("the ports have no end")
}
