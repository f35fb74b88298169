//! The capacity of a server: the highest rate that it sustains.
//!
//! [`CapacitySearch`] selects the next rate and decides each step; [`BaselineSearch`] measures the limit of the tester. A driver
//! offers the load ([`SearchDrive`] over the network). There are three modes: an estimate from steps that a sequential test decides, the algorithm of RFC 7502, and
//! the design objective capacity of ETSI TS 186 008. The decisions and their risks are described in `docs/sip-capacity.md`.

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
mod procedure;
mod request;
mod rfc7502;
mod search;
mod settings;
mod step;
mod step_watch;
mod verdict;

/// The version of the JSON document of a search. It rises if a field is removed or changes its meaning.
pub const CAPACITY_FORMAT: u32 = 2;

pub use baseline::{Baseline, BaselineSearch};
pub use cause::{CapacityCause, CauseFound, causes};
pub use decision::{StepDecision, StepOutcome, StepReason};
pub use document::{CapacityDocument, SearchEnd, step_text, table};
pub use drive::SearchDrive;
pub use form::Rfc7502Form;
pub use journal::{ResumeError, SearchEntry, SearchJournal, SequentialTestState, StepRecord};
pub use journal_file::JournalError;
pub use observation::{
    CallCounts, DelaySeen, JudgedThreshold, MachineStalls, ServerReading, StepObservation, TesterSeen,
};
pub use order::{CapacityError, CapacityOrder, StepLoad, unit_of};
pub use request::{SearchRequest, StepPart, StepSettings};
pub use search::{CapacitySearch, DriverOrder, StepProgress};
pub use settings::{
    DesignObjective, FailureShareTest, Mode, RecoverySettings, Rfc7502, SearchChoice, SearchMode,
    SearchSettings, SearchSettingsError, Sequential, SettingRange, Threshold,
};
pub use step::{LoadStep, StepPause, StepPurpose};
pub use verdict::{CapacityEstimate, CapacityVerdict, HeldRate, RateInterval};
