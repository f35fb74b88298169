//! The keys of a terminal, one by one.

use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use super::ManualCallError;

/// Whether keys are read one by one.
static IS_RAW: AtomicBool = AtomicBool::new(false);

/// Whether keys are read one by one, so that an end of a line is no more than that.
pub fn is_raw() -> bool {
    IS_RAW.load(Ordering::Relaxed)
}

/// Keys one by one, until it is dropped.
pub struct RawKeys;

impl RawKeys {
    pub fn begin() -> Result<Self, ManualCallError> {
        enable_raw_mode().map_err(ManualCallError::Keys)?;
        IS_RAW.store(true, Ordering::Relaxed);
        Ok(Self)
    }
}

impl Drop for RawKeys {
    fn drop(&mut self) {
        IS_RAW.store(false, Ordering::Relaxed);
        // A terminal that is gone needs nothing.
        let _ = disable_raw_mode();
    }
}
