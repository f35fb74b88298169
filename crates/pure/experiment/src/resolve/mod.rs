//! From a file and the levels of one point to a [`Scenario`]: counts expanded, names resolved, paths found.

mod events;
mod flows;
mod hosts;
mod routes;
mod topology;

use std::collections::BTreeMap;
use std::ops::Range;

use netrig_core::{Duration, Instant};

use crate::file::diagnostic::Diagnostic;
use crate::file::document::{Entry, Kind, Table, Value};
use crate::file::read::{Levels, Reader};
use crate::file::sections::{FlowNames, RunSection};
use crate::{Flow, Scenario};
use topology::Topology;

/// The most nodes that a scenario may have.
pub(crate) const MAX_NODES: u64 = 10_000;
/// The most links that a scenario may have.
pub(crate) const MAX_LINKS: u64 = 20_000;
/// The most flows that a scenario may have.
pub(crate) const MAX_FLOWS: u64 = 10_000;
/// The most links that all paths of a scenario may have together.
pub(crate) const MAX_HOPS: usize = 1_000_000;
/// The most packets that a scenario may name to be dropped, over all links.
pub(crate) const MAX_DROPS: usize = 1_000_000;
/// The most rules, classes and curves that the links of a scenario may have together.
pub(crate) const MAX_RULES: usize = 200_000;
/// The most sampling intervals that a run may have: each keeps counted samples of every flow and link.
const MAX_INTERVALS: u64 = 10_000_000;

/// The keys above the first section that a [`RunSection`] has.
pub(crate) const RUN_KEYS: &[&str] = &["duration", "sample_every", "ip", "ends_with"];

/// Resolves the file `root` at the point where factors have these `levels`.
///
/// # Errors
/// All that is wrong with the file at this point.
pub(crate) fn scenario(root: &Value, levels: &Levels<'_>) -> Result<Scenario, Vec<Diagnostic>> {
    let reader = Reader::new(levels);
    let scenario = resolve(root, &reader);
    match (scenario, reader.finish()) {
        (Some(scenario), problems) if problems.is_empty() => Ok(scenario),
        (_, problems) => Err(problems),
    }
}

fn resolve(root: &Value, reader: &Reader<'_>) -> Option<Scenario> {
    let section = run_section(root, reader);
    let topology =
        Topology::read(root, reader, section.as_ref().map(|section| section.ip).unwrap_or_default());
    let transports = flows::transports(root, reader);
    let (section, topology) = (section?, topology?);
    let flows = flows::flows(root, reader, &topology, &transports?, section.duration)?;
    let events = events::events(root, reader, &topology, &flows, section.duration)?;
    let ends_with = ends_with(root, reader, &section, &flows)?;
    Some(Scenario {
        duration: section.duration,
        ends_with,
        sample_every: section.sample_every,
        nodes: topology.nodes,
        links: topology.links,
        flows,
        events,
    })
}

fn run_section(root: &Value, reader: &Reader<'_>) -> Option<RunSection> {
    let own = Value { span: root.span.clone(), kind: Kind::Table(root.table()?.only(RUN_KEYS)) };
    let section: RunSection = reader.read(&own)?;
    let refuse = |key: &str, why: String| reader.report(reader.about(root, &[key], why));
    if section.duration.is_zero() {
        refuse("duration", "a run of no length shows nothing: it must be above zero".into());
    } else if section.sample_every.is_zero() {
        refuse("sample_every", "it must be above zero".into());
    } else if section.duration.as_nanos() / section.sample_every.as_nanos() > MAX_INTERVALS {
        let why = format!(
            "a run of {} has more than {MAX_INTERVALS} intervals of {}",
            section.duration, section.sample_every
        );
        // Without a `sample_every` of its own the file is wrong in how long the run is.
        let sampled = root.table()?.get("sample_every").is_some();
        refuse(if sampled { "sample_every" } else { "duration" }, why);
    } else {
        return Some(section);
    }
    None
}

/// The flows with which a run ends. Each must be one that can say when it is done.
fn ends_with(root: &Value, reader: &Reader<'_>, section: &RunSection, flows: &[Flow]) -> Option<Vec<usize>> {
    let mut places = Vec::new();
    let about = |why: String| reader.about(root, &["ends_with"], why);
    for name in section.ends_with.as_ref().map_or(&[][..], FlowNames::names) {
        let group = || flows.iter().enumerate().filter(|(_, flow)| flow.group == *name || flow.name == *name);
        let mut known = tables(root, "flow", reader).map(|entry| entry.key.as_str());
        let of_file = |group: &str| name.split('#').next() == Some(group);
        if group().next().is_none() && !known.any(of_file) {
            let known = tables(root, "flow", reader).map(|entry| entry.key.as_str());
            reader.report(about(format!("unknown flow `{name}`")).among(name, known));
            return None;
        }
        if group().any(|(_, flow)| flow.application.sends_datagrams()) {
            let why = format!("flow `{name}` sends datagrams, of which nobody says that all have arrived");
            reader.report(about(why).expected("flows over connections"));
            return None;
        }
        let stops = |flow: &Flow| flow.stop < Instant::ZERO + section.duration;
        if group().any(|(_, flow)| !flow.application.has_an_end() && !stops(flow)) {
            let why = format!("flow `{name}` goes on as long as the run: it is never done before");
            reader.report(
                about(why).expected("flows with an end (`bytes`, `seconds`, `count`), or with a `stop`"),
            );
            return None;
        }
        places.extend(group().map(|(place, _)| place));
    }
    places.sort_unstable();
    places.dedup();
    Some(places)
}

/// The named tables of a section: `[node.client]`, `[node.server]` of `node`. What stands there and is no table
/// is reported when the file is read. Ends early once enough is wrong.
pub(crate) fn tables<'v>(
    root: &'v Value,
    section: &str,
    reader: &Reader<'_>,
) -> impl Iterator<Item = &'v Entry> {
    let table = root.table().and_then(|root| root.get(section)).and_then(Value::table);
    let entries = table.into_iter().flat_map(|table| &table.entries);
    entries.filter(|entry| entry.value.table().is_some()).take_while(|_| !reader.has_enough())
}

/// How many of something there are, and how they are called.
#[derive(Clone, Copy)]
struct Count {
    number: usize,
    /// Whether each has a number in its name.
    numbered: bool,
}

impl Count {
    /// The name of the `i`-th, from 0.
    fn name(self, group: &str, i: usize) -> String {
        if self.numbered { format!("{group}#{}", i + 1) } else { group.to_owned() }
    }
}

/// Things of one kind in a list, by the name of their group: the places of its members.
type Groups = BTreeMap<String, Range<usize>>;

/// The places that a reference such as `client` or `client#3` means.
fn members(groups: &Groups, reference: &str) -> Option<Range<usize>> {
    if let Some(group) = groups.get(reference) {
        return Some(group.clone());
    }
    let (group, number) = reference.split_once('#')?;
    let group = groups.get(group)?;
    let place = number.parse::<usize>().ok()?.checked_sub(1)?.checked_add(group.start)?;
    group.contains(&place).then(|| place..place + 1)
}

/// The `i`-th of `members`, or the only one.
fn wired(members: &Range<usize>, i: usize) -> usize {
    if members.len() == 1 { members.start } else { members.start + i }
}

/// How many links or flows there are between groups of `ends` members each: as many as `count` says, else as
/// the larger group has members. A group of one serves all; others must have just as many.
///
/// # Errors
/// A sentence that says which numbers do not fit.
fn between(count: Option<u32>, ends: [usize; 2]) -> Result<Count, String> {
    let [a, b] = ends;
    if count == Some(0) {
        return Err("a count of 0 makes none: it must be at least 1".into());
    }
    let number = count.map_or(a.max(b), |count| count as usize);
    if [a, b].iter().any(|end| *end != 1 && *end != number) {
        return Err(match count {
            Some(_) => format!("{number} cannot be wired one by one to ends of {a} and {b} nodes"),
            None => format!("{a} nodes cannot be wired one by one to {b}"),
        });
    }
    Ok(Count { number, numbered: count.is_some() || number > 1 })
}

/// Whether a name can stand in `of = "flow.name"`, in a path and before a `#`.
pub(crate) fn check_name(entry: &Entry, reader: &Reader<'_>) -> bool {
    let fine = !entry.key.is_empty()
        && entry.key.len() <= 64
        && entry.key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if !fine {
        reader.report(
            Diagnostic::error(entry.key_span.clone(), format!("`{}` cannot be a name", entry.key))
                .expected("up to 64 letters, digits, `_` and `-`"),
        );
    }
    fine
}

/// A table that was made of one in the file, in its place.
fn made_of(value: &Value, table: Table) -> Value {
    Value { span: value.span.clone(), kind: Kind::Table(table) }
}

/// A moment or span is beyond the end of the run.
fn beyond(what: &str, at: Duration, end: Duration) -> String {
    format!("{what} at {at}, but the run ends at {end}")
}
