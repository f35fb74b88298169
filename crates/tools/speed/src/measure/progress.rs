//! The progress of a measurement.

use super::call::News;
use crate::carry::Live;
use crate::protocol::Way;

/// What becomes known while it goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
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
        way: Way,
        /// Since the phase began, s.
        at_s: f64,
        /// Bytes.
        bytes: u64,
    },
}

/// What of the news is progress: that of the end which receives.
pub(super) fn tell(way: Option<Way>, news: &News<'_>, progress: &mut dyn FnMut(Progress)) {
    let (way, live) = match (way, news) {
        (Some(Way::Down | Way::Both), News::Near(live)) => (Way::Down, live),
        (Some(Way::Up), News::Far(live)) => (Way::Up, live),
        _ => return,
    };
    let (at_ns, bytes) = match live {
        Live::Bytes { at_ns, received, .. } => (*at_ns, *received),
        Live::Datagrams(heard) => (heard.at_ns, heard.bytes),
    };
    progress(Progress::Arrived { way, at_s: at_ns as f64 * 1e-9, bytes });
}
