//! A WiFi channel, with the observers and counters of its lanes.

use netrig_core::{
    Delivery, Instant, Lane, Link, LinkEvent, LinkObserver, Observer, Seeds, Sink, Timeline, quantity,
};
use netrig_experiment::{LinkSpec, WifiLane};
use netrig_link::wire::{EventLog, Events, Waits, WireMeter};
use netrig_link::{Imbalance, LineCounters, Medium, SettingsError};

use crate::agenda::Appointment;
use crate::parcel::Parcel;

/// A WiFi channel.
pub(crate) struct Air {
    medium: Medium<Parcel>,
    watched: Lanes,
    meters: Vec<WireMeter>,
    pub appointment: Appointment,
}

/// The observers of each lane.
struct Lanes(Vec<LaneWatch>);

type LaneWatch = ((LineCounters, Waits), Option<EventLog>);

impl LinkObserver<Parcel> for Lanes {
    fn lane(&mut self, lane: Lane) -> &mut impl Observer<Parcel> {
        &mut self.0[lane.0 as usize]
    }
}

impl Air {
    /// An idle channel for these lanes. A lane is one direction of a WiFi link.
    ///
    /// # Errors
    /// If the lanes cannot share a channel.
    pub fn new(
        lanes: &[WifiLane<'_>],
        links: &[LinkSpec],
        seeds: &Seeds,
        events: &Events,
        sink: &dyn Sink,
    ) -> Result<Self, SettingsError> {
        let settings: Vec<_> = lanes.iter().map(WifiLane::as_lane).collect();
        let watched = |lane: &WifiLane<'_>| -> LaneWatch {
            let waits = Waits::new(sink.wants(&quantity::WAITING_TIME), &[]);
            let log = EventLog::new(lane.link as u32, lane.direction, events, sink);
            ((LineCounters::default(), waits), log)
        };
        let meter = |lane: &WifiLane<'_>| {
            WireMeter::new(lane.link as u32, &links[lane.link].name, lane.direction, sink)
        };
        Ok(Self {
            medium: Medium::new(&settings, seeds)?,
            watched: Lanes(lanes.iter().map(watched).collect()),
            meters: lanes.iter().map(meter).collect(),
            appointment: Appointment::default(),
        })
    }

    /// Offers a packet to a lane.
    pub fn offer(&mut self, now: Instant, lane: Lane, parcel: Parcel) {
        self.medium.offer(now, lane, parcel, &mut self.watched);
    }

    /// Applies an event to a lane.
    pub fn apply(&mut self, now: Instant, lane: Lane, event: LinkEvent) {
        self.medium.apply(now, lane, event, &mut self.watched);
    }

    /// The next packet that has arrived by `now`, and its arrival time.
    pub fn arrived(&mut self, now: Instant) -> Option<(Instant, Parcel)> {
        let Delivery { at, packet, .. } = self.medium.poll_deliver(now, &mut self.watched)?;
        Some((at, packet))
    }

    /// The time at which to call [`Air::arrived`] next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.medium.poll_timeout()
    }

    /// Reports the increase of the counters since the last tick.
    pub fn tick(&mut self, now: Instant, timeline: &Timeline, sink: &mut dyn Sink) {
        self.medium.catch_up(now, &mut self.watched);
        let watched = self.watched.0.iter_mut().map(|(watched, _)| watched);
        for (place, ((counters, waits), meter)) in watched.zip(&mut self.meters).enumerate() {
            if meter.is_wanted() {
                let busy = self.medium.occupied(Lane(place as u32), now);
                meter.tick(now, counters, busy, timeline, sink);
            }
            meter.report(now, &[], waits, sink);
        }
    }

    /// Number of packets in all lanes.
    pub fn inside(&self) -> usize {
        (0..self.meters.len() as u32).map(|lane| self.medium.inside(Lane(lane))).sum()
    }

    /// For each lane: its name, its counters, and the number of packets inside, or an error if its packets do not
    /// balance.
    pub fn account(&self) -> impl Iterator<Item = (&str, &LineCounters, Result<usize, Imbalance>)> {
        let lanes = self.meters.iter().zip(&self.watched.0).enumerate();
        lanes.map(|(place, (meter, ((counters, _), _)))| {
            let inside = self.medium.inside(Lane(place as u32));
            (meter.name(), counters, counters.balance(inside).map(|()| inside))
        })
    }
}
