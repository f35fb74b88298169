//! The verbs, a file each.

mod capture;
mod check;
mod compare;
mod delivery;
mod doctor;
mod events;
mod export;
mod list;
mod origin;
mod plan;
mod playback;
mod report;
mod run;
mod schema;
mod sequence;
mod show;
mod version;

pub use check::check;
pub use compare::compare;
pub use doctor::doctor;
pub use export::export;
pub use list::list;
pub use plan::plan;
pub use report::report;
pub use run::run;
pub use schema::schema;
pub use show::show;
