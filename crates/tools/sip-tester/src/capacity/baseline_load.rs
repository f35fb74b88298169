//! The measurement of the baseline: loads against the tester's own answering side (RFC 7502, section 6.1).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use super::{Baseline, BaselineSearch, CallCounts, StepObservation, TesterSeen};
use netrig_core::Duration;
use netrig_sip::load::{CalleeAction, CalleeOrder, Scenario, Work};
use netrig_sip_net::load::{Answering, LoadError, LoadOrder, LoadReport, answer, run};

use super::order::{CapacityError, CapacityOrder};

/// Number of users registered beforehand, per registration per second. Few suffice, because the answering side responds
/// immediately.
const USERS_PER_RATE: f64 = 0.2;
const FEWEST_USERS: u32 = 1000;

/// Measures the baseline. `None` if the measurement was interrupted.
pub fn find(capacity: &CapacityOrder<'_>, stop: &AtomicBool) -> Result<Option<Baseline>, CapacityError> {
    let settings = &capacity.settings;
    let mut baseline = BaselineSearch::new(settings.start, (settings.lowest, settings.highest));
    while let Some(rate) = baseline.next() {
        let seen = offered(capacity, rate, stop)?;
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        baseline.observe(&seen);
    }
    Ok(Some(baseline.found()))
}

/// Offers a rate to the tester's own answering side until the step ends or is interrupted. Returns the observations.
fn offered(
    capacity: &CapacityOrder<'_>,
    rate: f64,
    stop: &AtomicBool,
) -> Result<StepObservation, CapacityError> {
    let mut order = (capacity.load)(rate, BaselineSearch::SPAN_S, None)?;
    if order.plan.work == Work::ReRegister {
        order.plan.users = ((rate * USERS_PER_RATE) as u32).max(FEWEST_USERS);
    }
    // Calls go directly to the answering side, without a server between, and to no other server.
    order.plan.callee = CalleeOrder::Foreign;
    order.plan.options.contacts = 1;
    order.plan.mix.clear();
    order.others.clear();
    (order.location, order.located) = (None, None);
    // A plain call replaces the scenario: messages within a call cost no more than its first and last ones, and the
    // answering side does not fork.
    if let Work::Call(scenario) = order.plan.work
        && scenario.what().is_call()
    {
        order.plan.work = Work::Call(Scenario::Call { hold: scenario.hold().unwrap_or_default() });
    }
    let challenges = !order.plan.passwords.is_empty();
    let (answering, is_over, carrier) =
        (answering(&order, challenges), AtomicBool::new(false), order.carrier.clone());
    let report = std::thread::scope(|scope| {
        let (opened, ready) = channel();
        let answers = scope.spawn(|| {
            let opened = opened;
            answer(&carrier, ([127, 0, 0, 1], 0).into(), answering, |at| _ = opened.send(at), &is_over)
        });
        let report = ready.recv().ok().map(|target| {
            (order.target, order.local, order.local_port) = (target, None, 0);
            run(&order, stop, |_| {}, |_, _| ())
        });
        is_over.store(true, Ordering::Relaxed);
        let answered = answers.join();
        report.ok_or(match answered {
            Ok(Err(error)) => CapacityError::Load(error),
            _ => CapacityError::NoAnswers,
        })
    })?;
    match report {
        Ok(report) => Ok(seen(&order, &report)),
        // The answering side refuses no user, so it was too slow.
        Err(LoadError::Preparation { why, .. }) => {
            Ok(StepObservation { unprepared: Some(why), ..StepObservation::default() })
        }
        Err(LoadError::Interrupted) => Ok(StepObservation::default()),
        Err(error) => Err(error.into()),
    }
}

/// How the tester's own answering side answers the requests of a load.
fn answering(order: &LoadOrder, challenges: bool) -> Answering {
    let ringing = Duration::ZERO;
    match order.plan.work {
        Work::Call(Scenario::Call { .. } | Scenario::Subscribe { .. }) => Answering::calls(ringing),
        Work::Call(Scenario::Busy) => Answering::Calls { wish: CalleeAction::Refuse, ringing },
        Work::Call(Scenario::Cancel { .. } | Scenario::NoAnswer { .. }) => {
            Answering::Calls { wish: CalleeAction::Ring, ringing }
        }
        _ => Answering::Requests { challenges },
    }
}

/// The observations of a load.
fn seen(order: &LoadOrder, report: &LoadReport) -> StepObservation {
    let counts = report.outcome(order.plan.work.what()).map(|own| CallCounts {
        begun: own.counts.begun,
        succeeded: own.counts.succeeded,
        failed: own.counts.failed,
        again: report.repetitions.requests_again,
        ..CallCounts::default()
    });
    let tester = TesterSeen { faults: report.faults.clone(), ..TesterSeen::default() };
    StepObservation {
        span_s: BaselineSearch::SPAN_S,
        counts: counts.unwrap_or_default(),
        tester,
        ..StepObservation::default()
    }
}
