//! A line with its observers and its reports, the same for simulated packets and for real frames.
//!
//! A [`Wire`] counts every packet of one direction of a link. [`WireMeters`] reports the counts of the wire, of its classes and
//! of its rules to a sink once per interval.

mod event_log;
mod meter;
mod rule_meter;
pub mod words;

use netrig_core::{
    Delivery, Duration, Instant, Lane, Link, LinkEvent, PacketMeta, Seeds, Sink, Timeline, quantity,
};

pub use self::event_log::{EventLog, Events, NumberedPacket};
pub use self::meter::{Waits, WireMeter};
use self::rule_meter::RuleMeter;
pub use self::words::WireId;
use crate::counters::Imbalance;
use crate::queue::Port;
use crate::{Class, FifoLine, FifoReading, Line, LineCounters, LineSettings, SettingsError};

/// One direction of a line with its observers.
pub struct Wire<P> {
    line: Line<P>,
    counters: LineCounters,
    waits: Waits,
    log: Option<Box<EventLog>>,
}

impl<P: PacketMeta> Wire<P> {
    /// The wire that `settings` describe. It records the events and waits that `sink` requests.
    ///
    /// # Errors
    /// As [`Line::new`].
    pub fn new(
        id: WireId<'_>,
        settings: &LineSettings,
        seeds: &Seeds,
        events: &Events,
        sink: &dyn Sink,
    ) -> Result<Self, SettingsError> {
        Ok(Self {
            line: Line::new(settings, seeds, &format!("{}/{}", id.name, id.direction))?,
            counters: LineCounters::default(),
            waits: Waits::new(sink.wants(&quantity::WAITING_TIME), &settings.classes),
            log: EventLog::new(id.link, id.direction, events, sink).map(Box::new),
        })
    }
}

impl<P> Wire<P> {
    /// When to call [`Wire::poll_deliver`] next. Any call that takes `&mut self` may change this time.
    #[must_use]
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant>
    where
        P: PacketMeta + Clone,
    {
        self.line.poll_timeout()
    }

    /// The counters of the line.
    pub fn counters(&self) -> &LineCounters {
        &self.counters
    }
}

impl<P: NumberedPacket + Clone> Wire<P> {
    /// Offers a packet to the line. The path with a log is a separate function, because most runs have no log.
    #[inline]
    pub fn offer(&mut self, now: Instant, packet: P) {
        if self.log.is_some() {
            return self.offer_logged(now, packet);
        }
        self.line.offer(now, Lane::ONLY, packet, &mut (&mut self.counters, &mut self.waits));
    }

    #[cold]
    #[inline(never)]
    fn offer_logged(&mut self, now: Instant, packet: P) {
        let Self { line, counters, waits, log } = self;
        line.offer(now, Lane::ONLY, packet, &mut ((counters, waits), log.as_deref_mut()));
    }

    /// The next packet that has arrived by `now`.
    #[inline]
    pub fn poll_deliver(&mut self, now: Instant) -> Option<Delivery<P>> {
        if self.log.is_some() {
            return self.poll_deliver_logged(now);
        }
        self.line.poll_deliver(now, &mut (&mut self.counters, &mut self.waits))
    }

    #[cold]
    #[inline(never)]
    fn poll_deliver_logged(&mut self, now: Instant) -> Option<Delivery<P>> {
        let Self { line, counters, waits, log } = self;
        line.poll_deliver(now, &mut ((counters, waits), log.as_deref_mut()))
    }

    /// Applies an event to the line.
    pub fn apply(&mut self, now: Instant, event: LinkEvent) {
        let Self { line, counters, waits, log } = self;
        line.apply(now, Lane::ONLY, event, &mut ((counters, waits), log.as_deref_mut()));
    }

    fn catch_up(&mut self, now: Instant) {
        let Self { line, counters, waits, log } = self;
        line.catch_up(now, &mut ((counters, waits), log.as_deref_mut()));
    }

    /// Memory that the unreported waits use, bytes.
    pub fn noted_bytes(&self) -> usize {
        self.waits.bytes()
    }

    /// As [`Line::clear_at`].
    pub fn clear_at(&self) -> Instant {
        self.line.clear_at()
    }

    /// Packets that wait or are on the line.
    pub fn inside(&self) -> usize {
        self.line.inside(Lane::ONLY)
    }

    /// Number of packets that wait or are on the line, after a check that the counters balance.
    ///
    /// # Errors
    /// If they do not balance.
    pub fn balance(&self) -> Result<usize, Imbalance> {
        let inside = self.inside();
        self.counters.balance(inside).map(|()| inside)
    }
}

/// The reports about a wire, its classes and its rules that the sink requests. They are separate from the wire, because
/// they are used once per interval and the wire once per packet.
pub struct WireMeters {
    wire: WireMeter,
    classes: Vec<WireMeter>,
    rules: Vec<RuleMeter>,
    /// Whether the sink requests none of the quantities that these meters report.
    is_unwanted: bool,
}

impl WireMeters {
    /// Meters of the wire that `settings` describe.
    pub fn new(id: WireId<'_>, settings: &LineSettings, sink: &dyn Sink) -> Self {
        let WireId { link, name, direction } = id;
        let of_class = |(class, place): (&Class, u8)| {
            WireMeter::of_class(link, name, direction, (place, class.name()), sink)
        };
        let of_rule = |place| RuleMeter::new(link, direction, place, sink);
        let wire = WireMeter::new(link, name, direction, sink);
        // Rule numbers have 16 bits. The range is closed, because an open range would compute the number after the
        // last.
        let rules: Vec<_> =
            (0..=u16::MAX).zip(&settings.condition).filter_map(|(place, _)| of_rule(place)).collect();
        let of_packets = sink.wants(&quantity::WAITING_TIME) || sink.wants_packets(link, direction);
        Self {
            is_unwanted: !wire.is_wanted() && rules.is_empty() && !of_packets,
            wire,
            classes: settings.classes.iter().zip(0..).map(of_class).collect(),
            rules,
        }
    }

    /// Whether the sink requests none of the quantities, so that a tick reports nothing.
    pub fn is_unwanted(&self) -> bool {
        self.is_unwanted
    }

    /// The link and the direction: `primary (forward)`.
    pub fn name(&self) -> &str {
        self.wire.name()
    }

    /// Reports the waits of `measured`, the wire of these meters, up to `now`, before the interval ends. So the waits
    /// need not be kept until the end of the interval. After the call the wire has been polled up to `now`, as
    /// [`Events::flush`] requires.
    pub fn report_waits<P: NumberedPacket + Clone>(
        &self,
        now: Instant,
        measured: &mut Wire<P>,
        sink: &mut dyn Sink,
    ) {
        measured.catch_up(now);
        self.wire.report(now, &self.classes, &mut measured.waits, sink);
    }

    /// Reports the counts of `measured`, the wire of these meters, in the interval that ends at `now`.
    pub fn tick<P: NumberedPacket + Clone>(
        &mut self,
        now: Instant,
        measured: &mut Wire<P>,
        timeline: &Timeline,
        sink: &mut dyn Sink,
    ) {
        let Self { wire, classes, rules, .. } = self;
        if wire.is_wanted() || measured.log.is_some() {
            measured.catch_up(now);
        }
        let Wire { line, counters, waits, .. } = measured;
        if wire.is_wanted() {
            wire.tick(now, counters, line.busy(now), timeline, sink);
            let of_classes = line.queue().port().into_iter().flat_map(Port::classes);
            for (meter, counters) in classes.iter_mut().zip(of_classes) {
                meter.tick(now, counters, Duration::ZERO, timeline, sink);
            }
        }
        let of_rules = line.queue().port().into_iter().flat_map(Port::rules);
        for (meter, account) in rules.iter_mut().zip(of_rules) {
            meter.tick(now, account, sink);
        }
        wire.report(now, classes, waits, sink);
    }

    /// [`WireMeters::tick`] for a line with a closed form.
    pub fn tick_fifo<P>(
        &mut self,
        now: Instant,
        line: &mut FifoLine<P>,
        timeline: &Timeline,
        sink: &mut dyn Sink,
    ) {
        line.settle(now);
        if self.wire.is_wanted() {
            let FifoReading { counters, busy, .. } = line.read(now);
            self.wire.tick(now, &counters, busy, timeline, sink);
        }
        self.wire.report(now, &[], line.waits(), sink);
    }
}
