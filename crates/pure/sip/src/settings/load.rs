//! The settings of a load of SIP users: in an experiment file, and as flags of `netrig sip load` and `netrig sip capacity`.

use std::collections::BTreeMap;

use netrig_core::setting::SettingValue;
use netrig_core::{Duration, Fraction, Size, choices, settings};
use schemars::JsonSchema;
use serde::de::{self, value::MapDeserializer};
use serde::{Deserialize, Serialize};

use super::drawn_time::DrawnTime;
use super::location::LocationSettings;
use super::scenario::ScenarioName;
use super::server::Serving;
use crate::load::{ArrivalRate, Gaps, OwnMessage};
use crate::transaction::Timing;

settings! {
    /// Users of SIP and their server.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct LoadSettings gives UserOptions {
        /// What a user does. On the command line `call` by default.
        scenario: Option<ScenarioName> [default, skip_serializing_if = "Option::is_none"] { excludes: &["mix"] };
        /// Instead: several scenarios, each with its share of the attempts, 100 % together.
        mix: BTreeMap<ScenarioName, Fraction> [default, skip_serializing_if = "BTreeMap::is_empty"] {
            value_name: "SCENARIO=SHARE,..",
        };
        /// Instead: a scenario file of SIPp (XML) or netrig (TOML), relative to the experiment file. Calls follow it
        /// message by message. When the experiment file is read, the text replaces the file name. Not in the simulator.
        scenario_file: Option<String> [default, skip_serializing_if = "Option::is_none"];
        /// Instead: the text of such a scenario.
        scenario_text: Option<String> [default, skip_serializing_if = "Option::is_none"];
        /// For such a scenario: a file, relative to the experiment file, whose lines contain the values of the fields
        /// `[field0]` and so on, one line for each call (SIPp's -inf). When the experiment file is read, the text
        /// replaces the file name.
        values_file: Option<String> [default, skip_serializing_if = "Option::is_none"];
        /// Instead: the text of such a file.
        values_text: Option<String> [default, skip_serializing_if = "Option::is_none"];
        /// For such a scenario: values of its own keywords (SIPp's -key).
        keys: BTreeMap<String, String> [default, skip_serializing_if = "BTreeMap::is_empty"];
        /// For such a scenario: the value of `[service]`, the called user (SIPp's -s); by default `service`.
        service: Option<String> [default, skip_serializing_if = "Option::is_none"];
        /// Whether the server is tested against the rules of basic calls or registrations before the load, in the time
        /// before the flow's `start`. A broken rule marks the run. Not in the simulator.
        conform: bool [default, skip_serializing_if = "is_false"];
        /// Mean time between two arrivals, above zero.
        interval: Option<Duration> [default, skip_serializing_if = "Option::is_none"] { heading: ARRIVALS, group: PACE };
        /// Instead: arrivals per second.
        rate: Option<ArrivalRate> [default, skip_serializing_if = "Option::is_none"] { heading: ARRIVALS, group: PACE };
        /// Instead: consecutive stages with their rates. The last rate continues.
        stages: Vec<StageSettings> [default, skip_serializing_if = "Vec::is_empty"] { flag: "stage", heading: ARRIVALS, group: PACE };
        /// Instead: each user starts again this time after its last attempt has ended (a closed loop).
        pause: Option<DrawnTime> [default, skip_serializing_if = "Option::is_none"] { heading: ARRIVALS, group: PACE };
        /// Instead: the times at which attempts start, counted from the flow's start.
        moments: Vec<Duration> [default, skip_serializing_if = "Vec::is_empty"];
        /// Instead: a file, relative to the experiment file, with a time in seconds on each line. When the experiment
        /// file is read, `moments` replaces it.
        trace: Option<String> [default, skip_serializing_if = "Option::is_none"] { value_name: "FILE", heading: ARRIVALS, group: PACE };
        /// Distribution of the times between arrivals.
        arrivals: Gaps [default] { heading: ARRIVALS };
        /// Number of users. By default as many as the scenario needs, or 1000 if it needs no particular number.
        users: Option<u32> [default, skip_serializing_if = "Option::is_none"] { heading: USERS, excludes: &["users_from"] };
        /// Number of idle users, which are registered beforehand.
        population: u32 [default];
        /// Maximum number of attempts.
        count: Option<u64> [default, skip_serializing_if = "Option::is_none"] { heading: ARRIVALS };
        /// The callees.
        callee: Called [default] { heading: CALLS };
        /// How long the peer of a caller rings before it answers.
        ring: Duration [default = "no_time"] { heading: CALLS };
        /// Number of contacts of each peer, up to 16. A forking server calls them all.
        contacts: u8 [default = "one_place"] { heading: CALLS } => contacts;
        /// Number of provisional responses of a peer before it answers, evenly over the time that it rings.
        provisionals: u16 [default = "one"] { heading: CALLS } => provisionals;
        /// Session interval that callers request (RFC 4028), whole seconds, at least 90 s. By default none.
        session_expires: Option<Duration> [default, skip_serializing_if = "Option::is_none"] { heading: CALLS } => session_expires;
        /// Duration of an answered call or of a subscription. A drawn duration is limited to 20 times the mean.
        hold: DrawnTime [default] { heading: CALLS };
        /// How long a call of `cancel` or `no-answer` rings before it is cancelled.
        patience: Duration [default = "tenth_of_a_second"] { heading: CALLS };
        /// For transports with connections: which requests share a connection. No effect over UDP.
        connections: Option<Connections> [default, skip_serializing_if = "Option::is_none"] { heading: CONNECTIONS };
        /// For transports with connections: whether they use TLS. Any certificate is accepted.
        secure: bool [default];
        /// Size of the session descriptions, up to 60 KB; `0 B` for none.
        sdp: Size [default = "usual_description"] { heading: CALLS };
        /// Own header fields and bodies for messages of the scenarios.
        messages: Vec<OwnMessage> [default, skip_serializing_if = "Vec::is_empty"] => messages;
        /// Whether callers follow the contacts of a 3xx (RFC 3261 section 8.1.3.4). They send only to the server, the
        /// servers that take over, and the peers. To any other contact they send by way of the server.
        follow_redirects: bool [default, skip_serializing_if = "is_false"] { heading: CALLS } => follow_redirects;
        /// How often an attempt is repeated after a refusal with `Retry-After`. The time must not exceed the longest
        /// ringing time.
        retries: u8 [default, skip_serializing_if = "is_zero"] { heading: CALLS } => retries;
        /// Transport of requests of more than 1300 B if the others go over UDP.
        large_requests: LargeRequests [default, skip_serializing_if = "is_over_udp"] { heading: CALLS } => large_requests;
        /// Password of all users, for a server that requires one.
        password: Option<String> [default, skip_serializing_if = "Option::is_none"];
        /// Domain of all users. By default the name of the server's location, or its address with its port if that is not
        /// 5060.
        domain: Option<String> [default, skip_serializing_if = "Option::is_none"] { heading: USERS };
        /// Duration of a registration or subscription, whole seconds.
        expires: Duration [default = "an_hour"] { heading: USERS };
        /// T1 of RFC 3261: an unanswered request is retransmitted after T1, and times out after 64 × T1.
        t1: Duration [default = "t1"] { heading: CALLS };
        /// T2 of RFC 3261: the longest time between retransmissions of a request other than INVITE, not below T1. By
        /// default 4 s, or T1 if that is more.
        t2: Option<Duration> [default, skip_serializing_if = "Option::is_none"] { heading: CALLS };
        /// T4 of RFC 3261: the longest time that a message stays in the network.
        t4: Duration [default = "t4"] { heading: CALLS };
        /// At most seven servers that replace a failed one, in this order: in a file addresses such as
        /// `"10.0.0.3:5060"`; on the command line repeat the flag and write each like the target. The next one is used
        /// if a server does not answer, answers 503 or is unreachable (RFC 3263 section 4.3). Not in the simulator.
        fail_over: Vec<String> [default, skip_serializing_if = "Vec::is_empty"] { value_name: "TARGET" };
        /// Port of the server.
        port: u16 [default = "sip_port"];
        /// Number of threads of the tester, each with a socket of its own. The simulator has one.
        threads: u16 [default = "one"];
        /// Maximum number of concurrent calls in each thread.
        most_calls: u32 [default = "most_calls"] { heading: TESTER };
        /// How users find their server by its name. By default they know its address.
        location: Option<LocationSettings> [default, skip_serializing_if = "Option::is_none"];
        /// The server at the flow's other end: a server of netrig, or another program.
        server: Serving;
    }
}

/// Headings of help texts.
const ARRIVALS: &str = "Arrivals";
const USERS: &str = "Users";
const CALLS: &str = "Calls";
const CONNECTIONS: &str = "Connections";
const TESTER: &str = "Tester";

/// The group of the settings that say when attempts start.
const PACE: &str = "pace";

impl UserOptions {
    /// The session interval that callers request, s. 0 requests none.
    pub fn session_interval(&self) -> u32 {
        self.session_expires.map_or(0, whole_seconds)
    }

    /// Whether requests of more than 1300 B go over TCP in a load over UDP (RFC 3261 section 18.1.1).
    pub fn sends_large_over_tcp(&self) -> bool {
        self.large_requests == LargeRequests::Tcp
    }
}

impl Default for UserOptions {
    /// The defaults of files.
    fn default() -> Self {
        LoadSettings::default().options()
    }
}

/// A time in whole seconds, rounded down.
pub(super) fn whole_seconds(span: Duration) -> u32 {
    u32::try_from(span.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}

impl Default for LoadSettings {
    /// A load on another program, with the defaults of files.
    fn default() -> Self {
        let written = MapDeserializer::new(std::iter::once(("server", "program")));
        // Only `server` has no default: a test reads this.
        Self::deserialize(written).unwrap_or_else(|error: de::value::Error| unreachable!("{error}"))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_zero(value: &u8) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_over_udp(value: &LargeRequests) -> bool {
    matches!(value, LargeRequests::Udp)
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
    1 << 20
}

/// A period with its rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageSettings {
    /// Arrivals per second at the start.
    pub rate: ArrivalRate,
    /// Arrivals per second at the end, after a linear change. By default the rate does not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<ArrivalRate>,
    /// Duration of the stage.
    #[serde(rename = "for")]
    pub lasts: Duration,
}

impl SettingValue for StageSettings {
    const VALUE_NAME: &'static str = "RATE[..RATE],TIME";
    const SYNTAX: &'static str = "`100/s,30s`, or from one rate to another: `100/s..500/s,30s`";

    fn read(word: &str) -> Result<Self, String> {
        let wrong = || "expected a stage such as 100/s,30s or 100/s..500/s,30s".to_owned();
        let (rates, lasts) = word.split_once(',').ok_or_else(wrong)?;
        let lasts = lasts.trim().parse().map_err(|_| wrong())?;
        let rate = |text: &str| text.parse::<ArrivalRate>().map_err(|_| wrong());
        match rates.split_once("..") {
            Some((from, to)) => Ok(Self { rate: rate(from)?, to: Some(rate(to)?), lasts }),
            None => Ok(Self { rate: rate(rates)?, to: None, lasts }),
        }
    }

    fn word(&self) -> String {
        let to = self.to.map(|to| format!("..{to}")).unwrap_or_default();
        format!("{}{to},{}", self.rate, self.lasts)
    }
}

choices! {
    /// The callees.
    #[derive(Default)]
    pub enum Called {
        /// The server, or a user agent behind it.
        [default]
        Server = "server",
        /// A peer of each user at the flow's first end, which is registered beforehand.
        Own = "own",
    }
}

choices! {
    /// Transport of requests of more than 1300 B, while other requests go over UDP.
    #[derive(Default)]
    pub enum LargeRequests {
        /// UDP too, in fragments.
        [default]
        Udp = "udp",
        /// TCP (RFC 3261 section 18.1.1), or UDP if the server refuses a connection.
        Tcp = "tcp",
    }
}

choices! {
    /// Which requests share a connection.
    #[derive(Default)]
    pub enum Connections {
        /// All requests of a thread.
        [default]
        One = "one",
        /// The requests of a user.
        PerUser = "per-user",
        /// The requests of one call, registration or other request.
        PerAttempt = "per-attempt",
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::setting::SettingsTable as _;

    use super::*;

    #[test]
    fn each_default_is_that_of_a_file() {
        let usual = LoadSettings::default();
        for (key, words) in [
            ("t1", &["500 ms"][..]),
            ("sdp", &["300 B"]),
            ("callee", &["server"]),
            ("arrivals", &["poisson"]),
            ("most_calls", &["1048576"]),
            ("scenario", &[]),
            ("stages", &[]),
        ] {
            assert_eq!(usual.words(key), words, "{key}");
        }
    }

    #[test]
    fn the_words_of_each_setting_are_read_again() {
        let mut all = LoadSettings::default();
        for (key, words) in [
            ("mix", &["call=70%,busy=30%"][..]),
            ("stages", &["5/s,10s", "5/s..9/s,1s"]),
            ("rate", &["90/min"]),
            ("pause", &["uniform:1s..5s"]),
            ("hold", &["lognormal:90s,1"]),
            ("arrivals", &["burst:10"]),
            ("connections", &["per-user"]),
            ("large_requests", &["tcp"]),
            ("follow_redirects", &[]),
            ("fail_over", &["10.0.0.3:5060"]),
        ] {
            all.set(key, words).unwrap();
        }
        let mut again = LoadSettings::default();
        for row in LoadSettings::rows() {
            let words = all.words(row.key);
            if !words.is_empty() {
                again.set(row.key, &words.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
            }
        }
        assert_eq!(again, all);
        assert_eq!(all.rate, Some(ArrivalRate(1.5)));
        assert_eq!(all.words("stages"), ["5/s,10 s", "5/s..9/s,1 s"]);
    }

    #[test]
    fn a_stage_is_a_rate_or_goes_from_one_to_another() {
        let stage = |rate, to: Option<f64>| StageSettings {
            rate: ArrivalRate(rate),
            to: to.map(ArrivalRate),
            lasts: Duration::from_secs(30),
        };
        assert_eq!(StageSettings::read("100/s,30s"), Ok(stage(100.0, None)));
        assert_eq!(StageSettings::read("100/s..500/s,30s"), Ok(stage(100.0, Some(500.0))));
        assert!(StageSettings::read("100/s").is_err() && StageSettings::read("1,30s").is_err());
    }

    #[test]
    fn a_mix_names_scenarios_and_their_shares() {
        let mut load = LoadSettings::default();
        load.set("mix", &["call=70%, busy=25 %,re-invite=5%"]).unwrap();
        let share = |percent: &str| percent.parse::<Fraction>().unwrap();
        let expected =
            [(ScenarioName::Call, "70 %"), (ScenarioName::ReInvite, "5 %"), (ScenarioName::Busy, "25 %")];
        assert_eq!(load.mix, expected.map(|(name, percent)| (name, share(percent))).into());
        for wrong in ["call", "call=x", "nobody=100%", ""] {
            assert!(load.set("mix", &[wrong]).is_err(), "{wrong}");
        }
    }
}
