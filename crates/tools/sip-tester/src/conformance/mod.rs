//! Conformance of a SIP server: test purposes, their procedures, and the report.
//!
//! A [`TestPurpose`] is one rule of an RFC with a procedure that shows whether a server follows it. [`catalogue`] lists all of
//! them. A [`TestCase`] runs one. It has up to three user agents, keeps every message as evidence, and answers challenges, so
//! that a purpose handles only its own exchange. [`ConformancePlan`] selects purposes, and [`ConformancePlan::run`] gives a
//! [`ConformanceDocument`].

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "it tests a server over sockets, in real time"
)]

mod background;
mod capability;
mod case;
mod check;
mod comparison;
mod coverage;
mod dialog;
mod gate;
mod messages;
mod names;
mod outcome;
mod page;
mod plan;
mod purpose;
mod purposes;
mod report;
mod run;
mod target;
mod text;

pub use self::background::BackgroundReport;
pub use self::capability::{Capability, CapabilityClaims, CapabilityError};
pub use self::case::{TestCall, TestCase};
pub use self::comparison::{ConformanceComparison, OtherRole, VerdictChange};
pub use self::coverage::{CoverageRow, ETSI_GROUPS, EtsiGroup, etsi_purposes};
pub use self::dialog::TestDialog;
pub use self::gate::{GateError, GateReport};
pub use self::messages::{AnsweredRequest, ArrivedMessage, EvidenceMessage, ForwardOutcome, Forwarded};
pub use self::names::TesterNames;
pub use self::outcome::{PurposeEnd, PurposeOutcome};
pub use self::plan::{BackgroundLoad, ConformancePlan, PurposeSelection, SelectionError, USERS_OF_A_CASE};
pub use self::purpose::{PurposeCarrier, RequirementLevel, TestPurpose, TestedRole};
pub use self::purposes::catalogue;
pub use self::report::{
    CapabilityRow, ConformanceDocument, EvidenceRow, PurposeRow, QuestionRow, VerdictCounts, write_evidence,
};
pub use self::run::{ConformanceResult, PurposeResult, PurposeVerdict};
pub use self::target::{ConformanceTarget, TestAgent, TestUser};
pub use self::text::purposes_text;
