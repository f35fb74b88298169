//! What limited a measurement: from what both ends counted to one sentence, the counter that proves it, and the advice that
//! mends it.
//!
//! A transfer is as fast as the tightest of its limits lets it be, and each of them leaves a trace of its own: a line keeps a
//! queue, a policer loses without one, a window and a send buffer have the kernel count the time in which they held data
//! back, a processor keeps a thread waiting, a socket without room drops what had arrived. [`verdicts`] looks for these traces
//! in the order in which one hides the other, and says [`Limit::Unknown`] rather than guess.
//!
//! It is pure: all that it knows is in the report.

mod evidence;
mod limit;
mod sentence;

use schemars::JsonSchema;
use serde::Serialize;

use crate::measure::Report;
use crate::protocol::Way;
use evidence::Evidence;
pub(crate) use evidence::is_by_hosts;
pub use limit::{End, Limit};

/// What limited one way, in words.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Verdict {
    /// Which way.
    pub way: Way,
    /// What limited it.
    pub limit: Limit,
    /// The same as a sentence.
    pub sentence: String,
    /// What was counted that proves it.
    pub proof: String,
    /// What mends it, if something does.
    pub advice: Option<String>,
}

/// What limited each way that was measured: where connections carried data it is theirs, and a search beside them is evidence.
pub fn verdicts(report: &Report) -> Vec<Verdict> {
    [Way::Down, Way::Up].into_iter().filter_map(|way| verdict(report, way)).collect()
}

fn verdict(report: &Report, way: Way) -> Option<Verdict> {
    let evidence = Evidence::of(report, way)?;
    let limit = evidence.limit();
    Some(Verdict {
        way,
        sentence: sentence::sentence(&limit, way),
        proof: sentence::proof(&limit),
        advice: sentence::advice(&limit),
        limit,
    })
}

#[cfg(test)]
mod tests;
