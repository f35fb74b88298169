//! Processes: which one it is, and the programs of nodes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use rustix::thread::CpuSet;

use crate::error::{ErrorContext, TestbedError};
use crate::namespace::NetworkNamespace;
use crate::sys::{bind_to, die_with_starter, join};

/// Every process of a testbed has this in its environment, with the testbed's identity, and so have those that it starts.
pub(crate) const MARK: &str = "NETRIG_TESTBED";

/// Which process it is: a number is given again, but not at the same tick since the machine started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessId {
    pub(crate) pid: i32,
    pub(crate) start: u64,
}

impl ProcessId {
    /// The one that has this number now, unless it has ended and only waits for its parent to notice.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name, second, may have anything in it, parentheses too (proc_pid_stat(5)).
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        // The 22nd of all is the 19th after the state, the third.
        let start = fields.nth(18)?.parse().ok()?;
        (!["Z", "X"].contains(&state)).then_some(Self { pid, start })
    }

    /// This process.
    pub(crate) fn own() -> io::Result<Self> {
        Self::of(rustix::process::getpid().as_raw_pid())
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "/proc does not have this process"))
    }

    pub(crate) fn read(pid: &str, start: &str) -> Option<Self> {
        Some(Self { pid: pid.parse().ok().filter(|pid| *pid > 0)?, start: start.parse().ok()? })
    }

    /// A handle that never means another process, if this one lives.
    pub(crate) fn handle(self) -> Option<OwnedFd> {
        let handle = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // The number may have been given again before the handle was opened, but not after.
        (Self::of(self.pid) == Some(self)).then_some(handle)
    }
}

/// Waits until the process of `handle` has ended, at most so long. Whether it has.
pub(crate) fn ended_within(handle: &OwnedFd, timeout: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Which process group a program is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessGroup {
    /// One of its own.
    Own,
    /// That of this process, so that it may read from the terminal and hears Ctrl-C.
    Ours,
}

/// What a program may have of the machine.
#[derive(Debug, Default)]
pub(crate) struct SpawnLimits {
    /// All, if none are given.
    pub(crate) processors: Option<CpuSet>,
    /// Into the groups of processes that limit its node.
    pub(crate) cgroup_files: Vec<OwnedFd>,
}

/// A program that runs on a node. It and its process group are killed when this value is dropped; should this process
/// be killed, the kernel kills it too.
#[derive(Debug)]
pub struct Process {
    child: Child,
    handle: OwnedFd,
    /// Once it was waited for.
    status: Option<ExitStatus>,
    program: String,
    node: String,
}

impl Process {
    /// Starts `command` in `namespace`, as the leader of a process group of its own, or in that of this process; bound to
    /// processors and limited, if that is given.
    pub(crate) fn start(
        namespace: &NetworkNamespace,
        id: &str,
        group: ProcessGroup,
        SpawnLimits { processors, cgroup_files }: SpawnLimits,
        mut command: Command,
    ) -> Result<Self, TestbedError> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.env(MARK, id);
        if group == ProcessGroup::Own {
            command.process_group(0);
        }
        die_with_starter(&mut command);
        if let Some(processors) = processors {
            bind_to(&mut command, processors);
        }
        if !cgroup_files.is_empty() {
            join(&mut command, cgroup_files);
        }
        // The thread that starts it lives in the namespace, and as long as the testbed.
        let started = namespace.run(move || command.spawn());
        let mut child = started.context(namespace.name(), || format!("start `{program}`"))?;
        // Nobody has waited for it, so its number is its own.
        let opened = Pid::from_raw(child.id() as i32).ok_or(rustix::io::Errno::SRCH);
        let opened = opened.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        match opened.context(namespace.name(), || format!("hold `{program}`")) {
            Ok(handle) => {
                Ok(Self { child, handle, status: None, program, node: namespace.name().to_owned() })
            }
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its standard input, if the command asked for a pipe; once.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its standard output, if the command asked for a pipe; once.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its standard error, if the command asked for a pipe; once.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits for its end, at most so long; `None` if it goes on.
    ///
    /// # Errors
    /// If the kernel does not let it be waited for.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<ExitStatus>, TestbedError> {
        let ended = ended_within(&self.handle, timeout);
        let ended = ended.and_then(|ended| if ended { self.child.wait().map(Some) } else { Ok(None) });
        self.status = ended.context(&self.node, || format!("wait for `{}`", self.program))?;
        Ok(self.status)
    }

    /// Asks it to end (SIGTERM), and kills it with its process group if it has not after `grace`.
    ///
    /// # Errors
    /// If the kernel does not let it be waited for.
    pub fn stop(mut self, grace: Duration) -> Result<ExitStatus, TestbedError> {
        self.ask_to_stop(grace)
    }

    /// The same of one that is still asked for its output.
    pub(crate) fn ask_to_stop(&mut self, grace: Duration) -> Result<ExitStatus, TestbedError> {
        // Refused only if it has ended.
        let _ = pidfd_send_signal(&self.handle, Signal::TERM);
        let ended = ended_within(&self.handle, grace);
        ended.context(&self.node, || format!("wait for `{}`", self.program))?;
        let ended = self.end();
        ended.context(&self.node, || format!("end `{}`", self.program))
    }

    /// Kills what lives of its group, and takes its status.
    fn end(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        // As long as nobody has waited for it, its number is its own, and so is its group's. Refused only if nothing of
        // the group lives.
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
        let status = self.child.wait()?;
        self.status = Some(status);
        Ok(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // What could be told of it has nobody to be told to; the testbed's own end looks for it again.
        let _ = self.end();
    }
}
