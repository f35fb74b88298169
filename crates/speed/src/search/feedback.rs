//! What a receiver tells a search.

/// What a receiver had counted at a moment, since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Datagrams that have arrived, each once.
    pub received: u64,
    /// One more than the highest number that has arrived: so many have been sent at least.
    pub expected: u64,
    /// When the last of them arrived, ns by the receiver's clock: the kernel's stamp.
    pub last_arrival_ns: u64,
    /// How long the quickest of those took that arrived since the feedback before, ns between two clocks; nothing if none did.
    pub least_passage_ns: Option<i64>,
}

/// What happened between two feedbacks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Span {
    /// Datagrams that were sent, and would have arrived in it.
    pub sent: u64,
    pub received: u64,
    /// From the last arrival before it to the last in it, ns.
    pub took_ns: u64,
    pub least_passage_ns: Option<i64>,
}

impl Span {
    pub fn between(earlier: &Feedback, later: &Feedback) -> Self {
        Self {
            sent: later.expected.saturating_sub(earlier.expected),
            received: later.received.saturating_sub(earlier.received),
            took_ns: later.last_arrival_ns.saturating_sub(earlier.last_arrival_ns),
            least_passage_ns: later.least_passage_ns,
        }
    }

    /// Of neighbouring spans.
    pub fn sum(spans: &[Self]) -> Self {
        Self {
            sent: spans.iter().map(|span| span.sent).sum(),
            received: spans.iter().map(|span| span.received).sum(),
            took_ns: spans.iter().map(|span| span.took_ns).sum(),
            least_passage_ns: spans.iter().filter_map(|span| span.least_passage_ns).min(),
        }
    }

    /// Datagrams per second that were sent for the time in which those that arrived did.
    pub fn offered(&self) -> f64 {
        self.per_s(self.sent)
    }

    /// Datagrams per second that arrived.
    pub fn arrived(&self) -> f64 {
        self.per_s(self.received)
    }

    /// Share of what was sent that never arrived.
    pub fn lost(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { 1.0 - (self.received as f64 / self.sent as f64).min(1.0) }
    }

    fn per_s(&self, datagrams: u64) -> f64 {
        if self.took_ns == 0 { 0.0 } else { datagrams as f64 * 1e9 / self.took_ns as f64 }
    }
}
