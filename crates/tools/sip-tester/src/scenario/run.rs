//! The shared state of all calls of a scenario.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use netrig_core::{Duration, Stream};
use netrig_sip::digest::NonceCounts;
use netrig_sip::header::Transport;
use netrig_sip::transaction::Timing;
use netrig_sip_net::EndAddress;
use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action::ScriptAction;
use super::injection::{InjectionError, InjectionFile};
use super::script::{CallScript, ExpectedMessage, ReceiveStep, ScriptStep, StepKind};
use super::template::InjectedField;
use super::values::{ScriptValue, ScriptValues};
use super::variables::{VariableId, VariableScope};
use crate::media::MediaCodec;

/// The default media port of the caller. It differs from that of the callee, since both may be on one machine.
const CALLER_MEDIA_PORT: u16 = 6000;
/// The default media port of the callee.
const CALLEE_MEDIA_PORT: u16 = 26_000;

/// The values of keywords, and the rules of calls.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptSettings {
    /// Destination of messages.
    pub remote: SocketAddr,
    /// The destination as typed.
    pub remote_host: String,
    /// The tester's address.
    pub local: SocketAddr,
    /// Address for received media.
    pub media: SocketAddr,
    /// The codec of the media of calls; `None` if calls have no media. With media, each call has its own port.
    pub codec: Option<MediaCodec>,
    /// Transport of messages.
    pub transport: Transport,
    /// User part of the callee (`-s`).
    pub service: String,
    /// Length of pauses for which the scenario sets no time (`-d`).
    pub pause: Duration,
    /// How long to wait for a message if the step sets no time; `None` for ever.
    pub patience: Option<Duration>,
    /// User name of credentials for which the scenario sets none (`-au`).
    pub username: String,
    /// Password of credentials for which the scenario sets none (`-ap`).
    pub password: String,
    /// T2 of RFC 3261.
    pub t2: Duration,
    /// Whether a failed call ends its session: an INVITE by CANCEL, an established session by BYE.
    pub ends_sessions: bool,
    /// Whether unexpected INFO, NOTIFY, OPTIONS and UPDATE requests are answered 200 (`-aa`).
    pub answers_by_itself: bool,
    /// A number that identifies this run, in tags, branches and Call-IDs.
    pub run_number: u32,
    /// Number of users.
    pub users: u32,
    /// Version of the tester.
    pub version: String,
}

impl ScriptSettings {
    /// The default settings of calls to the server of this address, or of calls that arrive at this address.
    pub fn new(address: &EndAddress) -> Self {
        let port = if address.answers_strangers { CALLEE_MEDIA_PORT } else { CALLER_MEDIA_PORT };
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        Self {
            remote: address.server,
            remote_host: address.server.ip().to_string(),
            // Set to the addresses of the sockets once they are open.
            local: any,
            media: any,
            codec: None,
            transport: address.transport,
            service: "service".to_owned(),
            pause: Duration::ZERO,
            patience: None,
            username: "service".to_owned(),
            password: "password".to_owned(),
            t2: Timing::default().t2,
            ends_sessions: true,
            answers_by_itself: false,
            run_number: 0,
            users: 0,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// A regular expression; `.` matches line ends.
///
/// # Errors
/// If it is invalid or takes too much memory, in words.
pub(super) fn compiled(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern).dot_matches_new_line(true).size_limit(1 << 20).build();
    built.map_err(|error| error.to_string().lines().last().unwrap_or_default().trim().to_owned())
}

impl CallScript {
    /// The first invalid regular expression: the line of its step, and the error.
    pub(super) fn wrong_pattern(&self) -> Option<(usize, String)> {
        let of_step = |step: &ScriptStep| {
            let extracted = step.actions.iter().filter_map(|action| match action {
                ScriptAction::Extract { pattern, .. } => Some(pattern.clone()),
                _ => None,
            });
            let awaited = match &step.kind {
                StepKind::Receive(ReceiveStep { expected: ExpectedMessage::Matching(pattern), .. }) => {
                    Some(pattern.clone())
                }
                _ => None,
            };
            let wrong = extracted.chain(awaited).find_map(|pattern| {
                compiled(&pattern).err().map(|why| format!("the regular expression `{pattern}`: {why}"))
            })?;
            Some((step.line, wrong))
        };
        self.opening.iter().chain(&self.steps).find_map(of_step)
    }
}

impl ScriptSettings {
    /// The media port of the call with this number (from 1). It is even; the next port is reserved for RTCP.
    pub fn media_port(&self, number: u64) -> u16 {
        let first = self.media.port() & !1;
        let pairs = u64::from((u16::MAX - first) / 2).max(1);
        first + 2 * (number.saturating_sub(1) % pairs) as u16
    }
}

/// Counts of a step over all calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepTally {
    /// Number of its messages, or of its executions.
    pub done: u64,
    /// Number of retransmissions sent or received.
    pub again: u64,
    /// Number of time-outs.
    pub timeouts: u64,
    /// Number of unexpected messages during this step.
    pub unexpected: u64,
}

/// The largest number of cached regular expressions. A script whose expressions contain variables creates new ones
/// without limit.
const MOST_PATTERNS: usize = 256;

/// The state that the calls of a scenario share: the script, the settings, files and variables.
#[derive(Debug)]
pub struct ScriptRun {
    /// The script.
    pub script: Arc<CallScript>,
    /// The settings.
    pub settings: ScriptSettings,
    /// Variables of the whole run.
    pub globals: ScriptValues,
    /// Variables of each user.
    pub of_users: BTreeMap<usize, ScriptValues>,
    /// Injection files by name.
    pub files: BTreeMap<String, InjectionFile>,
    /// The name of the injection file of fields without a file.
    pub default_file: Option<String>,
    /// Counters of the script.
    pub counters: Vec<u64>,
    /// Counts of each step.
    pub tallies: Vec<StepTally>,
    patterns: BTreeMap<String, Regex>,
    /// The last value of the keyword `dynamic_id`.
    pub dynamic_id: u64,
    /// Counts of the uses of each nonce (RFC 7616 section 3.4).
    pub nonces: NonceCounts,
    /// The random stream of all calls.
    pub draws: Stream,
}

impl ScriptRun {
    /// The state before the first call.
    pub fn new(script: CallScript, settings: ScriptSettings, draws: Stream) -> Self {
        let variables = script.variables.iter().count();
        let counters = vec![0; script.counters.len()];
        Self {
            tallies: vec![StepTally::default(); script.steps.len()],
            patterns: BTreeMap::new(),
            script: Arc::new(script),
            settings,
            globals: ScriptValues::new(variables),
            of_users: BTreeMap::new(),
            files: BTreeMap::new(),
            default_file: None,
            counters,
            dynamic_id: 10_000,
            nonces: NonceCounts::default(),
            draws,
        }
    }

    /// A POSIX extended regular expression. `.` matches line ends, as in regcomp(3) without REG_NEWLINE.
    ///
    /// # Errors
    /// If it is invalid, in words.
    pub fn pattern(&mut self, pattern: &str) -> Result<&Regex, String> {
        if !self.patterns.contains_key(pattern) {
            let built = compiled(pattern)?;
            if self.patterns.len() == MOST_PATTERNS {
                self.patterns.clear();
            }
            self.patterns.insert(pattern.to_owned(), built);
        }
        Ok(&self.patterns[pattern])
    }

    /// Sets variables of the whole run before the first call.
    ///
    /// # Errors
    /// If the script has no such global variable, in words.
    pub fn set_globals(&mut self, values: &[(String, String)]) -> Result<(), String> {
        for (name, value) in values {
            let mut variables = self.script.variables.iter();
            let place = variables
                .position(|variable| variable.name == *name && variable.scope == VariableScope::Global)
                .ok_or_else(|| format!("the scenario has no <Global> variable `{name}`"))?;
            self.globals.set(VariableId(place), ScriptValue::Text(value.clone()));
        }
        Ok(())
    }

    /// The name of the file of a field.
    ///
    /// # Errors
    /// If there is no such file, in words.
    pub fn file_of(&self, field: &InjectedField) -> Result<&str, String> {
        let name = field.file.as_deref().or(self.default_file.as_deref());
        let name = name.ok_or("[field] needs an injection file (-inf)")?;
        let known = self.files.get_key_value(name).map(|(name, _)| name.as_str());
        known.ok_or_else(|| format!("there is no injection file {name}"))
    }

    /// The lines of all files for one call.
    ///
    /// # Errors
    /// If a file has fewer lines than there are users.
    pub fn lines_of_call(&mut self, user: Option<usize>) -> Result<BTreeMap<String, usize>, InjectionError> {
        let mut lines = BTreeMap::new();
        for (name, file) in &mut self.files {
            if let Some(line) = file.next_line(user, &mut self.draws)? {
                lines.insert(name.clone(), line);
            }
        }
        Ok(lines)
    }
}
