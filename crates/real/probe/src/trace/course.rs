//! Which packet of a trace is sent next, and what is known of those that were: told the time, no socket, no clock.
//!
//! First the way: packets with a TTL of 1, 2, 3 and on, some of each, until one is answered by the end. Several are on their
//! way at once, never more than [`TracePlan::in_flight`] and never closer than [`TracePlan::gap`]. Then, if it is asked for, packets of
//! several lengths to every hop, one on its way at a time, so that none waits behind another of ours.

use std::net::IpAddr;

use netrig_core::{Duration, Instant};

use super::super::flow::{FlowResponse, ResponseKind};
use super::super::icmp_error::{IcmpError, Unreachable};
use super::speed::SpeedPlan;

/// Packets of one trace, at most: of ICMP the least that a message repeats tells so many apart.
pub const MOST_PACKETS: usize = 1 << 16;

/// How often lengths are chosen anew because a link carries less than was thought.
const MOST_CHANGES: u32 = 8;

/// How many packets, when, and how far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracePlan {
    /// The first TTL.
    pub first: u8,
    /// The last TTL.
    pub last: u8,
    /// Packets with each.
    pub each: u32,
    /// Their length, octets of IP.
    pub length: usize,
    /// What takes longer is lost.
    pub wait: Duration,
    /// Between two packets at least.
    pub gap: Duration,
    /// Packets on their way at once, at most.
    pub in_flight: usize,
    /// The packets by which the speed of links is estimated.
    pub speed: Option<SpeedPlan>,
}

/// A packet that is to be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceProbe {
    /// Its number.
    pub number: u32,
    /// Its TTL or hop limit.
    pub ttl: u8,
    /// Its length, octets of IP.
    pub length: usize,
}

/// A packet that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentTraceProbe {
    /// It.
    pub probe: TraceProbe,
    /// It was sent to see how fast links are.
    pub for_speed: bool,
    /// When it was given to the kernel, by the course's time.
    left: Instant,
    /// The same, ns since 1970.
    pub given: u64,
    /// When the kernel gave it to the device, ns since 1970.
    pub stamped: Option<u64>,
    /// What was heard of it first.
    pub response: Option<FlowResponse>,
    /// It counts for nothing: nobody can tell whether it was answered, or it was too long.
    pub void: bool,
}

impl SentTraceProbe {
    /// Seconds from the packet to what was heard of it, if that came within `wait`.
    pub fn round_trip(&self, wait: Duration) -> Option<f64> {
        let response = self.response.as_ref()?;
        let nanos = response.at.saturating_sub(self.stamped.unwrap_or(self.given));
        (nanos <= wait.as_nanos()).then_some(nanos as f64 * 1e-9)
    }
}

/// How a trace ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceEnd {
    /// At the target.
    Reached,
    /// A host on the way says that it leads no further.
    Unreachable(Unreachable),
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceStep {
    /// This is to be sent now.
    Send(TraceProbe),
    /// Nothing before this, unless something is heard.
    Wait(Instant),
    /// There is no more to be done.
    Over,
}

/// Which packets are sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TracePhase {
    /// To find the way: the next TTL, which may be behind the last, and how many of it were sent.
    Way { ttl: u16, sent: u32 },
    /// To see how fast links are: the round, which may be behind the last, the place among the lengths, the TTL.
    Speed { round: u32, length: usize, ttl: u8 },
    /// No more.
    Done,
}

/// A trace under way.
#[derive(Clone, Debug)]
pub struct TraceCourse {
    plan: TracePlan,
    target: IpAddr,
    sent: Vec<SentTraceProbe>,
    phase: TracePhase,
    /// TTLs that are asked again, because nobody could tell whose answer had come.
    again: Vec<u8>,
    /// The TTL of the end, once it is known, and how it was.
    end: Option<(u8, TraceEnd)>,
    /// Messages that repeat too little to tell which packet they are of.
    unnamed: u64,
    /// Nothing leaves before this.
    pause: Instant,
    changes: u32,
}

impl TraceCourse {
    /// A trace of which nothing was sent. A plan is sound: a first TTL of at least 1 and none behind the last, at least one
    /// packet with each and one on its way, no more than [`MOST_PACKETS`] in all.
    pub const fn new(plan: TracePlan, target: IpAddr) -> Self {
        let phase = TracePhase::Way { ttl: plan.first as u16, sent: 0 };
        Self {
            plan,
            target,
            sent: Vec::new(),
            phase,
            again: Vec::new(),
            end: None,
            unnamed: 0,
            pause: Instant::ZERO,
            changes: 0,
        }
    }

    /// What was asked for; lengths as they came to be.
    pub const fn plan(&self) -> &TracePlan {
        &self.plan
    }

    /// All packets, by their numbers.
    pub fn sent(&self) -> &[SentTraceProbe] {
        &self.sent
    }

    /// How it ended, and at which TTL; nothing if it ended nowhere.
    pub const fn end(&self) -> Option<(u8, TraceEnd)> {
        self.end
    }

    /// Messages that repeat too little to tell which packet they are of.
    pub const fn unnamed(&self) -> u64 {
        self.unnamed
    }

    /// Nothing more is to be sent; what is on its way may still be heard of.
    pub fn stop(&mut self) {
        self.phase = TracePhase::Done;
        self.again.clear();
    }

    /// What comes next. A packet that is to be sent counts as sent, at `now` and `wall`, ns since 1970.
    pub fn next(&mut self, now: Instant, wall: u64) -> TraceStep {
        let (busy, first_due) = self.on_their_way(now);
        if busy >= self.room() {
            return TraceStep::Wait(first_due);
        }
        let free = self.sent.last().map_or(Instant::ZERO, |last| last.left + self.plan.gap).max(self.pause);
        match self.following() {
            _ if self.sent.len() >= MOST_PACKETS => self.wind_up(busy, first_due, now, wall),
            Some(_) if now < free => TraceStep::Wait(free.min(first_due)),
            Some((ttl, length, for_speed)) => {
                let probe = TraceProbe { number: self.sent.len() as u32, ttl, length };
                self.advance();
                let (response, stamped) = (None, None);
                self.sent.push(SentTraceProbe {
                    probe,
                    for_speed,
                    left: now,
                    given: wall,
                    stamped,
                    response,
                    void: false,
                });
                TraceStep::Send(probe)
            }
            None => self.wind_up(busy, first_due, now, wall),
        }
    }

    /// Once nothing is to be sent: the next phase if all has come or was lost.
    fn wind_up(&mut self, busy: usize, first_due: Instant, now: Instant, wall: u64) -> TraceStep {
        if busy > 0 {
            return TraceStep::Wait(first_due);
        }
        let way = matches!(self.phase, TracePhase::Way { .. });
        if way && self.plan.speed.is_some() && self.farthest() > 0 && self.sent.len() < MOST_PACKETS {
            self.phase = TracePhase::Speed { round: 0, length: 0, ttl: self.plan.first };
            return self.next(now, wall);
        }
        self.phase = TracePhase::Done;
        TraceStep::Over
    }

    /// How many packets may be on their way at once.
    const fn room(&self) -> usize {
        match self.phase {
            TracePhase::Speed { .. } => 1,
            _ if self.unnamed > 0 => 1,
            _ => self.plan.in_flight,
        }
    }

    /// How many packets are on their way, and when the first of them is lost.
    fn on_their_way(&self, now: Instant) -> (usize, Instant) {
        let patience = self.patience();
        // What was sent before that is lost, whatever came of it.
        let open = self.sent.iter().rev().take_while(|sent| sent.left + self.plan.wait > now);
        let dues = open
            .filter(|sent| sent.response.is_none() && !sent.void)
            .map(|sent| sent.left + if sent.for_speed { patience } else { self.plan.wait });
        dues.filter(|due| *due > now)
            .fold((0, Instant::NEVER), |(count, first), due| (count + 1, first.min(due)))
    }

    /// How long a packet that is to tell speed is waited for: three times what the slowest hop took, for of lost ones there are
    /// many where routers answer seldom; 100 ms at least.
    fn patience(&self) -> Duration {
        let slowest = self
            .sent
            .iter()
            .filter(|sent| !sent.for_speed)
            .filter_map(|sent| sent.round_trip(self.plan.wait));
        let slowest = slowest.fold(0.0, f64::max);
        Duration::from_nanos((slowest * 3e9) as u64).max(Duration::from_millis(100)).min(self.plan.wait)
    }

    /// The last TTL that is asked: that of the end, if it is known.
    fn last(&self) -> u8 {
        self.end.map_or(self.plan.last, |(ttl, _)| ttl)
    }

    /// The last TTL of which anything was heard.
    fn farthest(&self) -> u8 {
        let response = self.sent.iter().filter(|sent| sent.response.is_some()).map(|sent| sent.probe.ttl);
        response.max().unwrap_or(0).min(self.last())
    }

    /// The TTL and length of what is to be sent next, and whether it is to tell speed.
    fn following(&self) -> Option<(u8, usize, bool)> {
        if let Some(ttl) = self.again.last() {
            return Some((*ttl, self.plan.length, false));
        }
        match (self.phase, &self.plan.speed) {
            (TracePhase::Way { ttl, .. }, _) => {
                let ttl = u8::try_from(ttl).ok().filter(|ttl| *ttl <= self.last())?;
                Some((ttl, self.plan.length, false))
            }
            (TracePhase::Speed { round, length, ttl }, Some(speed)) if round < speed.each => {
                Some((ttl, speed.lengths[length], true))
            }
            _ => None,
        }
    }

    /// Behind what was sent.
    fn advance(&mut self) {
        if self.again.pop().is_some() {
            return;
        }
        let farthest = self.farthest();
        self.phase = match (self.phase, &self.plan.speed) {
            (TracePhase::Way { ttl, sent }, _) if sent + 1 < self.plan.each => {
                TracePhase::Way { ttl, sent: sent + 1 }
            }
            (TracePhase::Way { ttl, .. }, _) => TracePhase::Way { ttl: ttl + 1, sent: 0 },
            (TracePhase::Speed { round, length, ttl }, Some(_)) if ttl < farthest => {
                TracePhase::Speed { round, length, ttl: ttl + 1 }
            }
            (TracePhase::Speed { round, length, .. }, Some(speed)) => {
                let next = (length + 1) % speed.lengths.len();
                TracePhase::Speed { round: round + u32::from(next == 0), length: next, ttl: self.plan.first }
            }
            (phase, _) => phase,
        };
    }

    /// When a packet went to the device, ns since 1970.
    pub fn left(&mut self, number: u32, at: u64) {
        // A stamp from before the packet was made is another's.
        if let Some(sent) = self.sent.get_mut(number as usize).filter(|sent| at >= sent.given) {
            sent.stamped.get_or_insert(at);
        }
    }

    /// What was heard of a packet of ours; whether it was news of one that had been sent.
    pub fn record(&mut self, number: u32, response: FlowResponse) -> bool {
        let Some(sent) = self.sent.get_mut(number as usize) else { return false };
        if sent.response.is_some() || sent.void {
            return false;
        }
        let (ttl, kind, from, for_speed) = (sent.probe.ttl, response.kind, response.from, sent.for_speed);
        sent.response = Some(response);
        match kind {
            ResponseKind::IcmpError(IcmpError::Unreachable(Unreachable::TooLong(mtu))) if for_speed => {
                self.is_too_long(number, mtu)
            }
            _ if for_speed => {}
            ResponseKind::Answer(_) => self.ends(ttl, TraceEnd::Reached),
            // The target itself says that nobody has the port, or which protocol it has not.
            ResponseKind::IcmpError(IcmpError::Unreachable(Unreachable::Port | Unreachable::Protocol))
                if from == self.target =>
            {
                self.ends(ttl, TraceEnd::Reached);
            }
            ResponseKind::IcmpError(IcmpError::Unreachable(why)) => {
                self.ends(ttl, TraceEnd::Unreachable(why))
            }
            ResponseKind::IcmpError(_) => {}
        }
        true
    }

    /// What was heard of a packet of ours that repeats too little of it: of the only one that is on its way; if there are more,
    /// none of them counts, and all are sent again, one after the other.
    pub fn record_unnamed(&mut self, now: Instant, response: FlowResponse) {
        let open = |sent: &SentTraceProbe| sent.response.is_none() && !sent.void;
        let alone = self.unnamed > 0 || matches!(self.phase, TracePhase::Speed { .. });
        self.unnamed += 1;
        let since = |sent: &&SentTraceProbe| sent.left + self.plan.wait > now;
        let first = self.sent.len() - self.sent.iter().rev().take_while(since).count();
        let waiting: Vec<_> = (first..self.sent.len()).filter(|at| open(&self.sent[*at])).collect();
        match waiting[..] {
            [only] => {
                self.record(only as u32, response);
            }
            _ if alone => {}
            _ => {
                for at in waiting.into_iter().rev() {
                    self.sent[at].void = true;
                    self.again.push(self.sent[at].probe.ttl);
                }
                // What is still said of them must not be taken for what is said of the next.
                self.pause = now + self.plan.wait;
            }
        }
    }

    /// A packet is longer than `mtu`, which is what a link carries, or 0 if nobody says how much that is: by the word of a host
    /// on the way, or of this one. Packets that are to tell speed get other lengths, and begin again.
    pub fn is_too_long(&mut self, number: u32, mtu: u32) {
        let Some(SentTraceProbe { probe, for_speed: true, .. }) = self.sent.get(number as usize) else {
            return;
        };
        let (length, Some(speed)) = (probe.length, &mut self.plan.speed) else { return };
        self.sent[number as usize].void = true;
        let [shortest, longest] = speed.ends();
        let fits = if mtu == 0 { usize::midpoint(shortest, length) } else { mtu as usize };
        if fits >= length || fits >= longest {
            return;
        }
        self.changes += 1;
        if self.changes > MOST_CHANGES || !speed.shorten(fits) {
            return self.stop();
        }
        self.sent.iter_mut().filter(|sent| sent.for_speed).for_each(|sent| sent.void = true);
        self.phase = TracePhase::Speed { round: 0, length: 0, ttl: self.plan.first };
    }

    fn ends(&mut self, ttl: u8, end: TraceEnd) {
        let nearer = self.end.is_none_or(|(known, was)| {
            // Of several at one place the target's own word counts.
            ttl < known || (ttl == known && was != TraceEnd::Reached)
        });
        if nearer {
            self.end = Some((ttl, end));
            self.again.retain(|again| *again <= ttl);
        }
    }
}
