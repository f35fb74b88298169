//! Identities of processes, and programs on nodes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::time::{Duration, Instant};

use netrig_host::proc::stat_fields;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use rustix::thread::CpuSet;

use crate::error::{ErrorContext, TestbedError};
use crate::namespace::NetworkNamespace;
use crate::sys::{bind_to, die_with_starter, join};

/// The environment variable with the testbed's identity. Descendants inherit it.
pub(crate) const MARK: &str = "NETRIG_TESTBED";

/// The identity of a process. The kernel reuses a number, but not at the same tick since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessId {
    pub(crate) pid: i32,
    pub(crate) start: u64,
}

impl ProcessId {
    /// The process with this number, unless it is a zombie.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat_fields(&stat);
        let state = fields.next()?;
        // Field 22 overall: 19 fields after the state, which is field 3.
        let start = fields.nth(18)?.parse().ok()?;
        (!["Z", "X"].contains(&state)).then_some(Self { pid, start })
    }

    pub(crate) fn own() -> io::Result<Self> {
        Self::of(rustix::process::getpid().as_raw_pid())
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "this process is not in /proc"))
    }

    pub(crate) fn read(pid: &str, start: &str) -> Option<Self> {
        Some(Self { pid: pid.parse().ok().filter(|pid| *pid > 0)?, start: start.parse().ok()? })
    }

    /// A handle that never refers to another process. `None` if this one has ended.
    pub(crate) fn handle(self) -> Option<OwnedFd> {
        let handle = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // The number may have been reused before the handle was opened, but not after.
        (Self::of(self.pid) == Some(self)).then_some(handle)
    }
}

/// Waits at most `timeout` for the end of a process. Returns whether it has ended.
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

/// The process group of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessGroup {
    /// A new group.
    Own,
    /// The group of this process, so that it may read from the terminal and receives Ctrl-C.
    Ours,
}

/// Limits of a program.
#[derive(Debug, Default)]
pub(crate) struct SpawnLimits {
    /// `None`: all processors.
    pub(crate) processors: Option<CpuSet>,
    /// Files of the control groups of its node; a process joins by writing to them.
    pub(crate) cgroup_files: Vec<OwnedFd>,
}

/// A program on a node. It and its process group are killed when this value is dropped. If this process is
/// killed, the kernel kills the program too.
#[derive(Debug)]
pub struct Process {
    child: Child,
    handle: OwnedFd,
    /// `None` until it was waited for.
    status: Option<ExitStatus>,
    program: String,
    node: String,
}

impl Process {
    /// Starts `command` in `namespace`, in a process group of its own or in that of this process, with these
    /// limits.
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
        // The starting thread lives as long as the testbed. The kernel kills the program when that thread
        // ends.
        let started = namespace.run(move || command.spawn());
        let mut child = started.context(namespace.name(), || format!("start `{program}`"))?;
        // The child was not waited for, so its process ID is still its own.
        let opened = Pid::from_raw(child.id() as i32).ok_or(rustix::io::Errno::SRCH);
        let opened = opened.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        match opened.context(namespace.name(), || format!("open a handle of `{program}`")) {
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

    /// The process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its standard input, if the command asked for a pipe. `None` from the second call on.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its standard output, if the command asked for a pipe. `None` from the second call on.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its standard error, if the command asked for a pipe. `None` from the second call on.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits at most `timeout` for its end. `None` if it still runs.
    ///
    /// # Errors
    /// If the kernel refuses to wait.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<ExitStatus>, TestbedError> {
        let ended = ended_within(&self.handle, timeout);
        let ended = ended.and_then(|ended| if ended { self.child.wait().map(Some) } else { Ok(None) });
        self.status = ended.context(&self.node, || format!("wait for `{}`", self.program))?;
        Ok(self.status)
    }

    /// Sends SIGTERM. If the program does not end within `grace`, kills it with its process group.
    ///
    /// # Errors
    /// If the kernel refuses to wait.
    pub fn stop(mut self, grace: Duration) -> Result<ExitStatus, TestbedError> {
        self.ask_to_stop(grace)
    }

    /// The same, for a program whose output is still read.
    pub(crate) fn ask_to_stop(&mut self, grace: Duration) -> Result<ExitStatus, TestbedError> {
        // Refused only if it has ended.
        let _ = pidfd_send_signal(&self.handle, Signal::TERM);
        let ended = ended_within(&self.handle, grace);
        ended.context(&self.node, || format!("wait for `{}`", self.program))?;
        let ended = self.end();
        ended.context(&self.node, || format!("end `{}`", self.program))
    }

    /// Kills its process group and returns the exit status.
    fn end(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        // The child was not waited for, so its process ID and its group ID are still its own. Refused only if
        // no process of the group lives.
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
        // The error is lost here. The removal of the testbed kills the process again.
        let _ = self.end();
    }
}
