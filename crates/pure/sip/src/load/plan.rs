//! The description of a load: what its users do and when, independent of the substrate.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use netrig_core::{Duration, SpanDistribution};

use super::arrivals::{Arrivals, Gaps, RateStage};
use super::caller::MOST_PLACES;
use super::message_change::own_session;
use super::own_message::{MessageStep, OwnMessage};
use super::scenario::{Scenario, Work};
use super::setup::{Directory, Setup};
use crate::dialog::LEAST_INTERVAL;
use crate::header::Transport;
use crate::index::Thresholds;
use crate::sdp::{DISCARD, SessionDescription};
use crate::settings::UserOptions;
use crate::transaction::Timing;

/// Share of the attempts of a mix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Portion {
    /// The scenario of these attempts.
    pub work: Work,
    /// Share of all attempts, 0 to 1.
    pub share: f64,
}

/// Default number of users.
const USERS: u32 = 1000;

/// The most users, with the idle population.
const MOST_USERS: u64 = 1 << 30;

/// The longest session description, bytes. A message must fit into a datagram.
const LONGEST_DESCRIPTION: usize = 60_000;

/// The most contacts of a peer.
const MOST_CONTACTS: u8 = 16;

/// If the server does not answer, some users remain idle for this time, or for 4 T1 if that is longer. By then each
/// waiting user has sent its request three times (RFC 3261 section 17.1.2.2: initially, after T1 and after 3 T1), and a
/// capacity search has noticed the missing answers.
const AWAITED: Duration = Duration::from_secs(2);

/// Drawn spans are limited to this multiple of their mean, so that a load ends.
const LONGEST: u64 = 20;

/// When attempts start.
#[derive(Clone, Debug, PartialEq)]
pub enum Pace {
    /// Open loop: independent of earlier attempts.
    Open(Arrivals),
    /// Closed loop: each user starts again this long after its last attempt has ended.
    Closed(SpanDistribution),
}

/// The origin of the callees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalleeOrder {
    /// The server itself, or a user agent behind it.
    Foreign,
    /// The tester: each user has a peer, which is registered beforehand and answers after `ringing`.
    Own {
        /// Time from INVITE to 200. Zero sends no 180.
        ringing: Duration,
    },
}

/// A load, independent of where its users are.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The kind of attempt that the users make, if `mix` is empty.
    pub work: Work,
    /// The kinds of attempts of a mix. If it is not empty, the kind of each attempt is drawn from it, with the stream
    /// `sip/mix` of the seed.
    pub mix: Vec<Portion>,
    /// Hold time of an answered call, drawn with the stream `sip/hold`. `None` for the hold time of the scenario.
    pub hold: Option<SpanDistribution>,
    /// When attempts start.
    pub pace: Pace,
    /// Period in which attempts start.
    pub duration: Duration,
    /// The most attempts.
    pub count: Option<u64>,
    /// Attempts that start in this first part of the time are not measured.
    pub warm_up: Duration,
    /// Number of users.
    pub users: u32,
    /// Number of idle users, which are registered beforehand.
    pub population: u32,
    /// Names of the users, followed by those of their peers and of the idle population.
    pub names: Directory,
    /// Passwords, in the same order.
    pub passwords: Directory,
    /// Domain of all users. By default the address of the server, with its port if that is not 5060.
    pub domain: Option<String>,
    /// Duration of a registration, s.
    pub expires: u32,
    /// The callees.
    pub callee: CalleeOrder,
    /// Settings of the users, unchanged from the experiment file.
    pub options: UserOptions,
    /// Size of the session descriptions, bytes. 0 for none.
    pub description: usize,
    /// T1, T2 and T4.
    pub timing: Timing,
    /// The longest time that a call may ring.
    pub longest_ringing: Duration,
    /// The most concurrent calls in each part.
    pub calls: u32,
    /// Seed of the arrivals.
    pub seed: u64,
    /// Limits for the server.
    pub thresholds: Thresholds,
    /// An attempt is overdue if it is open for longer than its own duration plus this time.
    pub patience: Duration,
    /// Whether each attempt looks up its server before its first request
    /// ([`Part::take_lookups`](super::Part::take_lookups)).
    pub looks_up: bool,
}

/// A plan that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {why}")]
pub struct PlanError {
    /// The wrong field, by its key in files. [`PACE`] stands for the key that sets the pace.
    pub field: &'static str,
    /// What is wrong, in a sentence.
    pub why: String,
}

/// The highest rate of attempts, 1/s. Times are whole nanoseconds.
const HIGHEST_RATE: f64 = 1e9;

/// Field name for the pace, which a file can set by any of several keys.
pub const PACE: &str = "pace";

fn refuse(field: &'static str, why: impl Into<String>) -> Result<(), PlanError> {
    Err(PlanError { field, why: why.into() })
}

impl Plan {
    /// A thousand users with the names `user000000` and so on and without passwords, whose attempts start at this
    /// pace for this duration.
    pub fn new(work: Work, pace: Pace, duration: Duration) -> Self {
        Self {
            work,
            mix: Vec::new(),
            hold: None,
            pace,
            duration,
            count: None,
            warm_up: Duration::ZERO,
            users: USERS,
            population: 0,
            names: Directory::pattern("user", 6),
            passwords: Directory::Fixed(Box::new([])),
            domain: None,
            expires: 3600,
            callee: CalleeOrder::Foreign,
            options: UserOptions::default(),
            description: 0,
            timing: Timing::default(),
            longest_ringing: Duration::from_secs(180),
            calls: 1 << 20,
            seed: 1,
            thresholds: Thresholds::default(),
            // The sum of the default bounds for connection, answer signal and disconnect.
            patience: Duration::from_millis(2500),
            looks_up: false,
        }
    }

    /// The kinds of attempts: one item for each portion of the mix.
    pub fn works(&self) -> impl Iterator<Item = Work> {
        let alone = self.mix.is_empty().then_some(self.work);
        alone.into_iter().chain(self.mix.iter().map(|portion| portion.work))
    }

    /// Whether each user makes only one attempt.
    pub fn is_once(&self) -> bool {
        self.mix.is_empty() && self.work.is_once()
    }

    /// Number of users that the load needs, with a margin for chance. It does not depend on `users`.
    ///
    /// # Errors
    /// If the load needs more users than are allowed.
    pub fn wanted_users(&self) -> Result<u32, PlanError> {
        let comes_again = self.work == Work::ReRegister || !self.mix.is_empty();
        let wanted = match &self.pace {
            Pace::Open(arrivals) if self.is_once() => {
                let expected = arrivals.expected(self.duration);
                let count = self.count.unwrap_or(u64::MAX) as f64;
                (expected + 5.0 * expected.sqrt()).ceil().min(count).max(1.0)
            }
            // New arrivals need idle users while other users wait: as many users as attempts arrive during `AWAITED`,
            // but no more than arrive in all.
            Pace::Open(arrivals) if comes_again => {
                let awaited = AWAITED.max(self.timing.t1 * 4).as_secs_f64();
                let awaited = (arrivals.peak() * awaited).ceil().max(f64::from(USERS));
                awaited.min(self.count.unwrap_or(u64::MAX) as f64).max(1.0)
            }
            _ => f64::from(USERS),
        };
        if wanted > MOST_USERS as f64 {
            let why = format!(
                "{wanted:.2e} users are needed, and {MOST_USERS} are the most: use a lower rate, or a count"
            );
            return Err(PlanError { field: PACE, why });
        }
        Ok(wanted as u32)
    }

    /// The longest hold, where the hold of the scenario is `own`.
    pub(super) fn longest_hold(&self, own: Duration) -> Duration {
        match &self.hold {
            None => own,
            Some(SpanDistribution::Constant(span)) => *span,
            Some(SpanDistribution::Uniform { max, .. }) => *max,
            Some(hold) => hold.mean() * LONGEST,
        }
    }

    /// Own duration of the longest attempt: ringing, hold, or patience.
    pub fn own_span(&self) -> Duration {
        let ringing = match self.callee {
            CalleeOrder::Own { ringing } => ringing,
            CalleeOrder::Foreign => Duration::ZERO,
        };
        let span = |work| match work {
            Work::Call(Scenario::Cancel { after }) => after,
            Work::Call(Scenario::NoAnswer { patience }) => patience,
            Work::Call(scenario) => {
                scenario.hold().map_or(Duration::ZERO, |hold| ringing + self.longest_hold(hold))
            }
            _ => Duration::ZERO,
        };
        self.works().map(span).max().unwrap_or_default()
    }

    /// The longest total time that an attempt waits because of `Retry-After`.
    pub fn longest_wait(&self) -> Duration {
        self.longest_ringing * u64::from(self.options.retries)
    }

    /// The longest duration of an attempt: ringing at each contact of 3xx, then a call, then the timeouts of all its
    /// transactions.
    pub fn longest(&self) -> Duration {
        let places = if self.options.follow_redirects { MOST_PLACES as u64 } else { 0 };
        let elsewhere = (self.timing.patience() + self.longest_ringing) * places;
        let own =
            self.timing.patience() * 4 + self.longest_ringing + self.own_span() + Duration::from_secs(1);
        own + elsewhere + self.longest_wait()
    }

    /// Whether the callees belong to the tester.
    pub const fn has_own_callees(&self) -> bool {
        matches!(self.callee, CalleeOrder::Own { .. })
    }

    /// Whether the tester sends messages in the middle of a measured delay. It does if it answers challenges, follows
    /// 3xx, has callees, looks up servers by several questions, or sends requests before the final response. Received
    /// messages must then be handled at once.
    pub fn answers_in_a_delay(&self) -> bool {
        let of_caller = |work| matches!(work, Work::Call(scenario) if scenario.answers_in_a_delay());
        self.looks_up
            || self.options.follow_redirects
            || self.has_own_callees()
            || !self.passwords.is_empty()
            || self.works().any(of_caller)
    }

    /// Approximate length of a session description with the author's own texts, bytes.
    pub fn longest_text(&self) -> usize {
        self.description + self.options.messages.iter().map(OwnMessage::length).max().unwrap_or(0)
    }

    /// Approximate peak rate of attempts, 1/s.
    pub fn peak(&self) -> f64 {
        match &self.pace {
            Pace::Open(arrivals) => arrivals.peak(),
            Pace::Closed(pause) => f64::from(self.users) / pause.mean().as_secs_f64().max(1e-3),
        }
    }

    /// Checks whether the load can be carried out.
    ///
    /// # Errors
    /// The first wrong field.
    pub fn check(&self) -> Result<(), PlanError> {
        self.check_rules()?;
        if self.warm_up >= self.duration {
            return refuse("warm_up", "the warm-up takes all of the time");
        }
        let Pace::Open(arrivals) = &self.pace else { return Ok(()) };
        let expected = arrivals.expected(self.duration).min(self.count.unwrap_or(u64::MAX) as f64);
        if self.is_once() && expected > f64::from(self.users) {
            let why = format!(
                "about {expected:.0} users are needed in {} s and there are {}: use more users, a lower rate, or a count",
                self.duration.as_secs_f64(),
                self.users
            );
            return refuse("users", why);
        }
        Ok(())
    }

    /// The checks that do not depend on the duration.
    pub(crate) fn check_rules(&self) -> Result<(), PlanError> {
        self.check_mix()?;
        self.check_pace()?;
        self.check_numbers()?;
        self.check_calls()
    }

    fn check_mix(&self) -> Result<(), PlanError> {
        let together: f64 = self.mix.iter().map(|portion| portion.share).sum();
        // False for NaN, too.
        let is_all = (together - 1.0).abs() <= 1e-6;
        if !self.mix.is_empty() && !is_all {
            let percent = (together * 1e6).round() / 1e4;
            return refuse("mix", format!("the shares of a mix are 100 % together, not {percent} %"));
        }
        if self.mix.iter().any(|portion| portion.share <= 0.0) {
            return refuse("mix", "each share is above zero");
        }
        if self.mix.len() > 1 && self.works().any(|work| work == Work::Unregister) {
            return refuse("mix", "a user unregisters only once: `unregister` cannot be in a mix");
        }
        Ok(())
    }

    fn check_pace(&self) -> Result<(), PlanError> {
        match &self.pace {
            Pace::Closed(_) if self.works().any(|work| work == Work::Unregister) => {
                refuse(PACE, "a user unregisters only once: `unregister` cannot run in a closed loop")
            }
            Pace::Closed(pause) => pause.check().or_else(|error| refuse(PACE, error.to_string())),
            Pace::Open(Arrivals::Trace(moments)) if !moments.is_sorted() => {
                refuse(PACE, "the times must be in ascending order")
            }
            Pace::Open(Arrivals::Rate { gaps: Gaps::Burst(0), .. }) => {
                refuse("arrivals", "a burst is of one at least")
            }
            Pace::Open(Arrivals::Rate { stages, .. }) if !stages.iter().all(is_rate) => {
                refuse(PACE, "a rate is zero or more, and not zero throughout")
            }
            Pace::Open(arrivals) if arrivals.peak() <= 0.0 => {
                refuse(PACE, "no attempt starts: a rate is zero or more, and not zero throughout")
            }
            Pace::Open(arrivals) if arrivals.peak() > HIGHEST_RATE => refuse(
                PACE,
                format!("the highest rate is {HIGHEST_RATE:.0e}/s: an attempt for each tick of the clock"),
            ),
            Pace::Open(_) => Ok(()),
        }
    }

    fn check_numbers(&self) -> Result<(), PlanError> {
        let Timing { t1, t2, t4 } = self.timing;
        let users = u64::from(self.users) + u64::from(self.population);
        if users > MOST_USERS {
            return refuse("users", format!("{users} users are too many: {MOST_USERS} at most"));
        }
        for (field, is_zero) in [
            ("users", self.users == 0),
            ("count", self.count == Some(0)),
            ("t1", t1.is_zero()),
            ("t4", t4.is_zero()),
            ("most_calls", self.calls == 0),
            ("provisionals", self.options.provisionals == 0),
        ] {
            if is_zero {
                return refuse(field, "it must be above zero");
            }
        }
        if t2 < t1 {
            return refuse("t2", "it must not be below T1");
        }
        let ring = match self.callee {
            CalleeOrder::Own { ringing } => ringing,
            CalleeOrder::Foreign => Duration::ZERO,
        };
        if self.longest_ringing <= ring {
            return refuse("ring", format!("it must be below the longest ringing, {}", self.longest_ringing));
        }
        if self.options.session_expires.is_some() && self.options.session_interval() < LEAST_INTERVAL {
            return refuse(
                "session_expires",
                format!("it must be {LEAST_INTERVAL} s or more (RFC 4028 section 4)"),
            );
        }
        if self.expires == 0 {
            return refuse("expires", "it must be a second or more");
        }
        if self.description > LONGEST_DESCRIPTION {
            return refuse("sdp", "a message of SIP takes at most 60 KB of it");
        }
        OwnMessage::check_all(&self.options.messages).map_err(|why| PlanError { field: "messages", why })?;
        if !(1..=MOST_CONTACTS).contains(&self.options.contacts) {
            return refuse("contacts", format!("from 1 to {MOST_CONTACTS}"));
        }
        Ok(())
    }

    /// Checks the settings of calls and callees.
    fn check_calls(&self) -> Result<(), PlanError> {
        let calls = |is: fn(Scenario) -> bool| {
            self.works().any(|work| matches!(work, Work::Call(scenario) if is(scenario)))
        };
        if let Some(Err(error)) = self.hold.as_ref().map(SpanDistribution::check) {
            return refuse("hold", error.to_string());
        }
        if self.description == 0 && calls(Scenario::needs_description) {
            return refuse("sdp", "an offer and its answer need a session description");
        }
        if self.has_own_callees() && self.works().all(Work::registers) {
            return refuse("callee", "the tester has callees only in scenarios with calls");
        }
        if self.options.contacts > 1 && !self.has_own_callees() {
            return refuse("contacts", "only peers of the tester have several contacts");
        }
        if self.has_own_callees()
            && self.options.contacts < 2
            && calls(|own| matches!(own, Scenario::Fork { .. }))
        {
            return refuse("contacts", "`fork` needs peers with two contacts or more");
        }
        // Each contact would send reliable responses, and each early dialog would have its own PRACKs (RFC 3262 section
        // 4).
        if self.options.contacts > 1 && calls(|own| matches!(own, Scenario::Prack { .. })) {
            let why = "`prack` needs peers with one contact";
            return refuse("contacts", why);
        }
        Ok(())
    }

    /// The setup of the machines of one part of run `run`. `locals` are the addresses of all parts.
    pub fn setup(
        &self,
        (run, shard): (u32, u16),
        locals: &[SocketAddr],
        (server, transport): (SocketAddr, Transport),
    ) -> Setup {
        let local = locals[usize::from(shard)];
        let own = Setup::new(run, local, server);
        let setup = Setup {
            shard,
            // If a server leaves the path of a call, its sides send to each other.
            peers: if self.has_own_callees() { locals.to_vec() } else { Vec::new() },
            transport,
            domain: self.domain.clone().unwrap_or_else(|| own.domain.clone()),
            timing: self.timing,
            calls: self.calls,
            options: self.options.clone(),
            description: Bytes::from(session_description(local.ip(), self.description)),
            longest_ringing: self.longest_ringing,
            ..own
        };
        let own = |step| {
            let text = self.options.messages.iter().find_map(|own| own.session(step))?;
            Some(own_session(text, &setup))
        };
        let description = own(MessageStep::Invite).unwrap_or_else(|| setup.description.clone());
        Setup { description, answer: own(MessageStep::Answer), ..setup }
    }
}

fn is_rate(stage: &RateStage) -> bool {
    [stage.from, stage.to].iter().all(|rate| rate.is_finite() && *rate >= 0.0)
}

/// A session description of `size` bytes, but at least of its minimum length. Empty if `size` is 0.
fn session_description(local: IpAddr, size: usize) -> String {
    if size == 0 {
        String::new()
    } else {
        SessionDescription::audio(local, DISCARD, 1).padded(size).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ScenarioName, Spans};

    const RELIABLE: Work = Work::Call(Scenario::Prack { hold: Duration::ZERO });

    #[test]
    fn a_plan_that_cannot_be_is_refused_beforehand() {
        let pace = Pace::Open(Arrivals::at(100.0, Gaps::Poisson));
        let plan = Plan::new(Work::Register, pace, Duration::from_secs(10));
        let refused = |plan: Plan, field: &str, words: &str| {
            let error = plan.check().unwrap_err();
            assert!(error.field == field && error.why.contains(words), "{error}");
        };
        plan.check().unwrap();
        refused(Plan { users: 999, ..plan.clone() }, "users", "about 1000 users are needed");
        Plan { users: 999, count: Some(999), ..plan.clone() }.check().unwrap();
        refused(
            Plan { warm_up: Duration::from_secs(10), ..plan.clone() },
            "warm_up",
            "the warm-up takes all",
        );
    }

    /// Each user that is registered beforehand costs two requests and their time.
    #[test]
    fn no_more_users_are_wanted_than_come_before_it_is_too_late() {
        let plan = |rate, count| {
            let pace = Pace::Open(Arrivals::at(rate, Gaps::Poisson));
            Plan { count, ..Plan::new(Work::ReRegister, pace, Duration::from_secs(100)) }
        };
        let wanted = |rate, count| plan(rate, count).wanted_users().unwrap();
        assert_eq!(wanted(10_000.0, None), 20_000);
        assert_eq!(wanted(100.0, None), USERS);
        assert_eq!(wanted(10_000.0, Some(20)), 20);
        let timing = Timing { t1: Duration::from_secs(1), ..Timing::default() };
        assert_eq!(Plan { timing, ..plan(10_000.0, None) }.wanted_users().unwrap(), 40_000);
    }

    /// The plan reports each case in which the tester sends messages during a measured delay.
    #[test]
    fn it_is_known_which_delays_have_the_tester_in_their_midst() {
        let (hold, patience) = (Duration::ZERO, Duration::ZERO);
        let pace = || Pace::Open(Arrivals::at(100.0, Gaps::Poisson));
        for scenario in ScenarioName::ALL {
            let work = scenario.work(Spans { hold, patience, expires: 60 });
            let plan = Plan::new(work, pace(), Duration::from_secs(1));
            let before_the_final_response =
                [ScenarioName::Prack, ScenarioName::Cancel, ScenarioName::NoAnswer].contains(scenario);
            assert_eq!(plan.answers_in_a_delay(), before_the_final_response, "{scenario}");
            // It does so even if only one user has a password, or if only a small share of a mix uses PRACK.
            let passwords = Directory::list(["", "secret"]);
            assert!(Plan { passwords, ..plan.clone() }.answers_in_a_delay());
            assert!(Plan { looks_up: true, ..plan.clone() }.answers_in_a_delay());
            assert!(
                Plan {
                    options: UserOptions { follow_redirects: true, ..plan.options.clone() },
                    ..plan.clone()
                }
                .answers_in_a_delay()
            );
            let callee = CalleeOrder::Own { ringing: Duration::ZERO };
            assert!(Plan { callee, ..plan.clone() }.answers_in_a_delay());
            let mix = vec![Portion { work, share: 0.9 }, Portion { work: RELIABLE, share: 0.1 }];
            assert!(Plan { mix, ..plan }.answers_in_a_delay());
        }
    }
}
