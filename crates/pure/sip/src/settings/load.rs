//! A load of SIP users, as an experiment file says it.

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
    /// In its place: a file, beside the experiment's, with a scenario of SIPp (XML) or of netrig's own form (TOML), which calls follow
    /// message by message. Who reads the experiment's file writes its text into the place. The simulator has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario_file: Option<String>,
    /// In its place: the text of such a scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario_text: Option<String>,
    /// Of such a scenario: a file, beside the experiment's, whose lines give calls their fields `[field0]` and so on (SIPp's -inf). Who
    /// reads the experiment's file writes its text into the place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values_file: Option<String>,
    /// In its place: the text of such a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values_text: Option<String>,
    /// Of such a scenario: what keywords of its own stand for (SIPp's -key).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<String, String>,
    /// Of such a scenario: what `[service]` stands for, the user who is called; `service` if not given (SIPp's -s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Whether the server is tested against the rules of basic calls or registrations before the first user begins, in the time before
    /// the flow's `start`. A server that breaks one marks the run. The simulator has no such test.
    #[serde(default, skip_serializing_if = "is_false")]
    pub conform: bool,
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
    pub pause: Option<DrawnTime>,
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
    /// The session interval that callers ask for (RFC 4028), whole seconds, 90 s at least; without it they ask for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_expires: Option<Duration>,
    /// How long a call is held, or a subscription lasts. What is drawn above 20 means is as long as that.
    #[serde(default)]
    pub hold: DrawnTime,
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
    /// Header fields and bodies of the author's own for the messages of the scenarios.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<OwnMessage>,
    /// Whether callers follow a 3xx to its contacts (RFC 3261 section 8.1.3.4). They send to the server, the servers that take over and the
    /// peers only: for any other contact they ask the server.
    #[serde(default, skip_serializing_if = "is_false")]
    pub follow_redirects: bool,
    /// How often an attempt that is refused with `Retry-After` is made again after that time, if that is 3 minutes at most.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u8,
    /// The transport of requests of more than 1300 B, where the flow is over UDP.
    #[serde(default, skip_serializing_if = "is_over_udp")]
    pub large_requests: LargeRequests,
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

/// The transport of requests of more than 1300 B, where the others go over UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LargeRequests {
    /// UDP too, in fragments.
    #[default]
    Udp,
    /// TCP, as RFC 3261 section 18.1.1 says, and UDP if the server takes no connection.
    Tcp,
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
