//! The impairments of a line at work.

use netrig_core::{DropReason, Duration, Fraction, Seeds, Stream};

use super::settings::{Corruption, Jitter, Reorder, Shift};
use crate::loss::LossProcess;
use crate::{LineSettings, Loss};

/// What becomes of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Lost(DropReason),
    Corrupted,
    Intact,
    Duplicated,
}

/// One impairment and the stream of its chances.
#[derive(Clone, Debug)]
struct Drawn<T> {
    what: T,
    luck: Stream,
}

/// Which packets are lost: those that a list names, and those that luck takes.
#[derive(Clone, Debug)]
pub(crate) struct Losses {
    process: Drawn<LossProcess>,
    /// Ordinals to drop, the next one last.
    listed: Vec<u64>,
    /// How many packets have started onto the line.
    started: u64,
}

impl Losses {
    pub(crate) fn new(loss: Option<&Loss>, drop: &[u64], mut luck: Stream) -> Self {
        let mut listed = drop.to_vec();
        listed.sort_unstable_by(|a, b| b.cmp(a));
        listed.dedup();
        Self { process: Drawn { what: LossProcess::new(loss, &mut luck), luck }, listed, started: 0 }
    }

    /// Whether any packet may be lost.
    pub(crate) fn any(&self) -> bool {
        !matches!(self.process.what, LossProcess::Never) || !self.listed.is_empty()
    }

    /// From now on independent loss with this probability, drawn from where the stream stands.
    pub(crate) fn set_probability(&mut self, probability: f64) {
        self.process.what = LossProcess::Bernoulli { probability };
    }

    /// Why the next packet is lost, if it is.
    pub(crate) fn next(&mut self) -> Option<DropReason> {
        self.started += 1;
        let lost = self.process.what.loses(&mut self.process.luck);
        if self.listed.pop_if(|ordinal| *ordinal == self.started).is_some() {
            Some(DropReason::Listed)
        } else {
            lost.then_some(DropReason::Loss)
        }
    }
}

/// All impairments of one line. Each has its own stream and draws once per packet that starts onto the line,
/// be that packet lost or not: so the luck of the n-th packet in one respect depends on nothing else.
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
        let stream = |what: &str| seeds.stream(&format!("link/{line}/{what}"));
        Self {
            losses: Losses::new(settings.loss.as_ref(), &settings.drop, stream("loss")),
            jitter: settings.jitter.clone().map(|what| Drawn { what, luck: stream("jitter") }),
            reorder: settings.reorder.map(|what| Drawn { what, luck: stream("reorder") }),
            corruption: settings.corrupt.map(|what| Drawn { what, luck: stream("corrupt") }),
            duplicate: settings.duplicate.map(|what| Drawn { what, luck: stream("duplicate") }),
        }
    }

    /// Whether there is anything to do for a packet.
    pub(crate) fn any(&self) -> bool {
        self.losses.any()
            || self.jitter.is_some()
            || self.reorder.is_some()
            || self.corruption.is_some()
            || self.duplicate.is_some()
    }

    /// From now on independent loss with this probability, drawn from where the loss stream stands.
    pub(crate) fn set_loss(&mut self, probability: f64) {
        self.losses.set_probability(probability);
    }

    /// Whether a packet that would overtake arrives together with the one before it.
    pub(crate) fn queue_up(&self) -> bool {
        self.jitter.as_ref().is_some_and(|jitter| jitter.what.keep_order)
    }

    /// Whether no packet can arrive before one that started earlier, by a rule and not only by luck.
    pub(crate) fn keep_order(&self) -> bool {
        self.queue_up() && self.reorder.is_none()
    }

    /// A bound from below for the delay of a packet that starts while the line's delay is `delay`.
    pub(crate) fn least_delay(&self, delay: Duration) -> Duration {
        let least = self.jitter.as_ref().map_or(delay, |jitter| jitter.what.spread.least(delay));
        match &self.reorder {
            Some(Drawn { what: Reorder { by, shift: Shift::Earlier, .. }, .. }) => least.saturating_sub(*by),
            _ => least,
        }
    }

    /// What becomes of the next packet.
    pub(crate) fn fate(&mut self, ip_len: u32) -> Fate {
        let lost = self.losses.next();
        let corrupted = self.corruption.as_mut().is_some_and(|c| c.luck.chance(c.what.probability(ip_len)));
        let duplicated = self.duplicate.as_mut().is_some_and(|d| d.luck.chance(d.what.get()));
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

    /// Delay of the next packet, and whether it is exempt from keeping the order.
    pub(crate) fn delay(&mut self, delay: Duration) -> (Duration, bool) {
        let jitter = self.jitter.as_mut().map_or(0.0, |jitter| jitter.what.spread.draw(&mut jitter.luck));
        let delay = shifted(delay, jitter);
        let Some(Drawn { what: Reorder { probability, by, shift }, luck }) = &mut self.reorder else {
            return (delay, false);
        };
        match (luck.chance(probability.get()), shift) {
            (false, _) => (delay, false),
            (true, Shift::Earlier) => (delay.saturating_sub(*by), true),
            (true, Shift::Later) => (delay + *by, true),
        }
    }
}

/// `delay` and `nanos` more (or less), but never below zero.
fn shifted(delay: Duration, nanos: f64) -> Duration {
    // `as` saturates: a Pareto tail may exceed any time there is.
    let distance = Duration::from_nanos(nanos.abs().round() as u64);
    if nanos < 0.0 { delay.saturating_sub(distance) } else { delay + distance }
}
