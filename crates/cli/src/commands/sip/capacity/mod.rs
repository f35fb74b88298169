//! `netrig sip capacity`.

mod arguments;
mod baseline;
mod journal;
mod offer;
mod settings;
mod show;
mod sight;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netrig_agent::sip::load::{LoadOrder, Offered, Steering};
use netrig_agent::sip::tap::MessageTaps;
use netrig_runner::capacity::{
    Baseline, BaselineSearch, CapacitySearch, Drain, LoadStep, Order, Seen, Verdict,
};

use netrig_sip_tester::conformance::{ConformancePlan, GateReport};
use netrig_sip_tester::keep::Keeper;

use self::arguments::ModeName;
use self::show::SearchEnd;
use self::sight::Sight;
use super::screen::{Hand, State};
use super::watching::Watchers;
use crate::commands::sip::load;
use crate::commands::sip::subject::work;
use crate::failure::{FAILED, Failure, INTERRUPTED, TESTER, print};
use crate::interruption::until_interrupted;

pub use arguments::Capacity;
pub use show::{Document as CapacityDocument, FORMAT};

/// How often a silence looks whether it is interrupted.
const LOOK: Duration = Duration::from_millis(50);

/// Looks for the highest rate that a server carries.
pub fn capacity(typed: &Capacity) -> Result<ExitCode, Failure> {
    let search = &typed.search;
    // What cannot be is refused before the first call.
    let order = offer::order(typed, search.start.0, 1.0, Some(1))?;
    typed.environment.save()?;
    let settings = settings::settings(typed, &order);
    let (search, known) = journal::begun(typed, settings)?;
    let stop = until_interrupted()?;
    let hand = Hand { stop: Arc::clone(&stop), control: None };
    let state = State { title: typed.subject.target.clone(), is_search: true, ..State::default() };
    let watchers = Watchers::open(&typed.watching, state, hand)?;
    let gate = if typed.conform { Some(gate(&order, &stop, &watchers)?) } else { None };
    let mut sight = Sight::open(&order)?;
    let keeper = typed.keeping.begin()?;
    let taps = keeper.as_ref().map(|keeper| keeper as &dyn MessageTaps);
    let mut search =
        SearchDrive { typed, taps, search, baseline: known, notes: Vec::new(), since: Instant::now() };
    let verdict = search.carry_out((&stop, &watchers), &mut sight);
    watchers.finish()?;
    let SearchDrive { search, baseline, notes, .. } = search;
    // Also what a search has sent that could not go on is evidence.
    let messages = keeper.map(Keeper::finish);
    let verdict = verdict?;
    let journal = search.journal();
    let (baseline, verdict) = (baseline.as_ref(), verdict.as_ref());
    let messages = messages.as_ref();
    let end =
        SearchEnd { gate: gate.as_ref(), journal: &journal, baseline, verdict, notes: &notes, messages };
    if typed.json {
        print(show::document(typed, Offered::of(&order), end)?)?;
    } else {
        print(show::table(typed, end).trim_end())?;
    }
    Ok(exit_code(verdict))
}

/// Whether the server keeps the rules of basic calls, before anything is offered to it.
fn gate(order: &LoadOrder, stop: &AtomicBool, watchers: &Watchers) -> Result<GateReport, Failure> {
    let plan = ConformancePlan::before_load(order).map_err(Failure::request)?;
    watchers.show(|state| state.title = "conformance before the search".to_owned());
    let result = plan.run(stop, &|_| {}).map_err(load::failure)?;
    let report = GateReport::of(plan.role, &result);
    for line in report.lines() {
        watchers.say(|| line.clone());
    }
    Ok(report)
}

/// A search while it goes on.
struct SearchDrive<'a> {
    typed: &'a Capacity,
    /// Who keeps messages.
    taps: Option<&'a dyn MessageTaps>,
    search: CapacitySearch,
    /// What the tester carries against itself, once it is known.
    baseline: Option<Baseline>,
    /// Warnings of the first step that had any: settings of the tester's host that may spoil the search.
    notes: Vec<String>,
    /// When what it did before was over.
    since: Instant,
}

impl SearchDrive<'_> {
    /// Does what the search orders until it is finished; `None` if it was interrupted.
    fn carry_out(
        &mut self,
        (stop, watchers): (&AtomicBool, &Watchers),
        sight: &mut Sight,
    ) -> Result<Option<Verdict>, Failure> {
        let target = &self.typed.subject.target;
        loop {
            match self.search.next() {
                Order::Finished(verdict) => return Ok(Some(verdict)),
                Order::Drain(drain) => {
                    let title = format!("{target}: left alone for {} s{}", drain.span_s, self.left());
                    watchers.show(|state| state.title = title);
                    if !is_silent(drain, stop) {
                        return Ok(None);
                    }
                    self.search.drained();
                    self.since = Instant::now();
                }
                Order::Step(step) => {
                    if !self.has_baseline(&step, stop, watchers)? {
                        return Ok(None);
                    }
                    let Some(mut seen) = self.offered(&step, (stop, watchers), sight)? else {
                        return Ok(None);
                    };
                    seen.took_s = self.since.elapsed().as_secs_f64();
                    self.since = Instant::now();
                    let line = self.search.end(&seen).map(show::step);
                    let line = line.unwrap_or_default() + &self.left();
                    watchers.show(|state| state.end_step(line.clone()));
                    watchers.say(|| line.clone());
                }
            }
            if let Some(file) = &self.typed.journal {
                journal::write(self.typed, file, self.baseline.as_ref(), self.search.journal())?;
            }
        }
    }

    /// What was seen of a step; `None` if it was interrupted.
    fn offered(
        &mut self,
        step: &LoadStep,
        (stop, watchers): (&AtomicBool, &Watchers),
        sight: &mut Sight,
    ) -> Result<Option<Seen>, Failure> {
        if let Some(refused) = self.baseline.as_ref().and_then(|baseline| baseline.refuses(step.rate)) {
            return Ok(Some(refused));
        }
        let title =
            format!("{}: {:.1}/s ({}){}", self.typed.subject.target, step.rate, step.purpose, self.left());
        let notes = &mut self.notes;
        let warn = |warnings: &[String]| {
            // Later steps repeat them with other numbers.
            if notes.is_empty() {
                watchers.warn(warnings);
                notes.extend_from_slice(warnings);
            }
        };
        let stop = Steering { stop, control: None, taps: self.taps };
        offer::offer(self.typed, (step, title), &mut self.search, (stop, watchers, sight), warn)
    }

    /// Looks for what the tester carries against itself before a step, once the server has answered and if it may matter; false if it
    /// was interrupted.
    fn has_baseline(
        &mut self,
        step: &LoadStep,
        stop: &AtomicBool,
        watchers: &Watchers,
    ) -> Result<bool, Failure> {
        let is_slow = step.rate < BaselineSearch::FIRST && self.typed.search.mode == ModeName::Sequential;
        if is_slow || self.baseline.is_some() || self.search.steps() == 0 {
            return Ok(true);
        }
        let title = format!("{}: what the tester carries against itself", self.typed.subject.target);
        watchers.show(|state| state.title = title);
        self.baseline = baseline::find(self.typed, stop)?;
        let unit = settings::unit(work(&self.typed.subject));
        let said = self.baseline.as_ref().map(|baseline| baseline.sentence(unit));
        if let Some(said) = &said {
            watchers.say(|| said.clone());
        }
        Ok(said.is_some())
    }

    /// How much of the time for the search is left, as the end of a line.
    fn left(&self) -> String {
        let left = self.search.left_s().map(|left| (left - self.since.elapsed().as_secs_f64()).max(0.0));
        left.map(|left| format!("; {left:.0} s left")).unwrap_or_default()
    }
}

/// Offers nothing for a while; whether it was let.
fn is_silent(drain: Drain, stop: &AtomicBool) -> bool {
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

/// Whether a capacity was found, and whether that can be said.
fn exit_code(verdict: Option<&Verdict>) -> ExitCode {
    match verdict {
        None => ExitCode::from(INTERRUPTED),
        Some(Verdict::Capacity(_) | Verdict::MoreThan { .. }) => ExitCode::SUCCESS,
        Some(Verdict::TesterLimit { .. }) => ExitCode::from(TESTER),
        Some(
            Verdict::Unanswered { .. }
            | Verdict::LessThan { .. }
            | Verdict::NotRecovered { .. }
            | Verdict::Unsettled { .. },
        ) => ExitCode::from(FAILED),
    }
}
