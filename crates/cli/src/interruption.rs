//! Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Failure, INTERRUPTED};

/// A flag that the first Ctrl-C sets. The second ends the program at once.
pub fn until_interrupted() -> Result<Arc<AtomicBool>, Failure> {
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancel);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
        }
    })
    .map_err(|error| Failure::failed(format!("cannot listen for Ctrl-C: {error}")))?;
    Ok(cancel)
}
