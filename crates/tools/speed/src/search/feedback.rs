//! Feedback that the receiver sends to a search.

use crate::protocol::DatagramCounts;

/// Totals of the receiver at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Datagrams that reached the receiver, without duplicates. Datagrams that its full socket buffer dropped are
    /// included, because the line has carried them.
    pub received: u64,
    /// One more than the highest number received. At least this number of datagrams was sent.
    pub expected: u64,
    /// Arrival time of the last datagram, ns by the receiver's clock (kernel time stamp).
    pub last_arrival_ns: u64,
    /// Sending time of the last datagram, ns by the sender's clock. The rate that was actually offered is computed from
    /// it.
    pub last_sent_ns: u64,
    /// Shortest delay since the previous feedback, ns. It includes the offset between the two clocks. `None` if no
    /// datagram arrived.
    pub least_passage_ns: Option<i64>,
}

impl From<&DatagramCounts> for Feedback {
    fn from(heard: &DatagramCounts) -> Self {
        Self {
            received: heard.received.saturating_add(heard.dropped.unwrap_or(0)),
            expected: heard.expected,
            last_arrival_ns: heard.last_arrival_ns,
            last_sent_ns: heard.last_sent_ns,
            least_passage_ns: heard.passage_ns.map(|[least, ..]| least),
        }
    }
}

/// The differences between two feedback messages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ArrivalSpan {
    /// Number of datagrams sent.
    pub sent: u64,
    /// Number of these datagrams that were received.
    pub received: u64,
    /// Time between the sending of the first and the last datagram, and between their arrivals, ns.
    pub sending_ns: u64,
    pub arriving_ns: u64,
    /// Arrival times of the first and the last datagram, ns by the receiver's clock.
    pub within_ns: [u64; 2],
    /// Shortest delay in the latest feedback, ns. It includes the offset between the two clocks.
    pub passage_ns: Option<i64>,
}

impl ArrivalSpan {
    pub fn between(earlier: &Feedback, later: &Feedback) -> Self {
        Self {
            sent: later.expected.saturating_sub(earlier.expected),
            received: later.received.saturating_sub(earlier.received),
            sending_ns: later.last_sent_ns.saturating_sub(earlier.last_sent_ns),
            arriving_ns: later.last_arrival_ns.saturating_sub(earlier.last_arrival_ns),
            within_ns: [earlier.last_arrival_ns, later.last_arrival_ns],
            passage_ns: later.least_passage_ns,
        }
    }

    /// The sum of spans in the order of time.
    pub fn sum(spans: &[Self]) -> Self {
        // The peer may send any numbers, so the sums saturate.
        let sum = |of: fn(&Self) -> u64| spans.iter().map(of).fold(0, u64::saturating_add);
        let (first, last) =
            (spans.first().copied().unwrap_or_default(), spans.last().copied().unwrap_or_default());
        Self {
            within_ns: [first.within_ns[0], last.within_ns[1]],
            sent: sum(|span| span.sent),
            received: sum(|span| span.received),
            sending_ns: sum(|span| span.sending_ns),
            arriving_ns: sum(|span| span.arriving_ns),
            passage_ns: spans.iter().rev().find_map(|span| span.passage_ns),
        }
    }

    /// Datagrams sent per second.
    pub fn offered(&self) -> f64 {
        per_s(self.sent, self.sending_ns)
    }

    /// Datagrams received per second.
    pub fn arrived(&self) -> f64 {
        per_s(self.received, self.arriving_ns)
    }

    /// Share of the sent datagrams that did not arrive.
    pub fn lost(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { 1.0 - (self.received as f64 / self.sent as f64).min(1.0) }
    }
}

fn per_s(datagrams: u64, took_ns: u64) -> f64 {
    if took_ns == 0 { 0.0 } else { datagrams as f64 * 1e9 / took_ns as f64 }
}
