//! Reports about the counters of a wire.

use crate::LineCounters;
use crate::queue::class::{Class, Classifier};
use netrig_core::{
    Direction, DropReason, Duration, Instant, Observer, PacketMeta, Quantity, Sample, Sink, Subject,
    Timeline, quantity,
};

use super::words;

/// Reports the increase of a wire's counters since the last tick.
pub struct WireMeter {
    subject: Subject,
    /// The link and the direction: `primary (forward)`.
    name: String,
    /// Whether the sink requests any of these reports.
    wanted: bool,
    /// Whether the sink requests each of [`COUNTS`], and the length of the queue.
    counts: [bool; COUNTS.len()],
    length: bool,
    /// Whether the sink requests the drops for each reason.
    reasons: [bool; DropReason::ALL.len()],
    before: WireReading,
}

/// The counters of a wire at one moment.
#[derive(Clone, Copy, Default)]
struct WireReading {
    at: Instant,
    /// In the order of [`COUNTS`].
    counts: [f64; COUNTS.len()],
    /// Packets by [`DropReason::index`].
    dropped: [u64; DropReason::ALL.len()],
    packet_nanos: u128,
}

/// A quantity that only grows.
struct WireCount {
    quantity: &'static Quantity,
    /// Computes the value from the counters and the busy time of the line.
    read: fn(&LineCounters, Duration) -> f64,
}

const fn count(quantity: &'static Quantity, read: fn(&LineCounters, Duration) -> f64) -> WireCount {
    WireCount { quantity, read }
}

static COUNTS: [WireCount; 8] = [
    count(&quantity::LINK_OFFERED, |counters, _| counters.offered.packets as f64),
    count(&quantity::LINK_DELIVERED, |counters, _| counters.delivered.packets as f64),
    count(&quantity::LINK_BYTES, |counters, _| counters.delivered.bytes as f64),
    count(&quantity::LINK_DROPPED, |counters, _| counters.dropped_in_all().packets as f64),
    count(&quantity::LINK_SERVED, |counters, _| counters.served.packets as f64),
    count(&quantity::LINK_WAITED, |counters, _| counters.waited().as_secs_f64()),
    count(&quantity::LINK_BUSY, |_, busy| busy.as_secs_f64()),
    count(&quantity::LINK_REPEATED, |counters, _| counters.repeated.packets as f64),
];

impl WireMeter {
    /// A meter of one direction of the link with this number and name.
    pub fn new(number: u32, name: &str, direction: Direction, sink: &dyn Sink) -> Self {
        Self::of(Subject::Link(number, direction), words::direction_of(name, direction), sink)
    }

    /// A meter of a class of one direction, by its index and name.
    pub fn of_class(
        number: u32,
        name: &str,
        direction: Direction,
        (place, class): (u8, &str),
        sink: &dyn Sink,
    ) -> Self {
        let name = format!("{}, class {class}", words::direction_of(name, direction));
        Self::of(Subject::Class(number, direction, place), name, sink)
    }

    fn of(subject: Subject, name: String, sink: &dyn Sink) -> Self {
        let reasons = DropReason::ALL.map(|why| sink.wants(quantity::link_dropped(why)));
        let counts = COUNTS.each_ref().map(|count| sink.wants(count.quantity));
        let length = sink.wants(&quantity::QUEUE_LENGTH);
        let wanted = sink.wants_notes() || length || reasons.contains(&true) || counts.contains(&true);
        Self { subject, name, wanted, counts, length, reasons, before: WireReading::default() }
    }

    /// The link and the direction, `primary (forward)`. The meter of a class also has the name of the class.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether [`WireMeter::tick`] would report anything.
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Reports the interval that ends at `now`. `busy` is the busy time of the line since the start.
    pub fn tick(
        &mut self,
        now: Instant,
        counters: &LineCounters,
        busy: Duration,
        timeline: &Timeline,
        sink: &mut dyn Sink,
    ) {
        let reading = WireReading {
            at: now,
            counts: COUNTS.each_ref().map(|count| (count.read)(counters, busy)),
            dropped: DropReason::ALL.map(|why| counters.dropped(why).packets),
            packet_nanos: counters.packet_nanos(now),
        };
        for (place, WireCount { quantity, .. }) in
            COUNTS.iter().enumerate().filter(|(place, _)| self.counts[*place])
        {
            let value = reading.counts[place] - self.before.counts[place];
            sink.sample(self.subject, Sample { at: now, quantity, value });
        }
        self.report_drops(&reading, timeline, sink);
        let span = now.since(self.before.at).as_nanos();
        if span > 0 && self.length {
            let value = (reading.packet_nanos - self.before.packet_nanos) as f64 / span as f64;
            sink.sample(self.subject, Sample { at: now, quantity: &quantity::QUEUE_LENGTH, value });
        }
        self.before = reading;
    }

    /// Reports the number of drops for each reason. A reason without drops gets no note on the time line.
    fn report_drops(&self, reading: &WireReading, timeline: &Timeline, sink: &mut dyn Sink) {
        let (at, since) = (reading.at, self.before.at);
        for (why, wanted) in DropReason::ALL.into_iter().zip(self.reasons) {
            let packets = reading.dropped[why.index()] - self.before.dropped[why.index()];
            if wanted {
                let (quantity, value) = (quantity::link_dropped(why), packets as f64);
                sink.sample(self.subject, Sample { at, quantity, value });
            }
            if packets > 0 {
                let words = || words::drops(&self.name, packets, why.name(), since);
                timeline.note(at, self.subject, words, sink);
            }
        }
    }

    /// Reports the wait of each packet that has left by `now` and is not reported yet, for the wire and for the
    /// packet's class.
    pub fn report(&self, now: Instant, classes: &[Self], waits: &mut Waits, sink: &mut dyn Sink) {
        for (at, waited, class) in waits.0.iter_mut().flat_map(|noted| noted.until(now)) {
            let sample = Sample { at, quantity: &quantity::WAITING_TIME, value: waited.as_secs_f64() };
            sink.sample(self.subject, sample);
            if let Some(meter) = classes.get(usize::from(class)) {
                sink.sample(meter.subject, sample);
            }
        }
    }
}

/// Records the wait of each packet, if requested.
#[derive(Clone, Debug)]
pub struct Waits(Option<Box<NotedWaits>>);

#[derive(Clone, Debug)]
struct NotedWaits {
    /// Departure, wait and class of each packet.
    packets: Vec<(Instant, Duration, u8)>,
    /// Finds the class of a packet. `None` if the line has no classes.
    classifier: Option<Classifier>,
}

impl NotedWaits {
    /// Removes and returns the packets that have left by `now`.
    fn until(&mut self, now: Instant) -> impl Iterator<Item = (Instant, Duration, u8)> {
        let past = self.packets.partition_point(|(at, ..)| *at <= now);
        self.packets.drain(..past)
    }
}

impl Waits {
    /// Records waits only if `wanted`.
    pub fn new(wanted: bool, classes: &[Class]) -> Self {
        let classifier = || (!classes.is_empty()).then(|| Classifier::new(classes));
        Self(wanted.then(|| Box::new(NotedWaits { packets: Vec::new(), classifier: classifier() })))
    }

    /// Records a packet of a line without classes. The packet leaves at `at`, which may be in the future.
    #[inline]
    pub(crate) fn note(&mut self, at: Instant, waited: Duration) {
        if let Some(noted) = &mut self.0 {
            noted.packets.push((at, waited, 0));
        }
    }

    /// Memory that the records use, bytes.
    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |noted| size_of_val(&noted.packets[..]))
    }
}

impl<P: PacketMeta> Observer<P> for Waits {
    #[inline]
    fn served(&mut self, at: Instant, packet: &P, waited: Duration) {
        if let Some(noted) = &mut self.0 {
            let class = noted.classifier.as_ref().map_or(0, |of| of.class_of(packet.header()));
            // A line has at most 64 classes.
            noted.packets.push((at, waited, class as u8));
        }
    }
}
