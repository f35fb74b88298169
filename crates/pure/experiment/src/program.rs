//! External programs that run on nodes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use netrig_core::{Duration, written, written_as_text};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::claim::selection::OneOrMany;

/// The most programs of a node, and the most files, counters and preparations of a program.
pub(crate) const MOST: usize = 64;

/// The shortest interval between two readings of counters. It is limited because each reading starts a program.
const SHORTEST: Duration = Duration::from_millis(10);

/// An application that a node runs beside the ends of flows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-tag" = "kind"))]
pub enum NodeApplication {
    /// An external program.
    Program(Program),
}

/// An external program on a node. It starts before the run and is stopped at the end of the run. The user must allow it
/// when the experiment is run (`--allow-programs`). The simulator has no programs.
///
/// In `command`, `before`, `counters` and `files`, `{folder}` stands for the program's own folder, `{address}`
/// for the node's first address, and `{address:NAME}` for the first address of node NAME.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The program and its arguments, without a shell: `["kamailio", "-f", "{folder}/kamailio.cfg", "-DD"]`. It must stay in
    /// the foreground.
    pub command: Vec<String>,
    /// Commands of the same form. They run to completion in the program's folder, one after another, before it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Vec<String>>,
    /// When the run may begin: `"udp:5060"` or `"tcp:80"` once the program listens on the port, `"sip:5060"` or
    /// `"sip:5060/tcp"` once it answers SIP on it, `"says:ready"` once it has written a line with that text. If
    /// not given, the run begins at once and the program may end before the run does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// The Debian packages that contain the program. If the program is missing, the error message lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// Files that are written into its folder before it starts, by their names: a text, or `{ file = "x.cfg" }`
    /// for the text of a file beside the experiment's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, FileText>")]
    pub files: BTreeMap<String, String>,
    /// The counters of the program itself, and how they are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<ProgramCounters>,
}

/// A file as the experiment writes it. The loader replaces named files by their texts before it reads the rest.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "it is there for its schema")]
enum FileText {
    /// Its text.
    Text(String),
    /// The name of a file beside the experiment's.
    Named {
        /// Its name.
        file: String,
    },
}

/// Counters of a program: a command that prints them, one on a line, as `name = value`, `name: value` or
/// `name:value`. They are read when the run begins and when it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramCounters {
    /// The program that prints them, and its arguments: `["kamcmd", "-s", "unixs:{folder}/ctl", "stats.fetch",
    /// "all"]`.
    pub command: Vec<String>,
    /// The counters that can be measured, as `of = "node.NAME.counter.COUNTER"`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Further readings at this interval, at least 10 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Duration>,
}

impl Program {
    /// Checks the settings. The error is the invalid key and the reason.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        let names_none = |command: &Vec<String>| command.first().is_none_or(String::is_empty);
        let nothing = || "it must name a program".to_owned();
        if names_none(&self.command) {
            return Err(("command", nothing()));
        }
        if self.before.iter().any(names_none) {
            return Err(("before", nothing()));
        }
        if self.before.len() > MOST {
            return Err(("before", format!("{} programs; at most {MOST} can be run", self.before.len())));
        }
        if let Some(counters) = &self.counters {
            if names_none(&counters.command) {
                return Err(("counters", nothing()));
            }
            if counters.names.len() > MOST {
                let why = format!("{} names; at most {MOST} can be measured", counters.names.len());
                return Err(("counters", why));
            }
            if counters.every.is_some_and(|every| every < SHORTEST) {
                return Err(("counters", format!("`every` must be at least {SHORTEST}")));
            }
        }
        if self.files.len() > MOST {
            return Err(("files", format!("{} files; at most {MOST} can be written", self.files.len())));
        }
        let plain = |name: &String| !matches!(name.as_str(), "" | "." | "..") && !name.contains(['/', '\0']);
        match self.files.keys().find(|name| !plain(name)) {
            Some(name) => Err(("files", format!("`{name}` is no plain file name"))),
            None => Ok(()),
        }
    }

    /// The program's name.
    pub fn name(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }
}

/// The applications of a node. A file writes one or a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeApplications(pub(crate) Vec<NodeApplication>);

impl<'de> Deserialize<'de> for NodeApplications {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        OneOrMany::deserialize(deserializer).map(|applications| Self(applications.0))
    }
}

impl JsonSchema for NodeApplications {
    fn schema_name() -> Cow<'static, str> {
        "NodeApplications".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<NodeApplication>();
        json_schema!({
            "description": "What a node runs, or a list of it.",
            "anyOf": [one, { "type": "array", "items": one }]
        })
    }
}

/// The condition under which a program is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// The program accepts TCP connections on this port.
    Tcp(u16),
    /// The program has a UDP socket on this port.
    Udp(u16),
    /// The program answers SIP requests on this port.
    Sip {
        /// The port.
        port: u16,
        /// Whether SIP uses TCP instead of UDP.
        over_tcp: bool,
    },
    /// The program has written a line that contains this text.
    Says(String),
}

/// A text that does not describe a [`Ready`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` does not say when a program is ready: expected `tcp:80`, `udp:5060`, `sip:5060`, `sip:5060/tcp` or `says:` and a text"
)]
pub struct NotReady(String);

impl FromStr for Ready {
    type Err = NotReady;

    fn from_str(text: &str) -> Result<Self, NotReady> {
        let (what, rest) = text.split_once(':').unwrap_or_default();
        let (number, transport) = match what {
            "sip" => rest.split_once('/').unwrap_or((rest, "udp")),
            _ => (rest, ""),
        };
        let port = number.parse().ok().filter(|port| *port > 0);
        match (what, port) {
            ("sip", Some(port)) if ["udp", "tcp"].contains(&transport) => {
                Ok(Self::Sip { port, over_tcp: transport == "tcp" })
            }
            ("tcp", Some(port)) => Ok(Self::Tcp(port)),
            ("udp", Some(port)) => Ok(Self::Udp(port)),
            ("says", _) if !rest.is_empty() => Ok(Self::Says(rest.to_owned())),
            _ => Err(NotReady(text.to_owned())),
        }
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(port) => write!(f, "tcp:{port}"),
            Self::Udp(port) => write!(f, "udp:{port}"),
            Self::Sip { port, over_tcp: false } => write!(f, "sip:{port}"),
            Self::Sip { port, over_tcp: true } => write!(f, "sip:{port}/tcp"),
            Self::Says(text) => write!(f, "says:{text}"),
        }
    }
}

written_as_text!(
    Ready,
    written::text,
    "`tcp:80`, `udp:5060`, `sip:5060` or `says:` and a text",
    "Ready",
    {
        "type": "string",
        "pattern": "^((tcp|udp):[0-9]+|sip:[0-9]+(/udp|/tcp)?|says:.+|.*\\$\\{.+)$",
        "description": "When a program is ready: once it listens on a port, answers SIP there, or has written a line with a text.",
        "examples": ["tcp:80", "udp:5060", "sip:5060", "sip:5060/tcp", "says:ready"]
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_program_is_ready() {
        for text in ["tcp:80", "udp:5060", "sip:5060", "sip:5061/tcp", "says:now: it listens"] {
            assert_eq!(text.parse::<Ready>().unwrap().to_string(), text);
        }
        for text in
            ["", "tcp", "tcp:0", "tcp:65536", "sctp:1", "says:", "80", "sip:", "sip:0", "sip:5060/tls"]
        {
            assert!(text.parse::<Ready>().is_err(), "{text}");
        }
    }

    #[test]
    fn programs_that_cannot_be() {
        let check = |text: &str| toml::from_str::<Program>(text).unwrap().check().unwrap_err().0;
        assert_eq!(check("command = []"), "command");
        assert_eq!(check("command = ['']"), "command");
        assert_eq!(check("command = ['x']\nbefore = [['y'], []]"), "before");
        assert_eq!(check("command = ['x']\ncounters = { command = [] }"), "counters");
        assert_eq!(check("command = ['x']\ncounters = { command = ['y'], every = '1 ms' }"), "counters");
        for name in ["..", "a/b", ""] {
            assert_eq!(check(&format!("command = ['x']\nfiles = {{ '{name}' = '' }}")), "files");
        }
    }
}
