//! What is counted of a flow.

use netrig_core::{Duration, Instant, Quantity, Sample, Sink, Subject, quantity};
use netrig_transport::{CounterReader, Counters, ReportingEnds};

use crate::datagrams::Datagrams;

/// Counts one flow, in the direction of its data, and reports once per sampling interval.
///
/// The order of the fields is that of the memory: what each packet needs takes one cache line.
#[repr(C, align(64))]
pub(crate) struct FlowMeter {
    counts: FlowCounts,
    /// Of connections, what was given to them and has not been received, since the start.
    outstanding: i64,
    /// When data arrived last; never if none has.
    last_data: Instant,
    pause: Duration,
    subject: Subject,
    datagrams: Datagrams,
    /// What the flow's second end answers with.
    answers: Datagrams,
    /// Those of [`OWN`] that are wanted, by their places.
    own: Vec<usize>,
    /// Those of [`Counters::REPORTED`] that are wanted, by their places, and what was reported of each.
    reported: Vec<(usize, u64)>,
}

/// What is counted here, and not by the flow's connections, since it was reported.
#[derive(Default)]
struct FlowCounts {
    offered_bytes: u64,
    received_bytes: u64,
    wire_bytes: u64,
    data_packets: u64,
    datagrams_sent: u64,
}

/// A quantity, and its count.
type OwnCount = (&'static Quantity, fn(&mut FlowCounts) -> &mut u64);

static OWN: [OwnCount; 5] = [
    (&quantity::OFFERED_BYTES, |counts| &mut counts.offered_bytes),
    (&quantity::RECEIVED_BYTES, |counts| &mut counts.received_bytes),
    (&quantity::WIRE_BYTES, |counts| &mut counts.wire_bytes),
    (&quantity::DATA_PACKETS_RECEIVED, |counts| &mut counts.data_packets),
    (&quantity::DATAGRAMS_SENT, |counts| &mut counts.datagrams_sent),
];

impl FlowMeter {
    /// A meter of flow `number`, for `sink`. Data that stays away for longer than `pause` has paused.
    pub fn new(number: u32, pause: Duration, sink: &dyn Sink) -> Self {
        Self {
            counts: FlowCounts::default(),
            outstanding: 0,
            last_data: Instant::NEVER,
            pause,
            subject: Subject::Flow(number),
            datagrams: Datagrams::default(),
            answers: Datagrams::default(),
            own: (0..OWN.len()).filter(|place| sink.wants(OWN[*place].0)).collect(),
            reported: (Counters::REPORTED.iter().enumerate())
                .filter(|(_, (quantity, ..))| sink.wants(quantity))
                .map(|(place, _)| (place, 0))
                .collect(),
        }
    }

    /// An application gave `bytes` to its transport.
    pub fn offered(&mut self, bytes: u64) {
        self.counts.offered_bytes += bytes;
        self.outstanding += bytes.cast_signed();
    }

    /// An application received `bytes`.
    pub fn received(&mut self, bytes: u64) {
        self.counts.received_bytes += bytes;
        self.outstanding -= bytes.cast_signed();
    }

    /// A datagram of `bytes` of payload is sent.
    pub fn datagram_sent(&mut self, now: Instant, bytes: u64) {
        self.counts.datagrams_sent += 1;
        self.counts.offered_bytes += bytes;
        self.datagrams.sent(now);
    }

    /// A datagram of `bytes` of payload arrived. Whether for the first time: only then does it count.
    pub fn datagram_arrived(&mut self, now: Instant, number: u64, bytes: u64) -> bool {
        let first = self.datagrams.arrived(now, number);
        if first {
            self.counts.received_bytes += bytes;
        }
        first
    }

    /// A datagram is sent by the end that answers: it is no part of what the flow carries.
    pub fn answer_sent(&mut self, now: Instant) {
        self.answers.sent(now);
    }

    /// An answer arrived. Whether for the first time.
    pub fn answer_arrived(&mut self, now: Instant, number: u64) -> bool {
        self.answers.arrived(now, number)
    }

    /// A packet with user data reached its host.
    #[inline]
    pub fn packet_arrived(&mut self, ip_len: u32) {
        self.counts.wire_bytes += u64::from(ip_len);
        self.counts.data_packets += 1;
    }

    /// Data arrived for the first time. A copy is no progress.
    #[inline]
    pub fn data_arrived(&mut self, now: Instant, sink: &mut dyn Sink) {
        let last = std::mem::replace(&mut self.last_data, now);
        if last == Instant::NEVER {
            self.mark(now, &quantity::DATA_RESUMED, 0.0, sink);
        } else if now.since(last) > self.pause {
            self.mark(last, &quantity::DATA_PAUSED, 0.0, sink);
            self.mark(now, &quantity::DATA_RESUMED, 0.0, sink);
        }
    }

    /// Reports a moment.
    pub fn mark(&self, at: Instant, quantity: &'static Quantity, value: f64, sink: &mut dyn Sink) {
        sink.sample(self.subject, Sample { at, quantity, value });
    }

    /// Reports what was added since the last tick. `endpoints` gives what the flow's connections have
    /// counted since the start; it is asked only for what the sink wants.
    pub fn tick(
        &mut self,
        now: Instant,
        endpoints: impl Fn(ReportingEnds, CounterReader) -> u64,
        sink: &mut dyn Sink,
    ) {
        for place in &self.own {
            let (quantity, count) = OWN[*place];
            let value = std::mem::take(count(&mut self.counts)) as f64;
            sink.sample(self.subject, Sample { at: now, quantity, value });
        }
        for (place, reported) in &mut self.reported {
            let (quantity, whose, of) = Counters::REPORTED[*place];
            let total = endpoints(whose, of);
            let value = (total - std::mem::replace(reported, total)) as f64;
            sink.sample(self.subject, Sample { at: now, quantity, value });
        }
    }

    /// Bytes that applications gave to connections of the flow and that were not received.
    pub const fn outstanding(&self) -> i64 {
        self.outstanding
    }

    /// The run is over at `end`. Datagrams that may still be on their way are taken back: they are neither sent nor
    /// lost.
    pub fn finish(&self, end: Instant, sink: &mut dyn Sink) {
        if self.last_data != Instant::NEVER {
            self.mark(self.last_data, &quantity::DATA_PAUSED, 0.0, sink);
        }
        let on_their_way = self.datagrams.on_their_way(end);
        if on_their_way > 0 {
            self.mark(end, &quantity::DATAGRAMS_SENT, -(on_their_way as f64), sink);
        }
    }
}
