//! The subject of a response.

use std::fmt;
use std::str::FromStr;

use netrig_core::{Direction, Subject, named, written, written_as_text};

use crate::reduce::{Layout, SubjectPlace};

/// The subject of a response: `flow.web` (all members of the group), `flow.web#3` (one member), `link.primary`
/// or `link.primary.backward`, `link.primary.class.premium`, `link.primary.rule.1`, `node.server`,
/// `node.server.counter.core.rcv_requests`, `run`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// The run as a whole.
    Run,
    /// The flows of this name.
    Flow(String),
    /// One direction of the links of this name.
    Link(String, Direction),
    /// A class of one direction of links: the name of the links, the direction, and the name of the class.
    Class(String, Direction, String),
    /// A rule of one direction of links: the name of the links, the direction, and the name of the rule or its number
    /// from 1.
    Rule(String, Direction, String),
    /// The nodes of this name.
    Node(String),
    /// A counter of programs: the name of the nodes, and the name of the counter.
    Counter(String, String),
}

named! {
    /// The kinds of subjects to which metrics apply.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum SubjectKind {
        /// The run.
        Run = "the run",
        /// A flow.
        Flow = "a flow",
        /// One direction of a link.
        Link = "a link",
        /// A class of one direction of a link.
        Class = "a class",
        /// A rule of the traffic conditioner of one direction of a link.
        Rule = "a rule",
        /// A node.
        Node = "a node",
        /// A counter of a node's programs.
        Counter = "a counter",
    }
}

impl Of {
    /// The kind of the subject.
    pub const fn kind(&self) -> SubjectKind {
        match self {
            Self::Run => SubjectKind::Run,
            Self::Flow(_) => SubjectKind::Flow,
            Self::Link(..) => SubjectKind::Link,
            Self::Class(..) => SubjectKind::Class,
            Self::Rule(..) => SubjectKind::Rule,
            Self::Node(_) => SubjectKind::Node,
            Self::Counter(..) => SubjectKind::Counter,
        }
    }

    /// The name of the flow, link or node in the file, without the number of a member. Empty for the run.
    pub fn group(&self) -> &str {
        match self {
            Self::Run => "",
            Self::Flow(name)
            | Self::Link(name, _)
            | Self::Class(name, ..)
            | Self::Rule(name, ..)
            | Self::Node(name)
            | Self::Counter(name, _) => name.split_once('#').map_or(name.as_str(), |(group, _)| group),
        }
    }

    /// The members in the order of the scenario. A name with a number is one member. A name without a number is the
    /// whole group.
    pub(crate) fn members(&self, layout: &Layout) -> Vec<Subject> {
        fn matching<'a>(wanted: &str, places: impl Iterator<Item = &'a SubjectPlace>) -> Vec<u32> {
            let hit = |place: &SubjectPlace| place.name == wanted || place.group == wanted;
            (0..).zip(places).filter(|(_, place)| hit(place)).map(|(index, _)| index).collect()
        }
        // The casts fit: there are at most 64 classes, 65,536 rules, and 64 counters of each of at most 64 programs.
        let number = |names: &[String], wanted: &String| names.iter().position(|name| name == wanted);
        match self {
            Self::Run => vec![Subject::Run],
            Self::Flow(name) => {
                let flows = layout.flows.iter().map(|flow| &flow.place);
                matching(name, flows).into_iter().map(Subject::Flow).collect()
            }
            Self::Link(name, direction) => {
                let link = |index| Subject::Link(index, *direction);
                matching(name, layout.links.iter()).into_iter().map(link).collect()
            }
            Self::Class(name, direction, class) => {
                let place = |link: u32| {
                    let number = number(&layout.classes[link as usize][*direction as usize], class)?;
                    Some(Subject::Class(link, *direction, number as u8))
                };
                matching(name, layout.links.iter()).into_iter().filter_map(place).collect()
            }
            Self::Rule(name, direction, rule) => {
                let place = |link: u32| {
                    let number = number(&layout.rules[link as usize][*direction as usize], rule)?;
                    Some(Subject::Rule(link, *direction, number as u16))
                };
                matching(name, layout.links.iter()).into_iter().filter_map(place).collect()
            }
            Self::Node(name) => matching(name, layout.nodes.iter()).into_iter().map(Subject::Node).collect(),
            Self::Counter(name, counter) => {
                let place = |node: u32| {
                    let number = number(&layout.counters[node as usize], counter)?;
                    Some(Subject::Counter(node, number as u16))
                };
                matching(name, layout.nodes.iter()).into_iter().filter_map(place).collect()
            }
        }
    }
}

/// The text is not a subject.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is nothing that can be measured: expected `flow.<name>`, `link.<name>`, `link.<name>.backward`, \
     `link.<name>.class.<name>`, `link.<name>.rule.<name>`, `node.<name>`, `node.<name>.counter.<name>` or `run`"
)]
pub struct OfError(String);

impl FromStr for Of {
    type Err = OfError;

    fn from_str(text: &str) -> Result<Self, OfError> {
        let parts: Vec<&str> = text.split('.').collect();
        let name =
            |name: &str| if name.is_empty() { Err(OfError(text.to_owned())) } else { Ok(name.to_owned()) };
        match parts[..] {
            ["run"] => Ok(Self::Run),
            ["flow", flow] => Ok(Self::Flow(name(flow)?)),
            ["link", link, ref rest @ ..] => {
                let (direction, part) = match rest {
                    ["backward", part @ ..] => (Direction::Backward, part),
                    ["forward", part @ ..] | part => (Direction::Forward, part),
                };
                match *part {
                    [] => Ok(Self::Link(name(link)?, direction)),
                    ["class", class] => Ok(Self::Class(name(link)?, direction, name(class)?)),
                    ["rule", rule] => Ok(Self::Rule(name(link)?, direction, name(rule)?)),
                    _ => Err(OfError(text.to_owned())),
                }
            }
            ["node", node] => Ok(Self::Node(name(node)?)),
            // The name of a counter may contain dots.
            ["node", node, "counter", ref counter @ ..] => {
                Ok(Self::Counter(name(node)?, name(&counter.join("."))?))
            }
            _ => Err(OfError(text.to_owned())),
        }
    }
}

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let behind = |direction| if direction == Direction::Backward { ".backward" } else { "" };
        match self {
            Self::Run => f.write_str("run"),
            Self::Flow(name) => write!(f, "flow.{name}"),
            Self::Link(name, way) => write!(f, "link.{name}{}", behind(*way)),
            Self::Class(name, way, class) => write!(f, "link.{name}{}.class.{class}", behind(*way)),
            Self::Rule(name, way, rule) => write!(f, "link.{name}{}.rule.{rule}", behind(*way)),
            Self::Node(name) => write!(f, "node.{name}"),
            Self::Counter(name, counter) => write!(f, "node.{name}.counter.{counter}"),
        }
    }
}

written_as_text!(Of, written::text, "a subject such as `flow.web`", "Subject", {
    "type": "string",
    "pattern": "^(run|(flow|node)\\.[^.]+|node\\.[^.]+\\.counter\\..+|link\\.[^.]+(\\.(forward|backward))?(\\.(class|rule)\\.[^.]+)?)$",
    "description": "What is measured: a flow, one direction of a link or a class or a rule of it, a node or a counter of its programs, or the run.",
    "examples": ["flow.web", "link.primary", "link.primary.backward", "link.primary.class.ef", "run"]
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for text in [
            "run",
            "flow.web",
            "flow.web#3",
            "link.primary",
            "link.primary.backward",
            "link.primary.class.ef",
            "link.primary.rule.1",
            "link.primary#2.backward.rule.video",
            "link.primary#2.backward.class.ef",
            "node.server",
            "node.server.counter.core.rcv_requests",
            "node.server#2.counter.core:rcv_requests",
        ] {
            assert_eq!(text.parse::<Of>().unwrap().to_string(), text);
        }
        assert_eq!("link.a.forward".parse::<Of>().unwrap().to_string(), "link.a");
        for wrong in [
            "web",
            "flow",
            "flow.",
            "link.a.sideways",
            "link.a.class",
            "link.a.class.",
            "link.a.rule",
            "node.a.counter",
            "node.a.counter.",
            "run.x",
            "",
        ] {
            assert!(wrong.parse::<Of>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_group_of_a_member() {
        assert_eq!("flow.web#3".parse::<Of>().unwrap().group(), "web");
    }
}
