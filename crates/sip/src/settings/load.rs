//! A load of SIP users, as an experiment file says it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use netrig_core::{Duration, Fraction, Seeds, Size, SpanDistribution};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hold::Hold;
use super::location::{LocationSettings, NameService};
use super::scenario::{ScenarioName, Spans};
use super::server::Serving;
use super::{SettingError, wrong};
use crate::load::{Arrivals, CalleeOrder, Directory, Gaps, Pace, Plan, Portion, Stage, Work};
use crate::transaction::Timing;

/// The longest session description, bytes: a message has to fit into a datagram.
const LONGEST_DESCRIPTION: u64 = 60_000;

/// The most contacts of a peer, which is as many as a number of a command may be.
const MOST_CONTACTS: u8 = 16;

/// The most servers that take over.
const MOST_OTHERS: usize = 7;

/// Users of SIP and their server: what they do, when, and who serves them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadSettings {
    /// What a user does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<ScenarioName>,
    /// In its place: several scenarios, each with its share of those who begin, 100 % together.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mix: BTreeMap<ScenarioName, Fraction>,
    /// The mean time between two arrivals, above zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// In its place: arrivals per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// In its place: rates one after the other; the last one stays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageSettings>,
    /// In its place: each user begins again such a time after it was done (a closed loop).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<SpanDistribution>,
    /// In its place: the moments at which users begin, counted from the flow's start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<Duration>,
    /// In their place a file, beside the experiment's, with a moment on each line, s. Who reads the experiment's file writes
    /// its moments into the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// How the times between arrivals are distributed; `{ burst = 10 }` for ten at once.
    #[serde(default)]
    pub arrivals: Gaps,
    /// How many users there are. As many as the scenario needs if not given, and 1000 where it needs no number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<u32>,
    /// Users that are registered beforehand and do nothing.
    #[serde(default)]
    pub population: u32,
    /// How many begin at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Who is called.
    #[serde(default)]
    pub callee: Called,
    /// How long a peer of `callee = "own"` rings before it answers.
    #[serde(default = "no_time")]
    pub ring: Duration,
    /// At how many places each peer of `callee = "own"` is registered, up to 16: a server that forks calls them all.
    #[serde(default = "one_place")]
    pub contacts: u8,
    /// How many provisional responses a peer of `callee = "own"` sends before it answers, evenly over `ring`.
    #[serde(default = "one")]
    pub provisionals: u16,
    /// How long a call is held, or a subscription lasts. What is drawn above 20 means is as long as that.
    #[serde(default)]
    pub hold: Hold,
    /// How long it rings until a call of `cancel` or `no-answer` is given up.
    #[serde(default = "tenth_of_a_second")]
    pub patience: Duration,
    /// Over connections: which requests share one. Over UDP it says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
    /// Over connections: whether they are in TLS. Any certificate is taken.
    #[serde(default)]
    pub secure: bool,
    /// The size of the session descriptions, up to 60 KB; `0 B` for none.
    #[serde(default = "usual_description")]
    pub sdp: Size,
    /// The password of all users, for a server that asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Behind the `@` of all users: if not given the name under which the server is looked for, or its address with its port if
    /// that is not 5060.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// For how long is registered, whole seconds.
    #[serde(default = "an_hour")]
    pub expires: Duration,
    /// T1 of RFC 3261: what is not answered is sent again after it, and given up after 64 of it.
    #[serde(default = "t1")]
    pub t1: Duration,
    /// T2 of RFC 3261, the longest time between two of the same request but INVITE, and not below T1: 4 s, or T1 if that is
    /// more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t2: Option<Duration>,
    /// T4 of RFC 3261, the longest that a message stays in the network.
    #[serde(default = "t4")]
    pub t4: Duration,
    /// Servers that take over when the one before them does not answer, answers 503 or is not reached (RFC 3263 section 4.3):
    /// their addresses, `"10.0.0.3:5060"`, seven at most. The simulator has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fail_over: Vec<String>,
    /// The port of the server.
    #[serde(default = "sip_port")]
    pub port: u16,
    /// Threads of the tester, each with a socket of its own; the simulator has one.
    #[serde(default = "one")]
    pub threads: u16,
    /// The most calls at once, in each thread.
    #[serde(default = "most_calls")]
    pub most_calls: u32,
    /// How they find their server by its name; they know its address if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<LocationSettings>,
    /// Who serves them at the flow's other end: a server of netrig's, or a program of others.
    pub server: Serving,
}

fn no_time() -> Duration {
    Duration::ZERO
}

fn tenth_of_a_second() -> Duration {
    Duration::from_millis(100)
}

fn usual_description() -> Size {
    Size::from_bytes(300)
}

fn an_hour() -> Duration {
    Duration::from_secs(3600)
}

fn t1() -> Duration {
    Timing::default().t1
}

fn t4() -> Duration {
    Timing::default().t4
}

fn one_place() -> u8 {
    1
}

fn sip_port() -> u16 {
    5060
}

fn one() -> u16 {
    1
}

fn most_calls() -> u32 {
    1 << 16
}

/// A part of the time with its rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageSettings {
    /// Arrivals per second, at its beginning.
    pub rate: f64,
    /// And at its end, to which the rate goes evenly: the same if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
    /// How long it is.
    #[serde(rename = "for")]
    pub lasts: Duration,
}

/// Who is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Called {
    /// The server, or somebody behind it.
    #[default]
    Server,
    /// A peer of each user at the flow's first end, which is registered with the server beforehand.
    Own,
}

/// Which requests share a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// All of a thread.
    One,
    /// Those of a user.
    PerUser,
    /// Those of one call, registration or question.
    PerAttempt,
}

impl LoadSettings {
    /// All that its users do.
    pub fn scenarios(&self) -> impl Iterator<Item = ScenarioName> {
        self.scenario.into_iter().chain(self.mix.keys().copied())
    }

    /// What all of its users do, or most of them; `None` if that is not said.
    fn work(&self) -> Option<Work> {
        // The first of those with the greatest share.
        let most = self.mix.iter().rev().max_by(|one, other| one.1.get().total_cmp(&other.1.get()));
        let scenario = self.scenario.or_else(|| most.map(|(scenario, _)| *scenario))?;
        Some(scenario.work(self.spans()))
    }

    fn spans(&self) -> Spans {
        Spans { hold: self.hold.0.mean(), patience: self.patience, expires: self.seconds() }
    }

    /// For how long is registered and subscribed, s.
    fn seconds(&self) -> u32 {
        u32::try_from(self.expires.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
    }

    /// Whether somebody is to be registered before the first begins.
    pub fn prepares(&self) -> bool {
        let is_there = |scenario| matches!(scenario, ScenarioName::ReRegister | ScenarioName::Unregister);
        self.scenarios().any(is_there) || self.population > 0 || self.callee == Called::Own
    }

    /// How the server is looked for, if anybody is asked.
    pub fn located_by(&self) -> Option<&LocationSettings> {
        self.location.as_ref().filter(|location| location.dns != NameService::None)
    }

    /// When its users begin; `None` if that is not said.
    fn pace(&self) -> Option<Pace> {
        let gaps = self.arrivals;
        let stage = |stage: &StageSettings| Stage {
            from: stage.rate,
            to: stage.to.unwrap_or(stage.rate),
            lasts: stage.lasts,
        };
        if let Some(mean) = self.interval {
            return Some(Pace::Open(Arrivals::at(1.0 / mean.as_secs_f64(), gaps)));
        }
        if let Some(rate) = self.rate {
            return Some(Pace::Open(Arrivals::at(rate, gaps)));
        }
        if let Some(pause) = &self.pause {
            return Some(Pace::Closed(pause.clone()));
        }
        if !self.moments.is_empty() {
            return Some(Pace::Open(Arrivals::Trace(self.moments.clone())));
        }
        let stages: Vec<_> = self.stages.iter().map(stage).collect();
        (!stages.is_empty()).then_some(Pace::Open(Arrivals::Rate { gaps, stages }))
    }

    /// The load of a flow of this name, whose users begin for so long: the same moments for the same seeds, whoever carries it
    /// out.
    ///
    /// # Errors
    /// That of settings that were not checked, or that more users would be wanted than there may be.
    pub fn plan(&self, flow: &str, seeds: Seeds, duration: Duration) -> Result<Plan, SettingError> {
        let work = self.work().ok_or_else(no_scenario)?;
        let pace = self.pace().ok_or_else(no_pace)?;
        let portion = |(scenario, share): (&ScenarioName, &Fraction)| Portion {
            work: scenario.work(self.spans()),
            share: share.get(),
        };
        let password = self.password.clone().unwrap_or_default();
        let mut plan = Plan {
            mix: self.mix.iter().map(portion).collect(),
            hold: self.hold.drawn(),
            count: self.count,
            population: self.population,
            passwords: Directory::Fixed(password.into_bytes().into()),
            domain: self.domain.clone().or_else(|| Some(self.location.as_ref()?.name.clone())),
            expires: self.seconds(),
            callee: match self.callee {
                Called::Server => CalleeOrder::Foreign,
                Called::Own => CalleeOrder::Own { ringing: self.ring },
            },
            contacts: self.contacts,
            provisionals: self.provisionals,
            // It was checked.
            description: self.sdp.bytes().min(LONGEST_DESCRIPTION) as usize,
            timing: Timing::of(self.t1, self.t2, self.t4),
            calls: self.most_calls,
            seed: seeds.stream(&format!("flow/{flow}/sip")).bits(),
            ..Plan::new(work, pace, duration)
        };
        plan.users = match self.users {
            Some(users) => users,
            None => plan
                .wanted_users()
                .map_err(|error| SettingError { field: self.pace_key(), why: error.to_string() })?,
        };
        Ok(plan)
    }

    /// The servers that take over.
    ///
    /// # Errors
    /// One of them is no address with a port.
    pub fn others(&self) -> Result<Vec<SocketAddr>, SettingError> {
        let refused = |text: &str| SettingError {
            field: "fail_over",
            why: format!("`{text}` is no address with a port, such as `10.0.0.3:5060`"),
        };
        self.fail_over.iter().map(|text| text.parse().map_err(|_| refused(text))).collect()
    }

    /// The keys that may say when its users begin, and whether they do.
    fn paces(&self) -> [(&'static str, bool); 6] {
        [
            ("interval", self.interval.is_some()),
            ("rate", self.rate.is_some()),
            ("stages", !self.stages.is_empty()),
            ("pause", self.pause.is_some()),
            ("moments", !self.moments.is_empty()),
            ("trace", self.trace.is_some()),
        ]
    }

    /// The first key that says when its users begin.
    fn pace_key(&self) -> &'static str {
        self.paces().into_iter().find(|(_, is)| *is).map_or("rate", |(key, _)| key)
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    /// The key, and what is wrong with it.
    pub fn check_values(&self) -> Result<(), SettingError> {
        self.check_scenarios()?;
        self.check_pace()?;
        self.check_numbers()?;
        self.check_calls()?;
        self.location.as_ref().map_or(Ok(()), LocationSettings::check)?;
        self.server.check(self)?;
        let digest = self.server.own().is_some_and(|own| own.digest.is_some());
        if digest && self.password.is_none() {
            return wrong("password", "the server asks for one (`digest`), and the users have none");
        }
        Ok(())
    }

    fn check_scenarios(&self) -> Result<(), SettingError> {
        match (self.scenario, self.mix.len()) {
            (None, 0) => return Err(no_scenario()),
            (Some(_), 1..) => return wrong("mix", "`scenario` says already what users do"),
            _ => {}
        }
        let together: f64 = self.mix.values().map(|share| share.get()).sum();
        if !self.mix.is_empty() && (together - 1.0).abs() > 1e-6 {
            let percent = (together * 1e6).round() / 1e4;
            return wrong("mix", format!("the shares of a mix are 100 % together, not {percent} %"));
        }
        if self.mix.values().any(|share| share.get() == 0.0) {
            return wrong("mix", "each share is above zero");
        }
        if self.mix.len() > 1 && self.mix.contains_key(&ScenarioName::Unregister) {
            return wrong("mix", "who has unregistered has nothing to do again: it cannot be in a mix");
        }
        Ok(())
    }

    fn check_pace(&self) -> Result<(), SettingError> {
        let mut given = self.paces().into_iter().filter(|(_, is)| *is).map(|(name, _)| name);
        let drawn = self.arrivals != Gaps::default();
        match (given.next(), given.next()) {
            (None, _) => return Err(no_pace()),
            (Some(first), Some(second)) => {
                return wrong(second, format!("`{first}` says already when users begin"));
            }
            (Some("trace"), None) => return wrong("trace", "it was not read: give it a file"),
            (Some("pause"), None) if drawn => {
                return wrong("arrivals", "of a closed loop `pause` says how the times are distributed");
            }
            (Some("moments"), None) if drawn => {
                return wrong("arrivals", "the moments are given: nothing is distributed around a mean");
            }
            _ => {}
        }
        if self.arrivals == Gaps::Burst(0) {
            return wrong("arrivals", "a burst is of one at least");
        }
        if self.interval == Some(Duration::ZERO) {
            return wrong("interval", "it must be above zero");
        }
        let is_rate = |rate: f64| rate.is_finite() && rate >= 0.0;
        if self.rate.is_some_and(|rate| !is_rate(rate) || rate == 0.0) {
            return wrong("rate", "it must be above zero");
        }
        let rates = || self.stages.iter().flat_map(|stage| [stage.rate, stage.to.unwrap_or(stage.rate)]);
        if !rates().all(is_rate) || (!self.stages.is_empty() && rates().all(|rate| rate == 0.0)) {
            return wrong("stages", "a rate is zero or more, and not zero throughout");
        }
        if !self.moments.is_sorted() {
            return wrong("moments", "each is not before the one in front of it");
        }
        if let Some(pause) = &self.pause {
            if self.scenario == Some(ScenarioName::Unregister) {
                return wrong("pause", "who has unregistered has nothing to do again");
            }
            if let Err(error) = pause.check() {
                return wrong("pause", error.to_string());
            }
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), SettingError> {
        /// The most users, peers and idle ones of a file.
        const MOST: u64 = 10_000_000;
        if self.users == Some(0) {
            return wrong("users", "it must be above zero");
        }
        if u64::from(self.users.unwrap_or(0)) + u64::from(self.population) > MOST {
            let field = if self.users.is_some() { "users" } else { "population" };
            return wrong(field, format!("there are {MOST} users at most, with the population"));
        }
        for (field, span) in [("t1", self.t1), ("t4", self.t4)] {
            if span.is_zero() {
                return wrong(field, "it must be above zero");
            }
        }
        if self.t2.is_some_and(|t2| t2 < self.t1) {
            return wrong("t2", "it must not be below T1");
        }
        if self.expires < Duration::from_secs(1) {
            return wrong("expires", "it must be a second or more");
        }
        if self.port == 0 {
            return wrong("port", "a server listens at a port from 1 on");
        }
        if !(1..1 << 12).contains(&self.threads)
            || self.users.is_some_and(|users| u32::from(self.threads) > users)
        {
            return wrong("threads", "from 1 to 4095, and not more than users");
        }
        if self.most_calls == 0 {
            return wrong("most_calls", "it must be above zero");
        }
        if self.fail_over.len() > MOST_OTHERS {
            return wrong("fail_over", format!("{MOST_OTHERS} servers at most take over"));
        }
        self.others().map(drop)
    }

    /// What is said of calls, and of who is called.
    fn check_calls(&self) -> Result<(), SettingError> {
        if self.sdp.bytes() > LONGEST_DESCRIPTION {
            return wrong("sdp", "a message of SIP takes at most 60 KB of it");
        }
        if let Some(scenario) = self.scenarios().find(|own| self.sdp.bytes() == 0 && own.needs_description())
        {
            return wrong("sdp", format!("`{scenario}` cannot be without a session description"));
        }
        // What is held for no time is not drawn.
        if let Some(Err(error)) = self.hold.drawn().map(|hold| hold.check()) {
            return wrong("hold", error.to_string());
        }
        let is_own = self.callee == Called::Own;
        if is_own && self.scenarios().all(ScenarioName::registers) {
            return wrong("callee", "nobody is called in this scenario");
        }
        if !(1..=MOST_CONTACTS).contains(&self.contacts) {
            return wrong("contacts", format!("from 1 to {MOST_CONTACTS}"));
        }
        if self.contacts > 1 && !is_own {
            return wrong("contacts", "only peers of `callee = \"own\"` are registered at several places");
        }
        if is_own && self.contacts < 2 && self.scenarios().any(|own| own == ScenarioName::Fork) {
            return wrong("contacts", "who is to be called at several places (`fork`) needs two or more");
        }
        if self.provisionals == 0 {
            return wrong("provisionals", "it must be above zero");
        }
        Ok(())
    }
}

/// It does not say what users do.
fn no_scenario() -> SettingError {
    let why = "it does not say what users do: give it a `scenario` or a `mix`";
    SettingError { field: "scenario", why: why.to_owned() }
}

/// It does not say when users begin.
fn no_pace() -> SettingError {
    let why = "it does not say when users begin: give it an `interval`, a `rate`, `stages`, a `pause`, `moments` or a `trace`";
    SettingError { field: "rate", why: why.to_owned() }
}
