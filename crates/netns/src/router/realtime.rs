//! The scheduling class of the router's thread.
#![allow(unsafe_code, reason = "sched(7) has no safe wrapper; each block says why it may")]

use std::io;
use std::num::NonZeroU64;

/// That of the agents' sources, which spin until their datagrams are due. Before them it would push each of them off its
/// processor thousands of times in a second, and a source on time is worth more than a frame some microseconds earlier: what
/// enters a link has the kernel's stamp.
const PRIORITY: i32 = 1;

/// Lets the calling thread run before all that have no real-time class (SCHED_FIFO of sched(7)), and wake at its time and not
/// up to 50 µs later. It must sleep whenever it waits: who spins in this class takes the processor from those that it waits
/// for.
///
/// # Errors
/// What the kernel answers: `EPERM` without CAP_SYS_NICE.
pub(crate) fn take_priority() -> io::Result<()> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: 0 is the calling thread; the kernel reads `parameters`, which lives until the call returns.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
