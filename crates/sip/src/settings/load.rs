//! A load of SIP users, as an experiment file says it.

use netrig_core::{Duration, Seeds, Size, SpanDistribution};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::location::{LocationSettings, NameService};
use super::server::Serving;
use super::{SettingError, wrong};
use crate::load::{Arrivals, CalleeOrder, Directory, Gaps, Pace, Plan, Scenario, Stage, Work};
use crate::transaction::Timing;

/// Users where the scenario needs no number of them.
const USERS: u32 = 1000;

/// For so long users may wait for the server before too few are left who can register again.
const AWAITED: Duration = Duration::from_secs(3);

/// The longest session description, bytes: a message has to fit into a datagram.
const LONGEST_DESCRIPTION: u64 = 60_000;

/// Users of SIP and their server: what they do, when, and who serves them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadSettings {
    /// What a user does.
    pub scenario: ScenarioName,
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
    /// How the times between arrivals are distributed.
    #[serde(default)]
    pub arrivals: ArrivalPattern,
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
    /// How long a call is held.
    #[serde(default = "no_time")]
    pub hold: Duration,
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

fn sip_port() -> u16 {
    5060
}

fn one() -> u16 {
    1
}

fn most_calls() -> u32 {
    1 << 16
}

/// What a user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScenarioName {
    /// Registers, once.
    Register,
    /// Registered beforehand, registers again.
    ReRegister,
    /// Registered beforehand, takes that back, once.
    Unregister,
    /// Calls, holds, and hangs up.
    Call,
    /// Takes a call back once it rings.
    Cancel,
    /// Calls one who refuses.
    Busy,
    /// Calls one who does not answer, and gives up.
    NoAnswer,
    /// Calls, and is sent elsewhere.
    Redirect,
    /// Asks with OPTIONS.
    Options,
    /// Sends a MESSAGE.
    Message,
}

/// How the times between arrivals are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalPattern {
    /// Exponential: a Poisson process.
    #[default]
    Poisson,
    /// All the same.
    Constant,
    /// Uniform between nothing and twice the mean.
    Uniform,
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
    /// What its users do.
    pub fn work(&self) -> Work {
        let scenario = match self.scenario {
            ScenarioName::Register => return Work::Register,
            ScenarioName::ReRegister => return Work::ReRegister,
            ScenarioName::Unregister => return Work::Unregister,
            ScenarioName::Call => Scenario::Call { hold: self.hold },
            ScenarioName::Cancel => Scenario::Cancel { after: self.patience },
            ScenarioName::Busy => Scenario::Busy,
            ScenarioName::NoAnswer => Scenario::NoAnswer { patience: self.patience },
            ScenarioName::Redirect => Scenario::Redirect,
            ScenarioName::Options => Scenario::Options,
            ScenarioName::Message => Scenario::Message,
        };
        Work::Call(scenario)
    }

    /// Whether somebody is to be registered before the first begins.
    pub fn prepares(&self) -> bool {
        let registered = matches!(self.scenario, ScenarioName::ReRegister | ScenarioName::Unregister);
        registered || self.population > 0 || self.callee == Called::Own
    }

    /// How the server is looked for, if anybody is asked.
    pub fn located_by(&self) -> Option<&LocationSettings> {
        self.location.as_ref().filter(|location| location.dns != NameService::None)
    }

    /// When its users begin; `None` if that is not said, or more than once.
    fn pace(&self) -> Option<Pace> {
        let gaps = match self.arrivals {
            ArrivalPattern::Poisson => Gaps::Poisson,
            ArrivalPattern::Constant => Gaps::Constant,
            ArrivalPattern::Uniform => Gaps::Uniform,
        };
        let stage = |stage: &StageSettings| Stage {
            from: stage.rate,
            to: stage.to.unwrap_or(stage.rate),
            lasts: stage.lasts,
        };
        match (self.interval, self.rate, &self.stages[..], &self.pause) {
            (Some(mean), None, [], None) => Some(Pace::Open(Arrivals::at(1.0 / mean.as_secs_f64(), gaps))),
            (None, Some(rate), [], None) => Some(Pace::Open(Arrivals::at(rate, gaps))),
            (None, None, [_, ..], None) => {
                Some(Pace::Open(Arrivals::Rate { gaps, stages: self.stages.iter().map(stage).collect() }))
            }
            (None, None, [], Some(pause)) => Some(Pace::Closed(pause.clone())),
            _ => None,
        }
    }

    /// The load of a flow of this name, whose users begin for so long: the same moments for the same seeds, whoever carries it
    /// out.
    ///
    /// # Errors
    /// That of settings that were not checked.
    pub fn plan(&self, flow: &str, seeds: Seeds, duration: Duration) -> Result<Plan, SettingError> {
        let Some(pace) = self.pace() else { return Err(self.no_pace()) };
        let work = self.work();
        let users = self.users.unwrap_or_else(|| self.wanted(work, &pace, duration));
        let timing = Timing::default();
        let timing = Timing { t1: self.t1, t2: timing.t2.max(self.t1), ..timing };
        let password = self.password.clone().unwrap_or_default();
        Ok(Plan {
            count: self.count,
            users,
            population: self.population,
            passwords: Directory::Fixed(password.into_bytes().into()),
            domain: self.domain.clone().or_else(|| Some(self.location.as_ref()?.name.clone())),
            expires: u32::try_from(self.expires.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX),
            callee: match self.callee {
                Called::Server => CalleeOrder::Foreign,
                Called::Own => CalleeOrder::Own { ringing: self.ring },
            },
            // It was checked.
            description: self.sdp.bytes().min(LONGEST_DESCRIPTION) as usize,
            timing,
            calls: self.most_calls,
            seed: seeds.stream(&format!("flow/{flow}/sip")).bits(),
            ..Plan::new(work, pace, duration)
        })
    }

    /// As many users as will be wanted, with a margin for chance.
    fn wanted(&self, work: Work, pace: &Pace, duration: Duration) -> u32 {
        match pace {
            Pace::Open(arrivals) if work.is_once() => {
                let expected = arrivals.expected(duration);
                let count = self.count.unwrap_or(u64::MAX) as f64;
                (expected + 5.0 * expected.sqrt()).ceil().min(count).max(1.0) as u32
            }
            // Who still waits for the server must not be missed by those who come: as many as come until it is too late.
            Pace::Open(arrivals) if work == Work::ReRegister => {
                (arrivals.peak() * AWAITED.as_secs_f64()).ceil().max(f64::from(USERS)) as u32
            }
            _ => USERS,
        }
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    /// The key, and what is wrong with it.
    pub fn check_values(&self) -> Result<(), SettingError> {
        self.check_pace()?;
        self.check_numbers()?;
        self.location.as_ref().map_or(Ok(()), LocationSettings::check)?;
        self.server.check(self.scenario, self.prepares(), self.callee)?;
        if self.callee == Called::Own && !matches!(self.work(), Work::Call(_)) {
            return wrong("callee", "nobody is called in this scenario");
        }
        let digest = self.server.own().is_some_and(|own| own.digest.is_some());
        if digest && self.password.is_none() {
            return wrong("password", "the server asks for one (`digest`), and the users have none");
        }
        Ok(())
    }

    /// It does not say when users begin.
    fn no_pace(&self) -> SettingError {
        let why = "it does not say when users begin: give it an `interval`, a `rate`, `stages` or a `pause`";
        SettingError { field: "scenario", why: why.to_owned() }
    }

    fn check_pace(&self) -> Result<(), SettingError> {
        let given = [
            ("interval", self.interval.is_some()),
            ("rate", self.rate.is_some()),
            ("stages", !self.stages.is_empty()),
            ("pause", self.pause.is_some()),
        ];
        let mut given = given.into_iter().filter(|(_, is)| *is).map(|(name, _)| name);
        match (given.next(), given.next()) {
            (None, _) => return Err(self.no_pace()),
            (Some(first), Some(second)) => {
                return wrong(second, format!("`{first}` says already when users begin"));
            }
            (Some("pause"), None) if self.arrivals != ArrivalPattern::default() => {
                return wrong("arrivals", "of a closed loop `pause` says how the times are distributed");
            }
            _ => {}
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
        if let Some(pause) = &self.pause {
            if self.scenario == ScenarioName::Unregister {
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
        let users = self.users.unwrap_or(USERS);
        if users == 0 {
            return wrong("users", "it must be above zero");
        }
        if u64::from(users) + u64::from(self.population) > MOST {
            let field = if self.users.is_some() { "users" } else { "population" };
            return wrong(field, format!("there are {MOST} users at most, with the population"));
        }
        if self.t1.is_zero() {
            return wrong("t1", "it must be above zero");
        }
        if self.expires < Duration::from_secs(1) {
            return wrong("expires", "it must be a second or more");
        }
        if self.sdp.bytes() > LONGEST_DESCRIPTION {
            return wrong("sdp", "a message of SIP takes at most 60 KB of it");
        }
        if self.port == 0 {
            return wrong("port", "a server listens at a port from 1 on");
        }
        if !(1..1 << 12).contains(&self.threads) || u32::from(self.threads) > users {
            return wrong("threads", "from 1 to 4095, and not more than users");
        }
        if self.most_calls == 0 {
            return wrong("most_calls", "it must be above zero");
        }
        Ok(())
    }
}
