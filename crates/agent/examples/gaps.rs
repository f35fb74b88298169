//! The gaps between the datagrams of one flow in a capture: `gaps CAPTURE PAYLOAD [MEAN_GAP_US]`.
//!
//! Of a pcap or pcapng of nothing but the flow's frames, whose datagrams all carry so many bytes: a longer frame is
//! several datagrams that the sender's kernel has not cut yet, with no gap between them. Prints, on one line: how many
//! there are; the median and the 99th percentile of the gaps, µs; and against exponential gaps of the mean the
//! Kolmogorov-Smirnov distance and by how many standard errors the rate is off.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a measurement of this machine, started by hand"
)]

use netrig_core::capture;
use netrig_stats::{fit, quantile};

/// Headers of UDP and IPv4, bytes.
const HEADERS: u32 = 28;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let (path, payload, mean_us) = match &words[..] {
        [path, payload] => (path, payload.parse::<u32>()?, None),
        [path, payload, mean_us] => (path, payload.parse()?, Some(mean_us.parse::<f64>()?)),
        _ => return Err("gaps CAPTURE PAYLOAD [MEAN_GAP_US]".into()),
    };
    let mut times = Vec::new();
    capture::read(&std::fs::read(path)?, |packet| {
        let bytes = packet.ip_len().map_or(0, |len| len.saturating_sub(HEADERS));
        times.extend(std::iter::repeat_n(packet.at_ns, bytes.div_ceil(payload.max(1)) as usize));
    })?;
    times.sort_unstable();
    let gaps_us: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e3).collect();
    let [p50, p99] = [0.5, 0.99].map(|p| quantile::quantile(&gaps_us, p));
    print!("{} {:.1} {:.1}", times.len(), p50?, p99?);
    if let Some(mean_us) = mean_us {
        let distance = fit::kolmogorov_smirnov(&gaps_us, |gap| 1.0 - (-gap / mean_us).exp())?.statistic;
        let expected = gaps_us.iter().sum::<f64>() / mean_us;
        print!(" {distance:.4} {:.2}", (gaps_us.len() as f64 - expected) / expected.sqrt());
    }
    println!();
    Ok(())
}
