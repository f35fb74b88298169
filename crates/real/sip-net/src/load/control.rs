//! A hand on a load while it goes on: faster, slower, a pause, the end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use netrig_core::{Duration, Instant};
use netrig_sip::load::PlanClock;
use schemars::JsonSchema;
use serde::Serialize;

use crate::tap::MessageTaps;
use netrig_host::Clock;

/// What is changed holds so much later, so that all threads know of it before.
const AHEAD: Duration = Duration::from_millis(50);

/// The slowest and the fastest that a load can be made, as factors of its plan.
pub const SPEEDS: (f64, f64) = (1.0 / 64.0, 64.0);

/// What a person does to a load while it goes on. What is done holds some 50 ms later.
///
/// The plan (rate, stages, trace, or the pauses of a closed loop) is gone through so many times as fast; in a pause it
/// stands still, and nothing that was to begin in it is late: the load lasts that much longer.
#[derive(Debug)]
pub struct Control {
    clock: Clock,
    deeds: Mutex<Vec<(Instant, Deed)>>,
    /// How many there are.
    count: AtomicUsize,
}

/// One thing that was done.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed {
    /// So many times as fast as planned; zero is a pause.
    Speed(f64),
    /// No more begins.
    Enough,
}

/// What was done to a load by hand, as its report has it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Intervention {
    /// When it held, s from the beginning of the load.
    pub at: f64,
    /// What: `rate`, `pause` or `end`.
    pub what: &'static str,
    /// How many times as fast as planned it was from then on.
    pub factor: f64,
}

impl Default for Control {
    fn default() -> Self {
        let clock = Clock::starting_in(Duration::ZERO);
        Self { clock, deeds: Mutex::default(), count: AtomicUsize::new(0) }
    }
}

impl Control {
    /// From now on the plan is gone through so many times as fast, within [`SPEEDS`]; 0 is a pause.
    pub fn speed(&self, factor: f64) {
        let (least, most) = SPEEDS;
        self.deed(Deed::Speed(if factor > 0.0 { factor.clamp(least, most) } else { 0.0 }));
    }

    /// No more begins; what is open is waited for.
    pub fn enough(&self) {
        self.deed(Deed::Enough);
    }

    fn deed(&self, deed: Deed) {
        let at = self.clock.now() + AHEAD;
        // Who panicked while it held the lock has left a whole list.
        let mut deeds = self.deeds.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        deeds.push((at, deed));
        self.count.store(deeds.len(), Ordering::Release);
    }

    /// The clock in which it tells the time.
    pub(super) const fn clock(&self) -> Clock {
        self.clock
    }

    /// How a load goes that began at `start` and how much was done, if that is more than `known`.
    pub(super) fn course(&self, start: Instant, known: usize) -> Option<(PlanClock, usize)> {
        (self.count.load(Ordering::Acquire) > known).then(|| self.whole(start))
    }

    fn whole(&self, start: Instant) -> (PlanClock, usize) {
        let deeds = self.deeds.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut course = PlanClock::default();
        for (at, deed) in deeds.iter() {
            let at = Instant::ZERO + (*at - start);
            match deed {
                Deed::Speed(speed) => course.turn(at, *speed),
                Deed::Enough => course.enough(at),
            }
        }
        (course, deeds.len())
    }

    /// What was done until a load ended that began at `start`.
    pub(super) fn interventions(&self, start: Instant, end: Instant) -> Vec<Intervention> {
        let deeds = self.deeds.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut factor = 1.0;
        let row = |(at, deed): &(Instant, Deed)| {
            let what = match deed {
                Deed::Speed(0.0) => "pause",
                Deed::Speed(_) => "rate",
                Deed::Enough => "end",
            };
            factor = if let Deed::Speed(speed) = deed { *speed } else { factor };
            Intervention { at: (*at - start).as_secs_f64(), what, factor }
        };
        // Who has enough of a load whose calls are done ends it before that would hold.
        deeds.iter().take_while(|(at, _)| *at < end || *at - end < AHEAD).map(row).collect()
    }
}

/// What ends a load before its time, what may be done to it while it goes on, and who watches its messages.
#[derive(Clone, Copy)]
pub struct Steering<'a> {
    /// Ends it before its time.
    pub stop: &'a AtomicBool,
    /// A hand on it.
    pub control: Option<&'a Control>,
    /// Who takes note of its messages.
    pub taps: Option<&'a dyn MessageTaps>,
}

impl<'a> From<&'a AtomicBool> for Steering<'a> {
    fn from(stop: &'a AtomicBool) -> Self {
        Self { stop, control: None, taps: None }
    }
}

impl<'a> From<&'a Arc<AtomicBool>> for Steering<'a> {
    fn from(stop: &'a Arc<AtomicBool>) -> Self {
        Self { stop, control: None, taps: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_told() {
        let control = Control::default();
        control.speed(2.0);
        control.speed(0.0);
        control.enough();
        let told = control.interventions(Instant::ZERO, Instant::NEVER);
        let whats: Vec<_> = told.iter().map(|one| (one.what, one.factor)).collect();
        assert_eq!(whats, [("rate", 2.0), ("pause", 0.0), ("end", 0.0)]);
        assert!(control.course(Instant::ZERO, 3).is_none());
        assert!(control.course(Instant::ZERO, 2).is_some());
        control.speed(1e9);
        assert_eq!(control.interventions(Instant::ZERO, Instant::NEVER)[3].factor, SPEEDS.1);
    }
}
