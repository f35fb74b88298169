//! Processes of this machine that must not outlive this one.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Time for a process to end after SIGTERM: a chunk then publishes the runs that it has made.
const GRACE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(50);

/// The program of util-linux that lets the kernel end a process when its parent ends.
const SETPRIV: &str = "/usr/bin/setpriv";

/// Whether it has the option: util-linux 2.33 and later.
static HAS_SETPRIV: LazyLock<bool> = LazyLock::new(|| {
    let mut command = Command::new(SETPRIV);
    command.args(["--pdeathsig", "KILL", "--", "true"]);
    let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    ended.is_ok_and(|status| status.success())
});

/// Starts a command in a process group of its own. The kernel ends it if this process is killed. `netrig chunk` ends with the process
/// that started it, so a chain of both ends, too.
pub(super) fn start(
    words: &[String],
    output: impl Into<Stdio>,
    errors: impl Into<Stdio>,
) -> io::Result<Child> {
    let bound = ["--pdeathsig", "KILL", "--"].map(str::to_owned);
    let (program, arguments) = if *HAS_SETPRIV {
        (SETPRIV, bound.iter().chain(words).collect::<Vec<_>>())
    } else {
        (words[0].as_str(), words[1..].iter().collect())
    };
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .process_group(0)
        .spawn()
}

/// Whether a child has ended. It is not reaped yet: its number, which is that of its group, stays its own.
pub(super) fn has_ended(child: &Child) -> io::Result<bool> {
    let Some(pid) = group(child) else { return Ok(true) };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(pid), options)?.is_some())
}

/// Kills the process group of a child that was not reaped; returns how the child ended.
pub(super) fn kill(child: &mut Child) -> io::Result<ExitStatus> {
    if let Some(group) = group(child) {
        // It may be gone.
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait()
}

fn group(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Ends the process groups of children: SIGTERM, and SIGKILL for what is left.
pub(super) fn end<'a>(children: impl Iterator<Item = &'a mut Child>) {
    let left: Vec<_> = children.filter_map(|child| Some((group(child)?, child))).collect();
    for (group, _) in &left {
        // It may be gone.
        let _ = kill_process_group(*group, Signal::TERM);
    }
    let start = Instant::now();
    while start.elapsed() < GRACE && left.iter().any(|(_, child)| matches!(has_ended(child), Ok(false))) {
        std::thread::sleep(STEP);
    }
    for (_, child) in left {
        let _ = kill(child);
    }
}
