//! The substrate `netns`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::Sink;
use netrig_experiment::{Outcome, Run, RunError, Substrate, Unsupported};

use crate::capabilities::lacks;
use crate::conductor::Conductor;
use crate::journal::Journals;
use crate::multipath::{manage, multipath};
use crate::orders::orders;
use crate::program::{Errand, errands};
use crate::removal::left_behind;
use crate::testbed::{Testbed, TestbedId};
use crate::wiring::Wiring;

/// Runs in real time: the kernel's sockets in namespaces of this host, and netrig's router between them.
#[derive(Debug)]
pub struct Namespaces {
    agent: PathBuf,
    journals: Journals,
    /// Whether programs that an experiment names may be run.
    allows_programs: AtomicBool,
}

impl Namespaces {
    /// With `agent` as the program of every node: an executable that speaks the control protocol over its standard input
    /// and output when it is told `agent`, as netrig's own does.
    pub fn new(agent: impl Into<PathBuf>, journals: Journals) -> Self {
        Self { agent: agent.into(), journals, allows_programs: AtomicBool::new(false) }
    }

    /// From now on programs that an experiment file names may be run on its nodes: with the rights of this process, and
    /// on this machine but for its network.
    pub fn allow_programs(&self) {
        self.allows_programs.store(true, Ordering::Relaxed);
    }
}

impl Substrate for Namespaces {
    fn name(&self) -> &'static str {
        "netns"
    }

    fn check(&self, run: &Run) -> Result<(), Unsupported> {
        if let Some(lack) = lacks().first() {
            return Err(Unsupported(lack.to_string()));
        }
        Wiring::new(&run.scenario).map_err(|error| Unsupported(error.to_string()))?;
        errands(&run.scenario)?;
        orders(run).map(drop)
    }

    fn identity(&self, run: &Run) -> Result<String, RunError> {
        let kernel = |name: &str| {
            let path = format!("/proc/sys/kernel/{name}");
            let text = std::fs::read_to_string(&path);
            text.map_err(|error| RunError::Failed(format!("cannot read {path}: {error}")))
        };
        let programs = errands(&run.scenario).unwrap_or_default();
        let versions = programs.iter().map(Errand::version).collect::<Result<Vec<_>, _>>()?;
        let versions: String = versions.iter().map(|version| format!("; {version}")).collect();
        Ok(format!("{} {}{versions}", kernel("osrelease")?.trim(), kernel("version")?.trim()))
    }

    fn repeats(&self) -> bool {
        false
    }

    fn parallelism(&self) -> NonZeroUsize {
        // Two at a time would take the processor from each other, and measure that.
        NonZeroUsize::MIN
    }

    fn run(&self, run: &Run, sink: &mut dyn Sink, cancel: &AtomicBool) -> Result<Outcome, RunError> {
        let failed = |error: &dyn std::error::Error| RunError::Failed(error.to_string());
        let named = run.scenario.nodes.iter().find_map(|node| node.programs.first());
        if let Some(program) = named.filter(|_| !self.allows_programs.load(Ordering::Relaxed)) {
            return Err(RunError::Failed(format!(
                "the experiment runs `{}` on this machine, and nobody has allowed it to",
                program.name()
            )));
        }
        let errands = errands(&run.scenario).map_err(|error| failed(&error))?;
        let orders = orders(run).map_err(|error| failed(&error))?;
        let wiring = Wiring::new(&run.scenario).map_err(|error| failed(&error))?;
        // What cannot be removed is in nobody's way: names and identities of this testbed are its own. `netrig doctor` tells.
        let left = left_behind(&self.journals).map_err(|error| failed(&error))?;
        left.into_iter().for_each(|left| drop(left.remove()));
        let testbed = TestbedId::fresh().and_then(|id| Testbed::build(&self.journals, &id, wiring));
        let testbed = testbed.map_err(|error| failed(&error))?;
        let nodes = multipath(&run.scenario).map_err(|error| failed(&error))?;
        manage(&testbed, &nodes).map_err(|error| failed(&error))?;
        Conductor::prepare(run, testbed, &self.agent, orders, errands, cancel)?.carry_out(sink, cancel)
    }
}
