//! Assessment of an end with SCTP associations: whether the end itself limited them.

use netrig_core::Duration;

use crate::report::SctpReport;

/// The kernel's own SCTP handles a packet as it arrives. If an end handles 1 in 100 packets later than this, it adds to the
/// round-trip time what is not the network's.
const TOO_LATE: Duration = Duration::from_millis(1);

impl SctpReport {
    /// The faults: each is the rest of a sentence that begins with the flow.
    pub(crate) fn faults(&self) -> impl Iterator<Item = String> {
        let Self { socket_dropped, no_room, .. } = *self;
        let late = self.lateness.quantile(0.99);
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
