//! The substrate `netns`.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netrig_agent::{EndReport, RunOrder};
use netrig_core::Sink;
use netrig_experiment::{Run, RunError, RunOutcome, Scenario, Substrate, Unsupported};

use crate::capabilities::missing_requirements;
use crate::conductor::Conductor;
use crate::error::TestbedError;
use crate::host::{self, NodeLoads};
use crate::journal::Journals;
use crate::keeping::{KeepRequest, KeptFlows, RunKeeping};
use crate::lab::{Lab, LabError};
use crate::multipath::{manage, multipath};
use crate::orders::{check_topology, orders};
use crate::processors::AffinityGuard;
use crate::program::{OutputTap, PlannedProgram, Programs, planned_programs, programs_of_nodes};
use crate::removal::left_behind;
use crate::testbed::{Testbed, TestbedId};
use crate::wiring::Wiring;

/// The substrate `netns`: runs in real time, with the kernel's sockets in network namespaces of this host, and with
/// netrig's router between the namespaces.
#[derive(Debug)]
pub struct Namespaces {
    agent: PathBuf,
    journals: Journals,
    /// Whether programs of experiment files may run.
    allows_programs: AtomicBool,
    /// Which messages of SIP flows are kept; `None` if none are kept.
    keeping: Mutex<Option<RunKeeping>>,
}

impl Namespaces {
    /// A substrate whose agents run the executable `agent`. With the argument `agent`, this executable must use the
    /// control protocol on standard input and output. With the arguments `agent load`, it must load processors.
    /// netrig's own executable does both.
    pub fn new(agent: impl Into<PathBuf>, journals: Journals) -> Self {
        Self {
            agent: agent.into(),
            journals,
            allows_programs: AtomicBool::new(false),
            keeping: Mutex::default(),
        }
    }

    /// Allows the programs of experiment files from now on. They run with the rights of this process. Only their
    /// network is isolated from this machine.
    pub fn allow_programs(&self) {
        self.allows_programs.store(true, Ordering::Relaxed);
    }

    /// Keeps messages of SIP flows in each run from now on.
    pub fn keep(&self, request: KeepRequest) {
        *self.keeping() = Some(RunKeeping::new(request));
    }

    /// The messages that were kept since the last call.
    pub fn take_kept(&self) -> KeptFlows {
        self.keeping().as_mut().map(RunKeeping::take_kept).unwrap_or_default()
    }

    fn keeping(&self) -> MutexGuard<'_, Option<RunKeeping>> {
        // A panic of another holder is ignored, because no holder of the lock leaves the value inconsistent.
        self.keeping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Builds the topology of `run` with its links and programs as in a run, but without flows and events. `sink` gets
    /// observations on a separate thread until [`Lab::close`] returns it. `tap` is called with the node, the program
    /// and the line for each line of a program's output.
    ///
    /// # Errors
    /// If the topology cannot be built, or a program does not become ready. [`LabError::Cancelled`] soon after `cancel`
    /// is set. The objects that were made before the error are removed.
    pub fn lab<S: Sink + Send + 'static>(
        &self,
        run: &Run,
        sink: S,
        tap: impl Fn(&str, &str, &str) + Send + Sync + 'static,
        cancel: &AtomicBool,
    ) -> Result<Lab<S>, LabError> {
        let missing_requirements = missing_requirements();
        if !missing_requirements.is_empty() {
            return Err(TestbedError::Incapable(missing_requirements).into());
        }
        check_topology(&run.scenario)?;
        let planned_programs = programs_of_nodes(&run.scenario)?;
        let _elsewhere = AffinityGuard::of(&run.scenario);
        let mut testbed = self.build(&run.scenario)?;
        let tap: OutputTap = Arc::new(tap);
        let programs = Programs::start(&mut testbed, &run.scenario, planned_programs, Some(&tap), cancel)?;
        let loads = NodeLoads::start(&mut testbed, &run.scenario, &self.agent)?;
        testbed.hold_to_quotas()?;
        Lab::open(run, testbed, (programs, loads), sink)
    }

    fn carry_out(
        &self,
        run: &Run,
        orders: BTreeMap<usize, RunOrder>,
        planned_programs: Vec<PlannedProgram>,
        sink: &mut dyn Sink,
        cancel: &AtomicBool,
    ) -> Result<(RunOutcome, Vec<EndReport>), RunError> {
        // This moves the calling thread, because threads inherit the processors of the thread that starts them.
        let _elsewhere = AffinityGuard::of(&run.scenario);
        let testbed = self.build(&run.scenario).map_err(RunError::because)?;
        Conductor::prepare(run, testbed, &self.agent, orders, planned_programs, cancel)?
            .carry_out(sink, cancel)
    }

    /// Builds the testbed of a scenario.
    fn build(&self, scenario: &Scenario) -> Result<Testbed, LabError> {
        if let Some((_, program)) = scenario.first_program()
            && !self.allows_programs.load(Ordering::Relaxed)
        {
            return Err(LabError::NotAllowed(program.name().to_owned()));
        }
        let wiring = Wiring::new(scenario).map_err(|error| Unsupported(error.to_string()))?;
        let multipath = multipath(scenario)?;
        // Remains that cannot be removed do not disturb this testbed, because its names are unique. `netrig doctor`
        // lists the remains.
        left_behind(&self.journals)?.into_iter().for_each(|left| drop(left.remove()));
        let mut testbed = Testbed::build(&self.journals, &TestbedId::fresh()?, wiring)?;
        manage(&testbed, &multipath)?;
        host::prepare(&mut testbed, scenario)?;
        Ok(testbed)
    }
}

impl Substrate for Namespaces {
    fn name(&self) -> &'static str {
        "netns"
    }

    fn check(&self, run: &Run) -> Result<(), Unsupported> {
        if let Some(lack) = missing_requirements().first() {
            return Err(Unsupported(format!("{lack}; `--on sim` needs none of it")));
        }
        Wiring::new(&run.scenario).map_err(|error| Unsupported(error.to_string()))?;
        planned_programs(&run.scenario)?;
        orders(run).map(drop)
    }

    fn identity(&self, run: &Run) -> Result<String, RunError> {
        let kernel = |name: &str| {
            let path = format!("/proc/sys/kernel/{name}");
            let text = std::fs::read_to_string(&path);
            text.map_err(|error| RunError::Failed(format!("cannot read {path}: {error}")))
        };
        let programs = planned_programs(&run.scenario).unwrap_or_default();
        let versions = programs.iter().map(PlannedProgram::version).collect::<Result<Vec<_>, _>>()?;
        let versions: String = versions.iter().map(|version| format!("; {version}")).collect();
        Ok(format!("{} {}{versions}", kernel("osrelease")?.trim(), kernel("version")?.trim()))
    }

    fn repeats(&self) -> bool {
        false
    }

    fn parallelism(&self) -> NonZeroUsize {
        // Two simultaneous runs would compete for processors, and this would change the results.
        NonZeroUsize::MIN
    }

    fn run(&self, run: &Run, sink: &mut dyn Sink, cancel: &AtomicBool) -> Result<RunOutcome, RunError> {
        check_frames(&run.scenario, sink)?;
        let planned_programs = planned_programs(&run.scenario).map_err(RunError::because)?;
        let mut orders = orders(run).map_err(RunError::because)?;
        if let Some(keeping) = &mut *self.keeping() {
            keeping.order(run, &mut orders)?;
        }
        let ended = self.carry_out(run, orders, planned_programs, sink, cancel);
        if let Some(keeping) = &mut *self.keeping() {
            // Messages of a failed run are recorded too, because they are evidence and take disk space.
            keeping.take(ended.as_ref().map_or(&[], |(_, ends)| ends));
        }
        ended.map(|(outcome, _)| outcome)
    }
}

/// Checks that all frames that the sink captures pass the router.
fn check_frames(scenario: &Scenario, sink: &dyn Sink) -> Result<(), RunError> {
    let cables = scenario.links.iter().filter(|link| link.is_direct());
    let mut ends = cables.flat_map(|link| link.ends.map(|end| (end, link)));
    match ends.find(|(end, _)| sink.wants_frames(*end as u32)) {
        Some((end, link)) => Err(RunError::Failed(format!(
            "the packets of node `{}` cannot be captured: link `{}` is a cable, whose packets do not pass netrig; \
             run tcpdump in a node of `netrig lab`",
            scenario.nodes[end].name, link.name
        ))),
        None => Ok(()),
    }
}
