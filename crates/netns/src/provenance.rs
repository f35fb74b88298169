//! Whose transports carry the flows of a run.

use netrig_core::{Instant, Journal, Sink, Subject};
use netrig_experiment::{Carrier, Scenario};
use netrig_transport::sctp::Encapsulation;

/// Begins the time line of a run with it.
pub(crate) fn tell(scenario: &Scenario, sink: &mut dyn Sink) {
    let journal = Journal::new(sink);
    for (flow, number) in scenario.flows.iter().zip(0..) {
        journal.note(Instant::ZERO, Subject::Flow(number), || words(&flow.carrier).to_owned(), sink);
    }
}

/// Whose transport this is.
fn words(carrier: &Carrier) -> &'static str {
    match carrier {
        Carrier::Tcp(_) => "carried by the kernel's TCP",
        Carrier::Mptcp(_) => "carried by the kernel's Multipath TCP",
        Carrier::Udp { .. } => "carried by the kernel's UDP",
        Carrier::Sctp(config) => match config.encapsulation {
            Encapsulation::Ip => "carried by netrig's own SCTP, over IP",
            Encapsulation::Udp => "carried by netrig's own SCTP, in UDP (RFC 6951)",
        },
    }
}
