//! What a line does to a packet besides taking its time: jitter, loss, duplication, reordering, corruption.

mod process;
mod settings;

pub(crate) use process::{Fate, Impairments, Losses};
pub use settings::{Corruption, Jitter, Pareto, Reorder, Shift, Spread};
