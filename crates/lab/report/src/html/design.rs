//! Responses, design, topology and provenance: the data that are needed to repeat the experiment.

use std::collections::BTreeSet;

use netrig_core::Dscp;
use netrig_experiment::{IntervalMethod, LinkSettings, LinkSpec, Replications, Scenario, WarmUp};
use netrig_store::Provenance;

use super::elements::{details, headings, rows, table, terms};
use crate::Report;
use netrig_core::number::percent;
use netrig_core::text::words;
use netrig_core::xml::Markup;

pub(super) fn definitions(m: &mut Markup, report: &Report<'_>) {
    table(m, "words", "Responses and their definitions", |m| {
        headings(m, ["response", "of", "metric", "unit", "definition", "interval"]);
        rows(m, &report.experiment.design.responses, |m, (name, spec)| {
            m.element("th", &[("scope", "row")], words(name));
            m.inside("td", &[], |m| m.element("code", &[], &spec.of));
            m.inside("td", &[], |m| m.element("code", &[], &spec.metric));
            m.element("td", &[], spec.unit());
            m.element("td", &[], spec.definition());
            m.element("td", &[], method(spec.interval));
        });
    });
}

const fn method(interval: IntervalMethod) -> &'static str {
    match interval {
        IntervalMethod::Student => "Student's t over the replications",
        IntervalMethod::SkewAdjusted => "Student's t, adjusted for skewness (Willink 2005)",
        IntervalMethod::Log => "Student's t over the logarithms; the mean is the geometric one",
        IntervalMethod::Bootstrap => "bias-corrected and accelerated bootstrap (Efron 1987)",
    }
}

pub(super) fn design(m: &mut Markup, report: &Report<'_>) {
    let design = &report.experiment.design;
    if !design.factors.is_empty() {
        table(m, "words", "Factors and their levels", |m| {
            headings(m, ["factor", "levels"]);
            rows(m, &design.factors, |m, factor| {
                m.element("th", &[("scope", "row")], words(&factor.name));
                let levels: Vec<&str> = factor.levels.iter().map(|level| level.text()).collect();
                m.element("td", &[], levels.join(", "));
            });
        });
    }
    let first = report.experiment.seed;
    let last = first.wrapping_add(u64::from(design.replications.max.saturating_sub(1)));
    let seeds = if last == first { format!("{last}") } else { format!("{first} to {last}") };
    let seeds = format!(
        "{seeds}: the n-th replications of all points have the same seed, so that random events are the same for all points"
    );
    let (replications, warm_up) = (stopping(&design.replications), warm_up(report.experiment.warm_up));
    terms(m, [("Replications", replications), ("Seeds", seeds), ("Warm-up", warm_up)]);
    let Ok(scenario) = report.experiment.plan().scenario(0) else { return };
    m.element("h3", &[], "Topology");
    m.element(
        "p",
        &[("class", "muted")],
        "The topology of the first point; factors may change it at others.",
    );
    topology(m, &scenario);
}

fn stopping(replications: &Replications) -> String {
    match &replications.until {
        None if replications.min == replications.max => format!("{} of each point", replications.max),
        None => format!("{} to {} of each point", replications.min, replications.max),
        Some(rule) => format!(
            "{} to {} of each point: until half the interval of {} is no wider than {} of its mean",
            replications.min,
            replications.max,
            words(&rule.response),
            rule.half_width
        ),
    }
}

fn warm_up(warm_up: WarmUp) -> String {
    match warm_up {
        WarmUp::None => "none".to_owned(),
        WarmUp::Fixed(time) => format!("the first {time} of each run are discarded"),
        WarmUp::Mser5 => {
            "the part of each run that the MSER-5 rule (White 1997) finds is discarded".to_owned()
        }
    }
}

fn topology(m: &mut Markup, scenario: &Scenario) {
    let mut groups = BTreeSet::new();
    table(m, "words", "Links", |m| {
        let with_more = scenario.links.iter().any(|link| !impairments(link).is_empty());
        let names = ["link", "between", "rate", "delay, one way", "queue"]
            .into_iter()
            .chain(with_more.then_some("also"));
        headings(m, names);
        // Of links that a count has made, only the first is shown.
        let links = scenario.links.iter().filter(|link| groups.insert(link.group.clone()));
        rows(m, links, |m, link| {
            let count = scenario.links.iter().filter(|other| other.group == link.group).count();
            self::link(m, scenario, link, count, with_more);
        });
    });
    let mut groups = BTreeSet::new();
    table(m, "words", "Flows", |m| {
        headings(m, ["flow", "from", "to", "transport", "paths", "application"]);
        let flows = scenario.flows.iter().filter(|flow| groups.insert(flow.group.clone()));
        rows(m, flows, |m, flow| {
            let count = scenario.flows.iter().filter(|other| other.group == flow.group).count();
            let node = |n: usize| scenario.nodes.get(n).map_or("", |node| node.name.as_str());
            let paths: Vec<&str> = flow.paths.iter().map(|path| path.name.as_str()).collect();
            let marked = (flow.dscp != Dscp::BE).then(|| format!(", marked {}", flow.dscp));
            let answers = flow.answer_dscp.map(|dscp| format!(", answers marked {dscp}"));
            let transport = [Some(flow.transport.clone()), marked, answers].into_iter().flatten();
            let transport: String = transport.collect();
            m.element("th", &[("scope", "row")], times(&flow.group, count));
            for text in [node(flow.from), node(flow.to), &transport, &paths.join(", ")] {
                m.element("td", &[], text);
            }
            m.element("td", &[], settings(&flow.application));
        });
    });
}

/// The impairments and further features of a link.
fn impairments(link: &LinkSpec) -> String {
    let line = match &link.forward {
        LinkSettings::Line(line) => line,
        LinkSettings::Wifi(_) => return on_wifi(link),
        LinkSettings::Direct(_) => return "a cable without counters".to_owned(),
    };
    let all = [
        ("conditioning", !line.condition.is_empty()),
        ("classes", !line.classes.is_empty()),
        ("transmit ring", line.ring > 0),
        ("jitter", line.jitter.is_some()),
        ("loss", line.loss.is_some()),
        ("reordering", line.reorder.is_some()),
        ("duplicates", line.duplicate.is_some()),
        ("corruption", line.corrupt.is_some()),
        ("losses by ordinal", !line.drop.is_empty()),
    ];
    all.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect::<Vec<_>>().join(", ")
}

/// The features of a WiFi link.
fn on_wifi(link: &LinkSpec) -> String {
    let LinkSettings::Wifi(wifi) = &link.forward else { return String::new() };
    let channel = link.channel.as_deref().filter(|channel| *channel != link.name);
    let mut words = vec![settings(&wifi.standard)];
    words.extend(channel.map(|channel| format!("channel {channel}")));
    let all = [
        ("aggregation", wifi.aggregation.is_some()),
        ("frame loss", wifi.frame_loss.is_some()),
        ("loss", wifi.loss.is_some()),
        ("losses by ordinal", !wifi.drop.is_empty()),
    ];
    words.extend(all.into_iter().filter(|(_, is)| *is).map(|(name, _)| name.to_owned()));
    words.join(", ")
}

fn link(m: &mut Markup, scenario: &Scenario, link: &LinkSpec, count: usize, with_more: bool) {
    let ends = link.ends.map(|n| scenario.nodes.get(n).map_or("", |node| node.name.as_str()));
    let both = |forward: String, backward: String| {
        if forward == backward { forward } else { format!("{forward}; back {backward}") }
    };
    let (there, back) = (&link.forward, &link.backward);
    m.element("th", &[("scope", "row")], times(&link.group, count));
    m.element("td", &[], ends.join(" – "));
    let rate = |way: &LinkSettings| way.rate().map_or("–".to_owned(), |rate| rate.to_string());
    let queue = |way: &LinkSettings| way.queue().map_or("–".to_owned(), settings);
    m.element("td", &[], both(rate(there), rate(back)));
    m.element("td", &[], both(there.delay().to_string(), back.delay().to_string()));
    m.element("td", &[], both(queue(there), queue(back)));
    if with_more {
        m.element("td", &[], impairments(link));
    }
}

fn times(name: &str, count: usize) -> String {
    if count == 1 { name.to_owned() } else { format!("{count} × {name}") }
}

/// Settings as in an experiment file, but without the punctuation of JSON: `fifo: packets 50`.
fn settings(settings: &impl serde::Serialize) -> String {
    // A value without a JSON form is shown as empty.
    serde_json::to_value(settings).map(|value| plain(&value)).unwrap_or_default()
}

fn plain(value: &serde_json::Value) -> String {
    use serde_json::Value;
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(entries) => {
            let entry = |(key, value): (&String, &Value)| match value {
                Value::Object(inner) if !inner.is_empty() => format!("{} ({})", words(key), plain(value)),
                Value::Null => String::new(),
                Value::Object(_) => words(key),
                _ => format!("{} {}", words(key), plain(value)),
            };
            entries.iter().map(entry).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ")
        }
        scalar => scalar.to_string(),
    }
}

pub(super) fn made(m: &mut Markup, report: &Report<'_>) {
    let results = report.results;
    let substrates = results.substrates();
    let whose = |name: &&str| Some(format!("{name}: {}", transports(name)?));
    let transports: Vec<String> = substrates.iter().filter_map(whose).collect();
    let paper = report.experiment.design.paper.as_ref();
    let paper = paper.map(|paper| if paper.citation.is_empty() { &paper.title } else { &paper.citation });
    let said = [
        ("netrig", results.build.clone()),
        ("Substrates", substrates.join(", ")),
        ("Transports", transports.join("; ")),
        ("Confidence", format!("{} for every interval", percent(results.confidence))),
        ("Paper", paper.cloned().unwrap_or_default()),
    ];
    terms(m, said.into_iter().filter(|(_, text)| !text.is_empty()));
    for provenance in report.provenance {
        machine(m, provenance);
    }
    details(m, "The experiment file", false, |m| {
        m.inside("pre", &[("tabindex", "0"), ("aria-label", "The experiment file")], |m| {
            m.element("code", &[], report.text)
        });
    });
}

/// The implementations of the transports of a substrate.
fn transports(substrate: &str) -> Option<&'static str> {
    match substrate {
        "sim" => Some("TCP and SCTP are netrig's own endpoints"),
        "netns" => Some("TCP, Multipath TCP and UDP are the kernel's, SCTP is netrig's own endpoint"),
        _ => None,
    }
}

fn machine(m: &mut Markup, provenance: &Provenance) {
    let Provenance { build, os, kernel, cpu, cpus, host, settings } = provenance;
    details(m, &format!("Runs of {build} on {host}"), false, |m| {
        let cpu = if *cpus > 0 { format!("{cpu} ({cpus} used)") } else { cpu.clone() };
        let fixed = [("Operating system", os), ("Kernel", kernel), ("Processor", &cpu)];
        terms(m, fixed.into_iter().chain(settings.iter().map(|(name, value)| (name.as_str(), value))));
    });
}
