//! The subcommands. Each has a file or a folder.

mod agent;
mod check;
mod compare;
mod doctor;
mod export;
mod kept;
mod kept_messages;
mod lab;
mod list;
mod plan;
mod probe;
mod report;
mod run;
mod schema;
mod show;
mod sip;
mod speed;
mod sweep;
mod traced;
mod version;
mod viewing;
mod watched;

pub use agent::agent;
pub use check::check;
pub use compare::compare;
pub use doctor::doctor;
pub use export::export;
pub use lab::lab;
pub use list::list;
pub use plan::plan;
pub use probe::{Probe, probe};
pub use report::report;
pub use run::run;
pub use schema::{Schema, schema};
pub use show::show;
pub use sip::{Sip, sip, spelled};
pub use speed::{Speed, speed};
pub use sweep::{
    ChunkArguments, MergeArguments, SplitArguments, SweepArguments, ViaArguments, chunk, merge, split, sweep,
};
