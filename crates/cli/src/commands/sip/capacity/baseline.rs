//! What the tester carries against itself (RFC 7502, section 6.1).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use netrig_agent::sip::load::{Answering, LoadOrder, LoadReport, answer, run};
use netrig_core::Duration;
use netrig_runner::capacity::{Seen, TesterSeen};
use netrig_sip::load::{CalleeOrder, Scenario, Wish, Work};
use serde::{Deserialize, Serialize};

use super::arguments::Capacity;
use super::offer;
use crate::commands::sip::load;
use crate::failure::Failure;

/// How long a rate is offered, s.
const SPAN_S: f64 = 2.0;

/// The first rate, per second, unless the search begins higher.
const FIRST: f64 = 2500.0;

/// How often the interval between a rate that was carried and one that was not is halved, in the ratio: from a factor of two to
/// one of a fifth.
const HALVINGS: u32 = 2;

/// Users registered beforehand, for each registration per second: nobody keeps them waiting.
const USERS_PER_RATE: f64 = 0.2;
const FEWEST_USERS: u32 = 1000;

/// More requests than this share of those begun must not be sent again.
const AGAIN: f64 = 0.001;

/// What the tester carries against itself: its load against its own answering side, with the same transport, as many threads and
/// on the same processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// The highest rate that it carried, per second; none if it carried none.
    pub carried: Option<f64>,
    /// The lowest above it that it did not; none if no rate that the search may offer was too high.
    pub not_carried: Option<f64>,
    /// Why it did not.
    pub why: Option<String>,
}

impl Baseline {
    /// What is seen of a step that the tester itself does not carry; `None` of one that it does.
    pub fn refuses(&self, rate: f64) -> Option<Seen> {
        // No rate that may be offered was too high.
        let not_carried = self.not_carried?;
        if self.carried.is_some_and(|carried| rate <= carried) {
            return None;
        }
        let carried = self.carried.map_or_else(|| "none".to_owned(), |carried| format!("{carried:.0}/s"));
        let why = self.why.as_deref().unwrap_or("its own answers did not come");
        let fault = format!("against itself it carried {carried}, and not {not_carried:.0}/s: {why}");
        let tester = TesterSeen { faults: vec![fault], ..TesterSeen::default() };
        Some(Seen { tester, ..Seen::default() })
    }

    /// In a sentence, of `unit` per second.
    pub fn sentence(&self, unit: &str) -> String {
        let carried =
            self.carried.map_or_else(|| format!("no {unit}"), |carried| format!("{carried:.0} {unit}/s"));
        match (self.not_carried, &self.why) {
            (Some(rate), Some(why)) => {
                format!("the tester carries {carried} against itself; at {rate:.0}/s: {why}")
            }
            _ => format!("the tester carries {carried} against itself, the most that may be offered"),
        }
    }
}

/// Looks for it. `None` if it was interrupted.
pub fn find(typed: &Capacity, stop: &AtomicBool) -> Result<Option<Baseline>, Failure> {
    let (lowest, highest) = (typed.search.lowest.0, typed.search.highest.0);
    let mut found = Baseline { carried: None, not_carried: None, why: None };
    let mut rate = typed.search.start.0.max(FIRST).min(highest);
    let mut halvings = HALVINGS;
    loop {
        // One who disturbs the machine for a moment is no limit of the tester's.
        let mut fault = offered(typed, rate, stop)?;
        if fault.is_some() && !stop.load(Ordering::Relaxed) {
            fault = offered(typed, rate, stop)?;
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match fault {
            None => found.carried = Some(rate),
            Some(why) => (found.not_carried, found.why) = (Some(rate), Some(why)),
        }
        rate = match (found.carried, found.not_carried) {
            (Some(carried), None) if carried >= highest => return Ok(Some(found)),
            (Some(carried), None) => (2.0 * carried).min(highest),
            (None, Some(not)) if not <= lowest => return Ok(Some(found)),
            (None, Some(not)) => (not / 2.0).max(lowest),
            (Some(carried), Some(not)) if halvings > 0 => {
                halvings -= 1;
                (carried * not).sqrt().round().max(carried)
            }
            _ => return Ok(Some(found)),
        };
    }
}

/// Offers a rate to the tester's own answering side; why it was not carried.
fn offered(typed: &Capacity, rate: f64, stop: &AtomicBool) -> Result<Option<String>, Failure> {
    let mut order = offer::order(typed, rate, SPAN_S, None)?;
    if order.plan.work == Work::ReRegister {
        order.plan.users = ((rate * USERS_PER_RATE) as u32).max(FEWEST_USERS);
    }
    // Peers are called without a server between, and no other server than this.
    order.plan.callee = CalleeOrder::Foreign;
    order.plan.contacts = 1;
    order.plan.mix.clear();
    order.others.clear();
    (order.location, order.located) = (None, None);
    // What is said in a call beyond its first and last messages is no more work than they are, and nobody forks here.
    if let Work::Call(scenario) = order.plan.work
        && scenario.what().is_call()
    {
        order.plan.work = Work::Call(Scenario::Call { hold: scenario.hold().unwrap_or_default() });
    }
    let challenges = !order.plan.passwords.is_empty();
    let (answering, is_over, carrier) =
        (answering(&order, challenges), AtomicBool::new(false), order.carrier.clone());
    let report = std::thread::scope(|scope| {
        let (told, ready) = channel();
        let answers = scope.spawn(|| {
            let told = told;
            answer(&carrier, ([127, 0, 0, 1], 0).into(), answering, |at| _ = told.send(at), &is_over)
        });
        let report = ready.recv().ok().map(|target| {
            (order.target, order.local, order.local_port) = (target, None, 0);
            run(&order, stop, |_| {}, |_, _| ())
        });
        is_over.store(true, Ordering::Relaxed);
        let answered = answers.join();
        report.ok_or_else(|| match answered {
            Ok(Err(error)) => load::failure(error),
            _ => Failure::failed("the tester's own answering side did not begin"),
        })
    })?;
    match report {
        Ok(report) => Ok(fault(&order, rate, &report)),
        // Its own answering side is not refused by a server: it was too slow.
        Err(netrig_agent::sip::load::LoadError::Preparation { why, .. }) => Ok(Some(why)),
        Err(netrig_agent::sip::load::LoadError::Interrupted) => Ok(None),
        Err(error) => Err(load::failure(error)),
    }
}

/// How the tester's own answering side answers what a load asks.
fn answering(order: &LoadOrder, challenges: bool) -> Answering {
    let ringing = Duration::ZERO;
    match order.plan.work {
        Work::Call(Scenario::Call { .. } | Scenario::Subscribe { .. }) => Answering::calls(ringing),
        Work::Call(Scenario::Busy) => Answering::Calls { wish: Wish::Refuse, ringing },
        Work::Call(Scenario::Cancel { .. } | Scenario::NoAnswer { .. }) => {
            Answering::Calls { wish: Wish::Ring, ringing }
        }
        _ => Answering::Requests { challenges },
    }
}

/// Why a rate was not carried.
fn fault(order: &LoadOrder, rate: f64, report: &LoadReport) -> Option<String> {
    if let Some(fault) = report.faults.first() {
        return Some(fault.clone());
    }
    let own = report.outcome(order.plan.work.what())?;
    let asked = rate * SPAN_S;
    if (own.begun as f64) < asked - (0.02 * asked).max(4.0 * asked.sqrt()) {
        return Some(format!("{} of about {asked:.0} began", own.begun));
    }
    if own.failed > 0 || report.requests_again as f64 > AGAIN * own.begun as f64 {
        let again = report.requests_again;
        return Some(format!("{} of {} failed, {again} requests were sent again", own.failed, own.begun));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_above_what_the_tester_carries_is_not_the_servers_to_fail() {
        let baseline =
            Baseline { carried: Some(5000.0), not_carried: Some(6000.0), why: Some("late".into()) };
        assert!(baseline.refuses(5000.0).is_none());
        let seen = baseline.refuses(5001.0).unwrap();
        assert_eq!(seen.tester.faults, ["against itself it carried 5000/s, and not 6000/s: late"]);
        assert!(Baseline { carried: None, ..baseline.clone() }.refuses(1.0).is_some());
        assert!(Baseline { not_carried: None, ..baseline }.refuses(1e6).is_none());
    }
}
