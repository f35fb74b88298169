//! Probes of a path: by packets that are answered or counted, and by an object of HTTP.

use std::process::ExitCode;

use netrig_core::Size;
use netrig_probe::flow::packet::FlowMethod;
use netrig_probe::path_mtu::{MtuResponder, PathMtuOrder, path_mtu};
use netrig_probe::trace::{SpeedOrder, TraceOrder};
use netrig_probe::train::TrainOrder;
use netrig_probe::web::{Url, WebOrder};
use netrig_probe::{OneWayMetric, OneWayOrder, PingOrder, ProbeReport, StampOrder, StreamDirection, control};

use super::arguments::{Mtu, OneWay, Ping, Stamp, Trace, Train, Web};
use super::common::{Form, Target, failure};
use crate::failure::{Failure, exit_code, print_report};
use crate::interruption::until_interrupted;

/// Target ports: traceroute's first port, and that of HTTP.
const UDP_PORT: u16 = 33434;
const TCP_PORT: u16 = 80;

/// Prints the report of a probe whose packets are answered or counted.
fn tell(report: &ProbeReport, form: Form) -> Result<ExitCode, Failure> {
    print_report(form.json, report, || report.text())?;
    Ok(exit_code(report.interrupted, report.valid, report.is_answered()))
}

/// `netrig probe ping`.
pub fn ping(arguments: &Ping) -> Result<ExitCode, Failure> {
    let order = PingOrder {
        target: arguments.target.resolve(0)?,
        plan: arguments.packets.plan(),
        size: arguments.size.to_usize(),
        dscp: arguments.packets.dscp.0,
    };
    let report = netrig_probe::ping(&order, &*until_interrupted()?).map_err(failure)?;
    tell(&report, arguments.form)
}

/// `netrig probe owd` and `netrig probe loss`.
pub fn one_way(arguments: &OneWay, metric: OneWayMetric) -> Result<ExitCode, Failure> {
    let order = OneWayOrder {
        target: arguments.target.resolve(control::PORT)?,
        direction: if arguments.reverse { StreamDirection::Back } else { StreamDirection::There },
        metric,
        plan: arguments.packets.plan(),
        size: arguments.size.to_usize(),
        dscp: arguments.packets.dscp.0,
        key: arguments.key.read()?,
    };
    let report = netrig_probe::one_way(&order, &*until_interrupted()?).map_err(failure)?;
    tell(&report, arguments.form)
}

/// `netrig probe stamp`.
pub fn stamp(arguments: &Stamp) -> Result<ExitCode, Failure> {
    let order = StampOrder {
        target: arguments.target.resolve(netrig_probe::stamp::PORT)?,
        plan: arguments.packets.plan(),
        size: arguments.size.map(Size::to_usize),
        dscp: arguments.packets.dscp.0,
        answer_dscp: arguments.answer_dscp.map(|dscp| dscp.0),
        key: arguments.key.read()?,
        format: arguments.timestamps,
        stateful: arguments.stateful,
    };
    let report = netrig_probe::stamp(&order, &*until_interrupted()?).map_err(failure)?;
    tell(&report, arguments.form)
}

/// `netrig probe train`.
pub fn train(arguments: &Train) -> Result<ExitCode, Failure> {
    let order = TrainOrder {
        target: arguments.target.resolve(0)?,
        trains: arguments.trains.clone(),
        gap: arguments.interval,
        wait: arguments.wait,
        dscp: arguments.dscp.0,
    };
    let report = netrig_probe::train::train(&order, &*until_interrupted()?).map_err(failure)?;
    tell(&report, arguments.form)
}

/// `netrig probe mtu`.
pub fn mtu(arguments: &Mtu) -> Result<ExitCode, Failure> {
    let responder = if arguments.far_end {
        MtuResponder::FarEnd(arguments.key.read()?)
    } else {
        MtuResponder::Echo(arguments.tcp_port)
    };
    let order = PathMtuOrder {
        target: arguments.target.resolve(if arguments.far_end { control::PORT } else { 0 })?,
        responder,
        base: arguments.base.map(Size::to_usize),
        most: arguments.most.map(Size::to_usize),
        probes: arguments.count,
        wait: arguments.wait,
        dscp: arguments.dscp.0,
        locate: arguments.locate,
    };
    let report = path_mtu(&order, &*until_interrupted()?).map_err(failure)?;
    print_report(arguments.form.json, &report, || report.text())?;
    Ok(exit_code(report.interrupted, report.valid, report.path_mtu.is_some()))
}

/// `netrig probe trace`.
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
        length: arguments.size.map(Size::to_usize),
        wait: arguments.wait,
        gap: arguments.gap,
        in_flight: arguments.in_flight,
        dscp: arguments.dscp.0,
        speed: arguments.speed.then_some(SpeedOrder { lengths: arguments.lengths, each: arguments.each }),
    };
    let report = netrig_probe::trace::trace(&order, &*until_interrupted()?).map_err(failure)?;
    print_report(arguments.form.json, &report, || report.text())?;
    Ok(exit_code(report.interrupted, report.valid, !report.hops.is_empty()))
}

/// `netrig probe web`.
pub fn web(arguments: &Web) -> Result<ExitCode, Failure> {
    let url: Url = arguments.url.parse().map_err(Failure::request)?;
    let target = Target { target: url.host.clone(), ipv4: arguments.ipv4, ipv6: arguments.ipv6 };
    let address = target.resolve(url.port)?;
    let order = WebOrder { url, address, wait: arguments.wait, limit: arguments.limit };
    let report = netrig_probe::web::web(&order, &*until_interrupted()?).map_err(failure)?;
    print_report(arguments.form.json, &report, || report.text())?;
    // An object that does not exist or is incomplete has no rate.
    let has_rate = report.status == Some(200) && report.bytes > 0 && (report.complete || report.limited);
    Ok(exit_code(report.interrupted, true, has_rate))
}
