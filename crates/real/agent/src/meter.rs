//! What is counted of a flow at one of its ends.

use netrig_core::{Duration, Instant, Quantity, Sample, Subject, quantity};

/// Samples on their way out, in the order of their making.
pub type Samples = Vec<(Subject, Sample)>;

/// Counts one end of a flow, and reports once per sampling interval.
#[derive(Debug)]
pub(crate) struct EndMeter {
    subject: Subject,
    /// Data that stays away for longer has paused.
    pause: Duration,
    counts: [(&'static Quantity, u64); 5],
    last_data: Option<Instant>,
}

/// What an end counts itself, by its place among the counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counted {
    OfferedBytes,
    ReceivedBytes,
    WireBytes,
    DataPacketsReceived,
    DatagramsSent,
}

impl EndMeter {
    pub fn new(flow: u32, pause: Duration) -> Self {
        let counts = [
            &quantity::OFFERED_BYTES,
            &quantity::RECEIVED_BYTES,
            &quantity::WIRE_BYTES,
            &quantity::DATA_PACKETS_RECEIVED,
            &quantity::DATAGRAMS_SENT,
        ];
        Self {
            subject: Subject::Flow(flow),
            pause,
            counts: counts.map(|quantity| (quantity, 0)),
            last_data: None,
        }
    }

    /// Adds to a count.
    pub const fn count(&mut self, what: Counted, more: u64) {
        self.counts[what as usize].1 += more;
    }

    /// User data arrived.
    pub fn data_arrived(&mut self, at: Instant, out: &mut Samples) {
        match self.last_data {
            None => self.mark(at, &quantity::DATA_RESUMED, 0.0, out),
            Some(last) if at.since(last) > self.pause => {
                self.mark(last, &quantity::DATA_PAUSED, 0.0, out);
                self.mark(at, &quantity::DATA_RESUMED, 0.0, out);
            }
            Some(_) => {}
        }
        self.last_data = self.last_data.max(Some(at));
    }

    /// Reports a moment or a count of somebody else's.
    pub fn mark(&self, at: Instant, quantity: &'static Quantity, value: f64, out: &mut Samples) {
        out.push((self.subject, Sample { at, quantity, value }));
    }

    /// Reports what was counted since the last tick.
    pub fn tick(&mut self, at: Instant, out: &mut Samples) {
        for (quantity, count) in &mut self.counts {
            let value = std::mem::take(count);
            if value > 0 {
                out.push((self.subject, Sample { at, quantity, value: value as f64 }));
            }
        }
    }

    /// The run is over.
    pub fn finish(&self, out: &mut Samples) {
        if let Some(last) = self.last_data {
            self.mark(last, &quantity::DATA_PAUSED, 0.0, out);
        }
    }
}
