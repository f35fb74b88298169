//! Class-based weighted fair queueing with low-latency queues (CBWFQ and LLQ in routers).

use netrig_core::{Backlog, Dequeue, DropReason, Instant, Observer, PacketMeta, QueueDiscipline};

use super::bands::Bands;
use super::class::{self, Class, ClassContext, PerClass};
use super::fluid::{FluidClock, Tag};
use crate::Framing;
use crate::conditioning::TokenBucket;

/// A queue with class-based weighted fair queueing.
///
/// Low-latency classes are served first, in their order. Each is policed to its reservation, so that they cannot starve
/// the other classes. The other classes share the remaining rate in proportion to their reservations.
#[derive(Clone, Debug)]
pub struct ClassWfqQueue<P>(Box<ClassWfqScheduler<P>>);

#[derive(Clone, Debug)]
struct ClassWfqScheduler<P> {
    bands: Bands<P, Tag>,
    /// Policer of each class. Only low-latency classes have one.
    policers: Vec<Option<TokenBucket>>,
    clock: FluidClock,
    framing: Framing,
    /// For each class, during a search for the next packet: whether a shaper holds its packet.
    held: Vec<bool>,
}

impl<P: PacketMeta> ClassWfqQueue<P> {
    /// Empty queues for the classes of this line.
    pub fn new(settings: &PerClass, context: &ClassContext<'_>) -> Self {
        let policer = |class: &Class| {
            let reserve = class.reserve.filter(|_| class.is_low_latency())?;
            Some(TokenBucket::new(reserve, class.burst()))
        };
        let shares = class::shares(context.classes(), context.line().rate(), Class::is_low_latency);
        Self(Box::new(ClassWfqScheduler {
            bands: Bands::new(settings, context),
            policers: context.classes().iter().map(policer).collect(),
            clock: FluidClock::new(shares.iter().map(|share| (*share).max(1) as f64), context.line()),
            framing: context.line().framing(),
            held: vec![false; context.classes().len()],
        }))
    }
}

impl<P: PacketMeta> ClassWfqScheduler<P> {
    fn is_fast(&self, class: usize) -> bool {
        self.policers[class].is_some()
    }

    /// The class whose oldest packet the fluid server would finish first, among the classes whose packets no shaper
    /// holds.
    fn first_done(&self) -> Option<usize> {
        let candidates = (0..self.bands.len()).filter(|class| !self.is_fast(*class) && !self.held[*class]);
        candidates.filter_map(|class| Some((*self.bands.first(class)?, class))).min().map(|(_, class)| class)
    }

    fn next_fast(&mut self, now: Instant, soonest: &mut Instant, obs: &mut impl Observer<P>) -> Dequeue<P> {
        for class in 0..self.bands.len() {
            if !self.is_fast(class) || self.bands.is_empty(class) {
                continue;
            }
            match self.bands.pop(class, now, obs) {
                Dequeue::NotBefore(moment) => *soonest = (*soonest).min(moment),
                Dequeue::Empty => {}
                packet => return packet,
            }
        }
        Dequeue::Empty
    }
}

impl<P: PacketMeta> QueueDiscipline<P> for ClassWfqQueue<P> {
    fn enqueue(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) {
        let ClassWfqScheduler { bands, policers, clock, framing, .. } = &mut *self.0;
        let (class, ip_len) = (bands.class_of(&packet), packet.header().ip_len);
        if let Some(policer) = &mut policers[class] {
            if !policer.pass(now, framing.line_bytes(ip_len)) {
                return obs.dropped(now, &packet, DropReason::Policed);
            }
            bands.push(class, now, packet, obs, Tag::default);
            return;
        }
        let waiting = bands.backlog().packets;
        bands.push(class, now, packet, obs, || clock.arrival(now, class, ip_len, waiting));
    }

    fn dequeue(&mut self, now: Instant, obs: &mut impl Observer<P>) -> Dequeue<P> {
        let scheduler = &mut *self.0;
        let mut soonest = Instant::NEVER;
        let fast = scheduler.next_fast(now, &mut soonest, obs);
        if matches!(fast, Dequeue::Packet(..)) {
            return fast;
        }
        scheduler.held.fill(false);
        while let Some(class) = scheduler.first_done() {
            match scheduler.bands.pop(class, now, obs) {
                Dequeue::Packet(packet, since) => {
                    scheduler.clock.departure(now, packet.header().ip_len);
                    return Dequeue::Packet(packet, since);
                }
                Dequeue::NotBefore(moment) => {
                    soonest = soonest.min(moment);
                    scheduler.held[class] = true;
                }
                Dequeue::Empty => {}
            }
        }
        if soonest < Instant::NEVER { Dequeue::NotBefore(soonest) } else { Dequeue::Empty }
    }

    fn clear(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<P>) {
        self.0.bands.clear(now, why, obs);
        self.0.clock.clear();
    }

    fn backlog(&self) -> Backlog {
        self.0.bands.backlog()
    }
}
