//! The client: opens a session at a server, runs phases, and measures the delay of the path during them.

mod beside;
mod call;
mod document;
mod error;
mod iperf3;
mod latency;
mod measurement;
mod phase_reports;
mod probing;
mod progress;
mod quick;
mod report;
mod searching;
mod text;

pub use call::{CallOrder, CarriedPhase, PhaseEvent, PhaseSteering, SpeedCall, server_name};
pub use error::SpeedError;
pub use iperf3::{Iperf3Error, Iperf3Order, measure_iperf3};
pub use latency::Latency;
pub use measurement::{MeasureOrder, MeasureTask, measure};
pub use probing::Probing;
pub use progress::MeasureProgress;
pub use quick::{QuickMeasurement, measure_quickly, quick_round_trip};
pub use report::{LimitVerdict, LineCapacity, PhaseReport, SpeedReport};
pub use searching::SearchTask;
