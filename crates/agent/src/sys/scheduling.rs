//! Which class of the kernel's scheduler a thread is in (sched(7)).

use std::io;

/// Puts the calling thread into the real-time class: first in, first out, at the lowest of its priorities.
#[expect(unsafe_code, reason = "no safe wrapper sets a thread's scheduler")]
pub(crate) fn become_real_time() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: 0 is the calling thread, and the kernel only reads the parameters, which outlive the call.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
