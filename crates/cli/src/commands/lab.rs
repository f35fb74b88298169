//! `netrig lab`.

use std::process::ExitCode;

use crate::arguments::Lab;
use crate::failure::Failure;

/// Only Linux has namespaces.
#[cfg(not(target_os = "linux"))]
pub fn lab(_arguments: &Lab) -> Result<ExitCode, Failure> {
    Err(Failure::request("a lab needs Linux's network namespaces, which this system does not have"))
}

/// Builds a topology and keeps it until the command has ended, or until Ctrl-C.
#[cfg(target_os = "linux")]
pub fn lab(arguments: &Lab) -> Result<ExitCode, Failure> {
    linux::lab(arguments)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{IsTerminal, Write};
    use std::process::{Command, ExitCode, ExitStatus};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use netrig_core::{Quantity, Sample, Sink, Subject};
    use netrig_experiment::Node;
    use netrig_netns::{Lab, LabError};
    use netrig_sim::Simulator;

    use crate::arguments::{self, Changes, Which};
    use crate::failure::{FAILED, Failure, INTERRUPTED};
    use crate::interruption::until_taken_down;
    use crate::request::{ExperimentRequest, allow_programs, namespaces, not_allowed};
    use crate::studies::is_shipped;

    /// Time between two checks for an interruption.
    const LOOK: Duration = Duration::from_millis(50);

    /// Time limit for the command to end after SIGTERM.
    const STOP_TIMEOUT: Duration = Duration::from_secs(2);

    /// A sink that discards samples: a lab measures nothing.
    struct NoSamples;

    impl Sink for NoSamples {
        fn sample(&mut self, _subject: Subject, _sample: Sample) {}

        fn wants(&self, _quantity: &'static Quantity) -> bool {
            false
        }
    }

    pub fn lab(arguments: &arguments::Lab) -> Result<ExitCode, Failure> {
        let request = ExperimentRequest::new(&Which {
            experiment: arguments.experiment.clone(),
            changes: Changes {
                set: arguments.set.clone(),
                replications: None,
                seed: None,
                memory: Simulator::MOST_MEMORY,
                on: vec!["netns".into()],
            },
        })?;
        let plan = request.experiment.plan();
        let run = plan.run(0, 1).map_err(Failure::request)?;
        if arguments.allow_programs || is_shipped(request.experiment.text()) {
            allow_programs();
        } else if let Some(refusal) = not_allowed(&run.scenario, "netns") {
            return Err(refusal);
        }
        if let Some(wanted) = &arguments.node {
            check_node(&run.scenario.nodes, wanted)?;
        }
        let interrupted = until_taken_down()?;
        let mut lab = namespaces().lab(&run, NoSamples, pass_on, &interrupted).map_err(failure)?;
        eprint!("{}", lab.text());
        if plan.len() > 1 {
            eprintln!("links as at {}, the first of {} points; --set selects another", run.point, plan.len());
        }
        let code = match &arguments.node {
            Some(node) => command(&mut lab, node, &arguments.command, &interrupted)?,
            None => {
                eprintln!("the lab stands until Ctrl-C");
                hold(&interrupted);
                ExitCode::SUCCESS
            }
        };
        let (passed, NoSamples) = lab.close().map_err(failure)?;
        let (offered, dropped) = (passed.balance.offered, passed.balance.dropped);
        eprintln!("links took {offered} packets and dropped {dropped}");
        passed.faults.iter().for_each(|fault| eprintln!("warning: {fault}"));
        Ok(code)
    }

    /// Checks that there is a node with this name.
    fn check_node(nodes: &[Node], wanted: &str) -> Result<(), Failure> {
        if nodes.iter().any(|node| node.name == wanted) {
            return Ok(());
        }
        let nodes = nodes.iter().map(|node| node.name.clone()).collect();
        Err(failure(LabError::NoNode { wanted: wanted.to_owned(), nodes }))
    }

    fn failure(error: LabError) -> Failure {
        match error {
            LabError::NoNode { .. } | LabError::Unsupported(_) => Failure::request(error),
            LabError::Cancelled => Failure::Interrupted,
            error => Failure::failed(error),
        }
    }

    /// Prints a line of output of a program of the experiment file.
    fn pass_on(node: &str, program: &str, line: &str) {
        // If even stderr is closed, nothing can be printed.
        let _ = writeln!(std::io::stderr(), "{node} {program}: {line}");
    }

    fn hold(interrupted: &AtomicBool) {
        while !interrupted.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
        }
    }

    /// Runs a command in a node, and returns its exit code.
    fn command(
        lab: &mut Lab<NoSamples>,
        node: &str,
        words: &[String],
        interrupted: &AtomicBool,
    ) -> Result<ExitCode, Failure> {
        let Some((program, rest)) = words.split_first() else {
            return Err(Failure::request("--node needs a command after `--`"));
        };
        let mut command = Command::new(program);
        command.args(rest);
        let mut process = lab.spawn(node, command).map_err(failure)?;
        // At a terminal, Ctrl-C also reaches the command, which decides whether to end. Without a terminal, only this
        // process gets the signal.
        let ends_by_itself = std::io::stdin().is_terminal();
        loop {
            if let Some(status) = process.wait(LOOK).map_err(Failure::failed)? {
                return Ok(code(status));
            }
            if !ends_by_itself && interrupted.load(Ordering::Relaxed) {
                process.stop(STOP_TIMEOUT).map_err(Failure::failed)?;
                return Ok(ExitCode::from(INTERRUPTED));
            }
        }
    }

    /// The exit code as a shell gives it: 128 plus the signal number if a signal ended the command.
    fn code(status: ExitStatus) -> ExitCode {
        use std::os::unix::process::ExitStatusExt;
        let signal = status.signal().and_then(|signal| u8::try_from(128 + signal).ok());
        let own = status.code().and_then(|code| u8::try_from(code).ok());
        ExitCode::from(own.or(signal).unwrap_or(FAILED))
    }
}
