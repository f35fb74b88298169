//! What a load is: what its users do and when, whoever carries it out.

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
use crate::sdp::{DISCARD, Description};
use crate::transaction::Timing;

/// What of those who begin does something.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Portion {
    /// What.
    pub work: Work,
    /// Of all, 0 to 1.
    pub share: f64,
}

/// Users where what they do needs no number of them.
const USERS: u32 = 1000;

/// The most users, peers and idle ones.
const MOST_USERS: u64 = 1 << 30;

/// The longest session description, bytes: a message has to fit into a datagram.
const LONGEST_DESCRIPTION: usize = 60_000;

/// The most contacts of a peer.
const MOST_CONTACTS: u8 = 16;

/// For so long users may wait for the server before too few are left who can register again, and for 4 T1 if that is longer: by
/// then each has asked three times (RFC 3261, 17.1.2.2: after T1 and after 3 T1 again), and a search for a capacity has seen that.
const AWAITED: Duration = Duration::from_secs(2);

/// Spans that are drawn are cut off at so many times their mean, so that a load has an end.
const LONGEST: u64 = 20;

/// When users begin.
#[derive(Clone, Debug, PartialEq)]
pub enum Pace {
    /// Whatever became of those before: open loop.
    Open(Arrivals),
    /// Each again so long after it was done: closed loop, of all users.
    Closed(SpanDistribution),
}

/// Who is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalleeOrder {
    /// The server itself, or somebody behind it.
    Foreign,
    /// The tester: each user has a peer that is registered with the server beforehand and answers after ringing so long.
    Own {
        /// From the INVITE to the 200, zero for an answer without ringing.
        ringing: Duration,
    },
}

/// A load, wherever its users are.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What users do, all or most of them.
    pub work: Work,
    /// What each does in place of that: drawn for one after the other from the stream `sip/mix` of the seed. None: all do the
    /// same.
    pub mix: Vec<Portion>,
    /// How long what is answered is held, in place of what the scenario says: drawn from `sip/hold`.
    pub hold: Option<SpanDistribution>,
    /// When.
    pub pace: Pace,
    /// How long they begin.
    pub duration: Duration,
    /// How many begin at most.
    pub count: Option<u64>,
    /// What begins in the first so much of the time is not measured.
    pub warm_up: Duration,
    /// How many users there are.
    pub users: u32,
    /// Users that are registered beforehand and do nothing.
    pub population: u32,
    /// Names of the users; those of their peers follow behind them, and those of the population last.
    pub names: Directory,
    /// Their passwords.
    pub passwords: Directory,
    /// Behind the `@` of all names; the target's address if not given, with its port if that is not 5060.
    pub domain: Option<String>,
    /// For how long is registered, s.
    pub expires: u32,
    /// Who is called.
    pub callee: CalleeOrder,
    /// At how many places each peer is registered, 1 at least: a server that forks calls them all.
    pub contacts: u8,
    /// How many provisional responses a peer sends before it answers, 1 at least.
    pub provisionals: u16,
    /// The session interval that callers ask for, s (RFC 4028), 90 at least; `None` if they ask for none.
    pub session_expires: Option<u32>,
    /// The size of the session descriptions, bytes; none if zero.
    pub description: usize,
    /// Header fields and bodies of the author's own for the messages of the scenarios.
    pub messages: Vec<OwnMessage>,
    /// Callers follow a 3xx to its contacts (RFC 3261 section 8.1.3.4).
    pub follows_redirects: bool,
    /// How often an attempt that is refused with `Retry-After` is made again after that time.
    pub retries: u8,
    /// Requests of more than 1300 B go over TCP, where the others go over UDP (RFC 3261 section 18.1.1).
    pub sends_large_over_tcp: bool,
    /// T1, T2 and T4.
    pub timing: Timing,
    /// How long it may ring.
    pub longest_ringing: Duration,
    /// The most calls at once, in each part.
    pub calls: u32,
    /// Of the arrivals.
    pub seed: u64,
    /// What the server has to keep to.
    pub thresholds: Thresholds,
    /// What is open for longer than it lasts by itself and this is overdue.
    pub patience: Duration,
    /// Each attempt looks for its server before its first request ([`Part::take_lookups`](super::Part::take_lookups)).
    pub looks_up: bool,
}

/// A plan that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {why}")]
pub struct PlanError {
    /// What of it cannot be, as files call it; [`PACE`] for whatever of them says when users begin.
    pub field: &'static str,
    /// Why, in a sentence.
    pub why: String,
}

/// When users begin, which a file may say by any of several keys.
pub const PACE: &str = "pace";

fn refuse(field: &'static str, why: impl Into<String>) -> Result<(), PlanError> {
    Err(PlanError { field, why: why.into() })
}

impl Plan {
    /// A thousand users named `user000000` and so on without passwords, who begin at these moments for so long.
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
            contacts: 1,
            provisionals: 1,
            session_expires: None,
            description: 0,
            messages: Vec::new(),
            follows_redirects: false,
            retries: 0,
            sends_large_over_tcp: false,
            timing: Timing::default(),
            longest_ringing: Duration::from_secs(180),
            calls: 1 << 20,
            seed: 1,
            thresholds: Thresholds::default(),
            // Connection, answer signal and disconnect, each as long as it may be.
            patience: Duration::from_millis(2500),
            looks_up: false,
        }
    }

    /// All that its users do.
    pub fn works(&self) -> impl Iterator<Item = Work> {
        let alone = self.mix.is_empty().then_some(self.work);
        alone.into_iter().chain(self.mix.iter().map(|portion| portion.work))
    }

    /// Whether each user does only one thing, and that once.
    pub fn is_once(&self) -> bool {
        self.mix.is_empty() && self.work.is_once()
    }

    /// As many users as will be wanted, with a margin for chance: whatever `users` says.
    ///
    /// # Errors
    /// More would be wanted than there may be.
    pub fn wanted_users(&self) -> Result<u32, PlanError> {
        let comes_again = self.work == Work::ReRegister || !self.mix.is_empty();
        let wanted = match &self.pace {
            Pace::Open(arrivals) if self.is_once() => {
                let expected = arrivals.expected(self.duration);
                let count = self.count.unwrap_or(u64::MAX) as f64;
                (expected + 5.0 * expected.sqrt()).ceil().min(count).max(1.0)
            }
            // Who still waits for the server must not be missed by those who come: as many as come until it is too late, and no
            // more than come at all.
            Pace::Open(arrivals) if comes_again => {
                let awaited = AWAITED.max(self.timing.t1 * 4).as_secs_f64();
                let awaited = (arrivals.peak() * awaited).ceil().max(f64::from(USERS));
                awaited.min(self.count.unwrap_or(u64::MAX) as f64).max(1.0)
            }
            _ => f64::from(USERS),
        };
        if wanted > MOST_USERS as f64 {
            let why = format!(
                "{wanted:.2e} users would be wanted, and there are {MOST_USERS} at most: a lower rate, or a count"
            );
            return Err(PlanError { field: PACE, why });
        }
        Ok(wanted as u32)
    }

    /// The longest that something is held of which the scenario says so much.
    pub(super) fn longest_hold(&self, own: Duration) -> Duration {
        match &self.hold {
            None => own,
            Some(SpanDistribution::Constant(span)) => *span,
            Some(SpanDistribution::Uniform { max, .. }) => *max,
            Some(hold) => hold.mean() * LONGEST,
        }
    }

    /// How long the longest lasts by itself: ringing, holding, waiting before it gives up.
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

    /// The longest that an attempt may wait because of `Retry-After`.
    pub fn longest_wait(&self) -> Duration {
        self.longest_ringing * u64::from(self.retries)
    }

    /// The longest that something can take that was begun: ringing at each place that it comes to, then a call, then each of its
    /// transactions until it is given up.
    pub fn longest(&self) -> Duration {
        let places = if self.follows_redirects { MOST_PLACES as u64 } else { 0 };
        let elsewhere = (self.timing.patience() + self.longest_ringing) * places;
        let own =
            self.timing.patience() * 4 + self.longest_ringing + self.own_span() + Duration::from_secs(1);
        own + elsewhere + self.longest_wait()
    }

    /// Whether who is called is the tester's.
    pub const fn has_own_callees(&self) -> bool {
        matches!(self.callee, CalleeOrder::Own { .. })
    }

    /// Whether a delay has the tester in its midst, which answers a challenge, follows a 3xx, is called, looks for a server by one
    /// question after the other, or sends what its scenario wants before the final response: what has come must not be left lying then.
    pub fn answers_in_a_delay(&self) -> bool {
        let of_caller = |work| matches!(work, Work::Call(scenario) if scenario.answers_in_a_delay());
        self.looks_up
            || self.follows_redirects
            || self.has_own_callees()
            || !self.passwords.is_empty()
            || self.works().any(of_caller)
    }

    /// How long a session description is with what else the author puts into a message, bytes, about.
    pub fn longest_text(&self) -> usize {
        self.description + self.messages.iter().map(OwnMessage::length).max().unwrap_or(0)
    }

    /// How many things begin per second at most, about.
    pub fn peak(&self) -> f64 {
        match &self.pace {
            Pace::Open(arrivals) => arrivals.peak(),
            Pace::Closed(pause) => f64::from(self.users) / pause.mean().as_secs_f64().max(1e-3),
        }
    }

    /// Refuses what cannot be carried out.
    ///
    /// # Errors
    /// What of it cannot be, and why.
    pub fn check(&self) -> Result<(), PlanError> {
        self.check_rules()?;
        if self.warm_up >= self.duration {
            return refuse("warm_up", "the warm-up takes all of the time");
        }
        let Pace::Open(arrivals) = &self.pace else { return Ok(()) };
        let expected = arrivals.expected(self.duration).min(self.count.unwrap_or(u64::MAX) as f64);
        if self.is_once() && expected > f64::from(self.users) {
            let why = format!(
                "about {expected:.0} users will be wanted in {} s and there are {}: more users, a lower rate, or a count",
                self.duration.as_secs_f64(),
                self.users
            );
            return refuse("users", why);
        }
        Ok(())
    }

    /// The same, for however long: what is known of it without its duration.
    pub(crate) fn check_rules(&self) -> Result<(), PlanError> {
        self.check_mix()?;
        self.check_pace()?;
        self.check_numbers()?;
        self.check_calls()
    }

    fn check_mix(&self) -> Result<(), PlanError> {
        let together: f64 = self.mix.iter().map(|portion| portion.share).sum();
        // Also what is no number.
        let is_all = (together - 1.0).abs() <= 1e-6;
        if !self.mix.is_empty() && !is_all {
            let percent = (together * 1e6).round() / 1e4;
            return refuse("mix", format!("the shares of a mix are 100 % together, not {percent} %"));
        }
        if self.mix.iter().any(|portion| portion.share <= 0.0) {
            return refuse("mix", "each share is above zero");
        }
        if self.mix.len() > 1 && self.works().any(|work| work == Work::Unregister) {
            return refuse("mix", "who has unregistered has nothing to do again: it cannot be in a mix");
        }
        Ok(())
    }

    fn check_pace(&self) -> Result<(), PlanError> {
        match &self.pace {
            Pace::Closed(_) if self.works().any(|work| work == Work::Unregister) => {
                refuse(PACE, "who has unregistered has nothing to do again: no closed loop")
            }
            Pace::Closed(pause) => pause.check().or_else(|error| refuse(PACE, error.to_string())),
            Pace::Open(Arrivals::Trace(moments)) if !moments.is_sorted() => {
                refuse(PACE, "each is not before the one in front of it")
            }
            Pace::Open(Arrivals::Rate { gaps: Gaps::Burst(0), .. }) => {
                refuse("arrivals", "a burst is of one at least")
            }
            Pace::Open(Arrivals::Rate { stages, .. }) if !stages.iter().all(is_rate) => {
                refuse(PACE, "a rate is zero or more, and not zero throughout")
            }
            Pace::Open(arrivals) if arrivals.peak() <= 0.0 => {
                refuse(PACE, "nobody arrives: a rate is zero or more, and not zero throughout")
            }
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
            ("provisionals", self.provisionals == 0),
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
        if self.session_expires.is_some_and(|interval| interval < LEAST_INTERVAL) {
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
        OwnMessage::check_all(&self.messages).map_err(|why| PlanError { field: "messages", why })?;
        if !(1..=MOST_CONTACTS).contains(&self.contacts) {
            return refuse("contacts", format!("from 1 to {MOST_CONTACTS}"));
        }
        Ok(())
    }

    /// What is said of calls, and of who is called.
    fn check_calls(&self) -> Result<(), PlanError> {
        let calls = |is: fn(Scenario) -> bool| {
            self.works().any(|work| matches!(work, Work::Call(scenario) if is(scenario)))
        };
        if let Some(Err(error)) = self.hold.as_ref().map(SpanDistribution::check) {
            return refuse("hold", error.to_string());
        }
        if self.description == 0 && calls(Scenario::needs_description) {
            return refuse("sdp", "what is offered and answered needs a session description");
        }
        if self.has_own_callees() && self.works().all(Work::registers) {
            return refuse("callee", "who is called is the tester's own only in scenarios that call");
        }
        if self.contacts > 1 && !self.has_own_callees() {
            return refuse("contacts", "only peers of the tester's own are registered at several places");
        }
        if self.has_own_callees() && self.contacts < 2 && calls(|own| matches!(own, Scenario::Fork { .. })) {
            return refuse("contacts", "who is to be called at several places (`fork`) needs two or more");
        }
        // Each place would ring reliably, and each early dialog have PRACKs of its own (RFC 3262 section 4).
        if self.contacts > 1 && calls(|own| matches!(own, Scenario::Prack { .. })) {
            let why =
                "who acknowledges provisional responses (`prack`) calls peers at one place: no more contacts";
            return refuse("contacts", why);
        }
        Ok(())
    }

    /// What the machines of one part are told: of run `run`, of parts that are reached at `locals`.
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
            // A server that does not stay in the path of a call leaves its sides to each other.
            peers: if self.has_own_callees() { locals.to_vec() } else { Vec::new() },
            transport,
            domain: self.domain.clone().unwrap_or_else(|| own.domain.clone()),
            timing: self.timing,
            calls: self.calls,
            contacts: self.contacts,
            provisionals: self.provisionals,
            session_expires: self.session_expires.unwrap_or(0),
            description: Bytes::from(session_description(local.ip(), self.description)),
            messages: self.messages.clone(),
            follows_redirects: self.follows_redirects,
            retries: self.retries,
            sends_large_over_tcp: self.sends_large_over_tcp,
            longest_ringing: self.longest_ringing,
            ..own
        };
        let own = |step| {
            let text = self.messages.iter().find_map(|own| own.session(step))?;
            Some(own_session(text, &setup))
        };
        let description = own(MessageStep::Invite).unwrap_or_else(|| setup.description.clone());
        Setup { description, answer: own(MessageStep::Answer), ..setup }
    }
}

fn is_rate(stage: &RateStage) -> bool {
    [stage.from, stage.to].iter().all(|rate| rate.is_finite() && *rate >= 0.0)
}

/// A session description of so many bytes; no shorter one than that of its stream, and none of zero bytes.
fn session_description(local: IpAddr, size: usize) -> String {
    if size == 0 { String::new() } else { Description::audio(local, DISCARD, 1).padded(size).to_string() }
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
        refused(Plan { users: 999, ..plan.clone() }, "users", "about 1000 users will be wanted");
        Plan { users: 999, count: Some(999), ..plan.clone() }.check().unwrap();
        refused(
            Plan { warm_up: Duration::from_secs(10), ..plan.clone() },
            "warm_up",
            "the warm-up takes all",
        );
    }

    /// Each user who is registered beforehand costs two requests and their time.
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

    /// Nothing that the tester does is in a delay of the server's unseen.
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
            // Whoever of them has one, and whatever most of them do.
            let passwords = Directory::list(["", "secret"]);
            assert!(Plan { passwords, ..plan.clone() }.answers_in_a_delay());
            assert!(Plan { looks_up: true, ..plan.clone() }.answers_in_a_delay());
            assert!(Plan { follows_redirects: true, ..plan.clone() }.answers_in_a_delay());
            let callee = CalleeOrder::Own { ringing: Duration::ZERO };
            assert!(Plan { callee, ..plan.clone() }.answers_in_a_delay());
            let mix = vec![Portion { work, share: 0.9 }, Portion { work: RELIABLE, share: 0.1 }];
            assert!(Plan { mix, ..plan }.answers_in_a_delay());
        }
    }
}
