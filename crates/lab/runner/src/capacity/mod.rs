//! The capacity of a server: the highest rate that it carries.
//!
//! [`CapacitySearch`] decides what is offered next and what a step has shown, [`BaselineSearch`] what the tester carries against itself; a
//! driver offers it. Three modes: an
//! estimate from steps of which a sequential test decides each, the algorithm of RFC 7502, the design objective capacity of ETSI
//! TS 186 008. What is decided, with which risks, stands in `docs/sip-capacity.md`.

mod baseline;
mod cause;
mod decision;
mod design_objective;
mod estimation;
mod form;
mod journal;
mod judge;
mod observation;
mod procedure;
mod rfc7502;
mod search;
mod settings;
mod step;
mod verdict;

pub use baseline::{Baseline, BaselineSearch};
pub use cause::{CapacityCause, CauseFound, causes};
pub use decision::{StepDecision, StepOutcome, StepReason};
pub use form::Rfc7502Form;
pub use journal::{ResumeError, SearchEntry, SearchJournal, SequentialTestState, StepRecord};
pub use observation::{CallCounts, DelaySeen, JudgedThreshold, Seen, ServerSeen, StallsSeen, TesterSeen};
pub use search::{CapacitySearch, Order, StepProgress};
pub use settings::{
    DelayStatistic, DesignObjective, FailureShareTest, Mode, RecoverySettings, Rfc7502, SearchSettings,
    SearchSettingsError, Sequential, SettingRange, Threshold,
};
pub use step::{Drain, LoadStep, Purpose};
pub use verdict::{CapacityEstimate, HeldRate, RateInterval, Verdict};
