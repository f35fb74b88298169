//! The substrate `netns`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use netrig_core::Sink;
use netrig_experiment::{Outcome, Run, RunError, Substrate, Unsupported};

use crate::capabilities::lacks;
use crate::conductor::Conductor;
use crate::journal::Journals;
use crate::multipath::{manage, multipath};
use crate::orders::orders;
use crate::removal::left_behind;
use crate::testbed::{Testbed, TestbedId};
use crate::wiring::Wiring;

/// Runs in real time: the kernel's sockets in namespaces of this host, and netrig's router between them.
#[derive(Clone, Debug)]
pub struct Namespaces {
    agent: PathBuf,
    journals: Journals,
}

impl Namespaces {
    /// With `agent` as the program of every node: an executable that speaks the control protocol over its standard input
    /// and output when it is told `agent`, as netrig's own does.
    pub fn new(agent: impl Into<PathBuf>, journals: Journals) -> Self {
        Self { agent: agent.into(), journals }
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
        orders(run).map(drop)
    }

    fn identity(&self, _run: &Run) -> Result<String, RunError> {
        let kernel = |name: &str| {
            let path = format!("/proc/sys/kernel/{name}");
            let text = std::fs::read_to_string(&path);
            text.map_err(|error| RunError::Failed(format!("cannot read {path}: {error}")))
        };
        Ok(format!("{} {}", kernel("osrelease")?.trim(), kernel("version")?.trim()))
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
        let orders = orders(run).map_err(|error| failed(&error))?;
        let wiring = Wiring::new(&run.scenario).map_err(|error| failed(&error))?;
        // What cannot be removed is in nobody's way: names and identities of this testbed are its own. `netrig doctor` tells.
        let left = left_behind(&self.journals).map_err(|error| failed(&error))?;
        left.into_iter().for_each(|left| drop(left.remove()));
        let testbed = TestbedId::fresh().and_then(|id| Testbed::build(&self.journals, &id, wiring));
        let testbed = testbed.map_err(|error| failed(&error))?;
        let nodes = multipath(&run.scenario).map_err(|error| failed(&error))?;
        manage(&testbed, &nodes).map_err(|error| failed(&error))?;
        Conductor::prepare(run, testbed, &self.agent, orders, cancel)?.carry_out(sink, cancel)
    }
}
