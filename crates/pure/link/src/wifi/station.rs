//! A station: its queue and its access to the medium.

use std::collections::VecDeque;

use netrig_core::{
    Dequeue, DropReason, Duration, Instant, Lane, LinkObserver, Observer, PacketMeta, QueueDiscipline, Rate,
    Stream, Waiting,
};

use super::WifiSettings;
use super::lane::{Addressed, LaneState};
use super::standard::{Aggregation, Standard};
use crate::Discipline;
use crate::queue::{ClassContext, QueueContext};

/// A packet of the current frame, until it is acknowledged or discarded.
#[derive(Clone, Debug)]
pub(super) struct Mpdu<P> {
    pub(super) packet: P,
    /// Bytes of the MPDU.
    pub(super) bytes: u64,
    pub(super) attempts: u32,
    /// Whether the far end has received this packet and still waits for an earlier one.
    pub(super) received: bool,
}

/// A transmitter with one queue and one backoff for all lanes that begin at this station.
#[derive(Clone, Debug)]
pub(super) struct Station<P> {
    queue: Discipline<Addressed<P>>,
    /// The next packet, if it was taken from the queue but did not fit into the current frame, for example because it
    /// belongs to another lane.
    ahead: Option<(Addressed<P>, Instant)>,
    /// The packets of the current frame, oldest first. All belong to one lane.
    pub(super) burst: VecDeque<Mpdu<P>>,
    pub(super) lane: Lane,
    /// The contention window, slots.
    window: u32,
    window_min: u32,
    window_max: u32,
    attempts: u32,
    aggregation: Option<Aggregation>,
    /// Remaining slots of the backoff.
    slots: u32,
    /// When the backoff starts to count, if the medium stays idle.
    pub(super) base: Instant,
    /// A shaper holds the packets of the queue until this time.
    not_before: Instant,
    /// Whether an outage prevents the station from sending.
    pub(super) paused: bool,
    luck: Stream,
}

impl<P: PacketMeta> Station<P> {
    /// An idle station.
    pub(super) fn new(settings: &WifiSettings, context: QueueContext<'_>, rules: Standard) -> Self {
        let luck = context.stream("backoff");
        let mut station = Self {
            queue: Discipline::new(&settings.queue, &ClassContext::new(context, &[])),
            ahead: None,
            burst: VecDeque::new(),
            lane: Lane::ONLY,
            window: settings.cw_min,
            window_min: settings.cw_min,
            window_max: settings.cw_max,
            attempts: settings.attempts,
            aggregation: settings.aggregation,
            slots: 0,
            base: Instant::ZERO + rules.idle(),
            not_before: Instant::ZERO,
            paused: false,
            luck,
        };
        station.draw();
        station
    }

    /// Whether the station has a packet to send and may send.
    pub(super) fn has_frame(&self) -> bool {
        !self.paused && self.has_any()
    }

    fn has_any(&self) -> bool {
        !self.burst.is_empty() || self.ahead.is_some() || self.queue.backlog().packets > 0
    }

    /// When the station sends, if the medium stays idle and it has a packet to send.
    pub(super) fn access(&self, slot: Duration) -> Instant {
        (self.base + slot.saturating_mul(self.slots.into())).max(self.not_before)
    }

    /// A packet arrives at `now` at a station that had no packet.
    pub(super) fn contend(&mut self, now: Instant, busy: bool, rules: Standard) {
        let slot = rules.slot();
        if busy {
            // If the medium is busy, the station backs off (IEEE Std 802.11-2016 clause 10.3.4.2). If a backoff is in
            // progress, its counter has been frozen since the medium became busy.
            if self.slots == 0 {
                self.draw();
            }
        } else if self.access(slot) <= now {
            self.slots = 0;
            self.base = if rules.is_ht() {
                // EDCA starts transmissions at slot boundaries (clause 10.22.2.4).
                let since = now.since(self.base).as_nanos();
                self.base + slot.saturating_mul(since / slot.as_nanos() + 1)
            } else {
                now
            };
        }
    }

    /// Another station starts to send at `start`: freezes the counter.
    pub(super) fn freeze(&mut self, start: Instant, rules: Standard) {
        if start < self.base {
            return;
        }
        let idle = start.since(self.base).as_nanos() / rules.slot().as_nanos();
        // DCF counts slots that were idle to their end (clause 10.3.4.3). EDCA counts at the start of a slot, so it also counts
        // the slot in which the other station starts (clause 10.22.2.4).
        let counted = idle + u64::from(rules.is_ht());
        self.slots = self.slots.saturating_sub(u32::try_from(counted).unwrap_or(u32::MAX));
    }

    /// Sends the current frame at `start`. Returns whether the far end receives at least one packet and acknowledges
    /// the frame. If another frame collides (`clear` is false), no packet is received.
    pub(super) fn send(
        &mut self,
        start: Instant,
        lane: &mut LaneState<P>,
        clear: bool,
        watch: &mut impl LinkObserver<P>,
    ) -> bool {
        let obs = watch.lane(self.lane);
        let mut answered = false;
        for mpdu in self.burst.iter_mut().filter(|mpdu| !mpdu.received) {
            mpdu.attempts += 1;
            if mpdu.attempts > 1 {
                obs.repeated(start, &mpdu.packet);
            }
            // Always drawn, so that a collision does not change the random numbers of later frames.
            mpdu.received = lane.unread.next().is_none() && clear;
            answered |= mpdu.received;
        }
        answered
    }

    /// At `moment` the far end passes up all received packets without a gap before them (clause 10.24.7.6).
    pub(super) fn hand_over(&mut self, moment: Instant, lane: &mut LaneState<P>) {
        while let Some(mpdu) = self.burst.pop_front_if(|mpdu| mpdu.received) {
            lane.deliver(moment, mpdu.packet);
        }
    }

    /// Discards at `moment` all packets that have reached the retry limit. The far end no longer waits for them.
    pub(super) fn give_up(&mut self, moment: Instant, lane: &mut LaneState<P>) {
        let most = self.attempts;
        let is_spent = |mpdu: &Mpdu<P>| !mpdu.received && mpdu.attempts >= most;
        while let Some(n) = self.burst.iter().position(is_spent)
            && let Some(mpdu) = self.burst.remove(n)
        {
            lane.give_up(moment, mpdu.packet);
        }
        self.hand_over(moment, lane);
    }

    /// The station received no acknowledgement of the frame by `timeout`.
    pub(super) fn fail(&mut self, timeout: Instant, lane: &mut LaneState<P>) {
        let before = self.burst.len();
        self.give_up(timeout, lane);
        let gone = self.burst.len() < before;
        // The window is reset after a frame is discarded (clause 10.3.3).
        self.window = if gone { self.window_min } else { (2 * self.window + 1).min(self.window_max) };
        self.draw();
    }

    /// The station received an acknowledgement of at least one packet of the frame.
    pub(super) fn succeeded(&mut self) {
        self.window = self.window_min;
        self.draw();
    }

    /// Draws a new backoff. The station counts it down even without a packet to send.
    fn draw(&mut self) {
        // At most `window`, which fits into 16 bits.
        self.slots = self.luck.below(u64::from(self.window) + 1) as u32;
    }

    /// Adds a packet to the queue.
    pub(super) fn enqueue(
        &mut self,
        now: Instant,
        addressed: Addressed<P>,
        obs: &mut impl Observer<Addressed<P>>,
    ) {
        self.queue.enqueue(now, addressed, obs);
        self.not_before = Instant::ZERO;
    }

    /// Drops all waiting packets.
    pub(super) fn clear(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<Addressed<P>>) {
        if let Some((addressed, _)) = self.ahead.take() {
            obs.dropped(now, &addressed, why);
        }
        self.queue.clear(now, why, obs);
    }

    /// Builds the frame that is sent at `start`: the packets left from the last frame, and further packets that fit. A
    /// packet is dropped if its lane has an outage that drops waiting packets.
    pub(super) fn load(
        &mut self,
        start: Instant,
        lanes: &[LaneState<P>],
        rules: Standard,
        obs: &mut impl Observer<Addressed<P>>,
    ) {
        let room = self.aggregation.map_or(1, |aggregation| aggregation.packets as usize);
        while self.burst.len() < room {
            let Some((addressed, since)) = self.next(start, obs) else { break };
            let lane = &lanes[addressed.lane.0 as usize];
            if lane.outage == Some(Waiting::Drop) {
                obs.dropped(start, &addressed, DropReason::LinkDown);
                continue;
            }
            let bytes = rules.overhead() + u64::from(addressed.header().ip_len);
            if !self.burst.is_empty() && (addressed.lane != self.lane || !self.fits(bytes, lane.rate, rules))
            {
                self.ahead = Some((addressed, since));
                break;
            }
            obs.served(start, &addressed, start.since(since));
            self.lane = addressed.lane;
            self.burst.push_back(Mpdu { packet: addressed.packet, bytes, attempts: 0, received: false });
        }
    }

    fn next(
        &mut self,
        start: Instant,
        obs: &mut impl Observer<Addressed<P>>,
    ) -> Option<(Addressed<P>, Instant)> {
        if let Some(ahead) = self.ahead.take() {
            return Some(ahead);
        }
        match self.queue.dequeue(start, obs) {
            Dequeue::Packet(addressed, since) => Some((addressed, since)),
            Dequeue::NotBefore(moment) => {
                self.not_before = moment;
                None
            }
            Dequeue::Empty => None,
        }
    }

    /// Whether an MPDU of `bytes` still fits into the aggregate.
    fn fits(&self, bytes: u64, rate: Rate, rules: Standard) -> bool {
        let Some(limit) = self.aggregation else { return false };
        let sending = self.sending();
        let total = aggregate(sending.map(|mpdu| mpdu.bytes).chain([bytes]));
        total <= limit.bytes.bytes() && rules.airtime(total, rate) <= limit.time
    }

    /// The packets of the burst that the far end has not received. The frame carries these packets.
    pub(super) fn sending(&self) -> impl Iterator<Item = &Mpdu<P>> {
        self.burst.iter().filter(|mpdu| !mpdu.received)
    }

    /// Airtime of the frame at `rate`, and airtime of its acknowledgement.
    pub(super) fn airtimes(&self, rate: Rate, rules: Standard) -> (Duration, Duration) {
        let mut sizes = self.sending().map(|mpdu| mpdu.bytes);
        match (sizes.next(), sizes.next()) {
            (Some(only), None) => (rules.airtime(only, rate), rules.response_airtime(rate, false)),
            _ => {
                let total = aggregate(self.sending().map(|mpdu| mpdu.bytes));
                (rules.airtime(total, rate), rules.response_airtime(rate, true))
            }
        }
    }
}

/// Bytes of an aggregate of MPDUs of these sizes. The last one is not padded.
fn aggregate(sizes: impl Iterator<Item = u64>) -> u64 {
    let (total, padding) = sizes.fold((0, 0), |(total, _), bytes| {
        let subframe = Aggregation::subframe(bytes);
        (total + subframe, subframe - Aggregation::DELIMITER - bytes)
    });
    total - padding
}
