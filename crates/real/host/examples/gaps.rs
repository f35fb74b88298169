//! Measures the gaps between the datagrams of one flow, from the kernel's time stamps.
//!
//! ```text
//! gaps capture FILE PAYLOAD [MEAN_GAP_US]
//! gaps listen 10.0.0.2:5001 [MEAN_GAP_US]
//! ```
//!
//! `capture` reads a pcap or pcapng file that contains only the flow's frames. Each datagram has PAYLOAD bytes. A
//! longer frame contains several datagrams that the sender's kernel had not yet segmented; the gaps between them count
//! as zero. `listen` receives datagrams until none has arrived for one second. It polls every 2 ms. Otherwise each
//! datagram would wake up a thread, and the sender would lose the time for this wake-up, because the kernel receives a
//! datagram on the sender's processor.
//!
//! The program prints one line: the number of datagrams, and the median and 99th percentile of the gaps, µs. With
//! MEAN_GAP_US, it adds the Kolmogorov-Smirnov distance from exponential gaps with this mean, and the deviation of the
//! rate in standard errors.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a measurement of this machine, started by hand"
)]

use std::error::Error;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use netrig_core::capture;
use netrig_host::sys::{ReceiveBatch, set_option_int, stamp_received};
use netrig_stats::{fit, quantile};

/// Length of the IPv4 and UDP headers, bytes.
const HEADERS: u32 = 28;

/// Interval of polling.
const LOOK: Duration = Duration::from_millis(2);

/// The flow has ended when no datagram has arrived for this time. If no datagram arrives for ten times this time, there
/// is no flow.
const SILENCE: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (mut times, mean_us) = match words[..] {
        ["capture", path, payload, ref mean @ ..] => (captured(path, payload.parse()?)?, mean),
        ["listen", at, ref mean @ ..] => (listened(at)?, mean),
        _ => {
            return Err(
                "gaps capture FILE PAYLOAD [MEAN_GAP_US], or gaps listen ADDRESS:PORT [MEAN_GAP_US]".into()
            );
        }
    };
    times.sort_unstable();
    let gaps_us: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e3).collect();
    let [p50, p99] = [0.5, 0.99].map(|p| quantile::quantile(&gaps_us, p));
    print!("{} {:.1} {:.1}", times.len(), p50?, p99?);
    if let [mean_us] = mean_us {
        let mean_us: f64 = mean_us.parse()?;
        let distance = fit::kolmogorov_smirnov(&gaps_us, |gap| 1.0 - (-gap / mean_us).exp())?.statistic;
        let expected = gaps_us.iter().sum::<f64>() / mean_us;
        print!(" {distance:.4} {:.2}", (gaps_us.len() as f64 - expected) / expected.sqrt());
    }
    println!();
    Ok(())
}

fn captured(path: &str, payload: u32) -> Result<Vec<u64>, Box<dyn Error>> {
    let mut times = Vec::new();
    capture::read(&std::fs::read(path)?, |packet| {
        let bytes = packet.ip_len().map_or(0, |len| len.saturating_sub(HEADERS));
        times.extend(std::iter::repeat_n(packet.at_ns, bytes.div_ceil(payload.max(1)) as usize));
    })?;
    Ok(times)
}

fn listened(at: &str) -> Result<Vec<u64>, Box<dyn Error>> {
    let socket = UdpSocket::bind(at)?;
    socket.set_nonblocking(true)?;
    // The buffer has room for one second of the fastest flow. It exceeds the system's limit, which needs root.
    set_option_int(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 128 << 20)?;
    stamp_received(&socket)?;
    eprintln!("listening");
    // Only the time stamps are needed, so one byte of each datagram is kept.
    let mut batch = ReceiveBatch::new(1);
    let (mut times, begun, mut last) = (Vec::new(), Instant::now(), Instant::now());
    while last.elapsed() < SILENCE || times.is_empty() && begun.elapsed() < 10 * SILENCE {
        loop {
            let received = batch.receive(&socket)?;
            if received == 0 {
                break;
            }
            times.extend((0..received).filter_map(|at| batch.get(at)?.stamp));
            last = Instant::now();
        }
        std::thread::sleep(LOOK);
    }
    Ok(times)
}
