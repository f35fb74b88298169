//! The gaps between the datagrams of one flow, by the kernel's stamps.
//!
//! ```text
//! gaps capture FILE PAYLOAD [MEAN_GAP_US]
//! gaps listen 10.0.0.2:5001 [MEAN_GAP_US]
//! ```
//!
//! `capture` reads a pcap or pcapng with only the flow's frames, whose datagrams all carry PAYLOAD bytes. A longer frame is
//! several datagrams that the sender's kernel has not segmented yet, without gaps. `listen` receives datagrams until none has
//! arrived for a second. It polls every 2 ms, so that the sender, on whose processor a datagram is received, wakes no thread.
//!
//! Prints on one line the number of datagrams, and the median and 99th percentile of the gaps, µs. With MEAN_GAP_US it adds the
//! Kolmogorov-Smirnov distance from exponential gaps of this mean, and the deviation of the rate in standard errors.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    unsafe_code,
    reason = "a measurement of this machine, started by hand, with stamps that no safe call returns"
)]

use std::error::Error;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use netrig_core::capture;
use netrig_stats::{fit, quantile};

/// Headers of UDP and IPv4, bytes.
const HEADERS: u32 = 28;

/// Interval of polling.
const LOOK: Duration = Duration::from_millis(2);

/// A flow ends when nothing has arrived for this time. If nothing arrives for ten times as long, there is no flow.
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
    // Room for a second of the fastest flow, beyond the system's limit, which needs root.
    for (level, option, value) in
        [(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 128 << 20), (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)]
    {
        let value: libc::c_int = value;
        let size = size_of_val(&value) as libc::socklen_t;
        // SAFETY: the value is a c_int that lives through the call, and its size is given.
        let done =
            unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), size) };
        if done != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
    }
    eprintln!("listening");
    let (mut times, begun, mut last) = (Vec::new(), Instant::now(), Instant::now());
    while last.elapsed() < SILENCE || times.is_empty() && begun.elapsed() < 10 * SILENCE {
        let before = times.len();
        while let Some(stamp) = stamp_of_next(&socket) {
            times.push(stamp);
        }
        if times.len() > before {
            last = Instant::now();
        }
        std::thread::sleep(LOOK);
    }
    Ok(times)
}

/// Arrival of the next datagram at this machine's network stack, ns of the wall clock; `None` if none waits.
fn stamp_of_next(socket: &UdpSocket) -> Option<u64> {
    let mut control = [0_u64; 8];
    // SAFETY: all of msghdr may be zero; it has no data to receive, and its control buffer lives through the call.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: as above.
    let came = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    if came < 0 {
        return None;
    }
    // SAFETY: the kernel has filled the control buffer, and the header that it returns is in it or null; a stamp of
    // SCM_TIMESTAMPNS is a timespec, which may lie there unaligned.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_TIMESTAMPNS {
            return None;
        }
        let stamp: libc::timespec = libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned();
        Some(stamp.tv_sec as u64 * 1_000_000_000 + stamp.tv_nsec as u64)
    }
}
