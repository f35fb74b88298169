//! Answers calls as fast as netrig's own tester does: `sip_uas IP:PORT`, until its standard input ends.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a program that is started by hand, on sockets"
)]

use std::io::Read as _;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_agent::sip::load::answer;
use netrig_core::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let local = std::env::args().nth(1).ok_or("expected an address: sip_uas 127.0.0.1:5070")?.parse()?;
    let stop = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut nothing = Vec::new();
            // However it ends, it ends.
            let _ = std::io::stdin().read_to_end(&mut nothing);
            stop.store(true, Ordering::Relaxed);
        });
        answer(local, Duration::from_micros(100), |local| eprintln!("listening at {local}"), &stop)
    })?;
    println!(
        "{} calls, {} failed, {} refused, {} strays, {} dropped",
        report.calls, report.failed, report.refused, report.strays, report.dropped
    );
    Ok(())
}
