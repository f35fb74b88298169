//! The capacity of a server: the highest rate that it carries.
//!
//! [`Search`] decides what is offered next and what a step has shown, [`BaselineSearch`] what the tester carries against itself; a
//! driver offers it ([`SearchDrive`] over the network). Three modes: an
//! estimate from steps of which a sequential test decides each, the algorithm of RFC 7502, the design objective capacity of ETSI
//! TS 186 008. What is decided, with which risks, stands in `docs/sip-capacity.md`.

mod baseline;
mod baseline_load;
mod cause;
mod decision;
mod design_objective;
mod document;
mod drive;
mod estimation;
mod form;
mod journal;
mod journal_file;
mod judge;
mod observation;
mod offer;
mod order;
mod rfc7502;
mod search;
mod settings;
mod sight;
mod verdict;

/// The version of the JSON document of a search: another when something in it is left out, or means something else.
pub const CAPACITY_FORMAT: u32 = 2;

pub use baseline::{Baseline, BaselineSearch};
pub use cause::{CapacityCause, CauseFound, causes};
pub use decision::{Decision, Outcome, Reason};
pub use document::{CapacityDocument, SearchEnd, step_text, table};
pub use drive::SearchDrive;
pub use form::Rfc7502Form;
pub use journal::{Entry, Journal, Record, ResumeError, Stand};
pub use journal_file::JournalError;
pub use observation::{Counts, DelaySeen, Judged, Seen, ServerSeen, StallsSeen, TesterSeen};
pub use order::{CapacityError, CapacityOrder, StepLoad, unit_of};
pub use search::{Drain, Order, Progress, Purpose, Search, Step};
pub use settings::{
    DesignObjective, Evidence, Mode, Recovery, Rfc7502, Sequential, SettingRange, Settings, SettingsError,
    Statistic, Threshold,
};
pub use verdict::{Capacity, HeldRate, RateInterval, Verdict};
