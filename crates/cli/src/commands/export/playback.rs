//! A stored run, made again for what passes its nodes.

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

/// A run that is to be made again, and which part of it is wanted.
pub struct Playback {
    replication: Replication,
    run: Run,
    /// The first moment that is wanted, and the last.
    pub from: Instant,
    pub to: Instant,
    /// Ends it early.
    pub cancel: Arc<AtomicBool>,
}

/// Gets the frames of one node as they come, from the start of the run to the end of what is wanted.
pub trait Listener {
    /// Whose frames, by the node's place in the scenario.
    fn node(&self) -> u32;

    /// The next one. If it fails, the run ends.
    fn hear(&mut self, frame: &Frame<'_>) -> Result<(), Failure>;
}

/// A reader of the frames of one node, which keeps what it needs of them.
pub struct NodeReader<R> {
    node: u32,
    /// What it has read.
    pub reader: R,
    read: fn(&mut R, &Frame<'_>),
}

impl<R> NodeReader<R> {
    /// At the node at this place, `reader`, which reads a frame by `read`.
    pub fn new(node: usize, reader: R, read: fn(&mut R, &Frame<'_>)) -> Self {
        Self { node: node as u32, reader, read }
    }
}

impl<R> Listener for NodeReader<R> {
    fn node(&self) -> u32 {
        self.node
    }

    fn hear(&mut self, frame: &Frame<'_>) -> Result<(), Failure> {
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

    /// What is run.
    pub fn scenario(&self) -> &Scenario {
        &self.run.scenario
    }

    /// Which run it is, in words.
    pub fn about(&self) -> String {
        let Replication { run, number, point, .. } = &self.replication;
        let levels: String = point.0.iter().map(|(factor, level)| format!(", {factor} = {level}")).collect();
        format!("run {} on {}, replication {number}, seed {}{levels}", run.identity, run.substrate, run.seed)
    }

    /// The places of the nodes with these names; with none, of the one that sends the data of the first flow.
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

    /// Makes the run again. The inner error is the run's own.
    pub fn make(&self, sink: &mut dyn Sink) -> Result<Result<RunOutcome, RunError>, Failure> {
        Ok(substrate(&self.replication.run.substrate)?.run(&self.run, sink, &self.cancel))
    }

    /// Makes the run again and gives each listener what passes its node; `None` if the person interrupts it.
    pub fn play<L: Listener>(&self, listeners: Vec<L>) -> Result<Option<Vec<L>>, Failure> {
        let mut audience = Audience { listeners, to: self.to, state: State::Listening, cancel: &self.cancel };
        let ended = self.make(&mut audience)?;
        match (audience.state, ended) {
            (State::Lost(failure), _) => Err(failure),
            (State::Listening, Err(RunError::Cancelled)) => Ok(None),
            (State::Listening, Err(error)) => Err(Failure::failed(error)),
            (State::Over, _) | (State::Listening, Ok(_)) => Ok(Some(audience.listeners)),
        }
    }
}

/// Says so, and gives the exit code.
pub fn interrupted() -> ExitCode {
    eprintln!("interrupted: nothing is left behind");
    ExitCode::from(INTERRUPTED)
}

/// The first and the last moment that are wanted of a run that lasted so long.
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

/// Who listens to a run; keeps nothing itself.
struct Audience<'a, L> {
    listeners: Vec<L>,
    to: Instant,
    state: State,
    /// Stops the run.
    cancel: &'a AtomicBool,
}

enum State {
    Listening,
    /// The window is over.
    Over,
    /// What was taken is lost.
    Lost(Failure),
}

impl<L> Audience<'_, L> {
    fn end(&mut self, state: State) {
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
        if !matches!(self.state, State::Listening) {
            return;
        }
        if frame.at > self.to {
            return self.end(State::Over);
        }
        let mut theirs = self.listeners.iter_mut().filter(|listener| listener.node() == frame.node);
        if let Err(failure) = theirs.try_for_each(|listener| listener.hear(frame)) {
            self.end(State::Lost(failure));
        }
    }
}
