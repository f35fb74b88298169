//! A search for the capacity of a server over the network.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{
    Baseline, BaselineSearch, CapacitySearch, CapacityVerdict, DriverOrder, LoadStep, Mode, StepObservation,
    StepPause,
};
use netrig_sip_net::load::{LoadOrder, Steering};

use super::document::step_text;
use super::journal_file;
use super::order::{CapacityError, CapacityOrder};
use super::step_watch::StepWatch;
use super::{baseline_load, offer};
use crate::watchers::Watchers;

/// The longest time between two checks for an interruption during a pause.
const LOOK: Duration = Duration::from_millis(50);

/// A search over the network.
pub struct SearchDrive<'a> {
    order: &'a CapacityOrder<'a>,
    search: CapacitySearch,
    /// The tester limit; `None` until it is measured.
    baseline: Option<Baseline>,
    /// Warnings of the first step that had any, about settings of the tester's host that may impair the search.
    notes: Vec<String>,
    /// When the previous step or pause ended.
    since: Instant,
}

impl<'a> SearchDrive<'a> {
    /// Starts a search, or resumes it from the end of its journal.
    ///
    /// # Errors
    /// If a setting is outside its range, or the journal belongs to another search.
    pub fn new(order: &'a CapacityOrder<'a>) -> Result<Self, CapacityError> {
        let (search, baseline) =
            journal_file::begun(order.journal.as_deref(), &order.asked, order.settings.clone())?;
        Ok(Self { order, search, baseline, notes: Vec::new(), since: Instant::now() })
    }

    /// The search.
    pub const fn search(&self) -> &CapacitySearch {
        &self.search
    }

    /// The tester's limit, if it was measured.
    pub const fn baseline(&self) -> Option<&Baseline> {
        self.baseline.as_ref()
    }

    /// Warnings about settings of the tester's host that may have impaired the search.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Offers the steps and pauses of the search until it is finished. The taps of `steering` receive the messages of
    /// all steps. Returns `None` if the search was interrupted.
    ///
    /// # Errors
    /// If a load cannot run or the journal cannot be written.
    pub fn carry_out(
        &mut self,
        first: &LoadOrder,
        steering: Steering<'_>,
        watchers: &Watchers,
    ) -> Result<Option<CapacityVerdict>, CapacityError> {
        let stop = steering.stop;
        let mut watch = StepWatch::open(first).map_err(CapacityError::Watch)?;
        self.since = Instant::now();
        let target = &self.order.target;
        loop {
            match self.search.next() {
                DriverOrder::Finished(verdict) => return Ok(Some(verdict)),
                DriverOrder::Drain(drain) => {
                    let title = format!("{target}: no load for {} s{}", drain.span_s, self.left());
                    watchers.show(|state| state.title = title);
                    if !is_silent(drain, stop) {
                        return Ok(None);
                    }
                    self.search.drained();
                    self.since = Instant::now();
                }
                DriverOrder::Step(step) => {
                    if !self.has_baseline(&step, stop, watchers)? {
                        return Ok(None);
                    }
                    let Some(mut seen) = self.offered(&step, (steering, watchers, &mut watch))? else {
                        return Ok(None);
                    };
                    seen.took_s = self.since.elapsed().as_secs_f64();
                    self.since = Instant::now();
                    let line = self.search.end(&seen).map(step_text);
                    let line = line.unwrap_or_default() + &self.left();
                    watchers.show(|state| state.end_step(line.clone()));
                    watchers.say(|| line.clone());
                }
            }
            if let Some(file) = &self.order.journal {
                journal_file::write(file, &self.order.asked, self.baseline.as_ref(), self.search.journal())?;
            }
        }
    }

    /// The observations of a step; `None` if it was interrupted.
    fn offered(
        &mut self,
        step: &LoadStep,
        (steering, watchers, watch): (Steering<'_>, &Watchers, &mut StepWatch),
    ) -> Result<Option<StepObservation>, CapacityError> {
        if let Some(refused) = self.baseline.as_ref().and_then(|baseline| baseline.refuses(step.rate)) {
            return Ok(Some(refused));
        }
        let title = format!("{}: {:.1}/s ({}){}", self.order.target, step.rate, step.purpose, self.left());
        let notes = &mut self.notes;
        let warn = |warnings: &[String]| {
            // Later steps repeat these warnings with other figures.
            if notes.is_empty() {
                watchers.warn(warnings);
                notes.extend_from_slice(warnings);
            }
        };
        offer::offer(self.order, (step, title), &mut self.search, (steering, watchers, watch), warn)
    }

    /// Measures the tester limit before a step, unless this is the first step, the limit is known, or the rate is too
    /// low for the limit to matter. Returns false if the measurement was interrupted.
    fn has_baseline(
        &mut self,
        step: &LoadStep,
        stop: &AtomicBool,
        watchers: &Watchers,
    ) -> Result<bool, CapacityError> {
        let is_slow =
            step.rate < BaselineSearch::FIRST && matches!(self.order.settings.mode, Mode::Sequential(_));
        if is_slow || self.baseline.is_some() || self.search.steps() == 0 {
            return Ok(true);
        }
        let title = format!("{}: measuring the tester's limit", self.order.target);
        watchers.show(|state| state.title = title);
        self.baseline = baseline_load::find(self.order, stop)?;
        let unit = self.order.unit();
        let sentence = self.baseline.as_ref().map(|baseline| baseline.sentence(unit));
        if let Some(sentence) = &sentence {
            watchers.say(|| sentence.clone());
        }
        Ok(sentence.is_some())
    }

    /// The remaining time of the search, as the end of a line.
    fn left(&self) -> String {
        let left = self.search.left_s().map(|left| (left - self.since.elapsed().as_secs_f64()).max(0.0));
        left.map(|left| format!("; {left:.0} s left")).unwrap_or_default()
    }
}

/// Offers nothing for a while; false if interrupted.
fn is_silent(drain: StepPause, stop: &AtomicBool) -> bool {
    let end = Instant::now() + Duration::from_secs_f64(drain.span_s);
    while !stop.load(Ordering::Relaxed) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(LOOK));
    }
    false
}
