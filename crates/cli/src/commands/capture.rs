//! `netrig export --format pcapng`: the packets that pass a node, in virtual time.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{Frame, Instant, Quantity, Sample, Sink, Subject, pcapng};
use netrig_experiment::{Run, RunError, Scenario};
use netrig_store::{Replication, Store};

use crate::arguments::{Capture, Export};
use crate::build::BUILD;
use crate::failure::{Failure, INTERRUPTED};
use crate::interruption::until_interrupted;
use crate::output::{Outgoing, tell};
use crate::request::substrate;
use crate::stored_run::{again, find};

/// Makes the run whose identity begins with `id` again, and writes down what passes its nodes.
pub fn capture(arguments: &Export, id: &str) -> Result<ExitCode, Failure> {
    let store = Store::open_read_only(&arguments.place.store).map_err(Failure::request)?;
    let (text, replication) = find(&store, id)?;
    if replication.build != *BUILD {
        let (other, this) = (&replication.build, &*BUILD);
        eprintln!(
            "warning: the run was made by netrig {other}; the capture is of what this one, {this}, does"
        );
    }
    let run = again(&text, &replication)?;
    let window = window(&arguments.capture, &run)?;
    let nodes = nodes(&arguments.capture.node, &run.scenario)?;
    let snap = snap(&arguments.capture)?;
    let cancel = until_interrupted()?;
    let about = about(&replication);
    let several = nodes.len() > 1;
    let open = |node: &usize| {
        let name = &run.scenario.nodes[*node].name;
        let out = if several { arguments.out.join(format!("{name}.pcapng")) } else { arguments.out.clone() };
        NodeCapture::open(out, *node, &run.scenario, &about, snap)
    };
    let captures = nodes.iter().map(open).collect::<Result<Vec<_>, Failure>>()?;
    let mut recorder = Recorder { captures, window, state: State::Listening, cancel: &cancel };
    let ended = substrate(&replication.run.substrate)?.run(&run, &mut recorder, &cancel);
    match (recorder.state, ended) {
        (State::Lost(failure), _) => Err(failure),
        (State::Listening, Err(RunError::Cancelled)) => {
            eprintln!("interrupted: no capture is left");
            Ok(ExitCode::from(INTERRUPTED))
        }
        (State::Listening, Err(error)) => Err(Failure::failed(error)),
        (State::Over, _) | (State::Listening, Ok(_)) => {
            recorder.captures.into_iter().try_for_each(|capture| capture.finish(&run.scenario))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// What a capture says of itself.
fn about(replication: &Replication) -> String {
    let run = &replication.run;
    let levels: Vec<_> =
        replication.point.0.iter().map(|(factor, level)| format!("{factor} = {level}")).collect();
    format!(
        "run {} on {}, replication {}, seed {}{}{}; times are since the start of the run",
        run.identity,
        run.substrate,
        replication.number,
        run.seed,
        if levels.is_empty() { "" } else { ", " },
        levels.join(", ")
    )
}

/// The first and the last moment that are wanted.
fn window(wanted: &Capture, run: &Run) -> Result<[Instant; 2], Failure> {
    let length = run.scenario.duration;
    let from = wanted.from.unwrap_or_default();
    let to = wanted.to.unwrap_or(length);
    if from > to || from > length {
        return Err(Failure::request(format!(
            "there is nothing from {from} to {to}: the run is from 0 s to {length}"
        )));
    }
    Ok([Instant::ZERO + from, Instant::ZERO + to])
}

/// How much of each packet is kept, as a capture has it: 0 for all.
fn snap(wanted: &Capture) -> Result<u32, Failure> {
    match wanted.snap.map(|size| u32::try_from(size.bytes())) {
        None => Ok(0),
        Some(Ok(bytes)) if bytes > 0 => Ok(bytes),
        Some(_) => Err(Failure::request("--snap: from 1 B to 4 GB of each packet can be kept")),
    }
}

/// The places of the nodes with these names; with none, of the one that sends the data of the first flow.
fn nodes(names: &[String], scenario: &Scenario) -> Result<Vec<usize>, Failure> {
    if names.is_empty() {
        let first = scenario.flows.first().ok_or_else(|| Failure::request("the run has no flow"))?;
        return Ok(vec![if first.application.answers() { first.to } else { first.from }]);
    }
    let mut places: Vec<usize> = Vec::new();
    for name in names {
        let place = scenario.nodes.iter().position(|node| node.name == *name).ok_or_else(|| {
            let names: Vec<_> = scenario.nodes.iter().map(|node| node.name.as_str()).collect();
            Failure::request(format!("the run has no node `{name}`; it has: {}", names.join(", ")))
        })?;
        if !places.contains(&place) {
            places.push(place);
        }
    }
    Ok(places)
}

/// Takes the frames of a run as they come and writes them; keeps none.
struct Recorder<'a> {
    captures: Vec<NodeCapture>,
    window: [Instant; 2],
    state: State,
    /// Stops the run.
    cancel: &'a AtomicBool,
}

enum State {
    Listening,
    /// The window is over.
    Over,
    /// The capture could not be written.
    Lost(Failure),
}

impl Recorder<'_> {
    fn end(&mut self, state: State) {
        self.state = state;
        self.cancel.store(true, Ordering::Relaxed);
    }
}

impl Sink for Recorder<'_> {
    fn sample(&mut self, _: Subject, _: Sample) {}

    fn wants(&self, _: &'static Quantity) -> bool {
        false
    }

    fn wants_frames(&self, node: u32) -> bool {
        self.captures.iter().any(|capture| capture.node == node)
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        let [from, to] = self.window;
        if frame.at < from || !matches!(self.state, State::Listening) {
            return;
        }
        if frame.at > to {
            return self.end(State::Over);
        }
        let taken = match self.captures.iter_mut().find(|capture| capture.node == frame.node) {
            Some(capture) => capture.take(frame),
            None => Ok(()),
        };
        if let Err(failure) = taken {
            self.end(State::Lost(failure));
        }
    }
}

/// A capture at one node.
struct NodeCapture {
    node: u32,
    /// The links that its interfaces lead to, in ascending order.
    interfaces: Vec<u32>,
    snap: u32,
    out: PathBuf,
    file: Outgoing,
    frames: u64,
    block: Vec<u8>,
}

impl NodeCapture {
    /// Writes what stands before the first packet.
    fn open(out: PathBuf, node: usize, scenario: &Scenario, about: &str, snap: u32) -> Result<Self, Failure> {
        let name = &scenario.nodes[node].name;
        let mut block = Vec::new();
        pcapng::section(&mut block, &format!("netrig {}", *BUILD), &format!("node {name} of {about}"));
        let mut interfaces = Vec::new();
        for (link, number) in scenario.links.iter().zip(0..) {
            let Some(end) = link.ends.iter().position(|end| *end == node) else { continue };
            let peer = &scenario.nodes[link.ends[1 - end]].name;
            let description = format!("{name} ({}) to {peer}", link.addresses[end]);
            pcapng::interface(&mut block, &link.name, &description, snap);
            interfaces.push(number);
        }
        let mut file = Outgoing::open(&out)?;
        file.write(&block)?;
        Ok(Self { node: node as u32, interfaces, snap, out, file, frames: 0, block })
    }

    fn take(&mut self, frame: &Frame<'_>) -> Result<(), Failure> {
        let Ok(interface) = self.interfaces.binary_search(&frame.link) else {
            return Ok(());
        };
        self.block.clear();
        pcapng::packet(&mut self.block, interface as u32, self.snap, frame);
        self.frames += 1;
        self.file.write(&self.block)
    }

    fn finish(self, scenario: &Scenario) -> Result<(), Failure> {
        self.file.finish()?;
        let name = &scenario.nodes[self.node as usize].name;
        tell(&self.out, &format!("{} packets at {name}: {}", self.frames, self.out.display()))
    }
}
