//! Probes of a path with packets that are answered or counted, and with an object fetched by HTTP.

use std::process::ExitCode;

use netrig_probe::path_mtu::{PathMtuSettings, path_mtu};
use netrig_probe::trace::TraceSettings;
use netrig_probe::train::TrainSettings;
use netrig_probe::web::{Url, WebOrder};
use netrig_probe::{
    OneWayMetric, OneWayOrder, OneWaySettings, ProbeReport, StampOrder, StampSettings, control,
};

use super::arguments::{KeyedProbe, OpenProbe, Ping, StreamProbe, Web};
use super::common::{Form, failure};
use crate::failure::{Failure, exit_code, print_report};
use crate::interruption::until_interrupted;

/// Prints the report of a probe whose packets are answered or counted.
fn tell(report: &ProbeReport, form: Form) -> Result<ExitCode, Failure> {
    print_report(form.json, report, || report.text())?;
    Ok(exit_code(report.interrupted, report.valid, report.is_answered()))
}

/// `netrig probe ping`.
pub fn ping(arguments: &Ping) -> Result<ExitCode, Failure> {
    let target = arguments.target.resolve(0)?;
    let order = arguments.probe.settings.order(&arguments.packets.settings, target);
    let report = netrig_probe::ping(&order, &*until_interrupted()?).map_err(failure)?;
    tell(&report, arguments.form)
}

/// `netrig probe owd` and `netrig probe loss`.
pub fn one_way(arguments: &StreamProbe<OneWaySettings>, metric: OneWayMetric) -> Result<ExitCode, Failure> {
    let order = OneWayOrder {
        target: arguments.target.resolve(control::PORT)?,
        metric,
        packets: arguments.packets.settings.clone(),
        settings: arguments.probe.settings.clone(),
        key: arguments.key.read()?,
    };
    let report = netrig_probe::one_way(&order, &*until_interrupted()?).map_err(failure)?;
    tell(&report, arguments.form)
}

/// `netrig probe stamp`.
pub fn stamp(arguments: &StreamProbe<StampSettings>) -> Result<ExitCode, Failure> {
    let order = StampOrder {
        target: arguments.target.resolve(netrig_probe::stamp::PORT)?,
        packets: arguments.packets.settings.clone(),
        settings: arguments.probe.settings.clone(),
        key: arguments.key.read()?,
    };
    let report = netrig_probe::stamp(&order, &*until_interrupted()?).map_err(failure)?;
    tell(&report, arguments.form)
}

/// `netrig probe train`.
pub fn train(arguments: &OpenProbe<TrainSettings>) -> Result<ExitCode, Failure> {
    let (target, cancel) = (arguments.target.resolve(0)?, until_interrupted()?);
    let report = netrig_probe::train::train(target, &arguments.probe.settings, &cancel).map_err(failure)?;
    tell(&report, arguments.form)
}

/// `netrig probe mtu`.
pub fn mtu(arguments: &KeyedProbe<PathMtuSettings>) -> Result<ExitCode, Failure> {
    let probe = &arguments.probe.settings;
    let key = if probe.far_end { arguments.key.read()? } else { None };
    let order = probe.clone().order(arguments.target.resolve(probe.port())?, key);
    let report = path_mtu(&order, &*until_interrupted()?).map_err(failure)?;
    print_report(arguments.form.json, &report, || report.text())?;
    Ok(exit_code(report.interrupted, report.valid, report.path_mtu.is_some()))
}

/// `netrig probe trace`.
pub fn trace(arguments: &OpenProbe<TraceSettings>) -> Result<ExitCode, Failure> {
    let probe = &arguments.probe.settings;
    let target = arguments.target.resolve(probe.port())?;
    let report = netrig_probe::trace::trace(target, probe, &*until_interrupted()?).map_err(failure)?;
    print_report(arguments.form.json, &report, || report.text())?;
    Ok(exit_code(report.interrupted, report.valid, !report.hops.is_empty()))
}

/// `netrig probe web`.
pub fn web(arguments: &Web) -> Result<ExitCode, Failure> {
    let url: Url = arguments.url.parse().map_err(Failure::request)?;
    let address = arguments.version.resolve(&url.host, url.port)?;
    let order = WebOrder { url, address, settings: arguments.probe.settings.clone() };
    let report = netrig_probe::web::web(&order, &*until_interrupted()?).map_err(failure)?;
    print_report(arguments.form.json, &report, || report.text())?;
    // A rate is only given if the object exists and was received completely, or up to the limit.
    let has_rate = report.status == Some(200) && report.bytes > 0 && (report.complete || report.limited);
    Ok(exit_code(report.interrupted, true, has_rate))
}
