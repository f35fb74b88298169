//! Whose transports carry the flows of a run, and what these do not tell of themselves.

use netrig_core::{Instant, Journal, Quantity, Sink, Subject, quantity};
use netrig_experiment::{Carrier, Scenario};
use netrig_transport::sctp::Encapsulation;

/// Begins the time line of a run with it, and says what will not be counted.
pub(crate) fn tell(scenario: &Scenario, sink: &mut dyn Sink) {
    let journal = Journal::new(sink);
    for (flow, number) in scenario.flows.iter().zip(0..) {
        let flow_itself = Subject::Flow(number);
        journal.note(Instant::ZERO, flow_itself, || words(&flow.carrier).to_owned(), sink);
        untold(&flow.carrier).iter().for_each(|quantity| sink.untold(flow_itself, quantity));
    }
}

/// What a transport counts in the simulator and does not here. TCP_INFO has what was sent again, and not why.
fn untold(carrier: &Carrier) -> &'static [&'static Quantity] {
    static BY_TCP: [&Quantity; 2] = [&quantity::FAST_RETRANSMISSIONS, &quantity::TIMEOUT_RETRANSMISSIONS];
    match carrier {
        Carrier::Tcp(_) | Carrier::Mptcp(_) => &BY_TCP,
        Carrier::Udp { .. } | Carrier::Sctp(_) => &[],
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
