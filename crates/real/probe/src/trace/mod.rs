//! `probe trace`: the hosts on the way to another, one after the other, by packets of one flow whose TTL comes to its end there;
//! and how fast the links between them are.
//!
//! Which packet is sent when is in [`course`], what their times say of speed in [`speed`]: without a socket or a clock.

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

pub use order::{SpeedOrder, TraceOrder};
pub use report::{HopAddress, TraceHop, TraceReport};

/// Finds the hosts on the way.
///
/// # Errors
/// If the order cannot be carried out; a host that says nothing is a measurement, not an error.
pub fn trace(order: &TraceOrder, cancel: &AtomicBool) -> Result<TraceReport, ProbeError> {
    order.check()?;
    let socket = FlowSocket::open(order.method, order.target, order.dscp)?;
    let plan = order.plan(socket.flow(), socket.mtu()?)?;
    let mut course = TraceCourse::new(plan, order.target.ip());
    let account = wire::carry_out(socket, &mut course, cancel)?;
    report::report(order, &course, &account)
}
