//! Handling of SIGINT (Ctrl-C), SIGTERM and SIGHUP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Failure, INTERRUPTED};
use netrig_sip_tester::screen::terminal;

/// Returns a flag that the first signal sets. The second signal ends the program immediately.
pub fn until_interrupted() -> Result<Arc<AtomicBool>, Failure> {
    flag(|again| {
        if again {
            terminal::restore();
            abort();
        }
    })
}

/// Ends the program immediately with the exit code of an interruption.
pub fn abort() -> ! {
    std::process::exit(i32::from(INTERRUPTED))
}

/// As [`until_interrupted`], but a second signal does not end the program. It only prints that the program first
/// removes what it has built.
pub fn until_taken_down() -> Result<Arc<AtomicBool>, Failure> {
    flag(|again| {
        if again {
            eprintln!("netrig: what was built is being taken down");
        }
    })
}

/// As [`until_interrupted`], but a second signal does not end the program, which first publishes the runs that it has
/// made.
pub fn until_published() -> Result<Arc<AtomicBool>, Failure> {
    flag(|again| {
        if again {
            eprintln!("netrig: the finished runs are being published");
        }
    })
}

/// Returns a flag that the first signal sets. At each signal `on_signal` is called. Its argument is true if the flag
/// was already set.
fn flag(on_signal: impl Fn(bool) + Send + 'static) -> Result<Arc<AtomicBool>, Failure> {
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancel);
    ctrlc::set_handler(move || on_signal(flag.swap(true, Ordering::Relaxed)))
        .map_err(|error| Failure::failed(format!("cannot listen for Ctrl-C: {error}")))?;
    Ok(cancel)
}
