//! `netrig probe trace`.

use std::process::ExitCode;

use netrig_probe::Measure;
use netrig_probe::flow::packet::FlowMethod;
use netrig_probe::trace::{SpeedOrder, TraceHop, TraceOrder, TraceReport, trace as carry_out};

use super::arguments::{MethodName, Trace};
use super::ending::{exit_code, failure};
use super::path_arguments::Form;
use super::show::{quantity, stamps, written};
use super::target;
use crate::failure::{FAILED, Failure, print};
use crate::interruption::until_interrupted;
use netrig_core::number::Unit;

/// Target ports: traceroute's first port, and that of HTTP.
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

/// Prints the report. If no hop answered, the exit code is that of a failure, as for any other probe without an answer.
fn tell(report: &TraceReport, form: Form) -> Result<ExitCode, Failure> {
    if form.json {
        print(serde_json::to_string_pretty(report).map_err(Failure::failed)?)?;
    } else {
        print(table(report).trim_end())?;
    }
    let is_useless = report.valid && !report.interrupted && report.hops.is_empty();
    Ok(if is_useless { ExitCode::from(FAILED) } else { exit_code(report.interrupted, report.valid) })
}

fn table(report: &TraceReport) -> String {
    let ports = report.ports.map_or_else(String::new, |[from, to]| format!(", port {from} to {to}"));
    let verdict = if report.valid { "" } else { ": INVALID, the tester was the limit" };
    let mut text = format!("trace {} by {}{ports}{verdict}\n", report.target, report.method);
    report.faults.iter().for_each(|fault| text += &format!("  invalid: {fault}\n"));
    if report.interrupted {
        text += "  interrupted: the results so far\n";
    }
    let width = report.hops.iter().map(|hop| who(hop).chars().count()).max().unwrap_or(0);
    report.hops.iter().for_each(|hop| text += &line(hop, width));
    text += &format!("\n{}\n", report.found);
    report.notes.iter().for_each(|note| text += &format!("{note}\n"));
    text + &stamps(report.stamps)
}

/// `10.0.0.1`, or `10.0.0.1 (2), 10.0.0.5 (1)`, with labels of MPLS behind.
fn who(hop: &TraceHop) -> String {
    let several = hop.addresses.len() > 1;
    let name = |address: &netrig_probe::trace::HopAddress| {
        let mut text = address.address.to_string();
        if several {
            text += &format!(" ({})", address.answers);
        }
        if !address.labels.is_empty() {
            let labels: Vec<_> = address.labels.iter().map(|label| label.label.to_string()).collect();
            text += &format!(" MPLS {}", labels.join("/"));
        }
        text
    };
    if hop.addresses.is_empty() {
        "*".into()
    } else {
        hop.addresses.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

/// A hop: addresses, round trips, why the trace ends there, and the speed of the link before it.
fn line(hop: &TraceHop, width: usize) -> String {
    let unit = Unit::fitting("s", hop.round_trips.iter().copied().flatten());
    let trip = |trip: &Option<f64>| trip.map_or_else(|| "*".to_owned(), |seconds| quantity(seconds, &unit));
    let who = who(hop);
    let mut text = format!("{:>3}  {who}{}", hop.ttl, " ".repeat(width - who.chars().count()));
    hop.round_trips.iter().for_each(|seconds| text += &format!("  {:>10}", trip(seconds)));
    hop.unreachable.iter().for_each(|why| text += &format!("  {why}"));
    text = format!("{}\n", text.trim_end());
    if let Some(speed) = hop.measures.iter().find(|measure| measure.name == "speed") {
        text += &format!("     {}\n", speed_of(speed));
    }
    text
}

fn speed_of(measure: &Measure) -> String {
    let (value, interval) = written(measure);
    match &measure.undefined {
        None => format!("link before: {value} {interval}"),
        Some(why) => {
            let least = measure.low.map_or_else(String::new, |low| {
                let unit = Unit::fitting("bit/s", [low]);
                format!("{} or more: ", quantity(low, &unit))
            });
            format!("link before: {least}{why}")
        }
    }
}
