//! The plan of a load, made from its settings, and the rules that they must keep.

use std::net::SocketAddr;

use netrig_core::{Duration, Fraction, Seeds};

use super::error::{SettingError, wrong};
use super::load::{Called, LoadSettings, StageSettings, whole_seconds};
use super::location::{LocationSettings, NameService};
use super::scenario::{ScenarioName, Spans};
use super::server::{ServerRole, ServerSettings, Serving};
use crate::load::{
    Arrivals, CalleeOrder, Directory, Gaps, PACE, Pace, Plan, PlanError, Portion, RateStage, Work,
};
use crate::transaction::Timing;

/// The most users of a file, including the population: a few GiB can hold them. Files may be from untrusted authors.
const MOST_USERS: u64 = 10_000_000;

/// The most servers that take over from a failed one.
const MOST_OTHERS: usize = 7;

impl LoadSettings {
    /// The scenarios of its users.
    pub fn scenarios(&self) -> impl Iterator<Item = ScenarioName> {
        self.scenario.into_iter().chain(self.mix.keys().copied())
    }

    /// The kind of attempt that all users make, or the most frequent kind of a mix. `None` without a scenario.
    fn work(&self) -> Option<Work> {
        // The first scenario with the greatest share.
        let most = self.mix.iter().rev().max_by(|one, other| one.1.get().total_cmp(&other.1.get()));
        // For calls that follow a scenario file, the plan has only their number and times.
        let of_script = self.script().map(|_| ScenarioName::Call);
        let scenario = self.scenario.or_else(|| most.map(|(scenario, _)| *scenario)).or(of_script)?;
        Some(scenario.work(self.spans()))
    }

    fn spans(&self) -> Spans {
        Spans { hold: self.hold.0.mean(), patience: self.patience, expires: whole_seconds(self.expires) }
    }

    /// Whether users must be registered before the first attempt.
    pub fn prepares(&self) -> bool {
        let is_there = |scenario| matches!(scenario, ScenarioName::ReRegister | ScenarioName::Unregister);
        self.scenarios().any(is_there) || self.population > 0 || self.callee == Called::Own
    }

    /// How the server is looked up, if a name service is used.
    pub fn located_by(&self) -> Option<&LocationSettings> {
        self.location.as_ref().filter(|location| location.dns != NameService::None)
    }

    /// When attempts start. `None` if no key sets it.
    fn pace(&self) -> Option<Pace> {
        let gaps = self.arrivals;
        let stage = |stage: &StageSettings| RateStage {
            from: stage.rate.0,
            to: stage.to.unwrap_or(stage.rate).0,
            lasts: stage.lasts,
        };
        if let Some(mean) = self.interval {
            return Some(Pace::Open(Arrivals::at(1.0 / mean.as_secs_f64(), gaps)));
        }
        if let Some(rate) = self.rate {
            return Some(Pace::Open(Arrivals::at(rate.0, gaps)));
        }
        if let Some(pause) = &self.pause {
            return Some(Pace::Closed(pause.0.clone()));
        }
        if !self.moments.is_empty() {
            return Some(Pace::Open(Arrivals::Trace(self.moments.clone())));
        }
        let stages: Vec<_> = self.stages.iter().map(stage).collect();
        (!stages.is_empty()).then_some(Pace::Open(Arrivals::Rate { gaps, stages }))
    }

    /// The plan of the flow `flow` with attempts for `duration`. The same seeds give the same times on every
    /// substrate.
    ///
    /// # Errors
    /// If the settings are invalid, or if the load is not possible in that time.
    pub fn plan(&self, flow: &str, seeds: &Seeds, duration: Duration) -> Result<Plan, SettingError> {
        let mut plan = self.draft(duration)?;
        plan.seed = seeds.stream(&format!("flow/{flow}/sip")).bits();
        if self.users.is_none() {
            plan.users = plan.wanted_users().map_err(|error| self.wrong_plan(error))?;
        }
        self.check_plan(&plan)?;
        self.check_tested_users(&plan)?;
        Ok(plan)
    }

    /// A plan that is not checked yet: it has the default seed, and an arbitrary number of users if the settings have none.
    ///
    /// # Errors
    /// If no key says what users do, or when, or if an interval of a header field is not a whole number of seconds.
    pub fn draft(&self, duration: Duration) -> Result<Plan, SettingError> {
        let work = self.work().ok_or_else(no_scenario)?;
        let pace = self.pace().ok_or_else(no_pace)?;
        // Delta-seconds of RFC 3261 section 20.19 and RFC 4028 section 4 have no fraction.
        for (field, span) in [("expires", Some(self.expires)), ("session_expires", self.session_expires)] {
            if span.is_some_and(|span| span.as_nanos() % 1_000_000_000 != 0) {
                return Err(SettingError { field, why: "it must be a whole number of seconds".to_owned() });
            }
        }
        let portion = |(scenario, share): (&ScenarioName, &Fraction)| Portion {
            work: scenario.work(self.spans()),
            share: share.get(),
        };
        let password = self.password.clone().unwrap_or_default();
        let some = Plan::new(work, pace, duration);
        Ok(Plan {
            mix: self.mix.iter().map(portion).collect(),
            hold: self.hold.drawn(),
            count: self.count,
            users: self.users.unwrap_or(some.users),
            population: self.population,
            passwords: Directory::Fixed(password.into_bytes().into()),
            domain: self.domain.clone().or_else(|| Some(self.location.as_ref()?.name.clone())),
            expires: whole_seconds(self.expires),
            callee: match self.callee {
                Called::Server => CalleeOrder::Foreign,
                Called::Own => CalleeOrder::Own { ringing: self.ring },
            },
            options: self.options(),
            description: self.sdp.to_usize(),
            timing: Timing::of(self.t1, self.t2, self.t4),
            calls: self.most_calls,
            ..some
        })
    }

    /// Checks a plan of these settings.
    ///
    /// # Errors
    /// The first invalid key.
    pub fn check_plan(&self, plan: &Plan) -> Result<(), SettingError> {
        plan.check().map_err(|error| self.wrong_plan(error))
    }

    /// The error of a plan, with the key of the settings.
    fn wrong_plan(&self, error: PlanError) -> SettingError {
        let field = if error.field == PACE { self.pace_key() } else { error.field };
        SettingError { field, why: error.why }
    }

    /// Addresses of the servers that take over.
    ///
    /// # Errors
    /// If one of them is not an address with a port.
    pub fn others(&self) -> Result<Vec<SocketAddr>, SettingError> {
        let refused = |text: &str| SettingError {
            field: "fail_over",
            why: format!("`{text}` is no address with a port, such as `10.0.0.3:5060`"),
        };
        self.fail_over.iter().map(|text| text.parse().map_err(|_| refused(text))).collect()
    }

    /// The keys that can set when attempts start, and whether each is given.
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

    /// The first key that sets when attempts start.
    fn pace_key(&self) -> &'static str {
        self.paces().into_iter().find(|(_, is)| *is).map_or("rate", |(key, _)| key)
    }

    /// Whether a key says when attempts start.
    pub fn has_pace(&self) -> bool {
        self.paces().iter().any(|(_, is_given)| *is_given)
    }

    /// Checks that the keys that say what users do, and when, do not contradict each other.
    ///
    /// # Errors
    /// The first wrong key.
    pub fn check_load(&self) -> Result<(), SettingError> {
        self.check_scenarios()?;
        self.check_pace()
    }

    /// Checks all values.
    ///
    /// # Errors
    /// The first invalid key.
    pub fn check_values(&self) -> Result<(), SettingError> {
        self.check_load()?;
        self.check_script()?;
        // The needed number of users depends on the duration, which is unknown here.
        let plan = self.draft(Duration::from_secs(1))?;
        plan.check_rules().map_err(|error| self.wrong_plan(error))?;
        self.check_numbers()?;
        self.location.as_ref().map_or(Ok(()), LocationSettings::check)?;
        self.server.check(self)?;
        let digest = self.server.own().is_some_and(|own| own.digest.is_some());
        if digest && self.password.is_none() {
            return wrong("password", "the server asks for one (`digest`), and the users have none");
        }
        Ok(())
    }

    fn check_scenarios(&self) -> Result<(), SettingError> {
        let is_named = self.scenario.is_some() || !self.mix.is_empty();
        let is_own = self.scenario_text.is_some() || self.scenario_file.is_some();
        match (self.scenario, self.mix.len()) {
            (None, 0) if !is_own => Err(no_scenario()),
            (Some(_), 1..) => wrong("mix", "`scenario` already says what users do"),
            _ if is_named && is_own => {
                let key = if self.scenario_text.is_some() { "scenario_text" } else { "scenario_file" };
                wrong(key, "`scenario` or `mix` already says what users do")
            }
            _ => Ok(()),
        }
    }

    fn check_pace(&self) -> Result<(), SettingError> {
        let mut given = self.paces().into_iter().filter(|(_, is)| *is).map(|(name, _)| name);
        let drawn = self.arrivals != Gaps::default();
        match (given.next(), given.next()) {
            (None, _) => return Err(no_pace()),
            (Some(first), Some(second)) => {
                return wrong(second, format!("`{first}` already says when users begin"));
            }
            (Some("trace"), None) => return wrong("trace", "it was not read: give it a file"),
            (Some("pause"), None) if drawn => {
                return wrong("arrivals", "in a closed loop `pause` sets the distribution of the times");
            }
            (Some("moments"), None) if drawn => {
                return wrong("arrivals", "`moments` sets the times: no distribution is used");
            }
            _ => {}
        }
        if self.interval == Some(Duration::ZERO) {
            return wrong("interval", "it must be above zero");
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), SettingError> {
        if u64::from(self.users.unwrap_or(0)) + u64::from(self.population) > MOST_USERS {
            let field = if self.users.is_some() { "users" } else { "population" };
            return wrong(field, format!("there are {MOST_USERS} users at most, with the population"));
        }
        if self.port == 0 {
            return wrong("port", "a server listens at a port from 1 on");
        }
        if !(1..1 << 12).contains(&self.threads)
            || self.users.is_some_and(|users| u32::from(self.threads) > users)
        {
            return wrong("threads", "from 1 to 4095, and not more than users");
        }
        if self.fail_over.len() > MOST_OTHERS {
            return wrong("fail_over", format!("{MOST_OTHERS} servers at most take over"));
        }
        self.others().map(drop)
    }
}

impl Serving {
    /// Checks that the server can serve the users of this load.
    pub(super) fn check(&self, load: &LoadSettings) -> Result<(), SettingError> {
        let Some(own) = self.own() else { return Ok(()) };
        own.check()?;
        let takes_no_registrations = matches!(own.role, ServerRole::Uas | ServerRole::StatelessProxy);
        if takes_no_registrations && (load.prepares() || load.scenarios().any(ScenarioName::registers)) {
            return wrong(
                "server.role",
                "it accepts no registrations: use `registrar`, `proxy` or `redirect`",
            );
        }
        load.scenarios().try_for_each(|scenario| own.check_scenario(scenario, load))
    }
}

impl ServerSettings {
    /// Checks that the server supports the scenario.
    fn check_scenario(&self, scenario: ScenarioName, load: &LoadSettings) -> Result<(), SettingError> {
        use ScenarioName::{EarlyMedia, Fork, Options, Prack, Redirect, Subscribe};
        let calls = !scenario.registers() && scenario != Options;
        match self.role {
            ServerRole::Registrar if calls => {
                wrong("server.role", "a registrar answers no calls: use `proxy`, `redirect` or `uas`")
            }
            ServerRole::Redirect if calls && scenario != Redirect && !load.follow_redirects => wrong(
                "server.role",
                "it redirects callers: use `scenario = \"redirect\"`, where that is a success, or `follow_redirects = true`",
            ),
            ServerRole::Redirect | ServerRole::Proxy | ServerRole::StatelessProxy
                if calls && load.callee == Called::Server && self.contact.is_none() =>
            {
                wrong(
                    "callee",
                    "no callee is registered: use `callee = \"own\"`, or give the server a `contact`",
                )
            }
            ServerRole::Uas => match scenario {
                Redirect if self.refuse.is_none_or(|status| !(300..400).contains(&status)) => {
                    wrong("server.refuse", "it does not redirect: give it a status from 300 to 399")
                }
                EarlyMedia if !self.early_media => wrong(
                    "server.early_media",
                    "it sends no session description before it answers: switch it on",
                ),
                Prack if !self.reliable => {
                    wrong("server.reliable", "its provisional responses are not reliable: switch it on")
                }
                Fork | Subscribe => wrong(
                    "server.role",
                    format!("a `uas` does not serve `{scenario}`: `proxy` with `callee = \"own\"` does"),
                ),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

impl From<PlanError> for SettingError {
    /// The same error. The pace of a plan may come from any of several keys.
    fn from(PlanError { field, why }: PlanError) -> Self {
        Self { field, why }
    }
}

/// The error of a load without a scenario.
fn no_scenario() -> SettingError {
    let why = "it does not say what users do: give it a `scenario` or a `mix`";
    SettingError { field: "scenario", why: why.to_owned() }
}

/// The error of a load without a pace.
fn no_pace() -> SettingError {
    let why = "it does not say when users begin: give it an `interval`, a `rate`, `stages`, a `pause`, `moments` or a `trace`";
    SettingError { field: "rate", why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use netrig_core::SpanDistribution;
    use serde_json::{Value, json};

    use super::super::load::UserOptions;
    use super::*;
    use crate::load::Scenario;

    /// A load of calls in which these keys replace the default ones. A null value removes its key.
    fn settings(keys: &Value) -> LoadSettings {
        let mut all = json!({ "scenario": "call", "rate": 10.0, "server": "program" });
        for (key, value) in keys.as_object().unwrap() {
            all[key] = value.clone();
        }
        all.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        serde_json::from_value(all).unwrap()
    }

    fn plan() -> Plan {
        settings(&json!({})).plan("", &Seeds::new(1), Duration::from_secs(60)).unwrap()
    }

    const NO_TIME: Duration = Duration::ZERO;
    const OWN: CalleeOrder = CalleeOrder::Own { ringing: NO_TIME };

    /// A file and a plan obey the same rules.
    #[test]
    fn a_file_refuses_what_a_plan_refuses() {
        let half = |scenario: ScenarioName, share| Portion {
            work: scenario.work(Spans { hold: NO_TIME, patience: NO_TIME, expires: 60 }),
            share,
        };
        let mix = |one, other| vec![half(ScenarioName::Call, one), half(other, 0.5)];
        let closed = || Pace::Closed(SpanDistribution::Constant(Duration::from_secs(1)));
        let at = |rate| Pace::Open(Arrivals::at(rate, Gaps::Poisson));
        let second = Duration::from_secs(1);
        let never = SpanDistribution::Lognormal { mean: second, sigma: 9.0 };
        let prack = Work::Call(Scenario::Prack { hold: NO_TIME });
        let fork = Work::Call(Scenario::Fork { hold: NO_TIME });
        let offer = Work::Call(Scenario::DelayedOffer { hold: NO_TIME });
        let base = plan();
        let timing = base.timing;
        for (keys, field, other) in [
            (
                json!({ "scenario": null, "mix": { "call": "40 %", "busy": "50 %" } }),
                "mix",
                Plan { mix: mix(0.4, ScenarioName::Busy), ..base.clone() },
            ),
            (
                json!({ "scenario": null, "mix": { "call": "100 %", "busy": "0 %" } }),
                "mix",
                Plan {
                    mix: vec![half(ScenarioName::Call, 1.0), half(ScenarioName::Busy, 0.0)],
                    ..base.clone()
                },
            ),
            (
                json!({ "scenario": null, "mix": { "call": "50 %", "unregister": "50 %" } }),
                "mix",
                Plan { mix: mix(0.5, ScenarioName::Unregister), ..base.clone() },
            ),
            (json!({ "rate": 0.0 }), "rate", Plan { pace: at(0.0), ..base.clone() }),
            (json!({ "rate": -1.0 }), "rate", Plan { pace: at(-1.0), ..base.clone() }),
            (
                json!({ "rate": null, "stages": [{ "rate": 0.0, "for": "1 s" }] }),
                "stages",
                Plan { pace: at(0.0), ..base.clone() },
            ),
            (
                json!({ "rate": null, "moments": ["2 s", "1 s"] }),
                "moments",
                Plan { pace: Pace::Open(Arrivals::Trace(vec![second * 2, second])), ..base.clone() },
            ),
            (
                json!({ "arrivals": { "burst": 0 } }),
                "arrivals",
                Plan { pace: Pace::Open(Arrivals::at(10.0, Gaps::Burst(0))), ..base.clone() },
            ),
            (
                json!({ "scenario": "unregister", "rate": null, "pause": { "constant": "1 s" } }),
                "pause",
                Plan { work: Work::Unregister, pace: closed(), ..base.clone() },
            ),
            (
                json!({ "rate": null, "pause": { "lognormal": { "mean": "1 s", "sigma": 9 } } }),
                "pause",
                Plan { pace: Pace::Closed(never.clone()), ..base.clone() },
            ),
            (json!({ "users": 0 }), "users", Plan { users: 0, ..base.clone() }),
            (
                json!({ "users": 1, "population": u32::MAX }),
                "users",
                Plan { users: 1, population: u32::MAX, ..base.clone() },
            ),
            (json!({ "t1": "0 s" }), "t1", Plan { timing: Timing { t1: NO_TIME, ..timing }, ..base.clone() }),
            (
                json!({ "t2": "1 ms" }),
                "t2",
                Plan { timing: Timing { t2: NO_TIME, ..timing }, ..base.clone() },
            ),
            (json!({ "t4": "0 s" }), "t4", Plan { timing: Timing { t4: NO_TIME, ..timing }, ..base.clone() }),
            (json!({ "most_calls": 0 }), "most_calls", Plan { calls: 0, ..base.clone() }),
            (
                json!({ "provisionals": 0 }),
                "provisionals",
                Plan { options: UserOptions { provisionals: 0, ..UserOptions::default() }, ..base.clone() },
            ),
            (
                json!({ "session_expires": "89 s" }),
                "session_expires",
                Plan {
                    options: UserOptions {
                        session_expires: Some(Duration::from_secs(89)),
                        ..UserOptions::default()
                    },
                    ..base.clone()
                },
            ),
            (
                json!({ "session_expires": "0 s" }),
                "session_expires",
                Plan {
                    options: UserOptions { session_expires: Some(Duration::ZERO), ..UserOptions::default() },
                    ..base.clone()
                },
            ),
            (json!({ "expires": "0 s" }), "expires", Plan { expires: 0, ..base.clone() }),
            (json!({ "sdp": "60001 B" }), "sdp", Plan { description: 60_001, ..base.clone() }),
            (
                json!({ "contacts": 0 }),
                "contacts",
                Plan { options: UserOptions { contacts: 0, ..UserOptions::default() }, ..base.clone() },
            ),
            (
                json!({ "contacts": 17, "callee": "own" }),
                "contacts",
                Plan {
                    callee: OWN,
                    options: UserOptions { contacts: 17, ..UserOptions::default() },
                    ..base.clone()
                },
            ),
            (
                json!({ "contacts": 2 }),
                "contacts",
                Plan { options: UserOptions { contacts: 2, ..UserOptions::default() }, ..base.clone() },
            ),
            (
                json!({ "hold": { "lognormal": { "mean": "1 s", "sigma": 9 } } }),
                "hold",
                Plan { hold: Some(never), ..base.clone() },
            ),
            (
                json!({ "scenario": "delayed-offer", "sdp": "0 B" }),
                "sdp",
                Plan { work: offer, description: 0, ..base.clone() },
            ),
            (
                json!({ "scenario": "register", "callee": "own" }),
                "callee",
                Plan { work: Work::Register, callee: OWN, ..base.clone() },
            ),
            (
                json!({ "scenario": "fork", "callee": "own" }),
                "contacts",
                Plan { work: fork, callee: OWN, ..base.clone() },
            ),
            (
                json!({ "scenario": "prack", "callee": "own", "contacts": 2 }),
                "contacts",
                Plan {
                    work: prack,
                    callee: OWN,
                    options: UserOptions { contacts: 2, ..UserOptions::default() },
                    ..base.clone()
                },
            ),
        ] {
            let own = settings(&keys);
            let error = own.check_values().expect_err(field);
            assert_eq!(error.field, field, "{keys}: {error}");
            let time = Duration::from_secs(60);
            assert_eq!(own.plan("", &Seeds::new(1), time).expect_err(field).field, field, "{keys}");
            let plan = own.wrong_plan(other.check().expect_err(field));
            assert_eq!(plan, error, "{keys}");
        }
    }

    /// Some errors need the duration of the flow.
    #[test]
    fn users_that_are_not_enough_for_the_time_are_refused_with_it() {
        let few = settings(&json!({ "scenario": "register", "users": 10 }));
        few.check_values().unwrap();
        few.plan("", &Seeds::new(1), Duration::from_secs(1)).unwrap();
        let error = few.plan("", &Seeds::new(1), Duration::from_secs(2)).unwrap_err();
        assert!(error.field == "users" && error.why.contains("about 20 users are needed"), "{error}");
    }
}
