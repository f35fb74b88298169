//! Applies the impairments of a line to its packets.

use netrig_core::{DropReason, Duration, Fraction, Seeds, Stream};

use super::settings::{Corruption, Jitter, Reorder, Shift};
use crate::loss::LossProcess;
use crate::{LineSettings, Loss};

/// The fate of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Lost(DropReason),
    Corrupted,
    Intact,
    Duplicated,
}

/// An impairment and its random stream.
#[derive(Clone, Debug)]
struct Drawn<T> {
    model: T,
    random: Stream,
}

/// Decides which packets are lost: listed packets and random packets.
#[derive(Clone, Debug)]
pub(crate) struct Losses {
    process: Drawn<LossProcess>,
    /// Ordinals of packets to drop, in descending order.
    listed: Vec<u64>,
    /// Number of packets that have started onto the line.
    started: u64,
}

impl Losses {
    pub(crate) fn new(loss: Option<&Loss>, drop: &[u64], mut random: Stream) -> Self {
        let mut listed = drop.to_vec();
        listed.sort_unstable_by(|a, b| b.cmp(a));
        listed.dedup();
        Self { process: Drawn { model: LossProcess::new(loss, &mut random), random }, listed, started: 0 }
    }

    /// Whether any packet may be lost.
    pub(crate) fn any(&self) -> bool {
        !matches!(self.process.model, LossProcess::Never) || !self.listed.is_empty()
    }

    /// Replaces the process by independent loss with this probability. The random stream continues.
    pub(crate) fn set_probability(&mut self, probability: f64) {
        self.process.model = LossProcess::Bernoulli { probability };
    }

    /// Decides about the next packet. Returns the reason if it is lost.
    pub(crate) fn next(&mut self) -> Option<DropReason> {
        self.started += 1;
        let lost = self.process.model.loses(&mut self.process.random);
        if self.listed.pop_if(|ordinal| *ordinal == self.started).is_some() {
            Some(DropReason::Listed)
        } else {
            lost.then_some(DropReason::Loss)
        }
    }
}

/// All impairments of one line. Each has its own random stream and draws once for each packet that starts onto the
/// line, whether the packet is lost or not. So the random numbers of the n-th packet for one impairment do not depend
/// on the other impairments.
#[derive(Clone, Debug)]
pub(crate) struct Impairments {
    losses: Losses,
    jitter: Option<Drawn<Jitter>>,
    reorder: Option<Drawn<Reorder>>,
    corruption: Option<Drawn<Corruption>>,
    duplicate: Option<Drawn<Fraction>>,
}

impl Impairments {
    pub(crate) fn new(settings: &LineSettings, seeds: &Seeds, line: &str) -> Self {
        let stream = |name: &str| seeds.stream(&format!("link/{line}/{name}"));
        Self {
            losses: Losses::new(settings.loss.as_ref(), &settings.drop, stream("loss")),
            jitter: settings.jitter.clone().map(|model| Drawn { model, random: stream("jitter") }),
            reorder: settings.reorder.map(|model| Drawn { model, random: stream("reorder") }),
            corruption: settings.corrupt.map(|model| Drawn { model, random: stream("corrupt") }),
            duplicate: settings.duplicate.map(|model| Drawn { model, random: stream("duplicate") }),
        }
    }

    /// Whether the line has any impairment.
    pub(crate) fn any(&self) -> bool {
        self.losses.any()
            || self.jitter.is_some()
            || self.reorder.is_some()
            || self.corruption.is_some()
            || self.duplicate.is_some()
    }

    /// Replaces the loss process by independent loss with this probability. The random stream continues.
    pub(crate) fn set_loss(&mut self, probability: f64) {
        self.losses.set_probability(probability);
    }

    /// Whether packets keep their order: a packet that would overtake arrives together with the previous packet.
    pub(crate) fn queue_up(&self) -> bool {
        self.jitter.as_ref().is_some_and(|jitter| jitter.model.keep_order)
    }

    /// Whether the settings guarantee that no packet arrives before one that started earlier.
    pub(crate) fn keep_order(&self) -> bool {
        self.queue_up() && self.reorder.is_none()
    }

    /// A lower bound for the delay of a packet that starts while the line's delay is `delay`.
    pub(crate) fn least_delay(&self, delay: Duration) -> Duration {
        let least = self.jitter.as_ref().map_or(delay, |jitter| jitter.model.spread.least(delay));
        match &self.reorder {
            Some(Drawn { model: Reorder { by, shift: Shift::Earlier, .. }, .. }) => least.saturating_sub(*by),
            _ => least,
        }
    }

    /// Decides the fate of the next packet.
    pub(crate) fn fate(&mut self, ip_len: u32) -> Fate {
        let lost = self.losses.next();
        let corrupted =
            self.corruption.as_mut().is_some_and(|c| c.random.chance(c.model.probability(ip_len)));
        let duplicated = self.duplicate.as_mut().is_some_and(|d| d.random.chance(d.model.get()));
        if let Some(why) = lost {
            Fate::Lost(why)
        } else if corrupted {
            Fate::Corrupted
        } else if duplicated {
            Fate::Duplicated
        } else {
            Fate::Intact
        }
    }

    /// Draws the delay of the next packet. Also returns whether this packet is exempt from keeping the order.
    pub(crate) fn delay(&mut self, delay: Duration) -> (Duration, bool) {
        let jitter = self.jitter.as_mut().map_or(0.0, |jitter| jitter.model.spread.draw(&mut jitter.random));
        let delay = shifted(delay, jitter);
        let Some(Drawn { model: Reorder { probability, by, shift }, random }) = &mut self.reorder else {
            return (delay, false);
        };
        match (random.chance(probability.get()), shift) {
            (false, _) => (delay, false),
            (true, Shift::Earlier) => (delay.saturating_sub(*by), true),
            (true, Shift::Later) => (delay + *by, true),
        }
    }
}

/// `delay` plus `nanos`. `nanos` may be negative, but the result is at least zero.
fn shifted(delay: Duration, nanos: f64) -> Duration {
    // `as` saturates: a Pareto time may exceed the range of `Duration`.
    let distance = Duration::from_nanos(nanos.abs().round() as u64);
    if nanos < 0.0 { delay.saturating_sub(distance) } else { delay + distance }
}
