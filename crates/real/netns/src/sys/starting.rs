//! Sets namespaces and limits of threads and of child processes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Signal;
use rustix::thread::{CpuSet, LinkNameSpaceType, UnshareFlags, move_into_link_name_space, sched_setaffinity};

/// Moves the calling thread into a new network namespace. The namespace ends with the thread, unless a file
/// descriptor or a mount keeps it.
#[expect(unsafe_code, reason = "no safe wrapper tells the harmless flags from the others")]
pub(crate) fn unshare_network() -> io::Result<()> {
    // SAFETY: the call is unsafe because of CLONE_FILES, which takes file descriptors away from other
    // threads. CLONE_NEWNET changes only the namespace of the calling thread.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Moves the calling thread into a new mount namespace, which ends with the thread.
#[expect(unsafe_code, reason = "no safe wrapper tells the harmless flags from the others")]
pub(crate) fn unshare_mounts() -> io::Result<()> {
    // SAFETY: as above; CLONE_NEWNS changes only the calling thread's view of the file system.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?)
}

/// Makes the kernel kill the child of `command` as soon as the thread that started it ends.
#[expect(unsafe_code, reason = "what happens between fork and exec is never checked")]
pub(crate) fn die_with_starter(command: &mut Command) {
    let starter = rustix::process::getpid();
    let bind = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // A process whose parent has already ended gets no signal (prctl(2), PR_SET_PDEATHSIG).
        if rustix::process::getppid() != Some(starter) {
            return Err(rustix::io::Errno::SRCH.into());
        }
        Ok(())
    };
    // SAFETY: between fork and exec only the functions in signal-safety(7) may be called. The closure makes
    // two system calls, prctl and getppid, allocates nothing and takes no lock.
    unsafe { command.pre_exec(bind) };
}

/// Makes the child of `command` start in a network namespace.
#[expect(unsafe_code, reason = "what happens between fork and exec is never checked")]
pub(crate) fn start_in(command: &mut Command, namespace: OwnedFd) {
    let enter = move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(io::Error::from)
    };
    // SAFETY: between fork and exec only the functions in signal-safety(7) may be called. The closure makes
    // one system call, setns, allocates nothing and takes no lock.
    unsafe { command.pre_exec(enter) };
}

/// Makes the child of `command` join control groups, by writing to these files.
#[expect(unsafe_code, reason = "what happens between fork and exec is never checked")]
pub(crate) fn join(command: &mut Command, cgroup_files: Vec<OwnedFd>) {
    // 0 stands for the writing process (cgroups(7)).
    let enter = move || {
        cgroup_files
            .iter()
            .try_for_each(|file| rustix::io::write(file, b"0").map(drop))
            .map_err(io::Error::from)
    };
    // SAFETY: between fork and exec only the functions in signal-safety(7) may be called. The closure only
    // makes the system call write, allocates nothing and takes no lock.
    unsafe { command.pre_exec(enter) };
}

/// Makes the child of `command` and its descendants run only on these processors.
#[expect(unsafe_code, reason = "what happens between fork and exec is never checked")]
pub(crate) fn bind_to(command: &mut Command, processors: CpuSet) {
    let bind = move || sched_setaffinity(None, &processors).map_err(io::Error::from);
    // SAFETY: between fork and exec only the functions in signal-safety(7) may be called. The closure makes
    // one system call, sched_setaffinity, allocates nothing and takes no lock.
    unsafe { command.pre_exec(bind) };
}
