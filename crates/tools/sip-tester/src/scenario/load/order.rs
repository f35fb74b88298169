//! The order of a scenario load.

use std::collections::BTreeSet;
use std::path::PathBuf;

use netrig_core::Duration;
use netrig_sip::load::{Arrivals, Gaps, Pace};
use netrig_sip_net::EndAddress;

use super::super::action::ScriptAction;
use super::super::calls::ScriptSide;
use super::super::injection::InjectionFile;
use super::super::link::LinkOrder;
use super::super::run::ScriptSettings;
use super::super::script::{CallScript, StepKind};
use super::super::template::InjectedField;
use crate::media::MediaOrder;

/// Which messages share a connection over TCP and TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScriptConnections {
    /// All messages share one connection.
    #[default]
    One,
    /// The messages of each call share one connection.
    PerCall,
}

/// A load of scenarios.
#[derive(Clone, Debug)]
pub struct ScenarioOrder {
    /// The scenario.
    pub script: CallScript,
    /// The file of the scenario.
    pub file: PathBuf,
    /// The values of keywords, and the rules of calls. The local address is replaced by that of the sockets. If the
    /// address in `media` is unspecified, it becomes the address of the sockets; the port in `media` is kept, even if
    /// it is 0.
    pub settings: ScriptSettings,
    /// Injection files with their names. Fields without a file use the first one.
    pub files: Vec<(String, InjectionFile)>,
    /// Values of variables of the whole run (SIPp's `-set`).
    pub variables: Vec<(String, String)>,
    /// The addresses and the transport of the sockets.
    pub address: EndAddress,
    /// Which messages share a connection.
    pub connections: ScriptConnections,
    /// Start times of calls. Unused if the other side starts them.
    pub pace: Pace,
    /// No call starts after this time. If the other side starts calls, the load ends then. `None`: no limit.
    pub lasts: Option<Duration>,
    /// The largest number of calls.
    pub count: Option<u64>,
    /// Number of users to which calls are assigned in turn.
    pub users: Option<u32>,
    /// The largest number of open calls.
    pub most_open: usize,
    /// Seed of all random choices.
    pub seed: u64,
    /// Whether the scenario may start programs.
    pub runs_programs: bool,
    /// Whether messages may go to public addresses.
    pub may_test: bool,
    /// Media of sessions, with separate ports for each call.
    pub media: Option<MediaOrder>,
    /// The other processes of the test.
    pub link: Option<LinkOrder>,
}

/// The largest number of connections that peers may open to the tester.
const MOST_ACCEPTED: usize = 10_000;

/// Receive buffer for SIP datagrams, bytes.
const ROOM: u32 = 8 << 20;

impl ScenarioOrder {
    /// A load with the default settings.
    pub fn new(script: CallScript, address: EndAddress) -> Self {
        Self {
            script,
            file: PathBuf::from("scenario"),
            settings: ScriptSettings::new(&address),
            files: Vec::new(),
            variables: Vec::new(),
            address: EndAddress { room: ROOM, most_accepted: MOST_ACCEPTED, ..address },
            connections: ScriptConnections::One,
            pace: Pace::Open(Arrivals::at(0.0, Gaps::Constant)),
            lasts: None,
            count: None,
            users: None,
            most_open: 1 << 17,
            seed: 1,
            runs_programs: false,
            may_test: false,
            media: None,
            link: None,
        }
    }

    /// Whether the settings of the load prevent every call.
    pub(super) fn pace_is_empty(&self, side: ScriptSide) -> bool {
        let is_still = match &self.pace {
            Pace::Open(Arrivals::Rate { stages, .. }) => {
                stages.iter().all(|stage| stage.from <= 0.0 && stage.to <= 0.0)
            }
            _ => false,
        };
        self.count == Some(0) || self.users == Some(0) || (side == ScriptSide::Caller && is_still)
    }
}

impl CallScript {
    /// The injection files that fields refer to.
    pub fn named_files(&self) -> BTreeSet<&str> {
        self.fields().filter_map(|(_, field)| field.file.as_deref()).collect()
    }

    /// The line of the first field of an injection file.
    pub fn first_field(&self) -> Option<usize> {
        self.fields().map(|(line, _)| line).next()
    }

    /// The fields of injection files in sent messages, each with the line of its step.
    pub(super) fn fields(&self) -> impl Iterator<Item = (usize, &InjectedField)> {
        self.steps
            .iter()
            .filter_map(|step| match &step.kind {
                StepKind::Send(send) => Some((step.line, &send.message)),
                _ => None,
            })
            .flat_map(|(line, message)| message.fields().map(move |field| (line, field)))
    }

    /// The line of the first step that starts a program.
    pub fn starts_programs(&self) -> Option<usize> {
        let has_one = |actions: &[ScriptAction]| {
            actions.iter().any(|action| matches!(action, ScriptAction::Command(_)))
        };
        self.steps.iter().chain(&self.opening).find(|step| has_one(&step.actions)).map(|step| step.line)
    }
}
