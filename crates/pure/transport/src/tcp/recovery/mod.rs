//! Finding losses and repairing them: the scoreboard of what is outstanding, and one file for each
//! algorithm that judges it.

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
