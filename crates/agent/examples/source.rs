//! Measures the source of datagrams on this machine: `cargo run --release -p netrig-agent --example source -- [seconds]`.
//!
//! For each rate it prints what the source's own report says, and the gaps by the kernel's stamps at the receiver.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a measurement of this machine, started by hand"
)]

use std::net::SocketAddr;

use netrig_agent::{Buffers, Carrier, Clock, EndOrder, PreparedRun, RunOrder, RunSignals, Side};
use netrig_core::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds: u64 = std::env::args().nth(1).map_or(Ok(10), |text| text.parse())?;
    for (kind, interval_us) in [("poisson", 100), ("poisson", 20), ("cbr", 100), ("cbr", 20)] {
        measure(kind, interval_us, Duration::from_secs(seconds))?;
    }
    Ok(())
}

fn measure(kind: &str, interval_us: u64, span: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let gap = if kind == "cbr" { "interval" } else { "interarrival" };
    let size = if kind == "cbr" { r#""100 B""# } else { r#"{ "constant": "100 B" }"# };
    let application = format!(r#"{{ "{kind}": {{ "{gap}": "{interval_us} us", "size": {size} }} }}"#);
    let server: SocketAddr = "127.0.0.1:42424".parse()?;
    let end = |side| -> Result<EndOrder, Box<dyn std::error::Error>> {
        Ok(EndOrder {
            flow: 0,
            name: "probe".into(),
            side,
            application: serde_json::from_str(&application)?,
            carrier: Carrier::Udp(Buffers { send: None, receive: Some(4_000_000) }),
            client: server.ip(),
            server,
            dscp: 0,
            start_ns: 0,
            stop_ns: span.as_nanos(),
            datagram_headers: 28,
        })
    };
    let ends = vec![end(Side::Client)?, end(Side::Server)?];
    let run = RunOrder {
        seed: 1,
        duration_ns: span.as_nanos() + 200_000_000,
        grace_ns: 0,
        sample_every_ns: 100_000_000,
        sysctls: vec![],
        ends,
    };
    let mut arrivals = Vec::new();
    let clock = Clock::starting_in(Duration::from_millis(50));
    let reports = PreparedRun::prepare(run)?.run(clock, &RunSignals::default(), |samples| {
        let delays = samples.iter().filter(|(_, sample)| sample.quantity.name == "one_way_delay");
        arrivals.extend(delays.map(|(_, sample)| sample.at.as_nanos()));
    })?;
    let mut gaps: Vec<_> =
        arrivals.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64 / 1e3).collect();
    gaps.sort_by(f64::total_cmp);
    let quantile = |p: f64| gaps.get((p * gaps.len() as f64) as usize).copied().unwrap_or(f64::NAN);
    println!("{kind} {interval_us} us for {} s", span.as_secs_f64());
    for report in &reports {
        if let Some(source) = &report.source {
            println!(
                "  sent {} at {:.1}/s (z {:.2?}), gaps: variation {:.3?}, KS {:.4?} (drawn {:.4?}), off {:.4?}, A2* {:.2?}, \
                 lag-1 {:.4?}, dispersion {:.3?}",
                source.sent,
                source.rate.unwrap_or(f64::NAN),
                source.rate_z,
                source.gap_variation,
                source.distance,
                source.schedule_distance,
                source.off_schedule,
                source.anderson_darling,
                source.lag1_correlation,
                source.dispersion_index
            );
            let us = |seconds: f64| seconds * 1e6;
            let [p50, p99, max] = [source.late_p50, source.late_p99, source.late_max].map(us);
            println!("  late p50 {p50:.1} us, p99 {p99:.1} us, max {max:.1} us");
        }
        if let Some(datagrams) = &report.datagrams {
            println!(
                "  received {} (lost {}, dropped by the socket {}); gaps at the receiver p50 {:.1} us, p99 {:.1} us",
                datagrams.arrivals.received,
                datagrams.arrivals.lost(),
                datagrams.socket_dropped,
                quantile(0.5),
                quantile(0.99)
            );
        }
        report.faults.iter().for_each(|fault| println!("  fault: {fault}"));
    }
    Ok(())
}
