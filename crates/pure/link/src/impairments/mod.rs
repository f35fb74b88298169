//! Impairments of a line besides delay and rate: jitter, loss, duplication, reordering, corruption.

mod process;
mod settings;

pub(crate) use process::{Fate, Impairments, Losses};
pub use settings::{Corruption, Jitter, Pareto, Reorder, Shift, Spread};
