//! The capacity of a server: the highest rate that it carries.
//!
//! [`Search`] decides what is offered next and what a step has shown, [`BaselineSearch`] what the tester carries against itself; a
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
pub use decision::{Decision, Outcome, Reason};
pub use form::Rfc7502Form;
pub use journal::{Entry, Journal, Record, ResumeError, Stand};
pub use observation::{Counts, DelaySeen, Judged, Seen, ServerSeen, StallsSeen, TesterSeen};
pub use search::{Order, Progress, Search};
pub use settings::{
    DesignObjective, Evidence, Mode, Recovery, Rfc7502, Sequential, SettingRange, Settings, SettingsError,
    Statistic, Threshold,
};
pub use step::{Drain, Purpose, Step};
pub use verdict::{Capacity, HeldRate, RateInterval, Verdict};
