//! The counters of a flow.

use netrig_core::{Duration, FlowMeter, Instant, Sink, quantity};
use netrig_transport::{CounterReader, Counters, ReportingEnds};

use crate::datagrams::Datagrams;

/// The counts of one flow, reported once per sampling interval. The order of the fields is the order in memory: each
/// packet needs the first field.
#[repr(C, align(64))]
pub(crate) struct FlowRecord {
    pub meter: FlowMeter,
    datagrams: Datagrams,
    /// The answers that the other end sends.
    answers: Datagrams,
    /// The counts that the sink wants: the index in [`Counters::REPORTED`], and the value at the last report.
    reported: Vec<(usize, u64)>,
}

impl FlowRecord {
    /// A record of flow `number`. If no data arrives for longer than `pause`, the data has paused.
    pub fn new(number: u32, pause: Duration, sink: &dyn Sink) -> Self {
        Self {
            meter: FlowMeter::new(number, pause),
            datagrams: Datagrams::default(),
            answers: Datagrams::default(),
            reported: (Counters::REPORTED.iter().enumerate())
                .filter(|(_, (quantity, ..))| sink.wants(quantity))
                .map(|(place, _)| (place, 0))
                .collect(),
        }
    }

    /// A datagram with a payload of `bytes` is sent.
    pub fn datagram_sent(&mut self, now: Instant, bytes: u64) {
        self.meter.datagrams_sent(1);
        self.meter.offered(bytes);
        self.datagrams.sent(now);
    }

    /// A datagram with a payload of `bytes` arrived. Returns false if it is a duplicate, which is not counted.
    pub fn datagram_arrived(&mut self, now: Instant, number: u64, bytes: u64) -> bool {
        let first = self.datagrams.arrived(now, number);
        if first {
            self.meter.received(bytes);
        }
        first
    }

    /// The answering end sends a datagram. It does not count as data of the flow.
    pub fn answer_sent(&mut self, now: Instant) {
        self.answers.sent(now);
    }

    /// An answer arrived. Returns false if it is a duplicate.
    pub fn answer_arrived(&mut self, now: Instant, number: u64) -> bool {
        self.answers.arrived(now, number)
    }

    /// Reports the increase since the last tick. `endpoints` returns the counts of the flow's connections since the
    /// start. It is called only for counts that the sink wants.
    pub fn tick(
        &mut self,
        now: Instant,
        endpoints: impl Fn(ReportingEnds, CounterReader) -> u64,
        sink: &mut dyn Sink,
    ) {
        for (quantity, count) in self.meter.take_counts() {
            self.meter.mark(now, quantity, count as f64, sink);
        }
        for (place, reported) in &mut self.reported {
            let (quantity, whose, of) = Counters::REPORTED[*place];
            let total = endpoints(whose, of);
            let value = (total - std::mem::replace(reported, total)) as f64;
            self.meter.mark(now, quantity, value, sink);
        }
    }

    /// Completes the record at `end`, the end of the run. Datagrams that may still be in flight are subtracted: they
    /// count neither as sent nor as lost.
    pub fn finish(&self, end: Instant, sink: &mut dyn Sink) {
        self.meter.finish(sink);
        let on_their_way = self.datagrams.on_their_way(end);
        if on_their_way > 0 {
            self.meter.mark(end, &quantity::DATAGRAMS_SENT, -(on_their_way as f64), sink);
        }
    }
}
