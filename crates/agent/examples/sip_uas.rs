//! Answers calls as fast as netrig's own tester does: `sip_uas udp:IP:PORT` or `tcp:IP:PORT`, until its standard input ends.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a program that is started by hand, on sockets"
)]

use std::io::Read as _;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_agent::sip::ListeningPoint;
use netrig_agent::sip::load::{Answering, Carrier, Connecting, answer};
use netrig_core::Duration;
use netrig_sip::header::Transport;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let typed = std::env::args().nth(1).ok_or("expected an address: sip_uas udp:127.0.0.1:5070")?;
    let ListeningPoint { transport, address } = typed.parse()?;
    let carrier = match transport {
        Transport::Udp => Carrier::Udp,
        Transport::Tcp => Carrier::Tcp(Connecting::One),
        _ => return Err("it answers over udp and tcp".into()),
    };
    let stop = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut nothing = Vec::new();
            // However it ends, it ends.
            let _ = std::io::stdin().read_to_end(&mut nothing);
            stop.store(true, Ordering::Relaxed);
        });
        let listening = |local| eprintln!("listening at {local}");
        answer(&carrier, address, Answering::calls(Duration::from_micros(100)), listening, &stop)
    })?;
    println!(
        "{} calls, {} failed, {} refused, {} strays, {} dropped",
        report.calls, report.failed, report.refused, report.strays, report.dropped
    );
    Ok(())
}
