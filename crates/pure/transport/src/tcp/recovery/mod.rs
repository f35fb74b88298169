//! Loss detection and repair: the scoreboard of outstanding segments, and one file for each algorithm.

mod frto;
mod prr;
mod rack;
mod scoreboard;
mod undo;

pub(crate) use frto::{Frto, FrtoEvidence, FrtoVerdict};
pub(crate) use prr::Prr;
pub(crate) use rack::{ProbeVerdict, Rack, Situation, TailLossProbe};
pub(crate) use scoreboard::{Delivered, Scoreboard};
pub(crate) use undo::Undo;
