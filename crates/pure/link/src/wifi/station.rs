//! A station: what it has to send, and its part in the contention for the medium.

use std::collections::VecDeque;

use netrig_core::{
    Dequeue, DropReason, Duration, Instant, Lane, Observer, PacketMeta, QueueDiscipline, Rate, Stream,
    Waiting, Watch,
};

use super::WifiSettings;
use super::lane::{Addressed, LaneState};
use super::standard::{Aggregation, Standard};
use crate::Discipline;
use crate::queue::{ClassContext, QueueContext};

/// A packet in the frame that is being sent, until it is acknowledged or given up.
#[derive(Clone, Debug)]
pub(super) struct Mpdu<P> {
    pub(super) packet: P,
    /// Bytes on the air.
    pub(super) bytes: u64,
    pub(super) attempts: u32,
    /// The far end has it, but not all that was sent before it.
    pub(super) received: bool,
}

/// A transmitter: it has one queue and one backoff for all the lanes that begin at it.
#[derive(Clone, Debug)]
pub(super) struct Station<P> {
    queue: Discipline<Addressed<P>>,
    /// The first packet behind the frame that is being sent, if it was taken out of the queue and is for another lane.
    ahead: Option<(Addressed<P>, Instant)>,
    /// What the frame being sent is made of, oldest first; of one lane.
    pub(super) burst: VecDeque<Mpdu<P>>,
    pub(super) lane: Lane,
    /// The contention window, slots.
    window: u32,
    window_min: u32,
    window_max: u32,
    attempts: u32,
    aggregation: Option<Aggregation>,
    /// Slots to count before it may send.
    slots: u32,
    /// When it begins to count, if the medium stays idle.
    pub(super) base: Instant,
    /// The queue releases nothing before this.
    not_before: Instant,
    /// An outage keeps it from sending.
    pub(super) paused: bool,
    luck: Stream,
}

impl<P: PacketMeta> Station<P> {
    /// A station at rest that sends as `settings` say.
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

    /// Whether it has anything to send, and may.
    pub(super) fn has_frame(&self) -> bool {
        !self.paused && self.has_any()
    }

    fn has_any(&self) -> bool {
        !self.burst.is_empty() || self.ahead.is_some() || self.queue.backlog().packets > 0
    }

    /// When it sends, if the medium stays idle and it has something to send.
    pub(super) fn access(&self, slot: Duration) -> Instant {
        (self.base + slot.saturating_mul(self.slots.into())).max(self.not_before)
    }

    /// Something to send comes at `now` to a station that had nothing.
    pub(super) fn contend(&mut self, now: Instant, busy: bool, rules: Standard) {
        let slot = rules.slot();
        if busy {
            // Who finds the medium busy backs off (IEEE Std 802.11-2016 clause 10.3.4.2), unless a backoff is under way:
            // its counter stands since the medium became busy.
            if self.slots == 0 {
                self.draw();
            }
        } else if self.access(slot) <= now {
            self.slots = 0;
            self.base = if rules.is_ht() {
                // EDCA acts at the boundaries of slots (clause 10.22.2.4).
                let since = now.since(self.base).as_nanos();
                self.base + slot.saturating_mul(since / slot.as_nanos() + 1)
            } else {
                now
            };
        }
    }

    /// Another station begins to send at `start`: the counter stands.
    pub(super) fn freeze(&mut self, start: Instant, rules: Standard) {
        if start < self.base {
            return;
        }
        let idle = start.since(self.base).as_nanos() / rules.slot().as_nanos();
        // DCF counts the slots that were idle to their end (clause 10.3.4.3); EDCA counts at their beginning, so also
        // the one in which the other begins (clause 10.22.2.4).
        let counted = idle + u64::from(rules.is_ht());
        self.slots = self.slots.saturating_sub(u32::try_from(counted).unwrap_or(u32::MAX));
    }

    /// Sends its frame at `start`; whether the far end gets anything of it, so that it answers. It gets nothing if the
    /// frame is not `clear` of others.
    pub(super) fn send(
        &mut self,
        start: Instant,
        lane: &mut LaneState<P>,
        clear: bool,
        watch: &mut impl Watch<P>,
    ) -> bool {
        let obs = watch.lane(self.lane);
        let mut answered = false;
        for mpdu in self.burst.iter_mut().filter(|mpdu| !mpdu.received) {
            mpdu.attempts += 1;
            if mpdu.attempts > 1 {
                obs.repeated(start, &mpdu.packet);
            }
            // Drawn whether or not it matters, so that a collision does not move the luck of later frames.
            mpdu.received = lane.unread.next().is_none() && clear;
            answered |= mpdu.received;
        }
        answered
    }

    /// The far end passes up, at `moment`, what it has without a gap before it (clause 10.24.7.6).
    pub(super) fn hand_over(&mut self, moment: Instant, lane: &mut LaneState<P>) {
        while let Some(mpdu) = self.burst.pop_front_if(|mpdu| mpdu.received) {
            lane.deliver(moment, mpdu.packet);
        }
    }

    /// Gives up, at `moment`, what was sent as often as may be; the far end then waits for it no more.
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

    /// Nobody had answered by `timeout`.
    pub(super) fn fail(&mut self, timeout: Instant, lane: &mut LaneState<P>) {
        let before = self.burst.len();
        self.give_up(timeout, lane);
        let gone = self.burst.len() < before;
        // The window starts anew behind a frame that was given up (clause 10.3.3).
        self.window = if gone { self.window_min } else { (2 * self.window + 1).min(self.window_max) };
        self.draw();
    }

    /// The frame was acknowledged, if only in part.
    pub(super) fn succeeded(&mut self) {
        self.window = self.window_min;
        self.draw();
    }

    /// A new backoff: it counts on whether or not there is anything to send.
    fn draw(&mut self) {
        // Below window + 1, which has 16 bits.
        self.slots = self.luck.below(u64::from(self.window) + 1) as u32;
    }

    /// A packet comes to wait.
    pub(super) fn enqueue(
        &mut self,
        now: Instant,
        addressed: Addressed<P>,
        obs: &mut impl Observer<Addressed<P>>,
    ) {
        self.queue.enqueue(now, addressed, obs);
        self.not_before = Instant::ZERO;
    }

    /// Drops all that waits.
    pub(super) fn clear(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<Addressed<P>>) {
        if let Some((addressed, _)) = self.ahead.take() {
            obs.dropped(now, &addressed, why);
        }
        self.queue.clear(now, why, obs);
    }

    /// Makes up the frame that is sent at `start`: what is left of the last one, and what else may go with it. What
    /// waits for a lane that is down, and was not to be kept, is dropped.
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

    /// Whether an MPDU of so many bytes still fits into the aggregate.
    fn fits(&self, bytes: u64, rate: Rate, rules: Standard) -> bool {
        let Some(limit) = self.aggregation else { return false };
        let sending = self.sending();
        let total = aggregate(sending.map(|mpdu| mpdu.bytes).chain([bytes]));
        total <= limit.bytes.bytes() && rules.airtime(total, rate) <= limit.time
    }

    /// The packets that the frame carries: those of the burst that the far end does not have.
    pub(super) fn sending(&self) -> impl Iterator<Item = &Mpdu<P>> {
        self.burst.iter().filter(|mpdu| !mpdu.received)
    }

    /// Time on the air of the frame at `rate`, and of the answer to it.
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

/// Bytes of an aggregate of MPDUs of these sizes; the last one is not padded.
fn aggregate(sizes: impl Iterator<Item = u64>) -> u64 {
    let (total, padding) = sizes.fold((0, 0), |(total, _), bytes| {
        let subframe = Aggregation::subframe(bytes);
        (total + subframe, subframe - Aggregation::DELIMITER - bytes)
    });
    total - padding
}
