//! The progress of a measurement.

use super::call::PhaseEvent;
use crate::carry::LiveReading;
use crate::protocol::DataDirection;

/// What becomes known while it goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MeasureProgress {
    /// Others are served first.
    Waits {
        /// How many stand before us.
        before: usize,
        /// How many wait.
        of: usize,
    },
    /// The next task, by its place.
    Task(usize),
    /// So much has arrived at the end that receives.
    Arrived {
        /// Which way.
        way: DataDirection,
        /// Since the phase began, s.
        at_s: f64,
        /// Bytes.
        bytes: u64,
    },
}

/// What of the news is progress: that of the end which receives.
pub(super) fn tell(
    way: Option<DataDirection>,
    news: &PhaseEvent<'_>,
    progress: &mut dyn FnMut(MeasureProgress),
) {
    let (way, live) = match (way, news) {
        (Some(DataDirection::Down | DataDirection::Both), PhaseEvent::Near(live)) => {
            (DataDirection::Down, live)
        }
        (Some(DataDirection::Up), PhaseEvent::Far(live)) => (DataDirection::Up, live),
        _ => return,
    };
    let (at_ns, bytes) = match live {
        LiveReading::Bytes { at_ns, received, .. } => (*at_ns, *received),
        LiveReading::Datagrams(heard) => (heard.at_ns, heard.bytes),
    };
    progress(MeasureProgress::Arrived { way, at_s: at_ns as f64 * 1e-9, bytes });
}
