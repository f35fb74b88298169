//! A figure of one run.

use netrig_report::chart::Chart;

/// A figure, and a text with its numbers.
pub struct Drawn {
    pub chart: Chart,
    pub says: String,
}
