//! Interactive control of a load in progress: rate, pause, end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use netrig_core::{Duration, Instant};
use netrig_sip::load::PlanClock;
use schemars::JsonSchema;
use serde::Serialize;

use crate::tap::MessageTaps;
use netrig_host::Clock;

/// Delay until a change takes effect, so that all threads have read it before.
const AHEAD: Duration = Duration::from_millis(50);

/// The lowest and the highest rate, as factors of the plan.
pub const SPEEDS: (f64, f64) = (1.0 / 64.0, 64.0);

/// Interactive control of a load in progress. A change takes effect after about 50 ms.
///
/// The factor scales the speed of the plan (rate, stages, trace, or the pauses of a closed loop). During a pause the
/// plan's clock stops, so no start becomes late, and the load takes longer by the length of the pause.
#[derive(Debug)]
pub struct Control {
    clock: Clock,
    changes: Mutex<Vec<(Instant, LoadChange)>>,
    /// Number of `changes`. It can be read without the lock.
    count: AtomicUsize,
}

/// A change.
#[derive(Clone, Copy, Debug, PartialEq)]
enum LoadChange {
    /// Factor of the plan's speed; zero is a pause.
    Speed(f64),
    /// No new attempt starts.
    Enough,
}

/// A manual change of a load, in its report.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Intervention {
    /// When it took effect, s since the start of the load.
    pub at: f64,
    /// Its kind: `rate`, `pause` or `end`.
    pub what: &'static str,
    /// The speed from then on, as a factor of the plan.
    pub factor: f64,
}

impl Default for Control {
    fn default() -> Self {
        let clock = Clock::starting_in(Duration::ZERO);
        Self { clock, changes: Mutex::default(), count: AtomicUsize::new(0) }
    }
}

impl Control {
    /// Sets the speed of the plan to a factor within [`SPEEDS`]; 0 is a pause.
    pub fn speed(&self, factor: f64) {
        let (least, most) = SPEEDS;
        self.change(LoadChange::Speed(if factor > 0.0 { factor.clamp(least, most) } else { 0.0 }));
    }

    /// Starts no new attempts. Pending attempts are completed.
    pub fn enough(&self) {
        self.change(LoadChange::Enough);
    }

    fn change(&self, change: LoadChange) {
        let at = self.clock.now() + AHEAD;
        // The list is valid even if a thread panicked while it held the lock.
        let mut changes = self.changes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        changes.push((at, change));
        self.count.store(changes.len(), Ordering::Release);
    }

    /// The clock of the changes.
    pub(super) const fn clock(&self) -> Clock {
        self.clock
    }

    /// The plan's clock of a load that started at `start`, and the number of changes; `None` if there are no more
    /// changes than `known`.
    pub(super) fn course(&self, start: Instant, known: usize) -> Option<(PlanClock, usize)> {
        (self.count.load(Ordering::Acquire) > known).then(|| self.whole(start))
    }

    fn whole(&self, start: Instant) -> (PlanClock, usize) {
        let changes = self.changes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut course = PlanClock::default();
        for (at, change) in changes.iter() {
            let at = Instant::ZERO + (*at - start);
            match change {
                LoadChange::Speed(speed) => course.turn(at, *speed),
                LoadChange::Enough => course.enough(at),
            }
        }
        (course, changes.len())
    }

    /// Changes until the end of a load that started at `start`.
    pub(super) fn interventions(&self, start: Instant, end: Instant) -> Vec<Intervention> {
        let changes = self.changes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut factor = 1.0;
        let row = |(at, change): &(Instant, LoadChange)| {
            let what = match change {
                LoadChange::Speed(0.0) => "pause",
                LoadChange::Speed(_) => "rate",
                LoadChange::Enough => "end",
            };
            factor = if let LoadChange::Speed(speed) = change { *speed } else { factor };
            Intervention { at: (*at - start).as_secs_f64(), what, factor }
        };
        // A change takes effect `AHEAD` after it was requested. Those requested before the end of the load are
        // included.
        changes.iter().take_while(|(at, _)| *at < end || *at - end < AHEAD).map(row).collect()
    }
}

/// The stop flag of a load, its interactive control, and the taps of its messages.
#[derive(Clone, Copy)]
pub struct Steering<'a> {
    /// If set, the load ends early.
    pub stop: &'a AtomicBool,
    /// Interactive control.
    pub control: Option<&'a Control>,
    /// Taps of its messages.
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
