//! Where threads live, and until when processes do.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Signal;
use rustix::thread::{CpuSet, LinkNameSpaceType, UnshareFlags, move_into_link_name_space, sched_setaffinity};

/// Moves the calling thread into a network namespace of its own, which ends with it unless something else holds it.
#[expect(unsafe_code, reason = "no safe wrapper tells the harmless flags from the others")]
pub(crate) fn unshare_network() -> io::Result<()> {
    // SAFETY: what makes this call unsafe is CLONE_FILES, which takes file descriptors away from other threads.
    // CLONE_NEWNET changes nothing but the namespace of the calling thread.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Gives the calling thread mounts of its own, which end with it.
#[expect(unsafe_code, reason = "no safe wrapper tells the harmless flags from the others")]
pub(crate) fn unshare_mounts() -> io::Result<()> {
    // SAFETY: as above; CLONE_NEWNS changes nothing but what the calling thread sees of the file system.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?)
}

/// Lets the kernel kill what `command` starts as soon as the thread that started it ends, however it ends.
#[expect(unsafe_code, reason = "what happens between fork and exec is never checked")]
pub(crate) fn die_with_starter(command: &mut Command) {
    let starter = rustix::process::getpid();
    let bind = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // Whose parent is gone already gets no signal any more (prctl(2), PR_SET_PDEATHSIG).
        if rustix::process::getppid() != Some(starter) {
            return Err(rustix::io::Errno::SRCH.into());
        }
        Ok(())
    };
    // SAFETY: between fork and exec only what signal-safety(7) lists may be called. The closure makes two system calls,
    // prctl and getppid, allocates nothing and takes no lock.
    unsafe { command.pre_exec(bind) };
}

/// Has what `command` starts live in a network namespace.
#[expect(unsafe_code, reason = "what happens between fork and exec is never checked")]
pub(crate) fn start_in(command: &mut Command, namespace: OwnedFd) {
    let enter = move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(io::Error::from)
    };
    // SAFETY: between fork and exec only what signal-safety(7) lists may be called. The closure makes one system call, setns,
    // allocates nothing and takes no lock.
    unsafe { command.pre_exec(enter) };
}

/// Has what `command` starts belong to groups of processes, by the files into which these are written.
#[expect(unsafe_code, reason = "what happens between fork and exec is never checked")]
pub(crate) fn join(command: &mut Command, cgroup_files: Vec<OwnedFd>) {
    // The process that writes is meant by 0 (cgroups(7)).
    let enter = move || {
        cgroup_files
            .iter()
            .try_for_each(|file| rustix::io::write(file, b"0").map(drop))
            .map_err(io::Error::from)
    };
    // SAFETY: between fork and exec only what signal-safety(7) lists may be called. The closure makes system calls, write,
    // allocates nothing and takes no lock.
    unsafe { command.pre_exec(enter) };
}

/// Binds what `command` starts, and what that starts, to processors.
#[expect(unsafe_code, reason = "what happens between fork and exec is never checked")]
pub(crate) fn bind_to(command: &mut Command, processors: CpuSet) {
    let bind = move || sched_setaffinity(None, &processors).map_err(io::Error::from);
    // SAFETY: between fork and exec only what signal-safety(7) lists may be called. The closure makes one system call,
    // sched_setaffinity, allocates nothing and takes no lock.
    unsafe { command.pre_exec(bind) };
}
