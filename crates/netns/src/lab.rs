//! A topology that is held up for whoever wants to work in it.

use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use netrig_agent::Clock;
use netrig_core::{Duration, Sink};
use netrig_experiment::{Balance, Run, RunError, Scenario, Unsupported};

use crate::error::TestbedError;
use crate::process::Process;
use crate::program::Programs;
use crate::router::{Findings, Router, Routing};
use crate::testbed::Testbed;
use crate::wiring::Wiring;

/// A topology whose links work on whatever frames its nodes send. No flow of the scenario runs, and no event happens. Made
/// by [`Namespaces::lab`](crate::Namespaces::lab).
pub struct Lab {
    // Before the testbed, for fields are dropped in their order.
    routing: Routing,
    programs: Programs,
    testbed: Testbed,
    clock: Clock,
    found: Receiver<Findings>,
}

/// What passed a lab's links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Every packet accounted for.
    pub balance: Balance,
    /// What the router itself did to the measurement, and how programs ended that should not have, each a sentence.
    pub faults: Vec<String>,
}

/// Why there is no lab.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The scenario is one that a kernel cannot have.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// It names programs, of which this is the first.
    #[error("the experiment runs `{0}` on this machine, and nobody has allowed it to")]
    NotAllowed(String),
    /// It cannot be built, used or removed.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// It was told to end before it stood.
    #[error("the lab was given up")]
    Cancelled,
    /// The router or a program failed.
    #[error("{0}")]
    Failed(String),
    /// There is no such node.
    #[error("there is no node `{wanted}`; there are: {}", .nodes.join(", "))]
    NoNode {
        /// What was asked for.
        wanted: String,
        /// Those that there are.
        nodes: Vec<String>,
    },
}

impl From<RunError> for LabError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Cancelled => Self::Cancelled,
            RunError::Failed(why) => Self::Failed(why),
        }
    }
}

impl Lab {
    /// Sets the links of `run` to work on what was built of it.
    pub(crate) fn open(
        run: &Run,
        testbed: Testbed,
        programs: Programs,
        sink: &dyn Sink,
    ) -> Result<Self, LabError> {
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
        Ok(Self { routing, programs, testbed, clock, found })
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

    /// The programs of its nodes: the place of the node, and which program it is, by its file and a hash of it.
    pub fn programs(&self) -> impl Iterator<Item = (usize, &str)> {
        self.programs.versions()
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

    /// Takes everything down, and tells `sink` what was found and, as notes of their nodes, what programs wrote.
    ///
    /// # Errors
    /// If packets do not balance, or something cannot be removed.
    pub fn close(self, sink: &mut dyn Sink) -> Result<Passed, LabError> {
        let Self { routing, programs, testbed, clock, found } = self;
        let report = routing.stop(clock.now())?;
        found.try_iter().for_each(|findings| findings.tell(sink));
        let mut faults = report.faults();
        faults.extend(programs.end(clock, sink).err().map(|error| error.to_string()));
        testbed.remove()?;
        Ok(Passed { balance: report.balance, faults })
    }
}
