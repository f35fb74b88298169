//! Why a run must not be trusted, by what one end of a flow did.

use netrig_core::Duration;

use super::EndReport;
use crate::SocketPassage;
use crate::order::{CarrierOptions, EndOrder};
use crate::sctp::SctpReport;
use netrig_host::Lateness;
use netrig_host::SourceReport;
use netrig_host::socket::UdpOptions;

/// An application of connections that is told of 1 in 100 deadlines later than this offers what was not asked for, as the
/// router and an endpoint of SCTP that are so late are no network.
const TOO_LATE: Duration = Duration::from_millis(1);

/// Of fewer deadlines there is no hundredth: whoever fills a connection has hardly any, and is held to the processor's time
/// that it waited for.
const FEWEST: u64 = 100;

/// What there is to say of an end, each a sentence that begins with the flow.
pub(super) struct Found {
    pub faults: Vec<String>,
    pub strains: Vec<String>,
    pub notes: Vec<String>,
}

/// Why the run must not be trusted, what its host did to the end, and what became of it by its settings.
pub(super) fn of(report: &EndReport, order: &EndOrder) -> Found {
    let source = report.source.as_ref().and_then(SourceReport::fault).map(|why| {
        let switches = report.interruptions.switches;
        if switches == 0 {
            why
        } else {
            format!("{why} (others were let run instead of it {switches} times)")
        }
    });
    let unsent = report.passed.filter(|passed| passed.unsent > 0).map(
        |SocketPassage { sent, refused, unsent, .. }| {
            let due = sent + refused + unsent;
            format!("{unsent} of {due} datagrams that were due had not been sent when the run was over")
        },
    );
    let stolen = report.interruptions.fault();
    let dropped = report.datagrams.map_or(0, |datagrams| datagrams.socket_dropped);
    let receiver = (dropped > 0).then(|| {
        format!("the receiving socket had no room for {dropped} datagrams that had reached their host")
    });
    let is_limited = matches!(order.carrier, CarrierOptions::Udp(UdpOptions { limited: true, .. }));
    let (measured, receiver) = if is_limited { (receiver, None) } else { (None, receiver) };
    let refused = report.passed.map_or(0, |passed| passed.refused);
    let too_long = (refused > 0)
        .then(|| format!("{refused} datagrams were too long for their path, and did not leave their host"));
    let fallbacks = report.fallbacks;
    let fallback = (fallbacks > 0).then(|| format!("{fallbacks} connections of MPTCP fell back to TCP"));
    let has_connections = !matches!(order.carrier, CarrierOptions::Udp(_));
    let starved = report.interruptions.fault_of_connections().filter(|_| has_connections);
    let of_flow = |why: String| format!("flow `{}`: {why}", order.name);
    let strains = [source, unsent, receiver, starved, of_deadlines(&report.deadlines)];
    let strains = strains.into_iter().flatten().chain(report.sctp.iter().flat_map(SctpReport::faults));
    Found {
        faults: [stolen, fallback].into_iter().flatten().map(of_flow).collect(),
        strains: strains.map(of_flow).collect(),
        notes: [measured, too_long].into_iter().flatten().map(of_flow).collect(),
    }
}

/// That an application of connections was told too late of what was due.
fn of_deadlines(deadlines: &Lateness) -> Option<String> {
    let late = deadlines.quantile(0.99);
    (deadlines.count() >= FEWEST && late > TOO_LATE).then(|| {
        format!(
            "1 in 100 of its deadlines passed more than {late} before it was told; {TOO_LATE} is the most"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_that_is_told_too_late_has_a_fault_if_it_has_enough_deadlines() {
        let told = |count: usize, late: usize| {
            let mut deadlines = Lateness::default();
            (0..count - late).for_each(|_| deadlines.record(Duration::from_micros(80)));
            (0..late).for_each(|_| deadlines.record(Duration::from_millis(4)));
            of_deadlines(&deadlines)
        };
        assert_eq!((told(1000, 10), told(99, 99)), (None, None));
        assert_eq!(
            told(1000, 11).as_deref(),
            Some("1 in 100 of its deadlines passed more than 4 ms before it was told; 1 ms is the most")
        );
    }
}
