//! The state machine of a trace, without a socket or a clock: it decides which packet is sent next, and records the
//! responses.
//!
//! The first phase finds the path. It sends several packets with each TTL of 1, 2, 3 and so on, until the target
//! answers. At most [`TracePlan::in_flight`] packets are in flight, and they are sent at least [`TracePlan::gap`]
//! apart. If link rates are wanted, a second phase sends packets of several lengths to every hop. Only one of these
//! packets is in flight at a time, so that none waits in a queue because of another.

use std::net::IpAddr;

use netrig_core::{Duration, Instant};

use super::super::flow::{FlowResponse, ResponseKind};
use super::super::icmp_error::{IcmpError, Unreachable};
use super::speed::SpeedPlan;

/// Maximum number of packets of one trace. The shortest quote in an ICMP error has 16 bits of the packet number.
pub const MOST_PACKETS: usize = 1 << 16;

/// Maximum number of times that the packet lengths are changed because a link has a smaller MTU.
const MOST_CHANGES: u32 = 8;

/// Plan of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracePlan {
    /// The first TTL.
    pub first: u8,
    /// The last TTL.
    pub last: u8,
    /// Number of packets with each TTL.
    pub each: u32,
    /// Length of the packets, octets of IP.
    pub length: usize,
    /// A packet without a response after this time is lost.
    pub wait: Duration,
    /// Minimum gap between two packets.
    pub gap: Duration,
    /// Maximum number of packets in flight.
    pub in_flight: usize,
    /// Packets that are sent to estimate link rates. `None` if rates are not estimated.
    pub speed: Option<SpeedPlan>,
}

/// A packet to be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceProbe {
    /// Number of the packet.
    pub number: u32,
    /// TTL or hop limit of the packet.
    pub ttl: u8,
    /// Length of the packet, octets of IP.
    pub length: usize,
}

/// A packet that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentTraceProbe {
    /// The packet.
    pub probe: TraceProbe,
    /// Whether the packet serves the estimation of link rates.
    pub for_speed: bool,
    /// Time at which the packet was given to the kernel, by the clock of the trace.
    left: Instant,
    /// Time at which the packet was given to the kernel, ns since 1970.
    pub given: u64,
    /// Time at which the kernel passed the packet to the device, ns since 1970.
    pub stamped: Option<u64>,
    /// The first response.
    pub response: Option<FlowResponse>,
    /// Whether the packet does not count, because its response could not be identified or because it was too long.
    pub void: bool,
}

impl SentTraceProbe {
    /// Seconds from the packet to its response, if the response arrived within `wait`.
    pub fn round_trip(&self, wait: Duration) -> Option<f64> {
        let response = self.response.as_ref()?;
        let nanos = response.at.saturating_sub(self.stamped.unwrap_or(self.given));
        (nanos <= wait.as_nanos()).then_some(nanos as f64 * 1e-9)
    }
}

/// How a trace ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceEnd {
    /// The target answered.
    Reached,
    /// A hop reported that the target is unreachable.
    Unreachable(Unreachable),
}

/// The next action of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceStep {
    /// Send this packet now.
    Send(TraceProbe),
    /// Do nothing before this time unless a response arrives.
    Wait(Instant),
    /// The trace is complete.
    Over,
}

/// Phase of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TracePhase {
    /// Finding the path: the next TTL, which exceeds the last TTL at the end of the phase, and the number of packets
    /// already sent with it.
    Way { ttl: u16, sent: u32 },
    /// Estimating rates: the next round, which exceeds the last round at the end of the phase, and the next index of
    /// the length and TTL.
    Speed { round: u32, length: usize, ttl: u8 },
    /// No more packets are sent.
    Done,
}

/// A trace in progress.
#[derive(Clone, Debug)]
pub struct TraceCourse {
    plan: TracePlan,
    target: IpAddr,
    sent: Vec<SentTraceProbe>,
    phase: TracePhase,
    /// TTLs that must be probed again because their responses could not be identified.
    again: Vec<u8>,
    /// TTL of the end and how the trace ended, once known.
    end: Option<(u8, TraceEnd)>,
    /// Number of ICMP errors that quote too little to identify their packet.
    unnamed: u64,
    /// No packet is sent before this time.
    pause: Instant,
    changes: u32,
}

impl TraceCourse {
    /// A trace that has not sent a packet. The plan must be valid: the first TTL is at least 1 and not above the last,
    /// each TTL has at least one packet, at least one packet may be in flight, and there are at most [`MOST_PACKETS`]
    /// packets.
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

    /// The plan, with the current packet lengths.
    pub const fn plan(&self) -> &TracePlan {
        &self.plan
    }

    /// All sent packets, indexed by packet number.
    pub fn sent(&self) -> &[SentTraceProbe] {
        &self.sent
    }

    /// TTL of the end and how the trace ended; `None` if no end was found.
    pub const fn end(&self) -> Option<(u8, TraceEnd)> {
        self.end
    }

    /// Number of ICMP errors that quote too little to identify their packet.
    pub const fn unnamed(&self) -> u64 {
        self.unnamed
    }

    /// Stops sending. Responses to packets in flight are still accepted.
    pub fn stop(&mut self) {
        self.phase = TracePhase::Done;
        self.again.clear();
    }

    /// Returns the next action. A returned packet counts as sent at `now`, which is `wall` in ns since 1970.
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

    /// Waits until all packets have a response or are lost, then begins the next phase.
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

    /// Maximum number of packets in flight in the current phase.
    const fn room(&self) -> usize {
        match self.phase {
            TracePhase::Speed { .. } => 1,
            _ if self.unnamed > 0 => 1,
            _ => self.plan.in_flight,
        }
    }

    /// Number of packets in flight, and the time at which the first of them counts as lost.
    fn on_their_way(&self, now: Instant) -> (usize, Instant) {
        let patience = self.patience();
        // Earlier packets have been answered or are lost.
        let open = self.sent.iter().rev().take_while(|sent| sent.left + self.plan.wait > now);
        let dues = open
            .filter(|sent| sent.response.is_none() && !sent.void)
            .map(|sent| sent.left + if sent.for_speed { patience } else { self.plan.wait });
        dues.filter(|due| *due > now)
            .fold((0, Instant::NEVER), |(count, first), due| (count + 1, first.min(due)))
    }

    /// Time-out of a packet for the estimation of rates: three times the round-trip time of the slowest hop, at least
    /// 100 ms. Many such packets stay unanswered where routers limit their answers, so a long time-out would cost much
    /// time.
    fn patience(&self) -> Duration {
        let slowest = self
            .sent
            .iter()
            .filter(|sent| !sent.for_speed)
            .filter_map(|sent| sent.round_trip(self.plan.wait));
        let slowest = slowest.fold(0.0, f64::max);
        Duration::from_nanos((slowest * 3e9) as u64).max(Duration::from_millis(100)).min(self.plan.wait)
    }

    /// The last TTL to probe: the TTL of the end, if it is known.
    fn last(&self) -> u8 {
        self.end.map_or(self.plan.last, |(ttl, _)| ttl)
    }

    /// The last TTL with a response.
    fn farthest(&self) -> u8 {
        let response = self.sent.iter().filter(|sent| sent.response.is_some()).map(|sent| sent.probe.ttl);
        response.max().unwrap_or(0).min(self.last())
    }

    /// TTL and length of the next packet, and whether it serves the estimation of rates.
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

    /// Advances the phase after a packet was sent.
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

    /// Records the time at which the kernel passed a packet to the device, ns since 1970.
    pub fn left(&mut self, number: u32, at: u64) {
        // A time stamp that is earlier than the construction of the packet belongs to another packet.
        if let Some(sent) = self.sent.get_mut(number as usize).filter(|sent| at >= sent.given) {
            sent.stamped.get_or_insert(at);
        }
    }

    /// Records the response to a packet. Returns whether it is the first response to this packet and the packet was
    /// sent.
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
            // If the target itself reports a closed port or an unsupported protocol, it was reached.
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

    /// Records a response that does not identify its packet. If one packet is in flight, the response belongs to that
    /// packet. If several are in flight, none of them counts, and all are sent again one at a time.
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
                // Late responses to these packets must not be attributed to the next packets.
                self.pause = now + self.plan.wait;
            }
        }
    }

    /// Records that a packet is longer than the MTU of a link, as a router or this host reported. `mtu` is 0 if the MTU
    /// is not known. The packets for the estimation of rates get new lengths and are sent again.
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
            // If several ends have the same TTL, the target's own answer counts.
            ttl < known || (ttl == known && was != TraceEnd::Reached)
        });
        if nearer {
            self.end = Some((ttl, end));
            self.again.retain(|again| *again <= ttl);
        }
    }
}
