//! Decides from the report of one end of a flow whether the run is invalid, and why.

use netrig_core::Duration;
use netrig_core::number::counted;

use crate::order::{CarrierOptions, EndOrder};
use crate::report::{EndReport, SctpReport, SocketPassage};
use netrig_host::Lateness;
use netrig_host::SourceReport;
use netrig_host::socket::UdpOptions;

/// Limit of the 99th percentile of lateness. If the timeouts of an application with connections are later, the
/// application does not offer the requested load. If an SCTP endpoint handles packets later, it adds its own delay to
/// the round-trip time; the kernel's own SCTP handles a packet as it arrives. The router has the same limit.
const TOO_LATE: Duration = Duration::from_millis(1);

/// With fewer timer deadlines, the 99th percentile of lateness is not assessed. A source that always has data to send
/// uses hardly any timers. It is assessed by the time for which its thread waited for a processor.
const FEWEST: u64 = 100;

/// The assessment of an end, as sentences that begin with the name of the flow.
pub(crate) struct EndAssessment {
    pub faults: Vec<String>,
    pub strains: Vec<String>,
    pub notes: Vec<String>,
}

/// Assesses an end: faults make the run invalid, strains are limits of the end's host, notes are effects of its
/// settings.
pub(crate) fn of(report: &EndReport, order: &EndOrder) -> EndAssessment {
    let source = report.source.as_ref().and_then(SourceReport::fault).map(|why| {
        let switches = report.interruptions.switches;
        if switches == 0 {
            why
        } else {
            let times = counted(switches, "time", "times");
            format!("{why} (the kernel preempted its thread {times})")
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
    let (noted, receiver) = if is_limited { (receiver, None) } else { (None, receiver) };
    let refused = report.passed.map_or(0, |passed| passed.refused);
    let too_long = (refused > 0)
        .then(|| format!("{refused} datagrams were too long for their path and did not leave their host"));
    let fallbacks = report.fallbacks;
    let fallback = (fallbacks > 0).then(|| format!("{fallbacks} MPTCP connections fell back to TCP"));
    let has_connections = !matches!(order.carrier, CarrierOptions::Udp(_));
    let starved = report.interruptions.fault_of_connections().filter(|_| has_connections);
    let strains = [source, unsent, receiver, starved, of_deadlines(&report.deadlines)];
    let strains = strains.into_iter().flatten().chain(report.sctp.iter().flat_map(SctpReport::faults));
    EndAssessment {
        faults: [stolen, fallback].into_iter().flatten().map(|why| order.of_flow(why)).collect(),
        strains: strains.map(|why| order.of_flow(why)).collect(),
        notes: [noted, too_long].into_iter().flatten().map(|why| order.of_flow(why)).collect(),
    }
}

/// The strain of an application with connections whose timeouts were too late, as a sentence.
fn of_deadlines(deadlines: &Lateness) -> Option<String> {
    let late = deadlines.quantile_at_most(0.99);
    (deadlines.count() >= FEWEST && late > TOO_LATE).then(|| {
        format!("its application got 1 in 100 deadlines more than {late} late; {TOO_LATE} is the most")
    })
}

impl SctpReport {
    /// The strains of the endpoint. Each continues a sentence that begins with the name of the flow.
    pub(crate) fn faults(&self) -> impl Iterator<Item = String> {
        let Self { socket_dropped, no_room, .. } = *self;
        let late = self.lateness.quantile_at_most(0.99);
        [
            (socket_dropped > 0).then(|| {
                format!("the sockets had no room for {socket_dropped} packets that had reached their host")
            }),
            (no_room > 0).then(|| format!("the sockets had no room for {no_room} packets that were due")),
            (late > TOO_LATE).then(|| {
                format!("1 in 100 packets waited more than {late} for the endpoint; {TOO_LATE} is the most")
            }),
        ]
        .into_iter()
        .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_that_is_told_too_late_has_a_fault_if_it_has_enough_deadlines() {
        let assess = |count: usize, late: usize| {
            let mut deadlines = Lateness::default();
            (0..count - late).for_each(|_| deadlines.record(Duration::from_micros(80)));
            (0..late).for_each(|_| deadlines.record(Duration::from_millis(4)));
            of_deadlines(&deadlines)
        };
        assert_eq!((assess(1000, 10), assess(99, 99)), (None, None));
        assert_eq!(
            assess(1000, 11).as_deref(),
            Some("its application got 1 in 100 deadlines more than 4 ms late; 1 ms is the most")
        );
    }

    #[test]
    fn an_end_that_was_in_time_and_had_room_has_no_fault() {
        let mut report = SctpReport::default();
        (0..1000).for_each(|_| report.lateness.record(Duration::from_micros(900)));
        assert_eq!(report.faults().count(), 0);
        (0..11).for_each(|_| report.lateness.record(Duration::from_millis(3)));
        assert!(
            report.faults().eq(["1 in 100 packets waited more than 3 ms for the endpoint; 1 ms is the most"])
        );
        let report = SctpReport { socket_dropped: 2, no_room: 1, ..SctpReport::default() };
        assert_eq!(report.faults().count(), 2);
    }
}
