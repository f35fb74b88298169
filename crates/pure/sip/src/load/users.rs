//! Which attempt is next, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use netrig_core::{Duration, Instant, Seeds, SpanDistribution, Stream};

use super::arrivals::Schedule;
use super::plan::{Pace, Plan, Portion};
use super::scenario::Work;

/// The schedule of the attempts of one shard. Its times count from the start of the plan.
#[derive(Debug)]
pub(super) enum UserSchedule {
    /// Open loop: all shards share one schedule, and each takes every n-th arrival.
    Open {
        schedule: Schedule,
        /// The next attempt of this shard: its number among the attempts of all shards, its due time, and its kind.
        next: Option<(u64, Instant, Work)>,
        /// All shards draw the same values, so that the kind of each attempt does not depend on the number of shards.
        work_draws: WorkDraws,
        number: u64,
        shard: u64,
        shards: u64,
        most: u64,
        until: Instant,
    },
    /// Closed loop: each user starts again some time after its last attempt has ended.
    Closed {
        waiting: BinaryHeap<Reverse<(Instant, u32)>>,
        pause: SpanDistribution,
        draws: Stream,
        work_draws: WorkDraws,
        left: u64,
        until: Instant,
    },
}

/// The next attempt. In an open loop its number among all arrivals identifies it; in a closed loop, the index of its user
/// in the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextUser {
    Arrival(u64),
    User(u32),
}

impl UserSchedule {
    /// The schedule of shard `shard` of `shards`, which has `own` users.
    pub fn new(plan: &Plan, (shard, shards): (u16, u16), own: u32) -> Self {
        let until = Instant::ZERO + plan.duration;
        let (number, shards) = (u64::from(shard), u64::from(shards));
        let all = plan.count.unwrap_or(u64::MAX);
        match &plan.pace {
            Pace::Open(arrivals) => {
                let mut users = Self::Open {
                    schedule: arrivals.schedule(plan.seed),
                    next: None,
                    work_draws: WorkDraws::new(plan, ""),
                    number: 0,
                    shard: number,
                    shards,
                    // If each user makes only one attempt, there are as many attempts as users.
                    most: if plan.is_once() { all.min(plan.users.into()) } else { all },
                    until,
                };
                users.advance();
                users
            }
            Pace::Closed(pause) => {
                let mut draws = Seeds::new(plan.seed).stream(&format!("sip/users/{shard}"));
                let mean = pause.mean().as_secs_f64();
                let mut first = |user| {
                    let at = Duration::from_secs_f64(mean * draws.uniform());
                    Reverse((Instant::ZERO + at, user))
                };
                Self::Closed {
                    waiting: (0..own).map(&mut first).collect(),
                    pause: pause.clone(),
                    draws: Seeds::new(plan.seed).stream(&format!("sip/pauses/{shard}")),
                    work_draws: WorkDraws::new(plan, &format!("/{shard}")),
                    left: share(all, number, shards),
                    until,
                }
            }
        }
    }

    /// The due time of the next attempt.
    pub fn due(&self) -> Option<Instant> {
        match self {
            Self::Open { next, until, .. } => next.map(|(_, due, _)| due).filter(|due| due < until),
            Self::Closed { waiting, left, until, .. } => {
                waiting.peek().map(|Reverse((due, _))| *due).filter(|due| *left > 0 && due < until)
            }
        }
    }

    /// Takes the next attempt if it is due by `now`: its number or user, its due time, and its kind.
    pub fn take(&mut self, now: Instant) -> Option<(NextUser, Instant, Work)> {
        let due = self.due().filter(|due| *due <= now)?;
        match self {
            Self::Open { next, .. } => {
                let (number, _, work) = next.take()?;
                self.advance();
                Some((NextUser::Arrival(number), due, work))
            }
            Self::Closed { waiting, left, work_draws, .. } => {
                let Reverse((_, user)) = waiting.pop()?;
                *left -= 1;
                Some((NextUser::User(user), due, work_draws.draw()))
            }
        }
    }

    /// Notes that an attempt of a user ended at `now`: the user is due again after a pause. An open loop ignores it.
    pub fn done(&mut self, now: Instant, user: u32) {
        if let Self::Closed { waiting, pause, draws, .. } = self {
            waiting.push(Reverse((now + pause.draw(draws), user)));
        }
    }

    /// Stops new attempts.
    pub fn stop(&mut self) {
        match self {
            Self::Open { next, .. } => *next = None,
            Self::Closed { left, .. } => *left = 0,
        }
    }

    /// Stops new attempts from `end` on.
    pub fn end_at(&mut self, end: Instant) {
        match self {
            Self::Open { until, .. } | Self::Closed { until, .. } => *until = end,
        }
    }

    fn advance(&mut self) {
        let Self::Open { schedule, next, work_draws, number, shard, shards, most, .. } = self else { return };
        for due in schedule {
            let place = *number;
            let work = work_draws.draw();
            *number += 1;
            if place >= *most {
                return;
            }
            if place % *shards == *shard {
                *next = Some((place, due, work));
                return;
            }
        }
    }
}

/// Draws the kind of each attempt and its hold time, one attempt after the other.
#[derive(Debug)]
pub(super) struct WorkDraws {
    work: Work,
    mix: Vec<Portion>,
    which: Stream,
    hold: Option<SpanDistribution>,
    longest: Duration,
    spans: Stream,
}

impl WorkDraws {
    fn new(plan: &Plan, whose: &str) -> Self {
        let stream = |of: &str| Seeds::new(plan.seed).stream(&format!("sip/{of}{whose}"));
        Self {
            work: plan.work,
            mix: plan.mix.clone(),
            which: stream("mix"),
            hold: plan.hold.clone(),
            longest: plan.longest_hold(Duration::ZERO),
            spans: stream("hold"),
        }
    }

    fn draw(&mut self) -> Work {
        let work = self.portion();
        let Some(hold) = &self.hold else { return work };
        // A hold time is drawn for every kind of attempt, so that later draws do not depend on the kind.
        let span = hold.draw(&mut self.spans).min(self.longest);
        match work {
            Work::Call(scenario) => Work::Call(scenario.held_for(span)),
            other => other,
        }
    }

    fn portion(&mut self) -> Work {
        let Some(last) = self.mix.last() else { return self.work };
        let mut left = self.which.uniform();
        for portion in &self.mix {
            left -= portion.share;
            if left < 0.0 {
                return portion.work;
            }
        }
        last.work
    }
}

/// The share of `all` that one shard has.
pub(super) fn share(all: u64, shard: u64, shards: u64) -> u64 {
    all / shards + u64::from(shard < all % shards)
}

#[cfg(test)]
mod tests {
    use super::super::{Arrivals, Gaps, Scenario};
    use super::*;

    fn plan(pace: Pace) -> Plan {
        Plan::new(Work::ReRegister, pace, Duration::from_secs(2))
    }

    fn all_of(plan: &Plan, part: (u16, u16)) -> Vec<(u64, Instant)> {
        let mut users = UserSchedule::new(plan, part, 5);
        std::iter::from_fn(|| users.take(Instant::NEVER))
            .map(|(next, due, _)| match next {
                NextUser::Arrival(number) => (number, due),
                NextUser::User(_) => unreachable!(),
            })
            .collect()
    }

    /// The same users start at the same moments for any number of threads.
    #[test]
    fn shards_share_one_schedule() {
        let plan = plan(Pace::Open(Arrivals::at(100.0, Gaps::Poisson)));
        let mut shared: Vec<_> = (0..3).flat_map(|shard| all_of(&plan, (shard, 3))).collect();
        shared.sort_unstable();
        assert_eq!(shared, all_of(&plan, (0, 1)));
        assert!(shared.iter().all(|(_, due)| *due < Instant::ZERO + plan.duration) && shared.len() > 100);
        let counted = Plan { count: Some(7), ..plan };
        assert_eq!((0..3).map(|shard| all_of(&counted, (shard, 3)).len()).collect::<Vec<_>>(), [3, 2, 2]);
    }

    /// The kind of the n-th attempt and its hold time depend only on the seed, not on the number of threads. The shares
    /// of the kinds are those of the mix.
    #[test]
    fn what_is_drawn_is_the_same_for_any_number_of_shards() {
        let call = Work::Call(Scenario::Call { hold: Duration::ZERO });
        let portion = |work, share| Portion { work, share };
        let mix =
            vec![portion(call, 0.7), portion(Work::Call(Scenario::Busy), 0.2), portion(Work::Register, 0.1)];
        let hold = Some(SpanDistribution::Exponential(Duration::from_secs(2)));
        let open = plan(Pace::Open(Arrivals::at(2000.0, Gaps::Poisson)));
        let plan = Plan { mix, hold, ..open };
        let all_of = |part: (u16, u16), seed| -> Vec<_> {
            let mut users = UserSchedule::new(&Plan { seed, ..plan.clone() }, part, 5);
            let all = std::iter::from_fn(|| users.take(Instant::NEVER));
            all.map(|(_, due, work)| (due, work)).collect()
        };
        let mut shared: Vec<_> = (0..3).flat_map(|shard| all_of((shard, 3), 1)).collect();
        shared.sort_unstable_by_key(|(due, _)| *due);
        assert_eq!(shared, all_of((0, 1), 1));
        assert_ne!(shared, all_of((0, 1), 2));
        let count = |is: fn(&Work) -> bool| shared.iter().filter(|(_, work)| is(work)).count() as f64;
        let all = shared.len() as f64;
        let calls = count(|work| matches!(work, Work::Call(Scenario::Call { .. })));
        // Four standard deviations of a count of about 4000.
        for (was, share) in [(calls, 0.7), (count(|work| *work == Work::Register), 0.1)] {
            assert!((was - share * all).abs() < 4.0 * (all * share * (1.0 - share)).sqrt(), "{was} of {all}");
        }
        let held = shared.iter().filter_map(|(_, work)| match work {
            Work::Call(Scenario::Call { hold }) => Some(hold.as_secs_f64()),
            _ => None,
        });
        let spans: Vec<f64> = held.collect();
        let mean = spans.iter().sum::<f64>() / spans.len() as f64;
        assert!((mean - 2.0).abs() < 4.0 * 2.0 / (spans.len() as f64).sqrt(), "{mean}");
        assert!(spans.iter().all(|span| *span <= 40.0));
    }

    #[test]
    fn who_does_something_once_does_it_once() {
        let pace = Pace::Open(Arrivals::at(100.0, Gaps::Constant));
        let plan = Plan { work: Work::Unregister, users: 50, ..plan(pace) };
        assert_eq!((0..3).map(|shard| all_of(&plan, (shard, 3)).len()).sum::<usize>(), 50);
    }

    #[test]
    fn a_user_of_a_closed_loop_comes_again_after_a_pause() {
        let pause = Duration::from_millis(500);
        let plan = Plan { count: Some(9), ..plan(Pace::Closed(SpanDistribution::Constant(pause))) };
        let mut users = UserSchedule::new(&plan, (0, 3), 2);
        let (first, at, _) = users.take(Instant::NEVER).unwrap();
        assert!(at < Instant::ZERO + pause);
        let NextUser::User(user) = first else { panic!("a user") };
        let (other, ..) = users.take(Instant::NEVER).unwrap();
        assert_ne!(first, other);
        assert_eq!(users.due(), None, "both are at work");
        users.done(at, user);
        assert_eq!(users.take(Instant::NEVER), Some((first, at + pause, Work::ReRegister)));
        users.done(at, user);
        assert_eq!(users.due(), None, "three of nine were this shard's");
    }
}
