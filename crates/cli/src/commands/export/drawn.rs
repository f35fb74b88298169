//! A figure of one run.

use netrig_report::chart::Chart;

/// A figure, and what it shows in numbers.
pub struct Drawn {
    pub chart: Chart,
    pub says: String,
}
