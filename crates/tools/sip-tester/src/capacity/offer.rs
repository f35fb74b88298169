//! Steps of a search as loads.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use super::{CallCounts, CapacitySearch, DelaySeen, LoadStep, StepObservation, StepProgress, TesterSeen};
use netrig_core::Duration;
use netrig_sip::load::Work;
use netrig_sip_net::load::{
    DelayRow, FailureKind, LoadError, LoadOrder, LoadReport, LoadStage, Next, OutcomeRow, SecondRow, SoFar,
    Steering, run,
};

use super::order::{CapacityError, CapacityOrder};
use super::step_watch::StepWatch;
use crate::load_text;
use crate::watchers::Watchers;

/// Offers a step until the search decides it. Returns the observations; `None` if the step was interrupted.
pub fn offer(
    capacity: &CapacityOrder<'_>,
    (step, title): (&LoadStep, String),
    search: &mut CapacitySearch,
    (steering, watchers, watch): (Steering<'_>, &Watchers, &mut StepWatch),
    mut warn: impl FnMut(&[String]),
) -> Result<Option<StepObservation>, CapacityError> {
    let mut order = (capacity.load)(step.rate, step.at_most_s, step.calls)?;
    // The estimate assumes independent steps, so a repeated step needs other arrival times.
    order.plan.seed = order.plan.seed.wrapping_add(search.steps());
    // The order was checked at the first rate. At this rate, the only possible error is too few users.
    if let Err(error @ (LoadError::Request(_) | LoadError::Plan(_))) = order.check() {
        let tester = TesterSeen { faults: vec![error.to_string()], ..TesterSeen::default() };
        return Ok(Some(StepObservation { tester, ..StepObservation::default() }));
    }
    watch.find();
    let watch = RefCell::new(watch);
    let mut watched = OfferedStep::new(&order, step);
    watchers.show(|state| state.begin_step(title, &order));
    let stage = |stage: LoadStage<'_>| match stage {
        LoadStage::Open(ready) => warn(&ready.warnings),
        LoadStage::Starting => watch.borrow_mut().start(),
    };
    let second = |row: &SecondRow, so_far: SoFar<'_>| {
        watchers.second(row, so_far, &order);
        watched.second(row, so_far, search, &mut watch.borrow_mut())
    };
    let stop = steering.stop;
    let report = run(&order, steering, stage, second);
    let report = match report {
        // If a step has passed before, its users could be registered, so this preparation fails because of the rate. If
        // the server has not answered at all, the step fails as unanswered.
        Err(LoadError::Preparation { user, why, limit, is_answered })
            if search.has_passed() || !is_answered =>
        {
            let error = LoadError::Preparation { user, why, limit, is_answered };
            let unprepared = Some(load_text::with_flag(&error.to_string(), limit));
            let received = (!is_answered).then_some(0);
            return Ok(Some(StepObservation { unprepared, received, ..StepObservation::default() }));
        }
        report => report?,
    };
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let mut seen = watched.end(&report);
    watch.borrow_mut().end(&mut seen);
    Ok(Some(seen))
}

/// A step during its load.
struct OfferedStep<'a> {
    order: &'a LoadOrder,
    step: &'a LoadStep,
    seen: StepObservation,
    /// Whether the step starts no more calls.
    is_enough: bool,
}

impl<'a> OfferedStep<'a> {
    fn new(order: &'a LoadOrder, step: &'a LoadStep) -> Self {
        Self { order, step, seen: StepObservation::default(), is_enough: false }
    }

    /// Handles the end of a second of the load.
    fn second(
        &mut self,
        row: &SecondRow,
        so_far: SoFar<'_>,
        search: &mut CapacitySearch,
        watch: &mut StepWatch,
    ) -> Next {
        let counts = &mut self.seen.counts;
        // A call that found no server in the DNS shows nothing about the server.
        counts.begun += row.begun - row.unlocated.min(row.begun);
        counts.succeeded += row.succeeded;
        counts.failed += row.failed;
        counts.again += row.retransmissions;
        counts.overdue = row.overdue;
        counts.late = so_far.late(&self.order.plan.thresholds).min(counts.succeeded);
        self.seen.delays = so_far.delays().iter().map(delay).collect();
        self.seen.tester.faults.extend(row.faults.iter().cloned());
        self.seen.tester = TesterSeen {
            faults: std::mem::take(&mut self.seen.tester.faults),
            cpu_s: so_far.cpu(),
            late_p99_s: so_far.lateness_p99().as_secs_f64(),
            dropped: so_far.dropped(),
        };
        self.seen.received = Some(so_far.received());
        if self.is_enough {
            return Next::GoOn;
        }
        watch.look(&mut self.seen);
        let over = (row.second + 1) as f64;
        let all = self.step.calls.is_some_and(|calls| self.seen.counts.begun >= calls);
        self.seen.span_s = if all { row.until } else { over.min(self.step.at_most_s) };
        let linger_s = match search.observe(&self.seen) {
            StepProgress::Enough { linger_s, .. } => linger_s,
            StepProgress::Continue if all || over >= self.step.at_most_s => self.step.linger_s,
            StepProgress::Continue => return Next::GoOn,
        };
        self.is_enough = true;
        watch.unload();
        Next::Enough(Duration::from_secs_f64(linger_s) + self.order.plan.own_span())
    }

    /// Ends the step, after the wait for its open calls.
    fn end(mut self, report: &LoadReport) -> StepObservation {
        self.seen.received = Some(report.tester.received.saturating_sub(report.tester.foreign));
        let whats: BTreeSet<_> = self.order.plan.works().map(Work::what).collect();
        let own: Vec<_> = whats.into_iter().filter_map(|what| report.outcome(what)).collect();
        if own.is_empty() {
            return self.seen;
        }
        let sum = |of: fn(&OutcomeRow) -> u64| own.iter().map(|row| of(row)).sum::<u64>();
        let failures = report.failures.iter().filter(|row| row.kind != FailureKind::Dns);
        let most = failures.max_by_key(|row| row.count);
        self.seen.failed_mostly = most.map(|row| load_text::with_flag(&row.why, row.limit));
        let counts = &mut self.seen.counts;
        let succeeded = sum(|row| row.counts.succeeded);
        *counts = CallCounts {
            begun: sum(|row| row.counts.begun - row.counts.unlocated),
            succeeded,
            failed: sum(|row| row.counts.failed),
            overdue: sum(|row| row.open),
            late: counts.late.min(succeeded),
            again: counts.again,
        };
        self.seen
    }
}

fn delay(row: &DelayRow) -> DelaySeen {
    let s = |us: f64| us / 1e6;
    DelaySeen {
        delay: row.name.clone().into_owned(),
        n: row.n,
        mean_s: s(row.mean_us),
        p95_s: s(row.p95_us),
        max_s: s(row.max_us),
    }
}
