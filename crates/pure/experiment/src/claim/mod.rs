//! Claims: what an experiment says about its responses, and whether the data bear it out.
//!
//! A claim rests on comparisons, one or more at each place that it is about (a combination of the levels of
//! the other factors). It is supported if all of them hold (the intersection–union principle: its p-value is
//! the largest of theirs, corrected after Holm for the number of claims), refuted if one of them is shown not
//! to, and inconclusive otherwise.

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
