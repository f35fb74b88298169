//! Programs of others that run on nodes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::check::from_text;

/// The most programs of a node, and the most files of a program.
pub(crate) const MOST: usize = 64;

/// What a node runs beside the ends of flows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-tag" = "kind"))]
pub enum NodeApplication {
    /// A program of others.
    Program(Program),
}

/// A program of others, which runs on a node from before the run until its end. It must be allowed when the experiment is
/// run (`--allow-programs`); the simulator has no programs.
///
/// In `command` and `files` `{folder}` stands for the program's own folder, `{address}` for the node's first address, and
/// `{address:NAME}` for that of node NAME.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The program and its arguments, without a shell: `["kamailio", "-f", "{folder}/kamailio.cfg", "-DD"]`. It must stay in
    /// the foreground.
    pub command: Vec<String>,
    /// When the run may begin: `"udp:5060"` or `"tcp:80"` once it listens there, `"says:ready"` once it has written a line
    /// with that text. At once if not given, and then the program may end before the run does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// The packages of Debian that it is part of: told where it is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// Files that are written into its folder before it starts, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

impl Program {
    /// What is wrong with it, and where.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err(("command", "it must name a program".to_owned()));
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

/// One application of a node, or several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeApplications(pub(crate) Vec<NodeApplication>);

impl<'de> Deserialize<'de> for NodeApplications {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrSeveral;
        impl<'de> de::Visitor<'de> for OneOrSeveral {
            type Value = NodeApplications;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`{ kind = \"program\", command = [ … ] }`, or a list of these")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<NodeApplications, A::Error> {
                let one = NodeApplication::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(NodeApplications(vec![one]))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut several: A) -> Result<NodeApplications, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = several.next_element()? {
                    all.push(one);
                }
                Ok(NodeApplications(all))
            }
        }
        deserializer.deserialize_any(OneOrSeveral)
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

/// When a program is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It takes connections of TCP on this port.
    Tcp(u16),
    /// It has a socket of UDP on this port.
    Udp(u16),
    /// It has written a line with this text.
    Says(String),
}

/// A text that is no [`Ready`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` does not say when a program is ready: expected `tcp:80`, `udp:5060` or `says:` and a text")]
pub struct NotReady(String);

impl FromStr for Ready {
    type Err = NotReady;

    fn from_str(text: &str) -> Result<Self, NotReady> {
        let (what, rest) = text.split_once(':').unwrap_or_default();
        let port = rest.parse().ok().filter(|port| *port > 0);
        match (what, port) {
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
            Self::Says(text) => write!(f, "says:{text}"),
        }
    }
}

impl Serialize for Ready {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ready {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer, "`tcp:80`, `udp:5060` or `says:` and a text")
    }
}

impl JsonSchema for Ready {
    fn schema_name() -> Cow<'static, str> {
        "Ready".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^((tcp|udp):[0-9]+|says:.+|.*\\$\\{.+)$",
            "description": "When a program is ready: once it listens on a port, or has written a line with a text.",
            "examples": ["tcp:80", "udp:5060", "says:ready"]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_program_is_ready() {
        for text in ["tcp:80", "udp:5060", "says:now: it listens"] {
            assert_eq!(text.parse::<Ready>().unwrap().to_string(), text);
        }
        for text in ["", "tcp", "tcp:0", "tcp:65536", "sctp:1", "says:", "80"] {
            assert!(text.parse::<Ready>().is_err(), "{text}");
        }
    }

    #[test]
    fn programs_that_cannot_be() {
        let check = |text: &str| toml::from_str::<Program>(text).unwrap().check().unwrap_err().0;
        assert_eq!(check("command = []"), "command");
        assert_eq!(check("command = ['']"), "command");
        for name in ["..", "a/b", ""] {
            assert_eq!(check(&format!("command = ['x']\nfiles = {{ '{name}' = '' }}")), "files");
        }
    }
}
