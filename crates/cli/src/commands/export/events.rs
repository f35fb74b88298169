//! `netrig export --format events`: the events of each packet on a link.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{Direction, Instant, PacketEvent, Quantity, Sample, Sink, Step, Subject, protocol};
use netrig_experiment::{RunError, Scenario};

use super::playback::{Playback, interrupted};
use crate::arguments::Export;
use crate::coverage::spare;
use crate::failure::Failure;
use crate::output::{Outgoing, tell};

/// Repeats the run whose identity begins with `id`, and writes a line per event: JSON if `--out` ends with `.jsonl`,
/// else CSV.
pub fn events(arguments: &Export, id: &str) -> Result<ExitCode, Failure> {
    if arguments.capture.snap.is_some() || !arguments.capture.node.is_empty() {
        return Err(Failure::request("--node and --snap are for captures; events take --link"));
    }
    spare(&arguments.out, arguments.force)?;
    let playback = Playback::of(arguments, id)?;
    let wanted = ways(playback.scenario(), &arguments.capture.link)?;
    let as_json = arguments.out.extension().is_some_and(|extension| extension == "jsonl");
    let mut listing = Listing {
        scenario: playback.scenario(),
        wanted,
        window: (playback.from, playback.to),
        as_json,
        file: Outgoing::open(&arguments.out)?,
        known: BTreeMap::new(),
        lines: 0,
        ended: None,
        cancel: &playback.cancel,
    };
    listing.head()?;
    let made = playback.make(&mut listing)?;
    match (listing.ended.take(), made) {
        (Some(Err(failure)), _) => return Err(failure),
        (None, Err(RunError::Cancelled)) => return Ok(interrupted()),
        (None, Err(error)) => return Err(Failure::failed(error)),
        (Some(Ok(())), _) | (None, Ok(_)) => {}
    }
    let lines = listing.lines;
    listing.file.finish()?;
    tell(&arguments.out, &format!("{lines} events: {}", arguments.out.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// The link directions with these names, such as `line` (both directions) or `line.backward`. Without names, all
/// directions of all links.
fn ways(scenario: &Scenario, names: &[String]) -> Result<Vec<(u32, Direction)>, Failure> {
    const BOTH: [Direction; 2] = [Direction::Forward, Direction::Backward];
    let numbered = || (0..).zip(&scenario.links);
    if names.is_empty() {
        let seen = numbered().filter(|(_, spec)| !spec.is_direct());
        return Ok(seen.flat_map(|(link, _)| BOTH.map(|direction| (link, direction))).collect());
    }
    let mut ways = Vec::new();
    for name in names {
        let (link, directions) = match name.rsplit_once('.') {
            Some((link, "forward")) => (link, &BOTH[..1]),
            Some((link, "backward")) => (link, &BOTH[1..]),
            _ => (name.as_str(), &BOTH[..]),
        };
        let before = ways.len();
        for (number, spec) in numbered().filter(|(_, spec)| spec.name == link || spec.group == link) {
            if spec.is_direct() {
                return Err(Failure::request(format!(
                    "link `{}` is a cable: packets have no events on it",
                    spec.name
                )));
            }
            ways.extend(directions.iter().map(|direction| (number, *direction)));
        }
        if ways.len() == before {
            let known: Vec<_> = scenario.links.iter().map(|link| link.name.as_str()).collect();
            return Err(Failure::request(format!(
                "the run has no link `{link}`; it has: {}",
                known.join(", ")
            )));
        }
    }
    Ok(ways)
}

/// Writes events as they happen.
struct Listing<'a> {
    scenario: &'a Scenario,
    wanted: Vec<(u32, Direction)>,
    window: (Instant, Instant),
    as_json: bool,
    file: Outgoing,
    /// The classification of packets, by link, direction and packet.
    known: BTreeMap<(u32, Direction, u32), Findings>,
    lines: u64,
    /// Set when the window is over, or writing has failed.
    ended: Option<Result<(), Failure>>,
    /// Stops the run.
    cancel: &'a AtomicBool,
}

/// The classification of a packet on a line.
#[derive(Clone, Copy, Default)]
struct Findings {
    /// The rule that matched, and its colour.
    rule: Option<(usize, &'static str)>,
    class: Option<usize>,
}

/// A value in a line of output.
enum Cell {
    Number(String),
    Text(String),
}

/// The columns, in the order of [`Listing::cells`].
const COLUMNS: &str = "time_s,link,direction,packet,event,src,src_port,dst,dst_port,protocol,\
                       bytes,dscp,ecn,rule,colour,class,queue_packets,queue_bytes,waited_s,reason";

impl Listing<'_> {
    fn head(&mut self) -> Result<(), Failure> {
        if self.as_json { Ok(()) } else { self.file.write(format!("{COLUMNS}\n").as_bytes()) }
    }

    fn write(&mut self, event: &PacketEvent) -> Result<(), Failure> {
        let findings = self.learn(event);
        if event.at < self.window.0 {
            return Ok(());
        }
        let cells = COLUMNS.split(',').zip(self.cells(event, findings));
        let mut line = if self.as_json { json(cells) } else { csv(cells) };
        line.push('\n');
        self.lines += 1;
        self.file.write(line.as_bytes())
    }

    /// Adds the classification in this event to that of its packet, and returns the result.
    fn learn(&mut self, event: &PacketEvent) -> Findings {
        let key = (event.link, event.direction, event.packet);
        let mut findings = self.known.get(&key).copied().unwrap_or_default();
        match event.step {
            Step::Conditioned { rule, colour } => findings.rule = Some((rule, colour.name())),
            Step::Classified { class } => findings.class = Some(class),
            Step::Delivered | Step::Dropped(_) => {
                self.known.remove(&key);
                return findings;
            }
            _ => return findings,
        }
        self.known.insert(key, findings);
        findings
    }

    fn cells(&self, event: &PacketEvent, findings: Findings) -> [Option<Cell>; 20] {
        let link = &self.scenario.links[event.link as usize];
        let way = link.towards(event.direction);
        let rule =
            findings.rule.and_then(|(rule, _)| Some(way.conditions().get(rule)?.name(rule).into_owned()));
        let class = findings.class.and_then(|class| Some(way.classes().get(class)?.name().to_owned()));
        let (flow, step) = (event.header.flow, event.step);
        let queue = if let Step::Queued(backlog) = step { Some(backlog) } else { None };
        let waited = if let Step::Sent { waited } = step { Some(waited) } else { None };
        let reason = if let Step::Dropped(why) = step { Some(why.name()) } else { None };
        [
            number(seconds(event.at.as_nanos())),
            text(&link.name),
            text(event.direction.name()),
            number(event.packet),
            text(step.name()),
            text(flow.src),
            number(flow.src_port),
            text(flow.dst),
            number(flow.dst_port),
            text(protocol_name(flow.protocol)),
            number(event.header.ip_len),
            text(event.header.dscp),
            text(event.header.ecn.name()),
            rule.and_then(text),
            findings.rule.and_then(|(_, colour)| text(colour)),
            class.and_then(text),
            queue.and_then(|queue| number(queue.packets)),
            queue.and_then(|queue| number(queue.bytes)),
            waited.and_then(|waited| number(seconds(waited.as_nanos()))),
            reason.and_then(text),
        ]
    }

    fn end(&mut self, how: Result<(), Failure>) {
        self.ended = Some(how);
        self.cancel.store(true, Ordering::Relaxed);
    }
}

impl Sink for Listing<'_> {
    fn sample(&mut self, _: Subject, _: Sample) {}

    fn wants(&self, _: &'static Quantity) -> bool {
        false
    }

    fn wants_packets(&self, link: u32, direction: Direction) -> bool {
        self.wanted.contains(&(link, direction))
    }

    fn packet(&mut self, event: &PacketEvent) {
        if self.ended.is_some() {
            return;
        }
        if event.at > self.window.1 {
            return self.end(Ok(()));
        }
        if let Err(failure) = self.write(event) {
            self.end(Err(failure));
        }
    }
}

fn number(value: impl ToString) -> Option<Cell> {
    Some(Cell::Number(value.to_string()))
}

fn text(value: impl ToString) -> Option<Cell> {
    Some(Cell::Text(value.to_string()))
}

/// Seconds with nine decimal places, such as `1.000000250`: the simulator's resolution is 1 ns.
fn seconds(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

fn protocol_name(number: u8) -> String {
    match number {
        protocol::TCP => "tcp".to_owned(),
        protocol::UDP => "udp".to_owned(),
        protocol::SCTP => "sctp".to_owned(),
        other => other.to_string(),
    }
}

/// Names contain no commas and no quotes, so nothing needs quoting.
fn csv(cells: impl Iterator<Item = (&'static str, Option<Cell>)>) -> String {
    let value = |cell: Option<Cell>| match cell {
        None => String::new(),
        Some(Cell::Number(value) | Cell::Text(value)) => value,
    };
    cells.map(|(_, cell)| value(cell)).collect::<Vec<_>>().join(",")
}

/// One JSON object. Values that are unknown or do not apply are left out.
fn json(cells: impl Iterator<Item = (&'static str, Option<Cell>)>) -> String {
    let member = |(name, cell): (&str, Option<Cell>)| {
        Some(match cell? {
            Cell::Number(value) => format!("\"{name}\": {value}"),
            Cell::Text(value) => format!("\"{name}\": {}", serde_json::Value::String(value)),
        })
    };
    format!("{{{}}}", cells.filter_map(member).collect::<Vec<_>>().join(", "))
}
