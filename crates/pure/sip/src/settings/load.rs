//! The settings of a load of SIP users in an experiment file.

use std::collections::BTreeMap;

use netrig_core::{Duration, Fraction, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::drawn_time::DrawnTime;
use super::location::LocationSettings;
use super::scenario::ScenarioName;
use super::server::Serving;
use crate::load::{Gaps, OwnMessage};
use crate::transaction::Timing;

/// Users of SIP and their server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadSettings {
    /// What a user does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<ScenarioName>,
    /// Instead: several scenarios, each with its share of the attempts, 100 % together.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mix: BTreeMap<ScenarioName, Fraction>,
    /// Instead: a scenario file of SIPp (XML) or of netrig (TOML), relative to the experiment file, which calls
    /// follow message by message. The reader of the experiment file replaces it by its text. Not in the simulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario_file: Option<String>,
    /// Instead: the text of such a scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario_text: Option<String>,
    /// For such a scenario: a file, relative to the experiment file, whose lines have the fields `[field0]` and so on
    /// of calls (SIPp's -inf). The reader of the experiment file replaces it by its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values_file: Option<String>,
    /// Instead: the text of such a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values_text: Option<String>,
    /// For such a scenario: values of its own keywords (SIPp's -key).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<String, String>,
    /// For such a scenario: the value of `[service]`, the called user (SIPp's -s); by default `service`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Whether the server is tested against the rules of basic calls or registrations before the load, in the time
    /// before the flow's `start`. A broken rule marks the run. Not in the simulator.
    #[serde(default, skip_serializing_if = "is_false")]
    pub conform: bool,
    /// Mean time between two arrivals, above zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// Instead: arrivals per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Instead: rates one after the other. The last one stays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageSettings>,
    /// Instead: each user starts again this time after its last attempt has ended (a closed loop).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<DrawnTime>,
    /// Instead: the times at which attempts start, counted from the flow's start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<Duration>,
    /// Instead: a file, relative to the experiment file, with a time in seconds on each line. The reader of the
    /// experiment file replaces it by `moments`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Distribution of the times between arrivals; `{ burst = 10 }` for ten at once.
    #[serde(default)]
    pub arrivals: Gaps,
    /// Number of users. By default as many as the scenario needs, or 1000 if it needs no certain number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<u32>,
    /// Number of idle users, which are registered beforehand.
    #[serde(default)]
    pub population: u32,
    /// The most attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The callees.
    #[serde(default)]
    pub callee: Called,
    /// How long a peer of `callee = "own"` rings before it answers.
    #[serde(default = "no_time")]
    pub ring: Duration,
    /// Number of contacts of each peer of `callee = "own"`, up to 16. A forking server calls them all.
    #[serde(default = "one_place")]
    pub contacts: u8,
    /// Number of provisional responses of a peer of `callee = "own"` before it answers, evenly over `ring`.
    #[serde(default = "one")]
    pub provisionals: u16,
    /// Session interval that callers request (RFC 4028), whole seconds, at least 90 s. By default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_expires: Option<Duration>,
    /// Duration of an answered call or of a subscription. A drawn one is limited to 20 means.
    #[serde(default)]
    pub hold: DrawnTime,
    /// How long a call of `cancel` or `no-answer` rings before it is cancelled.
    #[serde(default = "tenth_of_a_second")]
    pub patience: Duration,
    /// Over connections: which requests share one. No effect over UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
    /// Over connections: whether they use TLS. Any certificate is accepted.
    #[serde(default)]
    pub secure: bool,
    /// Size of the session descriptions, up to 60 KB; `0 B` for none.
    #[serde(default = "usual_description")]
    pub sdp: Size,
    /// Own header fields and bodies for messages of the scenarios.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<OwnMessage>,
    /// Whether callers follow the contacts of a 3xx (RFC 3261 section 8.1.3.4). They send only to the server, the
    /// servers that take over, and the peers. For any other contact they use the server.
    #[serde(default, skip_serializing_if = "is_false")]
    pub follow_redirects: bool,
    /// How often an attempt that is refused with `Retry-After` is repeated after that time, which may be 3 minutes at
    /// most.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u8,
    /// Transport of requests of more than 1300 B in a flow over UDP.
    #[serde(default, skip_serializing_if = "is_over_udp")]
    pub large_requests: LargeRequests,
    /// Password of all users, for a server that requires one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Domain of all users. By default the name of the server's location, or its address with its port if that is not
    /// 5060.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Duration of a registration, whole seconds.
    #[serde(default = "an_hour")]
    pub expires: Duration,
    /// T1 of RFC 3261: an unanswered request is retransmitted after it, and times out after 64 of it.
    #[serde(default = "t1")]
    pub t1: Duration,
    /// T2 of RFC 3261: the longest time between retransmissions of a request other than INVITE, not below T1. By
    /// default 4 s, or T1 if that is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t2: Option<Duration>,
    /// T4 of RFC 3261: the longest time that a message stays in the network.
    #[serde(default = "t4")]
    pub t4: Duration,
    /// Addresses of at most seven servers that take over in turn, such as `"10.0.0.3:5060"`. The next one is used if
    /// a server does not answer, answers 503 or is unreachable (RFC 3263 section 4.3). Not in the simulator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fail_over: Vec<String>,
    /// Port of the server.
    #[serde(default = "sip_port")]
    pub port: u16,
    /// Number of threads of the tester, each with a socket of its own. The simulator has one.
    #[serde(default = "one")]
    pub threads: u16,
    /// The most concurrent calls in each thread.
    #[serde(default = "most_calls")]
    pub most_calls: u32,
    /// How users find their server by its name. By default they know its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<LocationSettings>,
    /// The server at the flow's other end: a server of netrig, or another program.
    pub server: Serving,
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

pub(super) fn no_time() -> Duration {
    Duration::ZERO
}

pub(super) fn tenth_of_a_second() -> Duration {
    Duration::from_millis(100)
}

pub(super) fn usual_description() -> Size {
    Size::from_bytes(300)
}

pub(super) fn an_hour() -> Duration {
    Duration::from_secs(3600)
}

pub(super) fn t1() -> Duration {
    Timing::default().t1
}

pub(super) fn t4() -> Duration {
    Timing::default().t4
}

pub(super) fn one_place() -> u8 {
    1
}

fn sip_port() -> u16 {
    5060
}

pub(super) fn one() -> u16 {
    1
}

fn most_calls() -> u32 {
    1 << 16
}

/// A period with its rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageSettings {
    /// Arrivals per second at the start.
    pub rate: f64,
    /// Arrivals per second at the end, after a linear change. By default the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
    /// Duration of the stage.
    #[serde(rename = "for")]
    pub lasts: Duration,
}

/// The callees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Called {
    /// The server, or a user agent behind it.
    #[default]
    Server,
    /// A peer of each user at the flow's first end, which is registered beforehand.
    Own,
}

/// Transport of requests of more than 1300 B, while other requests go over UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LargeRequests {
    /// UDP too, in fragments.
    #[default]
    Udp,
    /// TCP (RFC 3261 section 18.1.1), or UDP if the server refuses a connection.
    Tcp,
}

/// Which requests share a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// All requests of a thread.
    One,
    /// The requests of a user.
    PerUser,
    /// The requests of one call, registration or other request.
    PerAttempt,
}
