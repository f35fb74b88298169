//! Events: outages, changes of lines, and switches of the primary path.

use std::collections::BTreeMap;
use std::ops::Range;

use netrig_core::{Direction, Duration, Instant, LinkEvent, Waiting};
use netrig_link::{LinkSettings, Loss, Outage, WifiSettings};

use super::flows::beyond;
use super::topology::Topology;
use crate::file::diagnostic::{Diagnostic, Span};
use crate::file::document::Value;
use crate::file::read::Reader;
use crate::file::sections::{EventSection, Flap, LinkChange};
use crate::{Action, Flow, TimedEvent};

/// The most events that a run may have.
const MAX_EVENTS: usize = 1_000_000;

/// Whether an event begins or ends a change. At the same time, ends are sorted before beginnings. So a link that comes
/// up and goes down again at the same time is down afterwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ChangePhase {
    End,
    Begin,
}

/// Reads `[[event]]`.
pub(super) fn events(
    root: &Value,
    reader: &Reader<'_>,
    topology: &Topology,
    flows: &[Flow],
    end: Duration,
) -> Option<Vec<TimedEvent>> {
    let Some(blocks) = root.table().and_then(|root| root.get("event")) else { return Some(Vec::new()) };
    let mut script = Script { topology, flows, actions: Vec::new(), outages: BTreeMap::new() };
    let mut whole = true;
    for value in blocks.elements().iter().take_while(|_| !reader.has_enough()) {
        whole &= EventFile { value, reader, end }.read(&mut script).is_some();
    }
    whole &= script.check_overlaps(reader);
    whole.then(|| script.events())
}

/// The events of a run.
struct Script<'a> {
    topology: &'a Topology,
    flows: &'a [Flow],
    actions: Vec<(Instant, ChangePhase, Action)>,
    /// The outages of each direction of each link.
    outages: BTreeMap<(usize, Direction), Vec<Down>>,
}

/// An outage: its start, its end, and the position of its event in the file.
type Down = (Instant, Instant, Span);

impl Script<'_> {
    fn add(&mut self, at: Instant, phase: ChangePhase, action: Action) {
        self.actions.push((at, phase, action));
    }

    /// The events in the order of time. Of events at the same time, ends are before beginnings, and events of the same
    /// phase are in the order of the file.
    fn events(mut self) -> Vec<TimedEvent> {
        self.actions.sort_by_key(|(at, phase, _)| (*at, *phase));
        self.actions.into_iter().map(|(at, _, action)| TimedEvent { at, action }).collect()
    }

    /// Refuses overlapping outages of one direction of a link, because the time of the recovery would be ambiguous.
    fn check_overlaps(&mut self, reader: &Reader<'_>) -> bool {
        let mut fine = true;
        for ((link, _), outages) in &mut self.outages {
            outages.sort_by_key(|(down, up, _)| (*down, *up));
            for pair in outages.windows(2) {
                let [(down, up, first), (again, _, second)] = pair else { continue };
                if again < up {
                    let name = &self.topology.links[*link].name;
                    let [down, up, again] = [down, up, again].map(|at| at.since(Instant::ZERO));
                    reader.report(
                        Diagnostic::error(
                            second.clone(),
                            format!("`{name}` goes down at {again}, when it is down already"),
                        )
                        .note_at(first.clone(), format!("this event takes it down from {down} to {up}")),
                    );
                    fine = false;
                }
            }
        }
        fine
    }
}

/// One `[[event]]`.
struct EventFile<'a> {
    value: &'a Value,
    reader: &'a Reader<'a>,
    end: Duration,
}

impl EventFile<'_> {
    fn refuse<T>(&self, path: &[&str], why: impl Into<String>) -> Option<T> {
        self.reader.report(self.reader.about(self.value, path, why));
        None
    }

    fn read(&self, script: &mut Script<'_>) -> Option<()> {
        let section: EventSection = self.reader.read(self.value)?;
        if section.at >= self.end {
            return self.refuse(&["at"], beyond("the event is", section.at, self.end));
        }
        let at = Instant::ZERO + section.at;
        self.check_keys(&section)?;
        match (&section.link, &section.node) {
            (None, None) => {
                self.refuse(&[], "the event says neither which `link` nor which `node` it is about")
            }
            (Some(link), _) => {
                let Some(links) = script.topology.link(link) else {
                    self.reader.report(script.topology.unknown_link(
                        self.reader,
                        self.value,
                        &["link"],
                        link,
                    ));
                    return None;
                };
                self.refuse_cables(&links, script.topology)?;
                self.line(&section.change, at, links, script)
            }
            (None, Some(node)) => {
                let Some(nodes) = script.topology.node(node) else {
                    self.reader.report(script.topology.unknown_node(
                        self.reader,
                        self.value,
                        &["node"],
                        node,
                    ));
                    return None;
                };
                self.primary(&section.change, at, nodes, script)
            }
        }
    }

    /// Refuses the event if its `count` timed events bring the run above [`MAX_EVENTS`].
    fn check_number(&self, count: usize, script: &Script<'_>) -> Option<()> {
        if script.actions.len().saturating_add(count) <= MAX_EVENTS {
            return Some(());
        }
        let why = format!("with this the run has more than {MAX_EVENTS} events; that is too many to handle");
        self.refuse(&["do"], why)
    }

    /// Refuses keys of `do` that exclude each other, and a key `link` or `node` that the action does not use.
    fn check_keys(&self, section: &EventSection) -> Option<()> {
        let change = &section.change;
        // The given keys, each with the number of its group. Only keys of one group may be combined.
        let given: Vec<(&str, u8)> = [
            ("down_for", 0, change.down_for.is_some()),
            ("flap", 1, change.flap.is_some()),
            ("primary", 2, change.primary.is_some()),
            ("rate", 3, change.rate.is_some()),
            ("delay", 3, change.delay.is_some()),
            ("loss", 3, change.loss.is_some()),
        ]
        .into_iter()
        .filter_map(|(key, group, given)| given.then_some((key, group)))
        .collect();
        let Some(&(kind, group)) =
            given.first().filter(|(_, first)| given.iter().all(|(_, group)| group == first))
        else {
            let keys: Vec<String> = given.iter().map(|(key, _)| format!("`{key}`")).collect();
            let why = match keys.len() {
                0 => "this event has no effect".to_owned(),
                _ => format!("an event does one thing, not {} together", keys.join(" and ")),
            };
            let problem = self.reader.about(self.value, &["do"], why);
            self.reader.report(
                problem
                    .expected("one of `down_for`, `flap`, `primary`, or any of `rate`, `delay` and `loss`"),
            );
            return None;
        };
        let (outage, primary) = (group < 2, group == 2);
        let misplaced = [
            ("queue", change.queue.is_some() && !outage),
            ("in_flight", change.in_flight.is_some() && !outage),
            ("where", change.place.is_some() && !outage),
            ("direction", change.direction.is_some() && primary),
            ("for", change.lasting.is_some() && outage),
        ];
        if let Some((key, _)) = misplaced.iter().find(|(_, misplaced)| *misplaced) {
            return self.refuse(&["do", key], format!("`{key}` has no meaning beside `{kind}`"));
        }
        let (subject, other, wrong) = match primary {
            true => ("node", "link", section.link.is_some()),
            false => ("link", "node", section.node.is_some()),
        };
        if wrong {
            return self.refuse(&[other], format!("`{kind}` is about a `{subject}`, not about a `{other}`"));
        }
        Some(())
    }

    /// Refuses an event for a cable, because a cable never changes.
    fn refuse_cables(&self, links: &Range<usize>, topology: &Topology) -> Option<()> {
        match topology.links[links.clone()].iter().find(|link| link.is_direct()) {
            Some(link) => {
                let why = format!(
                    "link `{}` is a cable (`kind = \"direct\"`), to which nothing happens",
                    link.group
                );
                self.refuse(&["link"], why)
            }
            None => Some(()),
        }
    }

    /// Adds the events of outages or of new values of links.
    fn line(
        &self,
        change: &LinkChange,
        at: Instant,
        links: Range<usize>,
        script: &mut Script<'_>,
    ) -> Option<()> {
        let flap = match (change.down_for, change.flap) {
            (Some(down), _) => Some(Flap { down, up: Duration::ZERO, times: 1 }),
            (None, flap) => flap,
        };
        match flap {
            Some(flap) => self.outages(change, flap, at, links, script),
            None => links.into_iter().try_for_each(|link| self.values(change, at, link, script)),
        }
    }

    fn outages(
        &self,
        change: &LinkChange,
        flap: Flap,
        at: Instant,
        links: Range<usize>,
        script: &mut Script<'_>,
    ) -> Option<()> {
        if flap.down.is_zero() {
            return Some(());
        }
        if change.flap.is_some() && (flap.times == 0 || flap.up.is_zero()) {
            return self.refuse(&["do", "flap"], "`times` and `up` must be above zero");
        }
        let interface = self.interface(change, &links, script)?;
        let directions = change.direction.unwrap_or_default().directions();
        // Counts two events (down and up) for each direction and each interface.
        let ways = |node: &Option<usize>| directions.len() + usize::from(node.is_some());
        let in_each: usize = interface.iter().map(|node| 2 * ways(node)).sum();
        self.check_number(in_each.saturating_mul(flap.times as usize), script)?;
        let how = Outage::default();
        let how = Outage {
            queue: change.queue.unwrap_or(how.queue),
            in_flight: change.in_flight.unwrap_or(how.in_flight),
        };
        if how.queue == Waiting::Keep {
            self.refuse_kept_queue_of_several(links.clone(), directions, script.topology)?;
        }
        for n in 0..u64::from(flap.times) {
            let down = at + (flap.down + flap.up) * n;
            let up = down + flap.down;
            for (link, node) in links.clone().zip(&interface) {
                for &direction in directions {
                    script.add(down, ChangePhase::Begin, Action::Link { link, direction, event: how.down() });
                    script.add(up, ChangePhase::End, Action::Link { link, direction, event: LinkEvent::Up });
                    let outages = script.outages.entry((link, direction)).or_default();
                    outages.push((down, up, self.value.span.clone()));
                }
                // The event of the interface follows that of the line, so that the line has changed when the endpoint
                // is notified.
                if let Some(node) = *node {
                    script.add(down, ChangePhase::Begin, Action::Interface { node, link, up: false });
                    script.add(up, ChangePhase::End, Action::Interface { node, link, up: true });
                }
            }
        }
        Some(())
    }

    /// Refuses `queue = "keep"` for a WiFi sender with several peers on the channel: they share one queue.
    fn refuse_kept_queue_of_several(
        &self,
        links: Range<usize>,
        directions: &[Direction],
        topology: &Topology,
    ) -> Option<()> {
        let mut peers: BTreeMap<(&str, usize), usize> = BTreeMap::new();
        for spec in &topology.links {
            if let Some(channel) = &spec.channel {
                spec.ends.iter().for_each(|end| *peers.entry((channel, *end)).or_default() += 1);
            }
        }
        let senders = topology.links[links].iter().flat_map(|spec| {
            directions.iter().filter_map(|way| Some((spec.channel.as_deref()?, spec.sender(*way))))
        });
        let Some((channel, sender)) = senders.into_iter().find(|sender| peers[sender] > 1) else {
            return Some(());
        };
        let sender = &topology.nodes[sender].name;
        let why = format!(
            "`{sender}` sends to several nodes on channel `{channel}` from one queue, so packets for one of them cannot be \
             kept"
        );
        self.refuse(&["do", "queue"], why)
    }

    /// For each link, the node whose interface goes down; `None` if the outage is on the path and not at an interface.
    fn interface(
        &self,
        change: &LinkChange,
        links: &Range<usize>,
        script: &Script<'_>,
    ) -> Option<Vec<Option<usize>>> {
        let Some(name) = change.place.as_deref().filter(|name| *name != "path") else {
            return Some(vec![None; links.len()]);
        };
        let topology = script.topology;
        let Some(nodes) = topology.node(name) else {
            let problem = topology.unknown_node(self.reader, self.value, &["do", "where"], name);
            self.reader.report(problem.note("`path` is a place somewhere along the link"));
            return None;
        };
        if change.direction.is_some_and(|direction| direction.directions().len() == 1) {
            return self.refuse(&["do", "direction"], "an interface goes down in both directions");
        }
        let ends = links.clone().map(|link| {
            let spec = &topology.links[link];
            let Some(node) = spec.ends.iter().find(|end| nodes.contains(end)) else {
                let [a, b] = spec.ends.map(|end| topology.nodes[end].name.as_str());
                let why =
                    format!("`{name}` has no interface to `{}`, which joins `{a}` and `{b}`", spec.name);
                return self.refuse(&["do", "where"], why);
            };
            Some(Some(*node))
        });
        ends.collect()
    }

    /// Adds new values of a line and, with `for`, the return to the values of the file.
    fn values(&self, change: &LinkChange, at: Instant, link: usize, script: &mut Script<'_>) -> Option<()> {
        if change.lasting == Some(Duration::ZERO) {
            return Some(());
        }
        if change.rate.is_some_and(|rate| rate.bits_per_s() == 0) {
            return self.refuse(&["do", "rate"], "`rate` must be above zero; an outage is `down_for`");
        }
        for &direction in change.direction.unwrap_or_default().directions() {
            let line = script.topology.links[link].towards(direction);
            if let (LinkSettings::Wifi(wifi), Some(rate)) = (line, change.rate)
                && let Err(error) = (WifiSettings { rate, ..wifi.clone() }).check()
            {
                return self.refuse(&["do", "rate"], error.to_string());
            }
            let rate = |rate: netrig_core::Rate| LinkEvent::Rate { bits_per_s: rate.bits_per_s() };
            let loss = |probability| LinkEvent::Loss { probability };
            let before = if change.loss.is_some() && change.lasting.is_some() {
                match own_loss(line) {
                    Some(probability) => probability,
                    None => {
                        let why =
                            "the line's own loss is not independent, so it cannot be restored after `for`";
                        return self.refuse(&["do", "for"], why);
                    }
                }
            } else {
                0.0
            };
            let changes = [
                change.rate.zip(line.rate()).map(|(new, own)| (rate(new), rate(own))),
                change.delay.map(|new| (LinkEvent::Delay(new), LinkEvent::Delay(line.delay()))),
                change.loss.map(|new| (loss(new.get()), loss(before))),
            ];
            let beginnings = changes.iter().flatten().count();
            let ends = if change.lasting.is_some() { beginnings } else { 0 };
            self.check_number(beginnings + ends, script)?;
            for (new, own) in changes.into_iter().flatten() {
                script.add(at, ChangePhase::Begin, Action::Link { link, direction, event: new });
                if let Some(lasting) = change.lasting {
                    script.add(at + lasting, ChangePhase::End, Action::Link { link, direction, event: own });
                }
            }
        }
        Some(())
    }

    /// Adds a new primary path for the flows of nodes and, with `for`, the return to the primary path of the file.
    fn primary(
        &self,
        change: &LinkChange,
        at: Instant,
        nodes: Range<usize>,
        script: &mut Script<'_>,
    ) -> Option<()> {
        let name = change.primary.as_deref()?;
        let Some(links) = script.topology.link(name) else {
            let path = ["do", "primary"];
            self.reader.report(script.topology.unknown_link(self.reader, self.value, &path, name));
            return None;
        };
        if change.lasting == Some(Duration::ZERO) {
            return Some(());
        }
        for node in nodes {
            let attached = links.clone().find(|link| script.topology.links[*link].ends.contains(&node));
            let Some(link) = attached else {
                let node = &script.topology.nodes[node].name;
                return self.refuse(&["do", "primary"], format!("link `{name}` does not begin at `{node}`"));
            };
            let own = match change.lasting.map(|_| own_primary(script.flows, node, link)) {
                None | Some(Ok(None)) => None,
                Some(Ok(Some(own))) => Some(own),
                Some(Err([a, b])) => {
                    let [a, b] = [a, b].map(|link| script.topology.links[link].name.as_str());
                    let why = format!(
                        "flows of `{}` go back to different primary paths (`{a}` and `{b}`)",
                        script.topology.nodes[node].name
                    );
                    let problem = self.reader.about(self.value, &["do", "for"], why);
                    self.reader.report(problem.help("omit `for`, and add one event for each return"));
                    return None;
                }
            };
            self.check_number(1 + usize::from(own.is_some()), script)?;
            script.add(at, ChangePhase::Begin, Action::SetPrimary { node, link });
            if let (Some(lasting), Some(own)) = (change.lasting, own) {
                script.add(at + lasting, ChangePhase::End, Action::SetPrimary { node, link: own });
            }
        }
        Some(())
    }
}

/// The probability of independent loss in the settings of the line; 0 without loss. `None` for another loss model.
fn own_loss(line: &LinkSettings) -> Option<f64> {
    match line.loss() {
        None => Some(0.0),
        Some(Loss::Bernoulli(loss)) => Some(loss.probability.get()),
        Some(_) => None,
    }
}

/// Looks at the multi-homed flows of `node` that have a path whose link at `node` is `link`. Returns the link at `node`
/// of their primary path in the file; `None` if there are no such flows.
///
/// # Errors
///
/// Two of the links, if the flows have different ones.
fn own_primary(flows: &[Flow], node: usize, link: usize) -> Result<Option<usize>, [usize; 2]> {
    let mut own = None;
    for flow in flows.iter().filter(|flow| flow.paths.len() > 1) {
        let first = |route: &crate::Route| {
            let hop = if flow.from == node { route.hops.first() } else { route.hops.last() };
            hop.map(|hop| hop.link)
        };
        if (flow.from != node && flow.to != node) || !flow.paths.iter().any(|path| first(path) == Some(link))
        {
            continue;
        }
        let Some(primary) = flow.paths.first().and_then(first) else { continue };
        match own {
            Some(other) if other != primary => return Err([other, primary]),
            _ => own = Some(primary),
        }
    }
    Ok(own)
}
