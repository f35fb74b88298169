//! Runs one end of one or more flows, to measure how precisely this machine sends and receives:
//!
//! ```text
//! source receive 10.0.0.2:5001 '{ "cbr": { "interval": "100 us", "size": "512 B" } }' 10
//! source send 10.0.0.2:5001 '{ "cbr": { "interval": "100 us", "size": "512 B" } }' 10
//! ```
//!
//! The arguments are: which end, the address and port of the receiver, the application (in JSON, as in an experiment
//! file), the duration in seconds, and optionally the number of flows, which use consecutive ports. The program prints
//! a report of each flow as one line of JSON. The exit status is 3 if the run is invalid. A receiver first prints the
//! number of received bytes, and the time from the first to the last received byte in seconds.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a measurement of this machine, started by hand"
)]

use std::net::{SocketAddr, UdpSocket};
use std::process::ExitCode;

use netrig_agent::{CarrierOptions, EndOrder, PreparedRun, Progress, RunOrder};
use netrig_core::{Duration, quantity};
use netrig_host::socket::TcpOptions;
use netrig_host::{Clock, RunSignals};
use netrig_traffic::{FlowSide, Settings};

/// How much longer than the flow a receiver runs, because the sender may start later and datagrams may be in flight.
const PATIENCE: Duration = Duration::from_secs(2);

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (side, server, application, seconds, flows) =
        match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [side, server, application, seconds] => (*side, *server, *application, *seconds, "1"),
            [side, server, application, seconds, flows] => (*side, *server, *application, *seconds, *flows),
            _ => return Err("source send|receive ADDRESS:PORT APPLICATION SECONDS [FLOWS]".into()),
        };
    let side = match side {
        "send" => FlowSide::Client,
        "receive" => FlowSide::Server,
        other => return Err(format!("`send` or `receive`, not `{other}`").into()),
    };
    let application = serde_json::from_str(application)?;
    let span = Duration::from_secs_f64(seconds.parse()?);
    let ends = (0..flows.parse()?).map(|flow| end(flow, side, server.parse()?, &application, span));
    let ends = ends.collect::<Result<_, Box<dyn std::error::Error>>>()?;
    let duration = if side == FlowSide::Client { span } else { span + PATIENCE };
    let run = RunOrder {
        seed: 1,
        duration_ns: duration.as_nanos(),
        grace_ns: 0,
        sample_every_ns: 100_000_000,
        sysctls: vec![],
        constrained: false,
        ends,
    };
    let clock = Clock::starting_in(Duration::from_millis(50));
    let (mut bytes, mut marks) = (0.0, Vec::new());
    let reports = PreparedRun::prepare(run)?.run(clock, &RunSignals::default(), |progress| {
        let Progress::Samples(samples) = progress else { return };
        for (_, sample) in samples {
            match sample.quantity.name {
                name if name == quantity::RECEIVED_BYTES.name => bytes += sample.value,
                name if name == quantity::DATA_RESUMED.name || name == quantity::DATA_PAUSED.name => {
                    marks.push(sample.at)
                }
                _ => {}
            }
        }
    })?;
    if let (Some(first), Some(last)) = (marks.iter().min(), marks.iter().max()) {
        println!("{bytes} {}", last.since(*first).as_secs_f64());
    }
    for report in &reports {
        println!("{}", serde_json::to_string(report)?);
    }
    let trusted = reports.iter().all(|report| report.faults.is_empty());
    Ok(if trusted { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

/// The order for one end of flow number `flow`.
fn end(
    flow: u32,
    side: FlowSide,
    mut server: SocketAddr,
    application: &Settings,
    span: Duration,
) -> Result<EndOrder, Box<dyn std::error::Error>> {
    let carrier = if application.sends_datagrams() {
        CarrierOptions::Udp(Default::default())
    } else {
        CarrierOptions::Tcp(TcpOptions::default())
    };
    server.set_port(server.port() + u16::try_from(flow)?);
    // A connected socket shows the local address that the kernel uses towards the receiver.
    let towards = UdpSocket::bind(if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    towards.connect(server)?;
    Ok(EndOrder {
        flow,
        name: format!("flow{flow}"),
        side,
        application: application.clone(),
        carrier,
        client: towards.local_addr()?.ip(),
        server,
        dscp: 0,
        start_ns: 0,
        stop_ns: span.as_nanos(),
        datagram_headers: if server.is_ipv4() { 28 } else { 48 },
        names: None,
        keep: None,
        reads: None,
    })
}
