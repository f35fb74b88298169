//! A topology that is held up for whoever wants to work in it.

use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use netrig_agent::Clock;
use netrig_core::{Duration, Sink};
use netrig_experiment::{Balance, Run, RunError, Scenario};

use crate::error::TestbedError;
use crate::journal::Journals;
use crate::orders::check_topology;
use crate::process::Process;
use crate::router::{Findings, Router, Routing};
use crate::testbed::{Testbed, TestbedId};
use crate::wiring::Wiring;

/// A topology whose links work on whatever frames its nodes send. No flow of the scenario runs, and no event happens.
pub struct Lab {
    routing: Routing,
    testbed: Testbed,
    clock: Clock,
    found: Receiver<Findings>,
}

/// What passed a lab's links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Every packet accounted for.
    pub balance: Balance,
    /// What the router itself did to the measurement, each a sentence.
    pub faults: Vec<String>,
}

/// Why there is no lab.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The scenario is one that a kernel cannot have.
    #[error("{0}")]
    Unsupported(String),
    /// It cannot be built, used or removed.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The router failed.
    #[error(transparent)]
    Router(#[from] RunError),
    /// There is no such node.
    #[error("there is no node `{wanted}`; there are: {}", .nodes.join(", "))]
    NoNode {
        /// What was asked for.
        wanted: String,
        /// Those that there are.
        nodes: Vec<String>,
    },
}

impl Lab {
    /// Builds the topology of `run`, with its links at work. What `sink` wants to know of them is kept for
    /// [`Lab::close`].
    ///
    /// # Errors
    /// If it cannot be built; nothing of it stays then.
    pub fn open(run: &Run, journals: &Journals, sink: &dyn Sink) -> Result<Self, LabError> {
        check_topology(&run.scenario).map_err(|error| LabError::Unsupported(error.to_string()))?;
        let wiring = Wiring::new(&run.scenario).map_err(|error| LabError::Unsupported(error.to_string()))?;
        let testbed = Testbed::build(journals, &TestbedId::fresh()?, wiring)?;
        // Two years: it ends when it is told to.
        let duration = Duration::from_secs(1 << 26);
        let scenario = Scenario { duration, events: Vec::new(), ..(*run.scenario).clone() };
        let run = Run { scenario: Arc::new(scenario), ..run.clone() };
        let (tell, found) = mpsc::channel();
        let tell = Box::new(move |findings| {
            // Nobody listens any more once the lab was given up.
            let _ = tell.send(findings);
        });
        let clock = Clock::starting_in(Duration::ZERO);
        let routing = Routing::start(Router::new(&testbed, &run, sink, tell)?, clock);
        Ok(Self { routing, testbed, clock, found })
    }

    /// What was built: nodes, interfaces and addresses.
    pub fn wiring(&self) -> &Wiring {
        self.testbed.wiring()
    }

    /// The name of a node's namespace, for `ip netns exec`.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn namespace(&self, node: &str) -> Result<&str, LabError> {
        Ok(self.testbed.namespace(self.place(node)?)?)
    }

    /// Starts a program on a node, in the process group of this process, so that it may read from the terminal. It ends
    /// with the lab.
    ///
    /// # Errors
    /// If there is no such node, or the program cannot be started.
    pub fn spawn(&mut self, node: &str, command: Command) -> Result<Process, LabError> {
        let place = self.place(node)?;
        Ok(self.testbed.spawn_in_foreground(place, command)?)
    }

    fn place(&self, wanted: &str) -> Result<usize, LabError> {
        let nodes = &self.testbed.wiring().nodes;
        nodes.iter().position(|node| node.name == wanted).ok_or_else(|| LabError::NoNode {
            wanted: wanted.to_owned(),
            nodes: nodes.iter().map(|node| node.name.clone()).collect(),
        })
    }

    /// Takes everything down, and tells `sink` what was found.
    ///
    /// # Errors
    /// If packets do not balance, or something cannot be removed.
    pub fn close(self, sink: &mut dyn Sink) -> Result<Passed, LabError> {
        let report = self.routing.stop(self.clock.now())?;
        self.found.try_iter().for_each(|findings| findings.tell(sink));
        self.testbed.remove()?;
        Ok(Passed { balance: report.balance, faults: report.faults() })
    }
}
