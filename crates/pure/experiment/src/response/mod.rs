//! Responses: the measured quantities of an experiment, and the registry of metrics that they may name.

mod agreement;
pub(crate) mod amount;
pub mod metric;
mod spec;
mod statistic;
mod subject;

pub(crate) use agreement::typed_margins;
pub use agreement::{AgreementSpec, Margins};
pub use amount::{Amount, AmountError};
pub use spec::{IntervalMethod, ResponseSpec, Subjects};
pub use statistic::{Per, Statistic, StatisticError};
pub use subject::{Of, OfError, SubjectKind};
