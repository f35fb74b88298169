//! The counts of a flow.

use crate::{Duration, Instant, Quantity, Sample, Sink, Subject, quantity};

/// Counts the data that a flow carries from its sender to its receiver. The counts are reported once per sampling
/// interval.
///
/// `repr(C)` keeps the order of the fields in memory, so that the fields that each packet needs share one cache line.
#[derive(Debug)]
#[repr(C)]
pub struct FlowMeter {
    counts: [u64; 5],
    /// Bytes that were offered and have not been received, since the start.
    outstanding: i64,
    /// The last arrival of data; [`Instant::NEVER`] if none has arrived.
    last_data: Instant,
    pause: Duration,
    subject: Subject,
}

/// The quantity of each count.
static COUNTED: [&Quantity; 5] = [
    &quantity::OFFERED_BYTES,
    &quantity::RECEIVED_BYTES,
    &quantity::WIRE_BYTES,
    &quantity::DATA_PACKETS_RECEIVED,
    &quantity::DATAGRAMS_SENT,
];

impl FlowMeter {
    /// A meter of flow `number`. If no data arrives for longer than `pause`, the data has paused.
    pub const fn new(number: u32, pause: Duration) -> Self {
        let subject = Subject::Flow(number);
        Self { counts: [0; 5], outstanding: 0, last_data: Instant::NEVER, pause, subject }
    }

    /// An application gave `bytes` to its transport.
    pub const fn offered(&mut self, bytes: u64) {
        self.counts[0] += bytes;
        self.outstanding += bytes.cast_signed();
    }

    /// An application received `bytes`.
    pub const fn received(&mut self, bytes: u64) {
        self.counts[1] += bytes;
        self.outstanding -= bytes.cast_signed();
    }

    /// A packet with user data reached its host.
    #[inline]
    pub fn packet_arrived(&mut self, ip_len: u64) {
        self.counts[2] += ip_len;
        self.counts[3] += 1;
    }

    /// The sender sent this number of datagrams.
    pub const fn datagrams_sent(&mut self, datagrams: u64) {
        self.counts[4] += datagrams;
    }

    /// New data arrived, not a duplicate.
    #[inline]
    pub fn data_arrived(&mut self, at: Instant, sink: &mut dyn Sink) {
        let last = self.last_data;
        if last == Instant::NEVER {
            self.mark(at, &quantity::DATA_RESUMED, 0.0, sink);
        } else if at.since(last) > self.pause {
            self.mark(last, &quantity::DATA_PAUSED, 0.0, sink);
            self.mark(at, &quantity::DATA_RESUMED, 0.0, sink);
        } else if at < last {
            // Kernel time stamps of successive packets need not increase.
            return;
        }
        self.last_data = at;
    }

    /// Reports a value of this flow that another part measured: a mark or a count.
    pub fn mark(&self, at: Instant, quantity: &'static Quantity, value: f64, sink: &mut dyn Sink) {
        sink.sample(self.subject, Sample { at, quantity, value });
    }

    /// The counts since the last call.
    pub fn take_counts(&mut self) -> impl Iterator<Item = (&'static Quantity, u64)> + use<> {
        COUNTED.into_iter().zip(std::mem::take(&mut self.counts))
    }

    /// Bytes that were offered and have not been received. It is valid only if this meter counts both ends of the flow.
    pub const fn outstanding(&self) -> i64 {
        self.outstanding
    }

    /// Reports the time of the last data. Call it once, after the run.
    pub fn finish(&self, sink: &mut dyn Sink) {
        if self.last_data != Instant::NEVER {
            self.mark(self.last_data, &quantity::DATA_PAUSED, 0.0, sink);
        }
    }
}
