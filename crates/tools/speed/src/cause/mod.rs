//! The limit of a measurement: one sentence, the counter that proves it, and advice against it.
//!
//! The tightest limit decides the rate of a transfer, and each kind leaves its own trace. A line has a queue, a policer loses
//! packets without one. The kernel counts the time for which a window or a send buffer limited the sender. A busy processor makes a
//! thread wait, and a full socket buffer drops datagrams. [`verdicts`] checks these traces in the order in which one hides
//! another. If none is conclusive, the verdict is [`LimitingFactor::Unknown`].
//!
//! It is pure: its only input is the report.

mod evidence;
mod limit;
mod sentence;

use crate::measure::SpeedReport;
use crate::protocol::DataDirection;
use evidence::LimitEvidence;
pub(crate) use evidence::is_by_hosts;
pub use limit::{LimitVerdict, LimitingFactor, MeasuredHost};

/// One verdict for each measured direction, alone and with both directions loaded. If connections carried data, the verdict is about
/// them, and a capacity search is evidence.
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
