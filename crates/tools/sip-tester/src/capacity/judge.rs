//! Decides a step.
//!
//! An open call may still succeed or fail, and a lost call is detected only after 64 T1. During a step, open calls are
//! therefore counted as follows:
//!
//! * For a pass, an open call that had time to end counts as failed. An open call that had no time to end (a young
//!   call) is not counted.
//! * For a failure, every open call counts as a success.
//! * At the end of the step, after the wait for open calls, every open call counts as failed.

use netrig_stats::sequential::{Judgement, ProportionTest};

use super::decision::{StepDecision, StepOutcome, StepReason};
use super::observation::{CallCounts, StepObservation};
use super::settings::{SearchSettings, Sequential, Threshold};
use super::step::{Criterion, LoadStep};

/// The smallest number of overdue calls that fails a step.
const FEWEST_OVERDUE: u64 = 3;

/// A step with at most this number of retransmitted requests does not fail because of them.
const FEWEST_AGAIN: u64 = 3;

/// The tester was too slow if the number of started calls is below the intended number by more than this share and by
/// more than this number of standard deviations of Poisson arrivals.
const SHORT: (f64, f64) = (0.02, 4.0);

/// The time that a server at nine tenths of its capacity needs to serve the calls that waited during a stall, in multiples of the
/// stall's duration.
const CATCHING_UP: f64 = 10.0;

/// A server is at work if its busiest thread runs for more than this share of the step.
const AT_WORK: f64 = 0.1;

/// A step in progress.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningStep {
    /// Time (s), started calls and open calls at every observation.
    history: Vec<(f64, u64, u64)>,
    /// The decision during the step.
    decided: Option<StepDecision>,
    /// The last observation before the first stall of the machine, and the number of observations until then.
    before_stall: Option<(StepObservation, usize)>,
}

impl RunningStep {
    /// Adds an observation of the step. Returns the decision, or `None` while the step is undecided.
    pub fn observe(
        &mut self,
        settings: &SearchSettings,
        step: &LoadStep,
        seen: &StepObservation,
    ) -> Option<&StepDecision> {
        self.history.push((seen.span_s, seen.counts.begun, seen.counts.open()));
        if seen.stalls.count == 0 {
            self.before_stall = Some((seen.clone(), self.history.len()));
        } else if self.decided.is_none() {
            // Later failures may be caused by the stall; the part before it may be sufficient for a decision.
            self.decided = self.before_stall(settings, step).map(|(decision, _)| decision);
        }
        if self.decided.is_none() {
            let decision = match &step.criterion {
                Criterion::Sequential(sequential) => {
                    StepLook { settings, sequential, step, seen, running: self }.decide()
                }
                Criterion::Clean { calls } => clean(*calls, seen),
                Criterion::Objective { .. } => None,
            };
            let is_failed = decision.as_ref().is_some_and(|decision| decision.outcome == StepOutcome::Failed);
            self.decided = tester(step, seen, is_failed).or(decision);
        }
        self.decided.as_ref()
    }

    /// The decision on the part of a step before the first stall of the machine, and the observations of that part
    /// without young calls. `None` if the part is shorter than the shortest step or has too few calls, if the step is a
    /// recovery check, or if it has no sequential test.
    fn before_stall(
        &self,
        settings: &SearchSettings,
        step: &LoadStep,
    ) -> Option<(StepDecision, StepObservation)> {
        let (seen, looks) = self.before_stall.as_ref()?;
        let Criterion::Sequential(sequential) = &step.criterion else { return None };
        if seen.span_s < step.least_s || step.purpose.is_probe() || is_short(step, seen) {
            return None;
        }
        let mut seen = seen.clone();
        seen.counts.begun -= seen.counts.open().saturating_sub(seen.counts.overdue);
        let running = Self { history: self.history[..*looks].to_vec(), ..Self::default() };
        let decision =
            StepLook { settings, sequential, step, seen: &seen, running: &running }.conclude(false);
        Some((decision, seen))
    }

    /// Decides the step at its end, after the wait for open calls. If only the part before a stall is decided, returns
    /// the observations of that part as well.
    pub fn end(
        self,
        settings: &SearchSettings,
        step: &LoadStep,
        seen: &StepObservation,
    ) -> (StepDecision, Option<StepObservation>) {
        if let Some(why) = &seen.unprepared {
            let reason = match seen.received {
                Some(0) => StepReason::Unanswered { calls: 0, why: Some(why.clone()) },
                _ => StepReason::Unprepared(why.clone()),
            };
            return (StepDecision::failed(reason), None);
        }
        let before_stall = self.before_stall(settings, step);
        let decision = self.judged(settings, step, seen);
        let is_failed = decision.outcome == StepOutcome::Failed;
        // A step of a fixed number of calls has no shortfall: only the tester's faults show that it was too slow.
        let is_timed = step.calls.is_none() || step.purpose.is_probe();
        let is_carried = !is_short(step, seen) && (is_timed || seen.tester.faults.is_empty());
        let has_waited = is_failed || seen.counts.failed + seen.counts.overdue > 0;
        let is_silent = has_waited && 2.0 * seen.stalls.total_s < seen.span_s;
        let decision = match decision.outcome {
            // A pass despite stalls of the machine is valid.
            StepOutcome::Passed if is_carried => decision,
            // Neither stalls nor faults of the tester explain that no message was received at all.
            _ if is_silent && is_unanswered(seen) => {
                let (calls, why) = (seen.counts.begun, seen.failed_mostly.clone());
                StepDecision::failed(StepReason::Unanswered { calls, why })
            }
            _ if is_spoilt(step, seen) => {
                let stalls = seen.stalls;
                if let Some((decision, part)) = before_stall {
                    let took_s = seen.took_s.max(seen.span_s);
                    return (decision, Some(StepObservation { stalls, took_s, ..part }));
                }
                StepDecision::invalid(StepReason::Stalled {
                    count: stalls.count,
                    longest_s: stalls.longest_s,
                })
            }
            _ => tester(step, seen, true).unwrap_or(decision),
        };
        (decision, None)
    }

    /// The decision about the server, without regard to the tester and to stalls of the machine.
    fn judged(self, settings: &SearchSettings, step: &LoadStep, seen: &StepObservation) -> StepDecision {
        match (&step.criterion, &self.decided) {
            // A failure or an invalid step during the load is final: open calls cannot change it.
            (_, Some(decided)) if decided.outcome != StepOutcome::Passed => decided.clone(),
            (Criterion::Sequential(sequential), _) => {
                StepLook { settings, sequential, step, seen, running: &self }.conclude(self.decided.is_some())
            }
            (Criterion::Clean { calls }, _) => conclude_clean(*calls, settings, seen, step),
            (Criterion::Objective { share }, _) => objective(*share, step, seen),
        }
    }

    /// The minimum number of open calls in the second quarter, the minimum in the last quarter, and the number of calls
    /// that started in the second half of the step. With minima, a short pause of the server does not look like a
    /// backlog.
    fn growth(&self) -> Option<(u64, u64, u64)> {
        let (end, begun, _) = *self.history.last()?;
        let fewest = |from: f64, to: f64| {
            let quarter = self.history.iter().filter(|(at, ..)| *at >= from * end && *at <= to * end);
            quarter.map(|(.., open)| *open).min()
        };
        let (middle, last) = (fewest(0.25, 0.5)?, fewest(0.75, 1.0)?);
        let half = self.history.iter().rev().find(|(at, ..)| *at <= 0.5 * end)?.1;
        Some((middle, last, begun.saturating_sub(half)))
    }
}

/// Whether the server sent nothing and is not at work. A server that still processes an earlier load is at work, and
/// will answer later.
pub(super) fn is_unanswered(seen: &StepObservation) -> bool {
    let is_at_work = seen.server.as_ref().is_some_and(|server| server.busiest_s > AT_WORK * server.span_s);
    !is_at_work && seen.received == Some(0) && seen.counts.begun > 0 && seen.counts.succeeded == 0
}

/// Whether stalls of the machine may explain why a step did not pass: fewer calls were started than intended, or the
/// numbers of failed calls, of overdue calls and of retransmitted requests are each at most the number of calls that
/// arrive while a server at nine tenths of its capacity catches up.
fn is_spoilt(step: &LoadStep, seen: &StepObservation) -> bool {
    let CallCounts { failed, overdue, again, .. } = seen.counts;
    let most = CATCHING_UP * step.rate * seen.stalls.total_s;
    seen.stalls.count > 0 && (failed.max(overdue).max(again) as f64 <= most || is_short(step, seen))
}

/// Whether fewer calls were started than intended.
fn is_short(step: &LoadStep, seen: &StepObservation) -> bool {
    let asked = step.rate * seen.span_s;
    let (share, deviations) = SHORT;
    let least = asked - (share * asked).max(deviations * asked.sqrt());
    (seen.counts.begun as f64) < least && step.calls.is_none_or(|calls| seen.counts.begun < calls)
}

/// The decision if the tester was the limit: it offered less than intended, or it had faults and `faults_count` is set.
/// If the server passes, faults of the tester do not count, because the server sustained the load. If the machine
/// stalled, a shortfall is not a fault of the tester.
fn tester(step: &LoadStep, seen: &StepObservation, faults_count: bool) -> Option<StepDecision> {
    let is_short = is_short(step, seen);
    if !(is_short && seen.stalls.count == 0 || faults_count && !seen.tester.faults.is_empty()) {
        return None;
    }
    let mut faults = seen.tester.faults.clone();
    if is_short {
        faults.push(format!("{:.1} per second were offered instead of {}", seen.offered(), step.rate));
    }
    Some(StepDecision::invalid(StepReason::Tester(faults)))
}

/// Every call must succeed: the first failure decides.
fn clean(calls: u64, seen: &StepObservation) -> Option<StepDecision> {
    let counts = seen.counts;
    if counts.failed > 0 {
        return Some(StepDecision::failed(StepReason::NotAll));
    }
    (counts.begun >= calls && counts.open() == 0).then(|| StepDecision::passed(StepReason::AllSucceeded))
}

fn conclude_clean(
    calls: u64,
    settings: &SearchSettings,
    seen: &StepObservation,
    step: &LoadStep,
) -> StepDecision {
    let counts = seen.counts;
    if counts.failed > 0 || counts.open() > 0 {
        return StepDecision::failed(StepReason::NotAll);
    }
    if counts.begun < calls {
        return StepDecision::invalid(StepReason::CutShort);
    }
    // RFC 7502 has no limits for delays. In a recovery check, late answers mean that the server has not recovered.
    let broken = if step.purpose.is_probe() { broken(&settings.thresholds, seen) } else { None };
    broken.map_or(StepDecision::passed(StepReason::AllSucceeded), StepDecision::failed)
}

/// A scenario is handled inadequately if it failed, is still open, or was late.
fn objective(share: f64, step: &LoadStep, seen: &StepObservation) -> StepDecision {
    let counts = seen.counts;
    let calls = counts.failed + counts.open() + counts.late;
    if (calls as f64) >= share * counts.begun as f64 && calls > 0 {
        return StepDecision::failed(StepReason::NotObjective { calls });
    }
    if seen.span_s < step.least_s || counts.begun == 0 {
        return StepDecision::invalid(StepReason::CutShort);
    }
    StepDecision::passed(StepReason::Objective)
}

/// The first threshold that was not met.
fn broken(thresholds: &[Threshold], seen: &StepObservation) -> Option<StepReason> {
    let judged = seen.judged(thresholds).into_iter().find(|judged| !judged.kept)?;
    let Threshold { delay, statistic, most_s } = judged.threshold;
    Some(StepReason::Threshold { delay, statistic, was_s: judged.was_s?, most_s })
}

/// An observation of a step that a sequential test decides.
struct StepLook<'a> {
    settings: &'a SearchSettings,
    sequential: &'a Sequential,
    step: &'a LoadStep,
    seen: &'a StepObservation,
    running: &'a RunningStep,
}

impl StepLook<'_> {
    /// The decision during the step.
    fn decide(&self) -> Option<StepDecision> {
        let (counts, test) = (self.seen.counts, self.sequential.test.test()?);
        // All calls up to the shortest duration of the step could still succeed.
        let expected = counts.begun.max((self.step.rate * self.step.least_s) as u64);
        if test.judge(counts.failed, expected) == Judgement::Reject {
            return Some(StepDecision::failed(StepReason::Failures));
        }
        if let Some(reason) = self.again(expected) {
            return Some(StepDecision::failed(reason));
        }
        let many = counts.overdue as f64 > self.sequential.overdue * expected as f64;
        if many && counts.overdue >= FEWEST_OVERDUE {
            return Some(StepDecision::failed(StepReason::Overdue { calls: counts.overdue }));
        }
        if self.seen.span_s < self.step.least_s {
            return None;
        }
        let young = counts.open().saturating_sub(counts.overdue);
        if test.judge(counts.failed + counts.overdue, counts.begun - young) != Judgement::Accept {
            return None;
        }
        if let Some(reason) = broken(&self.settings.thresholds, self.seen) {
            return Some(StepDecision::failed(reason));
        }
        self.backlog().is_none().then(|| StepDecision::passed(StepReason::Shown))
    }

    /// The decision at the end of the step. `decided` is set if the test already accepted during the step, without the
    /// young calls. If the test is undecided with these calls, a pass still counts as decided by the test.
    fn conclude(&self, decided: bool) -> StepDecision {
        let counts = self.seen.counts;
        let Some(test) = self.sequential.test.test() else {
            return StepDecision::invalid(StepReason::CutShort);
        };
        let judgement = test.judge(counts.failed + counts.open(), counts.begun);
        if judgement == Judgement::Reject {
            return StepDecision::failed(StepReason::Failures);
        }
        if let Some(reason) = self.again(counts.begun) {
            return StepDecision::failed(reason);
        }
        if !decided && self.seen.span_s < self.step.least_s {
            return StepDecision::invalid(StepReason::CutShort);
        }
        if let Some(reason) = broken(&self.settings.thresholds, self.seen) {
            return StepDecision::failed(reason);
        }
        if let Some(reason) = self.backlog() {
            return StepDecision::failed(reason);
        }
        match judgement {
            Judgement::Accept => StepDecision::passed(StepReason::Shown),
            _ if self.is_nearer_good(&test) => {
                StepDecision::passed(if decided { StepReason::Shown } else { StepReason::ByShare })
            }
            _ => StepDecision::failed(StepReason::FailuresByShare),
        }
    }

    /// Whether the failures are likelier at the good share than at the bad one. This decides a truncated test.
    fn is_nearer_good(&self, test: &ProportionTest) -> bool {
        let counts = self.seen.counts;
        counts.begun > 0 && test.log_ratio(counts.failed + counts.open(), counts.begun) < 0.0
    }

    /// The reason if too many requests were retransmitted for this number of calls.
    fn again(&self, calls: u64) -> Option<StepReason> {
        let requests = self.seen.counts.again;
        let many = requests as f64 > self.sequential.again * calls as f64;
        (many && requests > FEWEST_AGAIN).then_some(StepReason::Again { requests })
    }

    /// The reason if the number of open calls grows: a server with large buffers answers all calls, but later and
    /// later.
    fn backlog(&self) -> Option<StepReason> {
        let (middle, last, begun) = self.running.growth()?;
        let chance = 3.0 * (middle.max(last) as f64).sqrt() + 1.0;
        let allowed = (self.sequential.growth * begun as f64).max(chance);
        let growth = last.saturating_sub(middle);
        (growth as f64 > allowed).then_some(StepReason::Backlog { growth })
    }
}
