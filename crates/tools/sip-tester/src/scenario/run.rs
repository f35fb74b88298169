//! What all calls of a scenario share.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use netrig_core::{Duration, Stream};
use netrig_sip::digest::NonceCounts;
use netrig_sip::header::Transport;
use netrig_sip::transaction::Timing;
use netrig_sip_net::EndAddress;
use regex::{Regex, RegexBuilder};

use super::injection::{InjectionError, InjectionFile};
use super::script::{CallScript, ExpectedMessage, ReceiveStep, ScriptAction, ScriptStep, StepKind};
use super::template::InjectedField;
use super::values::{ScriptValue, ScriptValues};
use super::variables::{VariableId, VariableScope};
use crate::media::MediaCodec;

/// The port for media of who calls, if none is given. It is not that of who answers, for both may be on one machine.
const CALLER_MEDIA_PORT: u16 = 6000;
/// The port for media of who answers, if none is given.
const CALLEE_MEDIA_PORT: u16 = 26_000;

/// How calls are carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptSettings {
    /// Where messages go.
    pub remote: SocketAddr,
    /// The same as it was typed.
    pub remote_host: String,
    /// The tester's address.
    pub local: SocketAddr,
    /// Where media go to.
    pub media: SocketAddr,
    /// The codec of media, if calls have some: each call has a port of its own then.
    pub codec: Option<MediaCodec>,
    /// What carries messages.
    pub transport: Transport,
    /// User part of whom is called (`-s`).
    pub service: String,
    /// Pauses without a time (`-d`).
    pub pause: Duration,
    /// How long a message is awaited where the step says nothing; for ever if absent.
    pub patience: Option<Duration>,
    /// User and password for credentials where the scenario says none (`-au`, `-ap`).
    pub username: String,
    /// The password.
    pub password: String,
    /// T2 of RFC 3261.
    pub t2: Duration,
    /// What a call that fails has begun is ended: an INVITE by CANCEL, a session by BYE.
    pub ends_sessions: bool,
    /// Requests that no step awaits are answered 200: INFO, NOTIFY, OPTIONS and UPDATE (`-aa`).
    pub answers_by_itself: bool,
    /// A number of this run, for tags and branches.
    pub run_number: u32,
    /// Number of users.
    pub users: u32,
    /// Version of the tester.
    pub version: String,
}

impl ScriptSettings {
    /// The usual settings of calls with this server, or of those that arrive at this address.
    pub fn new(address: &EndAddress) -> Self {
        let port = if address.answers_strangers { CALLEE_MEDIA_PORT } else { CALLER_MEDIA_PORT };
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        Self {
            remote: address.server,
            remote_host: address.server.ip().to_string(),
            // The addresses of the sockets, once they are open.
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

/// A regular expression; `.` fits line ends.
///
/// # Errors
/// It is none, or takes too much memory, in words.
pub(super) fn compiled(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern).dot_matches_new_line(true).size_limit(1 << 20).build();
    built.map_err(|error| error.to_string().lines().last().unwrap_or_default().trim().to_owned())
}

impl CallScript {
    /// The first regular expression that is none: the line of its step, and why.
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
    /// The port for media of a call, whose number is from 1: even, and with the next one free for RTCP.
    pub fn media_port(&self, number: u64) -> u16 {
        let first = self.media.port() & !1;
        let pairs = u64::from((u16::MAX - first) / 2).max(1);
        first + 2 * (number.saturating_sub(1) % pairs) as u16
    }
}

/// How often the calls have carried out a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTally {
    /// Messages that were sent or received by it; of other steps how often they were carried out.
    pub done: u64,
    /// Messages of it that were sent again, or came again.
    pub again: u64,
    /// How often its time was over.
    pub timeouts: u64,
    /// How often a message came while a call was at it that the script does not have there.
    pub unexpected: u64,
}

/// Regular expressions that are kept at most: a script whose expressions have variables makes new ones without end.
const MOST_PATTERNS: usize = 256;

/// What the calls of a scenario share: the script, the settings, files and variables.
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
    /// Injection files by their names.
    pub files: BTreeMap<String, InjectionFile>,
    /// The file of fields that name none.
    pub default_file: Option<String>,
    /// Counters of the script.
    pub counters: Vec<u64>,
    /// What became of each step.
    pub tallies: Vec<StepTally>,
    patterns: BTreeMap<String, Regex>,
    /// The keyword `dynamic_id`.
    pub dynamic_id: u64,
    /// Counts of nonces.
    pub nonces: NonceCounts,
    /// Chance.
    pub draws: Stream,
}

impl ScriptRun {
    /// A run that has not begun.
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

    /// A POSIX extended regular expression. `.` fits line ends, as in regcomp(3) without REG_NEWLINE.
    ///
    /// # Errors
    /// It is none, in words.
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
    /// The script has no such variable of the whole run, in words.
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

    /// The name of the file that a field is in.
    ///
    /// # Errors
    /// There is no such file, in words.
    pub fn file_of(&self, field: &InjectedField) -> Result<&str, String> {
        let name = field.file.as_deref().or(self.default_file.as_deref());
        let name = name.ok_or("[field] needs an injection file (-inf)")?;
        let known = self.files.get_key_value(name).map(|(name, _)| name.as_str());
        known.ok_or_else(|| format!("there is no injection file {name}"))
    }

    /// The lines of all files for one call.
    ///
    /// # Errors
    /// A file has fewer lines than there are users.
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
