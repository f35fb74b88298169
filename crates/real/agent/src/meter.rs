//! Counts of a flow at one of its ends.

use netrig_core::{Duration, Instant, Quantity, Sample, Subject, quantity};

/// Samples in the order of their creation.
pub type Samples = Vec<(Subject, Sample)>;

/// Counts at one end of a flow, reported once per sampling interval.
#[derive(Debug)]
pub(crate) struct EndMeter {
    subject: Subject,
    /// Longest gap in data that is no pause.
    pause: Duration,
    counts: [(&'static Quantity, u64); 5],
    last_data: Option<Instant>,
}

/// The counts of an end, numbered by their index in the meter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EndCount {
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

    pub const fn count(&mut self, what: EndCount, more: u64) {
        self.counts[what as usize].1 += more;
    }

    /// Records the arrival of user data.
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

    /// Reports a time stamp, or a count that another part keeps.
    pub fn mark(&self, at: Instant, quantity: &'static Quantity, value: f64, out: &mut Samples) {
        out.push((self.subject, Sample { at, quantity, value }));
    }

    /// Reports the counts since the last tick.
    pub fn tick(&mut self, at: Instant, out: &mut Samples) {
        for (quantity, count) in &mut self.counts {
            let value = std::mem::take(count);
            if value > 0 {
                out.push((self.subject, Sample { at, quantity, value: value as f64 }));
            }
        }
    }

    /// Reports the end of the last data once the run is over.
    pub fn finish(&self, out: &mut Samples) {
        if let Some(last) = self.last_data {
            self.mark(last, &quantity::DATA_PAUSED, 0.0, out);
        }
    }
}
