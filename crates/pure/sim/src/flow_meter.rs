//! The counters of a flow.

use netrig_core::{Duration, Instant, Quantity, Sample, Sink, Subject, quantity};
use netrig_transport::{CounterReader, Counters, ReportingEnds};

use crate::datagrams::Datagrams;

/// Counts one flow, in the direction of its data, and reports once per sampling interval.
///
/// The order of the fields is the order in memory: the fields that each packet needs take one cache line.
#[repr(C, align(64))]
pub(crate) struct FlowMeter {
    counts: FlowCounts,
    /// Bytes that applications gave to connections and that have not been received, since the start.
    outstanding: i64,
    /// The last arrival of data; [`Instant::NEVER`] if none has arrived.
    last_data: Instant,
    pause: Duration,
    subject: Subject,
    datagrams: Datagrams,
    /// The answers of the other end.
    answers: Datagrams,
    /// Indices of the wanted counts in [`OWN`].
    own: Vec<usize>,
    /// Indices of the wanted counts in [`Counters::REPORTED`], and the value of each that has been reported.
    reported: Vec<(usize, u64)>,
}

/// The counts since the last report that the flow's connections do not keep.
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
    /// A meter of flow `number`. If no data arrives for longer than `pause`, the data has paused.
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

    /// A datagram of `bytes` of payload arrived. Returns whether for the first time; only then it counts.
    pub fn datagram_arrived(&mut self, now: Instant, number: u64, bytes: u64) -> bool {
        let first = self.datagrams.arrived(now, number);
        if first {
            self.counts.received_bytes += bytes;
        }
        first
    }

    /// The answering end sends a datagram. It does not count as data of the flow.
    pub fn answer_sent(&mut self, now: Instant) {
        self.answers.sent(now);
    }

    /// An answer arrived. Returns whether for the first time.
    pub fn answer_arrived(&mut self, now: Instant, number: u64) -> bool {
        self.answers.arrived(now, number)
    }

    /// A packet with user data reached its host.
    #[inline]
    pub fn packet_arrived(&mut self, ip_len: u32) {
        self.counts.wire_bytes += u64::from(ip_len);
        self.counts.data_packets += 1;
    }

    /// New data arrived, not a copy.
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

    /// Reports the increase since the last tick. `endpoints` returns the counts of the flow's connections since the start. It is
    /// called only for counts that the sink wants.
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

    /// The run ends at `end`. Datagrams that may still be on their way are subtracted: they count neither as sent nor as lost.
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
