//! Resolves a file at one point to a [`Scenario`]: expands counts, looks up names and finds paths.

mod events;
mod flows;
mod groups;
mod hosts;
mod routes;
mod topology;

use netrig_core::Instant;

use crate::file::diagnostic::Diagnostic;
use crate::file::document::{Kind, Value};
use crate::file::read::{Levels, Reader};
use crate::file::sections::{FlowNames, RunSection};
use crate::{Flow, Scenario};
pub(crate) use groups::{check_name, tables};
use topology::Topology;

/// The most sampling intervals of a run. It is limited because every flow and link has samples for each interval.
const MAX_INTERVALS: u64 = 10_000_000;

/// The keys of a [`RunSection`], which are above the first section.
pub(crate) const RUN_KEYS: &[&str] = &["duration", "sample_every", "ip", "ends_with"];

/// Resolves the file `root` at the point where factors have these `levels`.
///
/// # Errors
///
/// Every fault of the file at this point.
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
        // If the file does not set `sample_every`, the fault is reported at `duration`.
        let sampled = root.table()?.get("sample_every").is_some();
        refuse(if sampled { "sample_every" } else { "duration" }, why);
    } else {
        return Some(section);
    }
    None
}

/// The indices of the flows that end a run early. Each must end by itself before the run does.
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
            let why = format!("flow `{name}` sends datagrams: no end reports that all have arrived");
            reader.report(about(why).expected("flows over connections"));
            return None;
        }
        let stops = |flow: &Flow| flow.stop < Instant::ZERO + section.duration;
        if group().any(|(_, flow)| !flow.application.has_an_end() && !stops(flow)) {
            let why = format!("flow `{name}` lasts as long as the run: it is never done earlier");
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
