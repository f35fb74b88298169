//! The limit of a measurement: a sentence, the counters that prove it, and advice on how to remove it.
//!
//! The tightest limit determines the rate of a transfer, and each kind of limit has its own symptoms. A line has a
//! queue. A policer drops packets without a queue. The kernel counts the time for which a window or a send buffer
//! limited the sender. A busy processor makes a thread wait, and a full socket buffer drops datagrams. [`verdicts`]
//! checks the limits one after the other. A limit that can also cause the symptoms of others is checked before them. If
//! none is conclusive, the verdict is [`Unknown`](netrig_bulk::LimitingFactor::Unknown).
//!
//! The computation is pure: its only input is the report.

mod evidence;

use crate::measure::{LimitVerdict, SpeedReport};
use crate::protocol::DataDirection;
use evidence::LimitEvidence;
pub(crate) use evidence::is_by_hosts;

/// Returns a verdict for each measured direction that was loaded alone, and for each direction that was loaded together
/// with the other. If connections carried data, the verdict is about them, and the capacity search serves as evidence.
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
        sentence: limit.sentence(name(way, at_once)),
        proof: limit.proof(),
        advice: limit.advice(),
        limit,
    })
}

const fn name(way: DataDirection, at_once: bool) -> &'static str {
    match (way, at_once) {
        (DataDirection::Down, false) => "the download",
        (DataDirection::Down, true) => "the download beside the upload",
        (DataDirection::Up, false) => "the upload",
        (DataDirection::Up, true) => "the upload beside the download",
        (DataDirection::Both, _) => "both ways",
    }
}

#[cfg(test)]
mod tests;
