//! Reports of results: one HTML page that needs no network, Markdown, CSV, JSON, text for a terminal, and charts as
//! SVG.
//!
//! This crate computes no statistics: every value, interval and verdict comes from
//! [`Results`](netrig_experiment::Results). It executes no runs, and reads and writes no files.
//!
//! Start from [`Report`]; a single chart is a [`chart::Chart`].
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "drawing and rounding for display do not need a reproducible last bit"
)]

mod agreement;
mod board;
pub mod chart;
mod columns;
mod comparison;
mod coverage;
mod csv;
mod delivery;
pub mod estimate;
mod figure;
mod formats;
mod html;
mod json;
mod markdown;
mod prose;
mod report;
mod sequence;
mod terminal;
mod text_table;
mod warnings;
mod wording;

pub use comparison::{agreement_line, differences};
pub use coverage::Coverage;
pub use delivery::delivery;
pub use report::{Picture, Report};
pub use sequence::sequence;

// The tests of the public interface are in the same test binary as the unit tests.
#[cfg(test)]
extern crate self as netrig_report;
#[cfg(test)]
#[path = "../tests/it/main.rs"]
mod it;
