//! Ctrl-C, and the signals that ask a program to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Failure, INTERRUPTED};
use netrig_sip_tester::screen::terminal;

/// A flag that the first Ctrl-C sets. The second ends the program at once.
pub fn until_interrupted() -> Result<Arc<AtomicBool>, Failure> {
    flag(|again| {
        if again {
            terminal::restore();
            abort();
        }
    })
}

/// Ends the program at once with the exit code of an interruption.
pub fn abort() -> ! {
    std::process::exit(i32::from(INTERRUPTED))
}

/// As [`until_interrupted`], but a second signal does not end the program: it first takes down what it has built, and says so.
pub fn until_taken_down() -> Result<Arc<AtomicBool>, Failure> {
    flag(|again| {
        if again {
            eprintln!("netrig: what was built is being taken down");
        }
    })
}

/// As [`until_interrupted`], but no signal ends the program: it publishes the runs that it has made first.
pub fn until_published() -> Result<Arc<AtomicBool>, Failure> {
    flag(|again| {
        if again {
            eprintln!("netrig: the finished runs are being published");
        }
    })
}

/// A flag that the first signal sets. `on_signal` gets whether it was set before.
fn flag(on_signal: impl Fn(bool) + Send + 'static) -> Result<Arc<AtomicBool>, Failure> {
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancel);
    ctrlc::set_handler(move || on_signal(flag.swap(true, Ordering::Relaxed)))
        .map_err(|error| Failure::failed(format!("cannot listen for Ctrl-C: {error}")))?;
    Ok(cancel)
}
