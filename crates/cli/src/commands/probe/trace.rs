//! `netrig probe trace`.

use std::process::ExitCode;

use netrig_probe::flow::packet::FlowMethod;
use netrig_probe::trace::{SpeedOrder, TraceOrder, TraceReport, trace as carry_out};

use super::arguments::{MethodName, Trace};
use super::ending::{exit_code, failure};
use super::path_arguments::Form;
use super::target;
use crate::failure::{FAILED, Failure, print};
use crate::interruption::until_interrupted;

/// Ports that a trace asks: the one with which traceroute begins, and HTTP's.
const UDP_PORT: u16 = 33434;
const TCP_PORT: u16 = 80;

pub fn trace(arguments: &Trace) -> Result<ExitCode, Failure> {
    let (method, port) = match arguments.method {
        MethodName::Udp => (FlowMethod::Udp, UDP_PORT),
        MethodName::Icmp => (FlowMethod::Icmp, 0),
        MethodName::Tcp => (FlowMethod::Tcp, TCP_PORT),
    };
    let order = TraceOrder {
        target: target::resolve(&arguments.target, port)?,
        method,
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
    tell(&report, arguments.form)
}

/// Prints what was found. Nobody who says anything at all is as little as no answer of any other probe.
fn tell(report: &TraceReport, form: Form) -> Result<ExitCode, Failure> {
    if form.json {
        print(serde_json::to_string_pretty(report).map_err(Failure::failed)?)?;
    } else {
        print(report.text().trim_end())?;
    }
    let is_useless = report.valid && !report.interrupted && report.hops.is_empty();
    Ok(if is_useless { ExitCode::from(FAILED) } else { exit_code(report.interrupted, report.valid) })
}
