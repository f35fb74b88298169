//! What a receiver tells a search.

use crate::protocol::DatagramCounts;

/// What a receiver had counted at a moment, since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Datagrams that have reached the receiver, each once: the line has carried also those that its socket had no room for.
    pub received: u64,
    /// One more than the highest number that has arrived: so many have been sent at least.
    pub expected: u64,
    /// When the last of them arrived, ns by the receiver's clock: the kernel's stamp.
    pub last_arrival_ns: u64,
    /// When it was sent, ns by the sender's clock: what it truly offered shows in this, whatever it was asked for.
    pub last_sent_ns: u64,
    /// How long the quickest of those took that arrived since the feedback before, ns between two clocks; nothing if none did.
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

/// What happened between two feedbacks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ArrivalSpan {
    /// Datagrams that were sent.
    pub sent: u64,
    /// Of these, those that arrived.
    pub received: u64,
    /// In which they were sent, and in which they arrived, ns.
    pub sending_ns: u64,
    pub arriving_ns: u64,
    /// When the first of them and the last arrived, ns by the receiver's clock.
    pub within_ns: [u64; 2],
    /// How long the quickest of the latest took, ns between two clocks.
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

    /// Of spans in the order of time.
    pub fn sum(spans: &[Self]) -> Self {
        // The other end may say anything.
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

    /// Datagrams per second that were sent.
    pub fn offered(&self) -> f64 {
        per_s(self.sent, self.sending_ns)
    }

    /// Datagrams per second that arrived.
    pub fn arrived(&self) -> f64 {
        per_s(self.received, self.arriving_ns)
    }

    /// Share of what was sent that never arrived.
    pub fn lost(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { 1.0 - (self.received as f64 / self.sent as f64).min(1.0) }
    }
}

fn per_s(datagrams: u64, took_ns: u64) -> f64 {
    if took_ns == 0 { 0.0 } else { datagrams as f64 * 1e9 / took_ns as f64 }
}
