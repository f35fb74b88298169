//! Ports for servers of others, which must be told where to listen.

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

/// A port of the loopback interface that nobody has, over UDP or TCP, and that the system gives to nobody else: below those that
/// it chooses from.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let is_free = |port: &u16| {
        TcpListener::bind(("127.0.0.1", *port)).is_ok() && UdpSocket::bind(("127.0.0.1", *port)).is_ok()
    };
    let first = std::process::id();
    let ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed));
    let mut ports = ports.map(|number| 20_000 + (number % 12_000) as u16);
    ports.find(is_free).expect("one of them is free")
}
