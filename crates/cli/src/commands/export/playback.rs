//! Repetition of a stored run to read the frames at its nodes.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{Duration, Frame, Instant, Quantity, Sample, Sink, Subject};
use netrig_experiment::{Run, RunError, RunOutcome, Scenario};
use netrig_store::{Replication, Store};

use crate::arguments::{Capture, Export};
use crate::failure::{Failure, INTERRUPTED};
use crate::interruption::until_interrupted;
use crate::request::substrate;
use crate::stored_run::{again, find};

/// A run to repeat, and the requested part of its time.
pub struct Playback {
    replication: Replication,
    run: Run,
    /// Start of the requested time. Its end is `to`.
    pub from: Instant,
    pub to: Instant,
    /// Stops the run early.
    pub cancel: Arc<AtomicBool>,
}

/// Gets the frames of one node, from the start of the run to the end of the requested time.
pub trait Listener {
    /// The node's index in the scenario.
    fn node(&self) -> u32;

    /// Handles the next frame. An error stops the run.
    fn frame(&mut self, frame: &Frame<'_>) -> Result<(), Failure>;
}

/// A reader of the frames of one node.
pub struct NodeReader<R> {
    node: u32,
    pub reader: R,
    read: fn(&mut R, &Frame<'_>),
}

impl<R> NodeReader<R> {
    /// A `reader` of the frames at a node. `read` passes it one frame.
    pub fn new(node: usize, reader: R, read: fn(&mut R, &Frame<'_>)) -> Self {
        Self { node: node as u32, reader, read }
    }
}

impl<R> Listener for NodeReader<R> {
    fn node(&self) -> u32 {
        self.node
    }

    fn frame(&mut self, frame: &Frame<'_>) -> Result<(), Failure> {
        (self.read)(&mut self.reader, frame);
        Ok(())
    }
}

impl Playback {
    /// The run whose identity begins with `id`.
    pub fn of(arguments: &Export, id: &str) -> Result<Self, Failure> {
        let store = Store::open_read_only(&arguments.place.store).map_err(Failure::request)?;
        let (experiment, replication) = find(&store, id)?;
        let run = again(&store, experiment, &replication)?;
        let lasted = replication.run.end.lasted().unwrap_or(run.scenario.duration);
        let (from, to) = window(&arguments.capture, lasted)?;
        Ok(Self { replication, run, from, to, cancel: until_interrupted()? })
    }

    pub fn scenario(&self) -> &Scenario {
        &self.run.scenario
    }

    /// A description of the run.
    pub fn about(&self) -> String {
        let Replication { run, number, point, .. } = &self.replication;
        let levels: String =
            point.levels().iter().map(|(factor, level)| format!(", {factor} = {level}")).collect();
        format!("run {} on {}, replication {number}, seed {}{levels}", run.identity, run.substrate, run.seed)
    }

    /// The indices of the nodes with these names; without names, the node that sends the data of the first flow.
    pub fn nodes(&self, names: &[String]) -> Result<Vec<usize>, Failure> {
        let scenario = self.scenario();
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

    /// Repeats the run. The inner error is that of the run.
    pub fn make(&self, sink: &mut dyn Sink) -> Result<Result<RunOutcome, RunError>, Failure> {
        Ok(substrate(&self.replication.run.substrate)?.run(&self.run, sink, &self.cancel))
    }

    /// Repeats the run and gives each listener the frames of its node. `None` if interrupted.
    pub fn play<L: Listener>(&self, listeners: Vec<L>) -> Result<Option<Vec<L>>, Failure> {
        let mut audience =
            Audience { listeners, to: self.to, state: PlaybackState::Listening, cancel: &self.cancel };
        let ended = self.make(&mut audience)?;
        match (audience.state, ended) {
            (PlaybackState::Failed(failure), _) => Err(failure),
            (PlaybackState::Listening, Err(RunError::Cancelled)) => Ok(None),
            (PlaybackState::Listening, Err(error)) => Err(Failure::failed(error)),
            (PlaybackState::Over, _) | (PlaybackState::Listening, Ok(_)) => Ok(Some(audience.listeners)),
        }
    }
}

/// Prints that the export was interrupted, and returns the exit code.
pub fn interrupted() -> ExitCode {
    eprintln!("interrupted: no file was left behind");
    ExitCode::from(INTERRUPTED)
}

/// Start and end of the requested time in a run with the duration `lasted`.
fn window(wanted: &Capture, lasted: Duration) -> Result<(Instant, Instant), Failure> {
    let from = wanted.from.unwrap_or_default();
    let to = wanted.to.unwrap_or(lasted.max(from));
    if from > to || from > lasted {
        return Err(Failure::request(format!(
            "there is nothing from {from} to {to}: the run is from 0 s to {lasted}"
        )));
    }
    if to > lasted {
        eprintln!("note: --to {to} is after the end of the run, which is from 0 s to {lasted}");
    }
    Ok((Instant::ZERO + from, Instant::ZERO + to.min(lasted)))
}

/// The sink of the run, which passes frames to the listeners.
struct Audience<'a, L> {
    listeners: Vec<L>,
    to: Instant,
    state: PlaybackState,
    /// Stops the run.
    cancel: &'a AtomicBool,
}

enum PlaybackState {
    Listening,
    /// The requested time is over.
    Over,
    /// A listener failed.
    Failed(Failure),
}

impl<L> Audience<'_, L> {
    fn end(&mut self, state: PlaybackState) {
        self.state = state;
        self.cancel.store(true, Ordering::Relaxed);
    }
}

impl<L: Listener> Sink for Audience<'_, L> {
    fn sample(&mut self, _: Subject, _: Sample) {}

    fn wants(&self, _: &'static Quantity) -> bool {
        false
    }

    fn wants_frames(&self, node: u32) -> bool {
        self.listeners.iter().any(|listener| listener.node() == node)
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        if !matches!(self.state, PlaybackState::Listening) {
            return;
        }
        if frame.at > self.to {
            return self.end(PlaybackState::Over);
        }
        let mut theirs = self.listeners.iter_mut().filter(|listener| listener.node() == frame.node);
        if let Err(failure) = theirs.try_for_each(|listener| listener.frame(frame)) {
            self.end(PlaybackState::Failed(failure));
        }
    }
}
