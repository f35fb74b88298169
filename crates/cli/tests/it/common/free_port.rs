//! Free ports for servers that cannot let the system choose a port.

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

/// A free UDP and TCP port of the loopback interface. It is below the ephemeral range, so that the system assigns it to
/// no other program.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let is_free = |port: &u16| {
        TcpListener::bind(("127.0.0.1", *port)).is_ok() && UdpSocket::bind(("127.0.0.1", *port)).is_ok()
    };
    // Tests that run in parallel processes use different ranges.
    let slot = std::env::var("NEXTEST_TEST_GLOBAL_SLOT").ok().and_then(|slot| slot.parse::<u32>().ok());
    let first = slot.map_or(std::process::id(), |slot| slot * 180);
    let ports = std::iter::repeat_with(|| first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)));
    let mut ports = ports.map(|number| 20_000 + (number % 12_000) as u16);
    ports.find(is_free).expect("one of them is free")
}

/// The first of eight consecutive free UDP ports. It is even, because SIPp takes pairs of ports for audio and video.
pub fn free_media_port() -> u16 {
    let are_free = |port: &u16| {
        port.is_multiple_of(2) && (*port..*port + 8).all(|port| UdpSocket::bind(("127.0.0.1", port)).is_ok())
    };
    std::iter::repeat_with(free_port).find(are_free).expect("the ports have no end")
}
