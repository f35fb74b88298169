//! Claims: the statements of an experiment about its responses, and their verdicts.
//!
//! A claim consists of one or more comparisons at each of its places. A place is a combination of levels of the factors
//! that the claim does not compare. The claim is supported if all comparisons hold: by the intersection–union
//! principle, its p-value is the largest p-value of its comparisons, corrected after Holm for the number of claims. The
//! claim is refuted if a test shows that a comparison fails, and inconclusive otherwise.

mod check;
mod comparisons;
mod decide;
mod effect;
mod exhibit;
mod extremes;
mod reason;
pub(crate) mod sample;
pub(crate) mod selection;
mod spec;

pub(crate) use comparisons::{axis_unit, unit_of_levels};
pub(crate) use decide::decide;
pub use exhibit::Exhibit;
pub(crate) use sample::vary;
pub use selection::{Names, Selection, Written};
pub use spec::{ClaimSpec, Expect, Target};

#[cfg(test)]
mod rates;
#[cfg(test)]
mod tests;
