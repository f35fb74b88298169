//! `netrig probe trace`.

use std::process::ExitCode;

use netrig_probe::flow::packet::FlowMethod;
use netrig_probe::trace::{SpeedOrder, TraceOrder, trace as carry_out};

use super::arguments::Trace;
use super::ending::{ProbeEnd, failure, tell};
use crate::failure::Failure;
use crate::interruption::until_interrupted;

/// Ports that a trace asks: the one with which traceroute begins, and HTTP's.
const UDP_PORT: u16 = 33434;
const TCP_PORT: u16 = 80;

pub fn trace(arguments: &Trace) -> Result<ExitCode, Failure> {
    let port = match arguments.method {
        FlowMethod::Udp => UDP_PORT,
        FlowMethod::Icmp => 0,
        FlowMethod::Tcp => TCP_PORT,
    };
    let order = TraceOrder {
        target: arguments.target.resolve(port)?,
        method: arguments.method,
        first: arguments.first,
        last: arguments.hops,
        each: arguments.count,
        length: arguments.size.map(|size| usize::try_from(size.bytes()).unwrap_or(usize::MAX)),
        wait: arguments.wait,
        gap: arguments.gap,
        in_flight: arguments.in_flight,
        dscp: arguments.dscp.0,
        speed: arguments.speed.then_some(SpeedOrder { lengths: arguments.lengths, each: arguments.each }),
    };
    let report = carry_out(&order, &*until_interrupted()?).map_err(failure)?;
    let is_useful = !report.hops.is_empty();
    let end = ProbeEnd { interrupted: report.interrupted, valid: report.valid, is_useful };
    tell(&report, || report.text(), arguments.form, end)
}
