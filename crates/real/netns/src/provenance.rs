//! Provenance of a run: whether the kernel's or netrig's transport carries each flow, and which quantities are not
//! measured.

use netrig_core::{Instant, Quantity, Sink, Subject, Timeline, quantity};
use netrig_experiment::{Carrier, Flow, Scenario};
use netrig_traffic::FtpDirection;
use netrig_transport::sctp::Encapsulation;

use crate::ftp;
use crate::router::{Recognition, is_tcp};

/// Notes the transports at the start of the time line, and reports the quantities that are not measured.
pub(crate) fn report(scenario: &Scenario, sink: &mut dyn Sink) {
    let timeline = Timeline::new(sink);
    for (flow, number) in scenario.flows.iter().zip(0..) {
        let flow_itself = Subject::Flow(number);
        timeline.note(Instant::ZERO, flow_itself, || words(&flow.carrier).to_owned(), sink);
        unmeasured(flow).for_each(|quantity| sink.untold(flow_itself, quantity));
        if is_tcp(flow) && !Recognition::watches(scenario, flow) {
            sink.untold(flow_itself, &quantity::WIRE_BYTES);
        }
    }
}

/// Quantities that the simulator counts and this substrate does not. TCP_INFO counts retransmissions without
/// their cause, and it does not count window probes. For FTP, TCP_INFO is read only at the client.
fn unmeasured(flow: &Flow) -> impl Iterator<Item = &'static Quantity> {
    const BY_TCP: [&Quantity; 3] =
        [&quantity::FAST_RETRANSMISSIONS, &quantity::TIMEOUT_RETRANSMISSIONS, &quantity::WINDOW_PROBES];
    const STORING: [&Quantity; 2] = [&quantity::PACKETS_SENT, &quantity::DATA_PACKETS_RECEIVED];
    const FETCHING: [&Quantity; 3] =
        [&quantity::PACKETS_SENT, &quantity::DATA_PACKETS_SENT, &quantity::TIMEOUTS];
    const BY_SIP: [&Quantity; 10] = [
        &quantity::WIRE_BYTES,
        &quantity::DATA_RESUMED,
        &quantity::OFFERED_BYTES,
        &quantity::RECEIVED_BYTES,
        &quantity::DATA_PACKETS_RECEIVED,
        &quantity::DATA_PACKETS_SENT,
        &quantity::PACKETS_SENT,
        &quantity::DATAGRAMS_SENT,
        &quantity::DATAGRAMS_RECEIVED,
        &quantity::TIMEOUTS,
    ];
    let by_tcp: &[_] = match flow.carrier {
        Carrier::Tcp(_) | Carrier::Mptcp(_) => &BY_TCP,
        Carrier::Udp { .. } | Carrier::Sctp(_) => &[],
    };
    let by_ftp: &[_] = match ftp::of(flow).map(|ftp| ftp.direction) {
        Some(FtpDirection::Store) => &STORING,
        Some(FtpDirection::Fetch) => &FETCHING,
        None => &[],
    };
    // Packets of SIP flows are not measured, because the users report the outcome.
    let by_sip: &[_] = match (flow.application.sip(), &flow.carrier) {
        (Some(_), Carrier::Udp { .. }) => &BY_SIP,
        (Some(_), _) => &BY_SIP[2..],
        (None, _) => &[],
    };
    by_tcp.iter().chain(by_ftp).chain(by_sip).copied()
}

/// The description of a flow's transport in the time line.
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
