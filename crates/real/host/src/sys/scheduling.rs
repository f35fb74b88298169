//! Scheduling classes of threads (sched(7)).

use std::io;
use std::num::NonZeroU64;

/// Moves the calling thread to the real-time class `SCHED_FIFO` at its lowest priority, and removes the timer slack of 50 µs from
/// its wake-ups.
///
/// All time-critical threads of a run share this priority. When the router had a higher priority, it preempted each
/// source 700 times a second. The router may be some microseconds late, because a frame enters an emulated link at the
/// time of the kernel's time stamp. A late source would change the traffic.
#[expect(unsafe_code, reason = "no safe wrapper sets a thread's scheduler")]
pub fn become_real_time() -> io::Result<()> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: 0 is the calling thread, and the kernel only reads the parameters, which outlive the call.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Moves the calling thread back to the normal class.
#[expect(unsafe_code, reason = "no safe wrapper sets a thread's scheduler")]
pub fn leave_real_time() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: as above.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
