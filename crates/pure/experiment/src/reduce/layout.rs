//! The parts of a scenario that a reduction needs.

use netrig_core::{Duration, Instant, LinkEvent};
use netrig_link::LinkSettings;
use netrig_traffic::Settings;

use crate::{Action, Node, Scenario};

/// Names of the subjects, starts of the flows, and the outage of a scenario.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub flows: Vec<FlowPlace>,
    pub links: Vec<SubjectPlace>,
    /// For each link, the names of the classes of its two directions.
    pub classes: Vec<[Vec<String>; 2]>,
    /// For each link, the names of the rules of its two directions.
    pub rules: Vec<[Vec<String>; 2]>,
    pub nodes: Vec<SubjectPlace>,
    /// For each node, the names of its programs' counters.
    pub counters: Vec<Vec<String>>,
    /// The first outage, if a link or an interface goes down.
    pub outage: Option<Outage>,
    pub sample_every: Duration,
}

/// A name, and the name of its group in the file.
#[derive(Clone, Debug)]
pub(crate) struct SubjectPlace {
    pub name: String,
    pub group: String,
}

/// A flow.
#[derive(Clone, Debug)]
pub(crate) struct FlowPlace {
    pub place: SubjectPlace,
    pub start: Instant,
    pub stop: Instant,
    pub paths: u8,
    pub application: Settings,
}

/// The time from the first failure of a link or interface until this link or interface is up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The start.
    pub start: Instant,
    /// The end; `None` if the outage lasts until the end of the run.
    pub end: Option<Instant>,
}

impl Layout {
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let place = |name: &str, group: &str| SubjectPlace { name: name.to_owned(), group: group.to_owned() };
        let flows = scenario.flows.iter().map(|flow| FlowPlace {
            place: place(&flow.name, &flow.group),
            start: flow.start,
            stop: flow.stop,
            // The number of a path has eight bits.
            paths: u8::try_from(flow.paths.len()).unwrap_or(u8::MAX),
            application: flow.application.clone(),
        });
        Self {
            flows: flows.collect(),
            links: scenario.links.iter().map(|link| place(&link.name, &link.group)).collect(),
            classes: of_links(scenario, classes),
            rules: of_links(scenario, rules),
            nodes: scenario.nodes.iter().map(|node| place(&node.name, &node.group)).collect(),
            counters: scenario.nodes.iter().map(counters).collect(),
            outage: first_outage(scenario),
            sample_every: scenario.sample_every,
        }
    }
}

/// A property of both directions of each link.
fn of_links<T>(scenario: &Scenario, of: impl Fn(&LinkSettings) -> T) -> Vec<[T; 2]> {
    scenario.links.iter().map(|link| [of(&link.forward), of(&link.backward)]).collect()
}

/// The names of the counters of a node's programs, in the order in which samples number them.
fn counters(node: &Node) -> Vec<String> {
    node.counters().map(str::to_owned).collect()
}

/// The names of the rules of one direction.
fn rules(settings: &LinkSettings) -> Vec<String> {
    settings.conditions().iter().enumerate().map(|(n, rule)| rule.name(n).into_owned()).collect()
}

/// The names of the classes of one direction.
fn classes(settings: &LinkSettings) -> Vec<String> {
    settings.classes().iter().map(|class| class.name().to_owned()).collect()
}

/// The link that an action takes down or up, and whether it comes up.
fn change(action: &Action) -> Option<(usize, bool)> {
    match action {
        Action::Link { link, event: LinkEvent::Down { .. }, .. } => Some((*link, false)),
        Action::Link { link, event: LinkEvent::Up, .. } => Some((*link, true)),
        Action::Interface { link, up, .. } => Some((*link, *up)),
        _ => None,
    }
}

fn first_outage(scenario: &Scenario) -> Option<Outage> {
    let mut changes = scenario.events.iter().filter_map(|event| Some((event.at, change(&event.action)?)));
    let (start, down) = changes.find(|(_, (_, up))| !up).map(|(at, (link, _))| (at, link))?;
    let end = changes.find(|(_, (link, up))| *up && *link == down).map(|(at, _)| at);
    Some(Outage { start, end })
}
