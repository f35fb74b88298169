//! Estimates the duration of a run from a short trial.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netrig_core::{Quantity, QuantityKind, Sample, Sink, Subject};
use netrig_experiment::{Run, RunError, Substrate};

/// A trial is stopped after this wall-clock time, and the rest of the run is extrapolated.
const TRIAL: Duration = Duration::from_millis(3);

/// Estimates the wall-clock duration of a run by executing it for some milliseconds. If the run ends with its flows, it
/// is executed to its end or until `interrupted` is set.
///
/// # Errors
/// The error of the run.
pub fn trial(run: &Run, substrate: &dyn Substrate, interrupted: &AtomicBool) -> Result<Duration, RunError> {
    let cancel = AtomicBool::new(false);
    let start = Instant::now();
    let gives_up = run.scenario.ends_with.is_empty();
    let mut progress =
        TrialSink { start, cancel: &cancel, interrupted, gives_up, first: None, last: Default::default() };
    match substrate.run(run, &mut progress, &cancel) {
        Ok(_) => Ok(start.elapsed()),
        Err(RunError::Cancelled) => Ok(progress.estimate(run)),
        Err(error) => Err(error),
    }
}

/// Observes the interval samples of a run, and stops the run after [`TRIAL`].
struct TrialSink<'a> {
    start: Instant,
    cancel: &'a AtomicBool,
    interrupted: &'a AtomicBool,
    /// False if the run ends with its flows, because its duration is known only at its end.
    gives_up: bool,
    /// The simulated time and the wall-clock time of the first interval. The time before it may include set-up.
    first: Option<(netrig_core::Instant, Duration)>,
    last: (netrig_core::Instant, Duration),
}

impl TrialSink<'_> {
    /// The duration of the whole run, if it continues at the speed between the first interval and the last.
    fn estimate(&self, run: &Run) -> Duration {
        let (at, spent) = self.last;
        let (from, before) = self.first.unwrap_or_default();
        let rest = (netrig_core::Instant::ZERO + run.scenario.duration).since(at).as_nanos() as f64;
        let each = (spent - before).as_secs_f64() / at.since(from).as_nanos() as f64;
        spent + Duration::from_secs_f64(each * rest)
    }
}

impl Sink for TrialSink<'_> {
    fn sample(&mut self, _: Subject, sample: Sample) {
        // Other samples are reported at any time, not at intervals.
        if sample.quantity.kind != QuantityKind::Count || sample.at <= self.last.0 {
            return;
        }
        self.last = (sample.at, self.start.elapsed());
        if self.first.is_some() {
            let stops = self.gives_up && self.last.1 > TRIAL || self.interrupted.load(Ordering::Relaxed);
            self.cancel.store(stops, Ordering::Relaxed);
        } else {
            self.first = Some(self.last);
        }
    }

    fn wants(&self, quantity: &'static Quantity) -> bool {
        quantity.kind == QuantityKind::Count
    }
}
