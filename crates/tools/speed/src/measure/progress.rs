//! The progress of a measurement.

use super::call::PhaseEvent;
use crate::carry::LiveReading;
use crate::protocol::DataDirection;

/// An event of a running measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MeasureProgress {
    /// The session waits in the queue of the server.
    Waits {
        /// Number of sessions before this one.
        before: usize,
        /// Length of the queue.
        of: usize,
    },
    /// A task starts. The value is its index.
    Task(usize),
    /// Data has arrived at the receiver.
    Arrived {
        /// The direction.
        way: DataDirection,
        /// Time since the phase began, s.
        at_s: f64,
        /// Bytes received.
        bytes: u64,
    },
}

/// Reports a reading of the receiver as progress.
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
