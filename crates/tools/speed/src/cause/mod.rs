//! What limited a measurement: from what both ends counted to one sentence, the counter that proves it, and the advice that
//! mends it.
//!
//! A transfer is as fast as the tightest of its limits lets it be, and each of them leaves a trace of its own: a line keeps a
//! queue, a policer loses without one, a window and a send buffer have the kernel count the time in which they held data
//! back, a processor keeps a thread waiting, a socket without room drops what had arrived. [`verdicts`] looks for these traces
//! in the order in which one hides the other, and says [`LimitingFactor::Unknown`] rather than guess.
//!
//! It is pure: all that it knows is in the report.

mod evidence;
mod limit;
mod sentence;

use crate::measure::SpeedReport;
use crate::protocol::DataDirection;
use evidence::LimitEvidence;
pub(crate) use evidence::is_by_hosts;
pub use limit::{LimitVerdict, LimitingFactor, MeasuredHost};

/// What limited each way that was measured, by itself and while both were full: where connections carried data it is theirs, and a
/// search beside them is evidence.
pub fn verdicts(report: &SpeedReport) -> Vec<LimitVerdict> {
    let ways = [false, true]
        .into_iter()
        .flat_map(|at_once| [DataDirection::Down, DataDirection::Up].map(|way| (way, at_once)));
    ways.filter_map(|(way, at_once)| verdict(report, way, at_once)).collect()
}

fn verdict(report: &SpeedReport, way: DataDirection, at_once: bool) -> Option<LimitVerdict> {
    let evidence = LimitEvidence::of(report, way, at_once)?;
    let limit = evidence.limit();
    Some(LimitVerdict {
        way,
        at_once,
        sentence: sentence::sentence(&limit, way, at_once),
        proof: sentence::proof(&limit),
        advice: sentence::advice(&limit),
        limit,
    })
}

#[cfg(test)]
mod tests;
