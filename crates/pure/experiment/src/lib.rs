//! Turns an experiment file into a plan of runs, and the samples of runs into responses, claims and tables.
//!
//! The crate does no I/O: its caller reads the text of files. Whether a file is valid does not depend on the machine.
//! The crate does not execute runs; substrates do this, through [`Substrate`].
//!
//! Start from [`Experiment`] (a checked file), [`Plan`] (its points and replications), [`Scenario`] (one
//! resolved point, the input of a substrate), [`Reduction`] (samples to responses) and [`Results`] (the content
//! of a report).
#![forbid(unsafe_code)]

mod check;
mod claim;
mod comparison;
mod experiment;
mod figure;
mod file;
mod frames;
mod host;
mod judge;
mod level;
mod paper;
mod plan;
mod points;
mod program;
mod reduce;
mod replications;
mod resolve;
mod response;
mod results;
mod scenario;
mod substrate;
mod table;

pub use check::SpecError;
pub use claim::{ClaimSpec, Exhibit, Expect, Names, Selection, Target, Written};
pub use comparison::{constant_level, differing_constants};
pub use experiment::Experiment;
pub use figure::{
    Axis, AxisData, Expression, ExpressionError, FigureData, FigurePoint, FigureSpec, Grid, Legend, PICTURE,
    Panel, PaperAbscissa, PaperPoint, PaperSeries, PaperThreshold, Series, TIME, Theories, TheoryLine,
    TheorySpec, TracedRun, WatchedRun, quantities,
};
pub use file::{
    Assignment, Diagnostic, Diagnostics, FileReader, LONGEST_FILE, Note, ScenarioFault, ScenarioText,
    SetError, Severity, Span, schema, with_files,
};
pub use frames::{DeliveryReader, MessageDelivery, Numbered, Numbers, Sequence, SequenceReader};
pub use host::{Fragmentation, Host};
pub use judge::{Decision, Design, PointRuns, RunRecord, StoppingRule, Validity};
pub use level::{Factor, Level, LevelUnit, LevelValue, Point, TypedLevel};
pub use netrig_link::LinkSettings;
pub use paper::{Paper, PaperError, PaperValue};
pub use plan::{Plan, PointIdentity, Run};
pub use program::{NotReady, Program, ProgramCounters, Ready};
pub use reduce::{Cut, MeasuredValue, MeasuredValues, Reduction, Trace};
pub use replications::{Precision, Replications, WarmUp};
pub use response::{
    AgreementSpec, Amount, AmountError, IntervalMethod, Margins, Of, OfError, Per, ResponseSpec, Statistic,
    StatisticError, SubjectKind, Subjects, metric,
};
pub use results::{
    Agreement, AgreementAnswer, AgreementVerdict, ClaimPoint, ClaimResult, ClaimVerdict, Difference,
    PointRemark, PointResult, ResponseResult, Results, RunValue, Status,
};
pub use scenario::{
    Action, ArrivesAt, Carrier, Flow, Hop, LinkSpec, Mptcp, Node, RateLayer, Reception, Route, Scenario,
    Sockets, TimedEvent, WifiLane, channels, server_port,
};
pub use substrate::{Balance, RunError, RunOutcome, RunRemark, Substrate, Unsupported};
pub use table::{
    ColumnSpec, Derivation, Ordered, PaperCell, TableCell, TableColumn, TableResult, TableRow, TableSpec,
};
