//! A WiFi channel: stations that share the medium by the rules of IEEE 802.11.
//!
//! A [`Medium`] has a transmitter for each station and a [`Lane`] for each pair of stations and each direction. A
//! transmitter has one queue and one backoff for all receivers. The airtime of a frame is a fixed part (preamble,
//! contention, SIFS, acknowledgement) and the time of its bits. So data and the acknowledgements of a higher layer
//! contend for the same medium.
//!
//! A medium is polled like a [`Line`](crate::Line): its behaviour depends only on arrivals and link events, not on when
//! it is polled.

mod lane;
mod settings;
mod standard;
mod station;

use std::collections::BTreeMap;

use netrig_core::{
    Backlog, Delivery, DropReason, Duration, InFlight, Instant, Lane, Link, LinkEvent, LinkObserver,
    Observer, PacketMeta, Rate, Seeds, Waiting,
};

use crate::error::ensure;
use crate::flight::Flying;
use crate::queue::QueueContext;
use crate::{Framing, SettingsError};
use lane::{Addressed, LaneObserver, LaneState};
use station::{Mpdu, Station};

pub use settings::WifiSettings;
pub use standard::{Aggregation, Standard};

/// The description of a lane.
#[derive(Clone, Copy, Debug)]
pub struct LaneSettings<'a> {
    /// The number of the sending station. Any number that is the same for all lanes that begin at this station.
    pub station: usize,
    /// Names the random streams of the lane: `link/<name>/frame-loss` and `/loss`. The name of a station's first lane
    /// is also used for `/backoff` and the streams of the queue.
    pub name: &'a str,
    /// The settings of the lane. All lanes of a medium have the same standard. All lanes that begin at one station have
    /// the same queue, contention window, attempts and aggregation.
    pub settings: &'a WifiSettings,
}

/// Stations that share one channel. Every station receives the frames of every other station.
#[derive(Clone, Debug)]
pub struct Medium<P> {
    rules: Standard,
    stations: Vec<Station<P>>,
    lanes: Vec<LaneState<P>>,
    /// The backlog of each lane.
    backlogs: Vec<Backlog>,
    /// The end of the current transmission.
    busy_until: Instant,
    /// The `now` of the last call.
    latest: Instant,
}

impl<P: PacketMeta> Medium<P> {
    /// An idle medium with these lanes. [`Lane`] n is the lane at index n.
    ///
    /// # Errors
    /// As [`check`].
    pub fn new(lanes: &[LaneSettings<'_>], seeds: &Seeds) -> Result<Self, SettingsError> {
        check(lanes).map_err(|(_, error)| error)?;
        let rules = lanes.first().map_or(Standard::G, |lane| lane.settings.standard);
        let mut medium = Self {
            rules,
            stations: Vec::new(),
            lanes: Vec::new(),
            backlogs: vec![Backlog::default(); lanes.len()],
            busy_until: Instant::ZERO,
            latest: Instant::ZERO,
        };
        let mut places = BTreeMap::new();
        for lane in lanes {
            let from = *places.entry(lane.station).or_insert_with(|| {
                let context = QueueContext::new(seeds, lane.name, lane.settings.rate, Framing::None);
                medium.stations.push(Station::new(lane.settings, context, rules));
                medium.stations.len() - 1
            });
            medium.lanes.push(LaneState::new(from, lane.settings, seeds, lane.name));
        }
        Ok(medium)
    }

    /// Airtime of the frames of `lane` and of their acknowledgements until `now`, which must be the `now` of the last call.
    pub fn occupied(&self, lane: Lane, now: Instant) -> Duration {
        self.lanes[lane.0 as usize].occupied(now)
    }

    /// The backlog of `lane` at the time of the last call, without the frame that is being sent.
    pub fn backlog(&self, lane: Lane) -> Backlog {
        self.backlogs[lane.0 as usize]
    }

    /// Does everything that is due before `now`, except deliveries.
    ///
    /// The next call decides about transmissions that start at `now` itself, because other stations may start at the
    /// same moment.
    pub fn catch_up(&mut self, now: Instant, watch: &mut impl LinkObserver<P>) {
        debug_assert!(now >= self.latest, "time runs backwards: {now} after {}", self.latest);
        self.latest = now;
        while let Some(start) = self.next_access().filter(|start| *start < now) {
            self.begin(start, watch);
        }
    }

    /// When the next station sends, if no packet arrives before that.
    fn next_access(&self) -> Option<Instant> {
        let slot = self.rules.slot();
        self.stations.iter().filter(|station| station.has_frame()).map(|station| station.access(slot)).min()
    }

    /// All stations whose backoff ends at `start` send, and the other stations freeze their counters. If the queues of
    /// all sending stations release no packet after all, the medium stays idle and all stations continue to count.
    fn begin(&mut self, start: Instant, watch: &mut impl LinkObserver<P>) {
        let (rules, mut senders) = (self.rules, Vec::new());
        for (place, station) in self.stations.iter_mut().enumerate() {
            if station.has_frame() && station.access(rules.slot()) == start {
                let mut observer = LaneObserver { watch: &mut *watch, backlogs: &mut self.backlogs };
                station.load(start, &self.lanes, rules, &mut observer);
                if !station.burst.is_empty() {
                    senders.push(place);
                }
            }
        }
        if senders.is_empty() {
            return;
        }
        for (place, station) in self.stations.iter_mut().enumerate() {
            if !senders.contains(&place) {
                station.freeze(start, rules);
            }
        }
        match senders.as_slice() {
            [only] => self.exchange(start, *only, watch),
            several => self.collide(start, several, watch),
        }
    }

    /// One station sends. The far end receives the packets that are not lost.
    fn exchange(&mut self, start: Instant, sender: usize, watch: &mut impl LinkObserver<P>) {
        let (rules, station) = (self.rules, &mut self.stations[sender]);
        let lane = &mut self.lanes[station.lane.0 as usize];
        let (data, answer) = station.airtimes(lane.rate, rules);
        let answered = station.send(start, lane, true, watch);
        let sent = start + data;
        if answered {
            let end = sent + rules.sifs() + answer;
            lane.occupy(start, end.since(start));
            station.hand_over(sent, lane);
            station.give_up(end, lane);
            station.succeeded();
            self.fall_silent(end, end + rules.idle());
        } else {
            let timeout = sent + rules.response_timeout();
            lane.occupy(start, data);
            station.fail(timeout, lane);
            self.fall_silent(sent, sent + rules.after_error() + rules.idle());
            self.stations[sender].base = timeout + rules.idle();
        }
    }

    /// Several stations send at the same time. No packet is received.
    fn collide(&mut self, start: Instant, senders: &[usize], watch: &mut impl LinkObserver<P>) {
        let rules = self.rules;
        let mut timeouts = Vec::with_capacity(senders.len());
        let mut silent = start;
        for sender in senders {
            let station = &mut self.stations[*sender];
            let lane = &mut self.lanes[station.lane.0 as usize];
            let (data, _) = station.airtimes(lane.rate, rules);
            station.send(start, lane, false, watch);
            lane.occupy(start, data);
            let timeout = start + data + rules.response_timeout();
            station.fail(timeout, lane);
            timeouts.push(timeout);
            silent = silent.max(start + data);
        }
        self.fall_silent(silent, silent + rules.after_error() + rules.idle());
        for (sender, timeout) in senders.iter().zip(timeouts) {
            self.stations[*sender].base = timeout.max(silent) + rules.idle();
        }
    }

    /// The medium is idle from `end` on, and the stations resume their backoff at `base`.
    fn fall_silent(&mut self, end: Instant, base: Instant) {
        self.busy_until = end;
        for station in &mut self.stations {
            station.base = base;
        }
    }

    /// Takes a lane down. Drops its waiting packets unless `waiting` keeps them, and its packets in flight if
    /// `in_flight` loses them.
    fn go_down(
        &mut self,
        now: Instant,
        at: Lane,
        waiting: Waiting,
        in_flight: InFlight,
        watch: &mut impl LinkObserver<P>,
    ) {
        let several = {
            let from = self.lanes[at.0 as usize].from;
            self.lanes.iter().filter(|lane| lane.from == from).count() > 1
        };
        let lane = &mut self.lanes[at.0 as usize];
        lane.outage = Some(waiting);
        let station = &mut self.stations[lane.from];
        match waiting {
            Waiting::Keep => station.paused = true,
            Waiting::Drop => {
                if station.lane == at {
                    for Mpdu { packet, .. } in station.burst.drain(..) {
                        watch.lane(at).dropped(now, &packet, DropReason::LinkDown);
                    }
                }
                // If the queue also has packets of other lanes, each packet of this lane is dropped when it reaches the
                // head.
                if !several {
                    let mut observer = LaneObserver { watch: &mut *watch, backlogs: &mut self.backlogs };
                    station.clear(now, DropReason::LinkDown, &mut observer);
                }
            }
        }
        if in_flight == InFlight::Lose {
            lane.flight.cut(now, |packet| watch.lane(at).dropped(now, &packet, DropReason::LinkDown));
        }
    }

    fn come_up(&mut self, now: Instant, at: Lane) {
        let lane = &mut self.lanes[at.0 as usize];
        lane.outage = None;
        let from = lane.from;
        let keeps = |lane: &LaneState<P>| lane.from == from && lane.outage == Some(Waiting::Keep);
        let paused = self.lanes.iter().any(keeps);
        let station = &mut self.stations[from];
        if std::mem::replace(&mut station.paused, paused) && station.has_frame() {
            station.contend(now, now < self.busy_until, self.rules);
        }
    }
}

/// Checks the lanes of a medium.
///
/// # Errors
/// As [`WifiSettings::check`], and if two lanes differ in a field that must be the same. The error has the index of the
/// lane.
pub fn check(lanes: &[LaneSettings<'_>]) -> Result<(), (usize, SettingsError)> {
    let mut firsts: BTreeMap<usize, &WifiSettings> = BTreeMap::new();
    for (place, LaneSettings { station, settings, .. }) in lanes.iter().enumerate() {
        settings.check().map_err(|error| (place, error))?;
        let same = settings.standard == lanes[0].settings.standard;
        ensure(same, "standard", "must be the same for all links of a channel")
            .map_err(|error| (place, error))?;
        let first = firsts.entry(*station).or_insert(*settings);
        alike(settings, first).map_err(|error| (place, error))?;
    }
    Ok(())
}

/// Fails if two lanes cannot begin at the same station.
fn alike(a: &WifiSettings, b: &WifiSettings) -> Result<(), SettingsError> {
    const WHY: &str =
        "must be the same for all links of a channel that begin at a node, which has one transmitter";
    ensure(a.queue == b.queue, "queue", WHY)?;
    ensure(a.cw_min == b.cw_min, "cw_min", WHY)?;
    ensure(a.cw_max == b.cw_max, "cw_max", WHY)?;
    ensure(a.attempts == b.attempts, "attempts", WHY)?;
    ensure(a.aggregation == b.aggregation, "aggregation", WHY)
}

impl<P: PacketMeta> Link<P> for Medium<P> {
    fn offer(&mut self, now: Instant, lane: Lane, packet: P, watch: &mut impl LinkObserver<P>) {
        self.catch_up(now, watch);
        let state = &self.lanes[lane.0 as usize];
        let obs = watch.lane(lane);
        obs.offered(now, &packet);
        if u64::from(packet.header().ip_len) > state.mtu {
            return obs.dropped(now, &packet, DropReason::Undeliverable);
        }
        if state.outage == Some(Waiting::Drop) {
            return obs.dropped(now, &packet, DropReason::LinkDown);
        }
        let station = &mut self.stations[state.from];
        let had_frame = station.has_frame();
        let addressed = Addressed { lane, packet };
        let mut observer = LaneObserver { watch, backlogs: &mut self.backlogs };
        observer.arrives(&addressed);
        station.enqueue(now, addressed, &mut observer);
        observer.report_backlog(now, lane);
        if !had_frame && station.has_frame() {
            station.contend(now, now < self.busy_until, self.rules);
        }
    }

    fn apply(&mut self, now: Instant, at: Lane, event: LinkEvent, watch: &mut impl LinkObserver<P>) {
        self.catch_up(now, watch);
        let lane = &mut self.lanes[at.0 as usize];
        match event {
            LinkEvent::Down { queue, in_flight } => self.go_down(now, at, queue, in_flight, watch),
            LinkEvent::Up => self.come_up(now, at),
            LinkEvent::Rate { bits_per_s } => lane.rate = Rate::from_bits_per_s(bits_per_s),
            LinkEvent::Delay(delay) => lane.delay = delay,
            LinkEvent::Loss { probability } => lane.losses.set_probability(probability),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let arrivals = self.lanes.iter().filter_map(|lane| lane.flight.next_arrival()).min();
        // A transmission that starts at this moment is decided immediately afterwards. Its packets arrive at the
        // earliest after the shortest frame.
        let access = self.next_access().map(|start| start + self.rules.shortest());
        arrivals.into_iter().chain(access).min()
    }

    fn poll_deliver(&mut self, now: Instant, watch: &mut impl LinkObserver<P>) -> Option<Delivery<P>> {
        self.catch_up(now, watch);
        loop {
            let arrivals =
                self.lanes.iter().enumerate().filter_map(|(n, lane)| Some((lane.flight.next_arrival()?, n)));
            let (_, n) = arrivals.min()?;
            let Flying { at, lost, packet } = self.lanes[n].flight.pop_by(now)?;
            let lane = Lane(n as u32);
            let Some(why) = lost else {
                watch.lane(lane).delivered(at, &packet);
                return Some(Delivery { at, lane, packet });
            };
            watch.lane(lane).dropped(at, &packet, why);
        }
    }

    fn inside(&self, lane: Lane) -> usize {
        let state = &self.lanes[lane.0 as usize];
        let station = &self.stations[state.from];
        let sending = if station.lane == lane { station.burst.len() } else { 0 };
        self.backlogs[lane.0 as usize].packets + sending + state.flight.len()
    }
}
