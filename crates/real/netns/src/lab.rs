//! A topology that stays in operation so that a user can work in it.

use std::panic::resume_unwind;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use netrig_core::{Duration, Sink};
use netrig_experiment::{Balance, Run, RunError, Scenario, Unsupported};
use netrig_host::Clock;

use crate::error::TestbedError;
use crate::host::NodeLoads;
use crate::process::Process;
use crate::program::Programs;
use crate::router::{ObservationBatch, Router, RouterThread, UNTAKEN};
use crate::testbed::Testbed;
use crate::wiring::Wiring;

/// A topology whose links carry the frames of its nodes, without the flows and events of the scenario. It is made
/// by [`Namespaces::lab`](crate::Namespaces::lab). The sink `S` receives the observations.
pub struct Lab<S> {
    // These fields are declared before the testbed, because fields are dropped in order.
    routing: RouterThread,
    programs: Programs,
    loads: NodeLoads,
    testbed: Testbed,
    clock: Clock,
    /// The thread that passes observations to the sink until the router ends.
    collector: JoinHandle<S>,
}

/// The result of a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabReport {
    /// The counts of all packets on the links of the lab.
    pub balance: Balance,
    /// Faults of the router and of programs, one sentence each.
    pub faults: Vec<String>,
}

/// Why a lab cannot be opened or used.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The kernel does not support the scenario.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The experiment runs programs, which has not been allowed. Contains the name of the first program.
    #[error("the experiment runs `{0}` on this machine, which has not been allowed")]
    NotAllowed(String),
    /// The testbed cannot be built, used or removed.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The lab was cancelled before it was ready.
    #[error("the lab was cancelled")]
    Cancelled,
    /// The router or a program failed.
    #[error("{0}")]
    Failed(String),
    /// There is no such node.
    #[error("there is no node `{wanted}`; there are: {}", .nodes.join(", "))]
    NoNode {
        /// The requested name.
        wanted: String,
        /// The names of all nodes.
        nodes: Vec<String>,
    },
}

impl From<RunError> for LabError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Cancelled => Self::Cancelled,
            failed @ (RunError::Failed(_) | RunError::Because(_)) => Self::Failed(failed.to_string()),
        }
    }
}

impl<S: Sink + Send + 'static> Lab<S> {
    /// Starts the links of `run` on its testbed.
    pub(crate) fn open(
        run: &Run,
        testbed: Testbed,
        (programs, loads): (Programs, NodeLoads),
        mut sink: S,
    ) -> Result<Self, LabError> {
        // About two years, because a lab ends only when it is closed.
        let duration = Duration::from_secs(1 << 26);
        let scenario = Scenario { duration, events: Vec::new(), ..(*run.scenario).clone() };
        let run = Run { scenario: Arc::new(scenario), ..run.clone() };
        let (batches, received) = mpsc::sync_channel::<ObservationBatch>(UNTAKEN);
        let batches = Box::new(move |observations| {
            // The receiver lives as long as the router.
            let _ = batches.send(observations);
        });
        let clock = Clock::starting_in(Duration::ZERO);
        let router = Router::new(&testbed, &run, &sink, batches)?;
        let collector = std::thread::spawn(move || {
            received.into_iter().for_each(|observations| observations.send_to(&mut sink));
            sink
        });
        Ok(Self { routing: RouterThread::start(router, clock), programs, loads, testbed, clock, collector })
    }

    /// The plan of the lab: nodes, interfaces and addresses.
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

    /// The programs of the nodes. Each item is the index of the node, and the program's path with a hash.
    pub fn programs(&self) -> impl Iterator<Item = (usize, &str)> {
        self.programs.versions()
    }

    /// A text that lists the nodes with their namespaces, interfaces, addresses and programs.
    pub fn text(&self) -> String {
        let mut lines = String::new();
        for (place, node) in self.wiring().nodes.iter().enumerate() {
            let namespace = self.testbed.namespace(place).unwrap_or_default();
            lines += &format!("{}  (ip netns exec {namespace} ...)\n", node.name);
            for (_, end) in self.wiring().ends_of(place) {
                let addresses: Vec<_> = end.addresses.iter().map(ToString::to_string).collect();
                lines += &format!("    {:<16} {}\n", end.interface, addresses.join("  "));
            }
            for (_, version) in self.programs().filter(|(node, _)| *node == place) {
                lines += &format!("    runs {version}\n");
            }
        }
        lines
    }

    /// Starts a program on a node in the process group of this process, so that it can read from the terminal. The
    /// program is killed when the lab ends.
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

    /// Ends the lab and removes the testbed. Returns the report and the sink. The sink has also received the output
    /// of programs as notes of their nodes.
    ///
    /// # Errors
    /// If the packet counts do not balance, or an object cannot be removed.
    pub fn close(self) -> Result<(LabReport, S), LabError> {
        let Self { routing, programs, loads, testbed, clock, collector } = self;
        let report = routing.stop(clock.now())?;
        let mut sink = collector.join().unwrap_or_else(|panic| resume_unwind(panic));
        let mut faults = report.faults();
        faults.extend(loads.end().err().map(|error| error.to_string()));
        faults.extend(programs.end(clock, &mut sink).err().map(|error| error.to_string()));
        testbed.remove()?;
        Ok((LabReport { balance: report.balance, faults }, sink))
    }
}
