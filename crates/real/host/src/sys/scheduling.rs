//! Which class of the kernel's scheduler a thread is in (sched(7)).

use std::io;
use std::num::NonZeroU64;

/// Puts the calling thread into the real-time class: first in, first out, at the lowest of its priorities. It then wakes at
/// its time and not up to 50 µs later.
///
/// All threads of a run that have to be on time share this priority. A router with a higher one pushed each source off its
/// processor 700 times in a second, and a source on time is worth more than a frame some microseconds earlier: what enters a
/// link has the kernel's stamp.
#[expect(unsafe_code, reason = "no safe wrapper sets a thread's scheduler")]
pub fn become_real_time() -> io::Result<()> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: 0 is the calling thread, and the kernel only reads the parameters, which outlive the call.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The calling thread has no real-time class any more.
#[expect(unsafe_code, reason = "no safe wrapper sets a thread's scheduler")]
pub fn leave_real_time() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: as above.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
