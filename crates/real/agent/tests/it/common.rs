//! Helpers that make orders and execute runs.

use std::net::SocketAddr;

use netrig_agent::{CarrierOptions, EndOrder, EndReport, PreparedRun, Progress, RunOrder, Samples};
use netrig_core::{Duration, Quantity};
use netrig_host::{Clock, RunSignals};
use netrig_traffic::FlowSide;

pub const SEED: u64 = 11;

/// Time limit of a run, longer than any run takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// One end of a flow whose ends share one IP address. The flow starts with the run and stops after `stop`.
pub fn end(
    side: FlowSide,
    application: &str,
    carrier: CarrierOptions,
    server: SocketAddr,
    stop: Duration,
) -> EndOrder {
    EndOrder {
        flow: 0,
        name: "flow".into(),
        side,
        application: serde_json::from_str(application).unwrap(),
        carrier,
        client: server.ip(),
        server,
        dscp: 10,
        start_ns: 0,
        stop_ns: stop.as_nanos(),
        datagram_headers: 28,
        names: None,
        keep: None,
        reads: None,
    }
}

pub fn order(duration: Duration, ends: Vec<EndOrder>) -> RunOrder {
    RunOrder {
        seed: SEED,
        duration_ns: duration.as_nanos(),
        grace_ns: 0,
        sample_every_ns: Duration::from_millis(20).as_nanos(),
        sysctls: vec![],
        constrained: false,
        ends,
    }
}

/// Executes a run until its end, or until `done` returns true for the samples so far.
pub fn carry_out(order: RunOrder, done: impl Fn(&Samples) -> bool) -> (Vec<EndReport>, Samples) {
    let run = PreparedRun::prepare(order).unwrap();
    let clock = Clock::starting_in(Duration::from_millis(5));
    let (mut samples, signals) = (Samples::new(), RunSignals::default());
    let deliver = |progress| {
        let Progress::Samples(more) = progress else { return };
        samples.extend(more);
        if done(&samples) {
            signals.end();
        }
    };
    let reports = run.run(clock, &signals, deliver).unwrap();
    (reports, samples)
}

pub fn values(samples: &Samples, of: &Quantity) -> Vec<f64> {
    let of = samples.iter().filter(|(_, sample)| sample.quantity.name == of.name);
    of.map(|(_, sample)| sample.value).collect()
}

pub fn sum(samples: &Samples, of: &Quantity) -> f64 {
    values(samples, of).iter().sum()
}
