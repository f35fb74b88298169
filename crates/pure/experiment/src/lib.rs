//! From an experiment file to a plan of runs, and from the samples of runs to responses, claims and tables.
//!
//! It reads text that others have read from disk, never judges a file by the machine it is on, and never
//! runs anything: substrates do, behind [`Substrate`].
//!
//! Start from [`Experiment`] (a checked file), [`Plan`] (its points and replications), [`Scenario`] (one
//! point, resolved: what a substrate gets), [`Reduction`] (samples to responses) and [`Results`] (what a
//! report shows).
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
mod media;
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
    Panel, PaperPlace, PaperPoint, PaperSeries, PaperThreshold, Series, TIME, Theories, TheoryLine,
    TheorySpec, TracedRun, WatchedRun,
};
pub use file::{
    Assignment, Diagnostic, Diagnostics, LONGEST_FILE, Note, ScenarioFault, ScenarioText, SetError, Severity,
    Span, schema, with_captures, with_files, with_moments, with_scenarios,
};
pub use frames::{DeliveryReader, MessageDelivery, Numbered, Numbers, Sequence, SequenceReader};
pub use host::{Fragmentation, Host};
pub use judge::{Decision, Design, PointRuns, RunRecord, StoppingRule};
pub use level::{Factor, Level, LevelUnit, LevelValue, Point};
pub use media::{CallQuality, Heard, VideoQuality};
pub use netrig_link::LinkSettings;
pub use paper::{Paper, PaperError, PaperValue};
pub use plan::{Plan, Run};
pub use program::{Counters, NotReady, Program, Ready};
pub use reduce::{Cut, Measured, Reduction, Trace};
pub use replications::{Precision, Replications, WarmUp};
pub use response::{
    AgreementSpec, Amount, AmountError, IntervalMethod, Margins, Of, OfError, Per, ResponseSpec, Statistic,
    StatisticError, SubjectKind, Subjects, metric,
};
pub use results::{
    Accord, Agreement, Asked, ClaimPoint, ClaimResult, Difference, PointRemark, PointResult, ResponseResult,
    Results, RunValue, Status, Verdict,
};
pub use scenario::{
    Action, ArrivesAt, Carrier, Flow, Hop, LinkSpec, Mptcp, Node, RateLayer, Reception, Route, Scenario,
    Sockets, TimedEvent, WifiLane, channels, server_port,
};
pub use substrate::{Balance, Outcome, RunError, RunRemark, Substrate, Unsupported};
pub use table::{
    ColumnSpec, Derivation, Ordered, PaperCell, TableCell, TableColumn, TableResult, TableRow, TableSpec,
};
