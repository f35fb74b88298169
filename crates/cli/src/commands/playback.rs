//! A stored run, made again for what passes its nodes.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{Frame, Instant, Quantity, Sample, Sink, Subject};
use netrig_experiment::{Outcome, Run, RunError, Scenario};
use netrig_store::{Replication, Store};

use crate::arguments::{Capture, Export};
use crate::build::BUILD;
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

/// Takes the frames of one node as they come, from the start of the run to the end of what is wanted.
pub trait Taker {
    /// Whose frames, by the node's place in the scenario.
    fn node(&self) -> u32;

    /// The next one. If it fails, the run ends.
    fn take(&mut self, frame: &Frame<'_>) -> Result<(), Failure>;
}

impl Playback {
    /// The run whose identity begins with `id`.
    pub fn of(arguments: &Export, id: &str) -> Result<Self, Failure> {
        let store = Store::open_read_only(&arguments.place.store).map_err(Failure::request)?;
        let (text, replication) = find(&store, id)?;
        if replication.build != *BUILD {
            let (other, this) = (&replication.build, &*BUILD);
            eprintln!(
                "warning: the run was made by netrig {other}; its packets are those of this one, {this}"
            );
        }
        let run = again(&text, &replication)?;
        let (from, to) = window(&arguments.capture, &run)?;
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
    pub fn make(&self, sink: &mut dyn Sink) -> Result<Result<Outcome, RunError>, Failure> {
        Ok(substrate(&self.replication.run.substrate)?.run(&self.run, sink, &self.cancel))
    }

    /// Makes the run again and gives each taker what passes its node; `None` if the person interrupts it.
    pub fn play<T: Taker>(&self, takers: Vec<T>) -> Result<Option<Vec<T>>, Failure> {
        let mut audience = Audience { takers, to: self.to, state: State::Listening, cancel: &self.cancel };
        let ended = self.make(&mut audience)?;
        match (audience.state, ended) {
            (State::Lost(failure), _) => Err(failure),
            (State::Listening, Err(RunError::Cancelled)) => Ok(None),
            (State::Listening, Err(error)) => Err(Failure::failed(error)),
            (State::Over, _) | (State::Listening, Ok(_)) => Ok(Some(audience.takers)),
        }
    }
}

/// Says so, and gives the exit code.
pub fn interrupted() -> ExitCode {
    eprintln!("interrupted: nothing is left behind");
    ExitCode::from(INTERRUPTED)
}

/// The first and the last moment that are wanted.
fn window(wanted: &Capture, run: &Run) -> Result<(Instant, Instant), Failure> {
    let length = run.scenario.duration;
    let from = wanted.from.unwrap_or_default();
    let to = wanted.to.unwrap_or(length);
    if from > to || from > length {
        return Err(Failure::request(format!(
            "there is nothing from {from} to {to}: the run is from 0 s to {length}"
        )));
    }
    Ok((Instant::ZERO + from, Instant::ZERO + to))
}

/// Listens to a run for its takers; keeps nothing.
struct Audience<'a, T> {
    takers: Vec<T>,
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

impl<T> Audience<'_, T> {
    fn end(&mut self, state: State) {
        self.state = state;
        self.cancel.store(true, Ordering::Relaxed);
    }
}

impl<T: Taker> Sink for Audience<'_, T> {
    fn sample(&mut self, _: Subject, _: Sample) {}

    fn wants(&self, _: &'static Quantity) -> bool {
        false
    }

    fn wants_frames(&self, node: u32) -> bool {
        self.takers.iter().any(|taker| taker.node() == node)
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        if !matches!(self.state, State::Listening) {
            return;
        }
        if frame.at > self.to {
            return self.end(State::Over);
        }
        let mut theirs = self.takers.iter_mut().filter(|taker| taker.node() == frame.node);
        if let Err(failure) = theirs.try_for_each(|taker| taker.take(frame)) {
            self.end(State::Lost(failure));
        }
    }
}
