//! Computes intervals, verdicts and tables from the values of runs.

mod agreement;
mod design;
#[cfg(test)]
pub(crate) mod fixture;
mod records;
mod responses;
mod stopping;
pub(crate) mod words;

pub use design::Design;
pub(crate) use records::Measurements;
pub use records::{PointRuns, RunRecord, Validity};
pub use stopping::{Decision, StoppingRule};

use crate::claim::decide;
use crate::results::distinct;
use crate::{Agreement, ClaimSpec, Results};

impl Agreement {
    /// The agreement of each further substrate with the first substrate in `points`, at every common point and over all
    /// common points.
    pub fn of_substrates(design: &Design, points: &[PointRuns]) -> Vec<Self> {
        agreement::agreement(design, points, &distinct(points.iter().map(|runs| runs.substrate.as_str())))
    }
}

impl Results {
    /// Judges the runs of an experiment, in the order of the plan and substrate by substrate. `build` has the version
    /// and commit of netrig.
    pub fn judge(design: &Design, points: &[PointRuns], build: &str) -> Self {
        let substrates = distinct(points.iter().map(|runs| runs.substrate.as_str()));
        let (mut claims, mut tables) = (Vec::new(), Vec::new());
        for substrate in &substrates {
            let measured = Measurements::of(substrate, points);
            let cells = |claim: &ClaimSpec| match claim.column() {
                Some((table, column)) => {
                    design.table(table).map_or_else(Vec::new, |table| table.cells(column, design, &measured))
                }
                None => measured.cells(&claim.response, design),
            };
            claims.extend(decide(design, substrate, &cells));
            tables.extend(design.tables.iter().map(|(id, table)| table.evaluate(id, design, &measured)));
        }
        Self {
            experiment: design.name.clone(),
            confidence: design.confidence,
            build: build.to_owned(),
            quantiles: design.quantiles(),
            points: points.iter().map(|runs| runs.result(design)).collect(),
            agreement: agreement::agreement(design, points, &substrates),
            claims,
            tables,
        }
    }
}

#[cfg(test)]
mod tests;
