//! Programs that a scenario starts.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

/// The largest number of programs at the same time.
const MOST_PROGRAMS: usize = 64;

/// The started programs. When this is dropped, the programs and their children are killed.
#[derive(Debug, Default)]
pub(super) struct ScenarioPrograms(Vec<Child>);

impl ScenarioPrograms {
    /// Starts a shell command, and does not wait for it.
    ///
    /// # Errors
    /// If it cannot be started, in words.
    pub fn start(&mut self, command: &str) -> Result<(), String> {
        self.0.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        if self.0.len() >= MOST_PROGRAMS {
            return Err(format!("{MOST_PROGRAMS} programs of the scenario run already"));
        }
        let child = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("`{command}`: {error}"))?;
        self.0.push(child);
        Ok(())
    }
}

impl Drop for ScenarioPrograms {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Killing fails if the program has already ended.
            let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
            let _ = child.wait();
        }
    }
}
