//! What all calls of a scenario share.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use netrig_core::{Duration, Stream};
use netrig_sip::digest::NonceCounts;
use netrig_sip::header::Transport;

use super::injection::{InjectionError, InjectionFile};
use super::script::CallScript;
use super::template::InjectedField;
use super::values::ScriptValues;

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
    /// T1 of RFC 3261.
    pub t1: Duration,
    /// T2 of RFC 3261.
    pub t2: Duration,
    /// How often an INVITE is sent again at most.
    pub most_invites_again: u32,
    /// How often another request is sent again at most.
    pub most_again: u32,
    /// Requests that no step awaits are answered 200: INFO, NOTIFY, OPTIONS and UPDATE (`-aa`).
    pub answers_by_itself: bool,
    /// A number of this run, for tags and branches.
    pub run_number: u32,
    /// Number of users.
    pub users: u32,
    /// Version of the tester.
    pub version: String,
}

/// What the calls of a scenario share: the script, the settings, files and variables.
#[derive(Debug)]
pub struct ScriptRun {
    /// The script.
    pub script: CallScript,
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
            script,
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
