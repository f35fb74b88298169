//! A figure of one run.

use netrig_report::chart::Chart;

/// A figure, and its numbers as words.
pub struct Drawn {
    pub chart: Chart,
    pub says: String,
}
