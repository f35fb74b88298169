//! The client: calls a server, carries phases, and watches the path's delay meanwhile.

mod beside;
mod call;
mod error;
mod latency;
mod measurement;
mod report;
mod searching;

pub use call::{Call, CallOrder, Carriage, News, PhaseOrder, Steering};
pub use error::SpeedError;
pub use latency::Latency;
pub use measurement::{MeasureOrder, Progress, Task, measure};
pub use report::{Capacity, PhaseReport, Report};
pub use searching::SearchTask;
