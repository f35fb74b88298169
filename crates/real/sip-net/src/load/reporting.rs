//! Builds the report of a load, second by second.

use std::collections::BTreeSet;

use netrig_core::Duration;
use netrig_core::number::counted;
use netrig_sip::index::{Ratios, Tally};
use netrig_sip::load::{CalleeOrder, Failure, Pace, Plan, What, Work};

use super::control::Intervention;
use super::offered::Offered;
use super::order::LoadOrder;
use super::report::{
    LoadReport, LocationRow, SecondRow, SoFar, TesterReport, UnrequestedRow, delays, failures, is_of_others,
    judged, outcomes,
};
use super::shard::SecondOfShard;
use super::spool::Spool;
use super::tester::TesterSecond;
use crate::ListeningPoint;

/// Data for the report that are known only after the end of a load.
#[derive(Debug)]
pub(super) struct Ending {
    pub interrupted: bool,
    /// Registrations that could not be removed.
    pub left: u32,
    /// Total length of the pauses.
    pub paused: Duration,
    pub interventions: Vec<Intervention>,
}

/// The report in progress.
#[derive(Debug, Default)]
pub(super) struct Reporting {
    measured: Tally,
    warm_up: Tally,
    tester: TesterSecond,
    seconds: Spool<SecondRow>,
    told: u64,
    /// The last second with a start.
    last_begun: Option<u64>,
    /// The first second in which an attempt timed out and nothing was received.
    lost: Option<u64>,
    /// Number of seconds with faults of the tester. `first_fault` has the number of the first such second and its
    /// fault.
    faulty: u64,
    first_fault: Option<(u64, String)>,
}

impl Reporting {
    /// Whether no second has been added yet.
    pub fn is_empty(&self) -> bool {
        self.seconds.is_empty()
    }

    /// Whether the server is lost: for at least one second it sent nothing while attempts timed out.
    pub const fn has_lost_server(&self) -> bool {
        self.lost.is_some()
    }

    /// Adds a second of all threads.
    pub fn second(
        &mut self,
        (number, intended): (u64, Option<f64>),
        shards: Vec<SecondOfShard>,
    ) -> (SecondRow, SoFar<'_>) {
        let (mut all, mut tester) = (Tally::default(), TesterSecond::default());
        let mut faults = Vec::new();
        for shard in &shards {
            self.measured.merge(&shard.measured);
            self.warm_up.merge(&shard.warm_up);
            all.merge(&shard.measured);
            all.merge(&shard.warm_up);
            tester += &shard.tester;
            faults.extend(shard.tester.faults());
        }
        self.tester += &tester;
        // The late starts of each second may be within the limit although those of the whole load exceed it.
        let so_far = self.tester.lateness_fault().filter(|_| faults.is_empty() && tester.late() > 0);
        faults.extend(so_far.map(|words| format!("of all so far {words}")));
        let is_silent = |failure| matches!(failure, Failure::TimedOut(_) | Failure::Connection(_));
        let is_lost = tester.received == 0 && all.failures().any(|(_, failure, _)| is_silent(failure));
        self.lost = self.lost.or(is_lost.then_some(number));
        let own = || What::ALL.into_iter().filter(|what| !is_of_others(*what)).map(|what| all.outcomes(what));
        let row = SecondRow {
            second: number,
            intended,
            begun: own().map(|outcomes| outcomes.begun).sum(),
            succeeded: own().map(|outcomes| outcomes.succeeded).sum(),
            failed: own().map(|outcomes| outcomes.failed).sum(),
            unlocated: own().map(|outcomes| outcomes.unlocated).sum(),
            until: shards.iter().map(|shard| shard.until).max().unwrap_or_default().as_secs_f64(),
            open: shards.iter().map(|shard| shard.open).sum(),
            overdue: shards.iter().map(|shard| shard.overdue).sum(),
            retransmissions: all.repetitions().requests_again,
            delays: delays(&all),
            tester_cpu: tester.cpu,
            faults,
        };
        if !row.faults.is_empty() {
            self.faulty += 1;
            self.first_fault.get_or_insert_with(|| (number, row.faults.join("; ")));
        }
        if row.begun > 0 {
            self.last_begun = Some(number);
        }
        self.told += 1;
        self.seconds.push(row.clone());
        (row, SoFar { measured: &self.measured, tester: &self.tester, faulty: self.faulty })
    }

    /// The report, after all threads have ended.
    pub fn report(self, order: &LoadOrder, ending: &Ending) -> LoadReport {
        let lost = self.lost.filter(|_| order.ends_without_server);
        let Self { measured, warm_up, tester, seconds, told, faulty, .. } = self;
        let faults = self.first_fault.map(|(first, why)| {
            format!("the tester was the limit in {faulty} of {told} seconds; in second {first}: {why}")
        });
        let (seconds, unread) = match seconds.into_rows() {
            Ok(seconds) => (seconds, None),
            Err(error) => (Vec::new(), Some(format!("the recorded seconds cannot be read: {error}"))),
        };
        let thresholds = judged(&order.plan.thresholds, &measured);
        let span = measured_span(order, self.last_begun, ending.paused);
        let own: BTreeSet<What> = order.plan.works().map(Work::what).collect();
        let succeeded: u64 = own.into_iter().map(|what| measured.outcomes(what).succeeded).sum();
        let per_second = if span > 0.0 { succeeded as f64 / span } else { 0.0 };
        LoadReport {
            format: LoadReport::FORMAT,
            offered: Offered::of(order),
            location: LocationRow::of(order),
            target: ListeningPoint { transport: order.carrier.transport(), address: order.target }
                .to_string(),
            valid: faults.is_none() && unread.is_none(),
            faults: faults.into_iter().chain(unread).collect(),
            interrupted: ending.interrupted,
            interventions: ending.interventions.clone(),
            // A threshold without measured values has no row.
            kept: !thresholds.is_empty() && thresholds.iter().all(|threshold| threshold.kept),
            measured: span,
            per_second,
            per_hour: per_second * 3600.0,
            per_user_and_hour: per_second * 3600.0 / f64::from(order.plan.users.max(1)),
            warm_up: outcomes(&warm_up),
            outcomes: outcomes(&measured),
            delays: delays(&measured),
            thresholds,
            ratios: Ratios::of(&measured),
            failures: failures(&measured),
            repetitions: measured.repetitions(),
            unrequested: measured
                .all_unrequested()
                .map(|(method, status, count)| UnrequestedRow { method, status, count })
                .collect(),
            tolerated: measured.tolerated(),
            tester: TesterReport::of(&tester, order.shards),
            notes: notes(order, ending, lost, &measured),
            messages: None,
            records: None,
            seconds,
        }
    }
}

/// Duration of the measured starts, s, without pauses. It is that of the order, or ends with the last second with a
/// start if that is earlier.
fn measured_span(order: &LoadOrder, last_begun: Option<u64>, paused: Duration) -> f64 {
    let last = last_begun.map_or(0, |second| second + 1);
    let end = order.plan.duration.min(Duration::from_secs(last) - paused);
    (end - order.plan.warm_up.min(end)).as_secs_f64()
}

fn notes(order: &LoadOrder, ending: &Ending, lost: Option<u64>, measured: &Tally) -> Vec<String> {
    let left = ending.left;
    let is_call = order.plan.works().any(|work| work.what().is_invite());
    let is_foreign = order.plan.callee == CalleeOrder::Foreign;
    let note = "the callees are not the tester's, so there is no answer-signal delay";
    let lost = lost.map(|second| {
        format!(
            "from second {second} on nothing was received from the server, so the load was ended as requested"
        )
    });
    let left = (left > 0).then(|| {
        let registrations = counted(left.into(), "registration", "registrations");
        format!("{registrations} could not be removed: the server keeps each until it expires")
    });
    let changes = ending.interventions.len();
    let times = if changes == 1 { "once".to_owned() } else { format!("{changes} times") };
    let by_hand = (changes > 0)
        .then(|| format!("the load was changed by hand {times}: this is not the load that was planned"));
    let note = (is_call && is_foreign).then(|| note.to_owned());
    let unlocated: u64 = What::ALL.into_iter().map(|what| measured.outcomes(what).unlocated).sum();
    let unlocated = (unlocated > 0).then(|| {
        let attempts = counted(unlocated, "attempt", "attempts");
        format!(
            "{attempts} found no server in the DNS: no index and no threshold of the server's counts them"
        )
    });
    note.into_iter()
        .chain(cut_off(&order.plan))
        .chain(unlocated)
        .chain(by_hand)
        .chain(lost)
        .chain(left)
        .collect()
}

/// A note about the part of the stages or of the trace that was not offered; `None` if all of it was.
fn cut_off(plan: &Plan) -> Option<String> {
    let Pace::Open(arrivals) = &plan.pace else { return None };
    let all = arrivals.lasts().filter(|all| *all > plan.duration)?.as_secs_f64();
    let lasts = plan.duration.as_secs_f64();
    Some(format!(
        "its stages or its trace last {all} s, but its duration is {lasts} s: the rest was not offered"
    ))
}

#[cfg(test)]
mod tests {
    use netrig_core::Instant;
    use netrig_sip::load::{
        Arrivals, AttemptCounts, CalleeAction, Gaps, Key, Owner, Record, Scenario, Side, Stamps, Token,
    };
    use netrig_sip::transaction::Timer;

    use super::*;

    fn order(work: Work, seconds: u64) -> LoadOrder {
        let pace = Pace::Open(Arrivals::at(1.0, Gaps::Constant));
        let plan = Plan::new(work, pace, Duration::from_secs(seconds));
        LoadOrder::new("127.0.0.1:5060".parse().unwrap(), plan)
    }

    fn call() -> Work {
        Work::Call(Scenario::Call { hold: Duration::ZERO })
    }

    fn ended(failure: Option<Failure>) -> Record {
        Record {
            token: Token {
                run: 1,
                shard: 0,
                owner: Owner::Caller(CalleeAction::Answer),
                key: Key { index: 0, generation: 0 },
            },
            side: Side::Caller,
            what: What::Call,
            user: 0,
            failure,
            status: 0,
            stamps: Stamps::new(Instant::ZERO, Instant::ZERO),
            counts: AttemptCounts::default(),
            lookup: None,
        }
    }

    /// A second in which one call started and ended, and `received` datagrams were received.
    fn second(number: u64, failure: Option<Failure>, received: u64) -> SecondOfShard {
        let mut measured = Tally::default();
        measured.begun(What::Call);
        measured.record(&ended(failure));
        let tester = TesterSecond { received, ..TesterSecond::default() };
        SecondOfShard {
            number,
            measured,
            warm_up: Tally::default(),
            until: Duration::from_secs(number + 1),
            open: 0,
            overdue: 0,
            tester,
        }
    }

    fn reported(seconds: Vec<SecondOfShard>) -> Reporting {
        let mut reporting = Reporting::default();
        for own in seconds {
            reporting.second((own.number, Some(1.0)), vec![own]);
        }
        reporting
    }

    fn ending() -> Ending {
        Ending { interrupted: false, left: 0, paused: Duration::ZERO, interventions: Vec::new() }
    }

    #[test]
    fn a_server_is_lost_where_nothing_comes_and_something_waited() {
        let silent = Some(Failure::TimedOut(Timer::B));
        assert!(!reported(vec![second(0, None, 0)]).has_lost_server(), "nobody waited");
        assert!(!reported(vec![second(0, silent, 5)]).has_lost_server(), "another was answered");
        assert!(!reported(vec![second(0, Some(Failure::Status(503)), 0)]).has_lost_server());
        let lost = reported(vec![second(0, None, 5), second(1, silent, 0), second(2, silent, 0)]);
        assert!(lost.has_lost_server());
        // The report names the loss only if the order ends the load without the server.
        let told = |ends_without_server| {
            let lost = reported(vec![second(0, None, 5), second(1, silent, 0)]);
            let order = LoadOrder { ends_without_server, ..order(call(), 10) };
            lost.report(&order, &ending()).notes.concat()
        };
        assert!(told(true).contains("from second 1 on nothing was received"), "{}", told(true));
        assert!(!told(false).contains("nothing was received"));
    }

    /// One late start per second is allowed, but 3 of the 30 starts so far exceed the limit of 1 %.
    #[test]
    fn few_late_ones_in_each_second_are_many_in_all() {
        let faulty = |each: u64| {
            let late = |number| {
                let mut second = second(number, None, 1);
                (1..each).for_each(|_| second.tester.lateness.record(Duration::from_micros(50)));
                second.tester.lateness.record(Duration::from_secs(1));
                second
            };
            let reporting = reported((0..4).map(late).chain([second(4, None, 1)]).collect());
            let seconds = reporting.seconds.into_rows().unwrap();
            seconds.iter().map(|second| second.faults.concat()).collect::<Vec<_>>()
        };
        assert_eq!(faulty(200), [""; 5]);
        let told = faulty(10);
        assert_eq!((&told[..2], &told[4]), (&["".to_owned(), String::new()][..], &String::new()));
        assert!(told[2].starts_with("of all so far 3 of 30 began more than 10 ms late"), "{told:?}");
        assert!(told[3].starts_with("of all so far 4 of 40"), "{told:?}");
    }

    #[test]
    fn what_is_measured_lasts_from_the_warm_up_to_the_last_beginning() {
        let span = |order: &LoadOrder, last: u64, paused: Duration| {
            let seconds = (0..last).map(|number| second(number, None, 1)).collect();
            measured_span(order, reported(seconds).last_begun, paused)
        };
        let mut order = order(call(), 10);
        let none = Duration::ZERO;
        assert_eq!(span(&order, 10, none), 10.0);
        assert_eq!(span(&order, 12, none), 10.0, "what comes after it is not the order's");
        assert_eq!(span(&order, 4, none), 4.0, "it was ended early");
        assert_eq!(span(&order, 8, Duration::from_secs(2)), 6.0);
        order.plan.warm_up = Duration::from_secs(3);
        assert_eq!(span(&order, 10, none), 7.0);
        assert_eq!([span(&order, 2, none), span(&order, 0, none)], [0.0; 2], "it ended in the warm-up");
    }

    #[test]
    fn notes_say_what_a_reader_has_to_know() {
        let of = |order: &LoadOrder, ending: &Ending| notes(order, ending, None, &Tally::default());
        let foreign = of(&order(call(), 10), &ending());
        assert!(matches!(&foreign[..], [note] if note.contains("no answer-signal delay")), "{foreign:?}");
        assert!(of(&order(Work::Register, 10), &ending()).is_empty());
        let by_hand = Intervention { at: 1.0, what: "rate", factor: 2.0 };
        let ending = Ending { left: 3, interventions: vec![by_hand], ..ending() };
        let told = of(&order(Work::Register, 10), &ending);
        assert!(told[0].starts_with("the load was changed by hand once"), "{told:?}");
        assert!(told[1].starts_with("3 registrations could not be removed"), "{told:?}");
    }
}
