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

/// The environment variable that marks processes of a testbed. Its value is the testbed's identity. Descendants
/// inherit it.
pub(crate) const MARK: &str = "NETRIG_TESTBED";

/// The identity of a process: its process ID and its start time, ticks since boot. The kernel reuses process IDs,
/// but two processes with the same process ID have different start times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessId {
    pub(crate) pid: i32,
    pub(crate) start: u64,
}

impl ProcessId {
    /// The process with this process ID; `None` if it has ended or is a zombie.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat_fields(&stat);
        let state = fields.next()?;
        // The start time is field 22 of the file. It is 19 fields after the state, which is field 3.
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

    /// A handle that never refers to another process. `None` if the process has ended.
    pub(crate) fn handle(self) -> Option<OwnedFd> {
        let handle = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // The process ID may have been reused before the handle was opened, but not after that.
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
    /// The group of this process, so that the program can read from the terminal and gets Ctrl-C.
    Ours,
}

/// Limits of a program.
#[derive(Debug, Default)]
pub(crate) struct SpawnLimits {
    /// The processors on which it may run. `None`: all processors.
    pub(crate) processors: Option<CpuSet>,
    /// Files of the control groups of its node. A process joins a group by writing to its file.
    pub(crate) cgroup_files: Vec<OwnedFd>,
}

/// A program on a node. When this value is dropped, the program and its process group are killed. If this
/// process is killed, the kernel kills the program too.
#[derive(Debug)]
pub struct Process {
    child: Child,
    handle: OwnedFd,
    /// The exit status. `None` until the program has been waited for.
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
        // The child has not been waited for, so its process ID has not been reused.
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

    /// The program's standard input, if the command requested a pipe. `None` from the second call on.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// The program's standard output, if the command requested a pipe. `None` from the second call on.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The program's standard error, if the command requested a pipe. `None` from the second call on.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits at most `timeout` for the end of the program. `None` if it is still running.
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

    /// Like [`Process::stop`], but keeps this value, for a program whose output is still being read.
    pub(crate) fn ask_to_stop(&mut self, grace: Duration) -> Result<ExitStatus, TestbedError> {
        // The kernel refuses only if the program has ended.
        let _ = pidfd_send_signal(&self.handle, Signal::TERM);
        let ended = ended_within(&self.handle, grace);
        ended.context(&self.node, || format!("wait for `{}`", self.program))?;
        let ended = self.end();
        ended.context(&self.node, || format!("end `{}`", self.program))
    }

    /// Kills the program's process group and returns the program's exit status.
    fn end(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        // The child has not been waited for, so its process ID and its group ID have not been reused. The kernel
        // refuses only if no process of the group is alive.
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
        // The error is ignored, because the removal of the testbed kills the process again.
        let _ = self.end();
    }
}
