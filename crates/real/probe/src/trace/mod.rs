//! `probe trace`: finds the hops of a path with packets of one flow whose TTL expires there, and estimates the rates of
//! the links between them.
//!
//! [`course`] decides which packet is sent when, and [`speed`] estimates rates from the times: without a socket or a
//! clock.

pub mod course;
mod order;
mod report;
pub mod speed;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::atomic::AtomicBool;

use super::error::ProbeError;
use super::flow::FlowSocket;
use course::TraceCourse;

pub use order::{SpeedOrder, TraceOrder, TraceSettings};
pub use report::{HopAddress, TraceHop, TraceReport};

/// Finds the hops of a path.
///
/// If the order is invalid. A hop without answers is a measurement, not an error.
pub fn trace(order: &TraceOrder, cancel: &AtomicBool) -> Result<TraceReport, ProbeError> {
    order.check()?;
    let socket = FlowSocket::open(order.method, order.target, order.dscp)?;
    let plan = order.plan(socket.flow(), socket.mtu()?)?;
    let mut course = TraceCourse::new(plan, order.target.ip());
    let account = wire::carry_out(socket, &mut course, cancel)?;
    report::report(order, &course, &account)
}
