//! Results as values with their intervals.

use netrig_core::number::Estimate;
use netrig_experiment::{Agreement, ClaimPoint, ResponseResult, TableCell};

/// The mean of a response. `None` if the response was not measured.
pub fn of_response(result: &ResponseResult) -> Option<Estimate> {
    Estimate::new(result.mean?, result.low, result.high, result.n)
}

/// The value of a table cell. `None` if the cell is empty.
pub fn of_cell(cell: &TableCell) -> Option<Estimate> {
    Estimate::new(cell.estimate?, cell.low, cell.high, cell.n)
}

/// The comparison of a claim at a point. `None` if its value is not finite.
pub fn of_claim(point: &ClaimPoint) -> Option<Estimate> {
    Estimate::new(point.estimate, point.low, point.high, point.n)
}

/// The ratio of the means of two substrates. `None` if it is undefined.
pub fn of_ratio(agreement: &Agreement) -> Option<Estimate> {
    Estimate::new(agreement.ratio?, agreement.low, agreement.high, agreement.pairs)
}

/// The difference of the means of two substrates. `None` without pairs of runs.
pub fn of_difference(agreement: &Agreement) -> Option<Estimate> {
    let difference = agreement.difference?;
    Estimate::new(difference.estimate, difference.low, difference.high, agreement.pairs)
}
