//! The router. It moves every frame of the nodes through the links of the scenario, in real time.

mod displacement;
mod forwarding;
mod fragments;
mod observations;
mod parcel;
mod passage;
mod recognition;
mod report;
mod routing;

pub(crate) use self::forwarding::Router;
pub(crate) use self::observations::{ObservationBatch, UNTAKEN};
pub(crate) use self::recognition::{Recognition, is_tcp};
pub(crate) use self::report::RouterReport;
pub(crate) use self::routing::RouterThread;
