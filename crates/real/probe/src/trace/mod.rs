//! `probe trace`: finds the hops of a path and estimates the rates of the links between them. It sends packets of one
//! flow whose TTL expires at the hops.
//!
//! [`course`] decides which packet is sent when, and [`speed`] estimates rates from the times. Neither uses a socket or
//! a clock.

pub mod course;
mod report;
mod settings;
pub mod speed;
#[cfg(test)]
mod tests;
mod wire;

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use super::error::ProbeResult;
use super::flow::FlowSocket;
use course::TraceCourse;

pub use report::{HopAddress, TraceHop, TraceReport};
pub use settings::TraceSettings;

/// Finds the hops of the path to a target. The port of `target` is ignored for ICMP.
///
/// Fails if a setting is invalid. A hop without answers is a measurement, not an error.
pub fn trace(target: SocketAddr, settings: &TraceSettings, cancel: &AtomicBool) -> ProbeResult<TraceReport> {
    settings.check()?;
    let socket = FlowSocket::open(settings.method, target, settings.dscp.0)?;
    let plan = settings.plan(socket.flow(), socket.mtu()?)?;
    let mut course = TraceCourse::new(plan, target.ip());
    let account = wire::carry_out(socket, &mut course, cancel)?;
    report::report(target, settings, &course, &account)
}
