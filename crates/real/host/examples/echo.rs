//! Measures the minimum round-trip time of a datagram between two sockets of this machine. Both ends poll without
//! sleeping while a datagram is in flight.
//!
//! ```text
//! echo reflect 10.0.0.2:5001 SECONDS
//! echo send 10.0.0.2:5001 SECONDS INTERVAL_US
//! ```
//!
//! The sender prints one line: the number of datagrams sent, how many of them left more than an interval late, how many
//! were received back, and the minimum and the median round-trip time, µs.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a measurement of this machine, started by hand"
)]

use std::net::UdpSocket;

use netrig_core::{Duration, Instant};
use netrig_host::{Clock, Pacer, Precedence, SPIN};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["reflect", at, seconds] => reflect(at, Duration::from_secs_f64(seconds.parse()?)),
        ["send", to, seconds, interval_us] => {
            send(to, Duration::from_secs_f64(seconds.parse()?), Duration::from_micros(interval_us.parse()?))
        }
        _ => Err("echo reflect ADDRESS:PORT SECONDS, or echo send ADDRESS:PORT SECONDS INTERVAL_US".into()),
    }
}

fn reflect(at: &str, span: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let socket = UdpSocket::bind(at)?;
    socket.set_nonblocking(true)?;
    Precedence::take(1.0);
    let clock = Clock::starting_in(Duration::ZERO);
    let mut datagram = [0; 64];
    let mut asker = None;
    while clock.now() < Instant::ZERO + span {
        if asker.is_none() {
            // There is only one sender. If the socket is connected to it, the kernel needs no route lookup.
            let Ok((len, from)) = socket.recv_from(&mut datagram) else { continue };
            socket.connect(from)?;
            asker = Some(from);
            socket.send(&datagram[..len])?;
        } else if let Ok(len) = socket.recv(&mut datagram) {
            socket.send(&datagram[..len])?;
        }
    }
    Ok(())
}

fn send(to: &str, span: Duration, interval: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let socket = UdpSocket::bind(if to.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" })?;
    socket.connect(to)?;
    socket.set_nonblocking(true)?;
    let clock = Clock::starting_in(Duration::ZERO);
    Precedence::take(2.0 * SPIN.as_secs_f64() / interval.as_secs_f64());
    let mut pacer = Pacer::new(clock, SPIN)?;
    let (mut sent, mut missed) = (0_u64, 0_u64);
    let mut trips = Vec::new();
    let mut due = Instant::ZERO + interval;
    while due < Instant::ZERO + span {
        while !clock.left_until(due).is_zero() {
            pacer.wait(due)?;
        }
        let at = clock.now();
        missed += u64::from(at - due >= interval);
        socket.send(&sent.to_be_bytes())?;
        due += interval;
        let mut back = [0; 64];
        while clock.left_until(due) > SPIN * 3 {
            if matches!(socket.recv(&mut back), Ok(8) if back[..8] == sent.to_be_bytes()) {
                trips.push(clock.now() - at);
                break;
            }
        }
        sent += 1;
    }
    trips.sort_unstable();
    let us = |trip: Option<&Duration>| trip.map_or(f64::NAN, |trip| trip.as_secs_f64() * 1e6);
    println!(
        "{sent} {missed} {} {:.1} {:.1}",
        trips.len(),
        us(trips.first()),
        us(trips.get(trips.len() / 2))
    );
    Ok(())
}
