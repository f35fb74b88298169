//! Processes that load the processors of nodes.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use netrig_experiment::{RunError, Scenario};

use crate::process::Process;
use crate::testbed::Testbed;

/// Processes that load the processors of nodes. They are killed when this value is dropped.
#[derive(Debug, Default)]
pub(crate) struct NodeLoads(Vec<NodeLoad>);

#[derive(Debug)]
struct NodeLoad {
    node: usize,
    name: String,
    process: Process,
}

impl NodeLoads {
    /// Starts the loads of the nodes of `scenario`, and returns when all of them have started to compute. `program` is
    /// netrig's own executable.
    ///
    /// # Errors
    /// If a load cannot be started.
    pub fn start(testbed: &mut Testbed, scenario: &Scenario, program: &Path) -> Result<Self, RunError> {
        let mut loads = Vec::new();
        for (node, described) in scenario.nodes.iter().enumerate() {
            let Some(share) = described.host.load.filter(|share| share.get() > 0.0) else { continue };
            let processors: Vec<_> = described.cpus.iter().map(ToString::to_string).collect();
            let mut command = Command::new(program);
            command.args(["agent", "load", &share.get().to_string(), &processors.join(",")]);
            // The process ends when its standard input ends. It writes a byte when it starts to compute.
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let process = testbed.spawn(node, command)?;
            loads.push(NodeLoad { node, name: described.name.clone(), process });
        }
        for NodeLoad { name, process, .. } in &mut loads {
            let started = process.stdout().is_some_and(|mut output| output.read_exact(&mut [0]).is_ok());
            if !started {
                return Err(RunError::Failed(format!("the load of node `{name}` did not start")));
            }
        }
        Ok(Self(loads))
    }

    /// The index of the node and the process ID of each load.
    pub fn processes(&self) -> impl Iterator<Item = (usize, u32)> {
        self.0.iter().map(|load| (load.node, load.process.id()))
    }

    /// Ends the loads.
    ///
    /// # Errors
    /// If a load has ended by itself, so that the measurement was not under load.
    pub fn end(self) -> Result<(), RunError> {
        for mut load in self.0 {
            if let Some(status) = load.process.wait(Duration::ZERO)? {
                return Err(RunError::Failed(format!(
                    "the load of node `{}` ended with {status}",
                    load.name
                )));
            }
        }
        Ok(())
    }
}
