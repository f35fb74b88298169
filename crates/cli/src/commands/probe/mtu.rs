//! `netrig probe mtu`.

use std::process::ExitCode;

use netrig_core::Size;
use netrig_probe::control::PORT;
use netrig_probe::path_mtu::{MtuResponder, PathMtuOrder, PathMtuReport, path_mtu};

use super::arguments::Mtu;
use super::ending::{exit_code, failure};
use super::path_arguments::Form;
use super::{key, target};
use crate::failure::{FAILED, Failure, print};
use crate::interruption::until_interrupted;

pub fn mtu(arguments: &Mtu) -> Result<ExitCode, Failure> {
    let bytes = |size: Option<Size>| size.map(|size| usize::try_from(size.bytes()).unwrap_or(usize::MAX));
    let responder = if arguments.far_end {
        MtuResponder::FarEnd(key::read(&arguments.key)?)
    } else {
        MtuResponder::Echo(arguments.tcp_port)
    };
    let order = PathMtuOrder {
        target: target::resolve(&arguments.target, if arguments.far_end { PORT } else { 0 })?,
        responder,
        base: bytes(arguments.base),
        most: bytes(arguments.most),
        probes: arguments.count,
        wait: arguments.wait,
        dscp: arguments.dscp.0,
        locate: arguments.locate,
    };
    let report = path_mtu(&order, &*until_interrupted()?).map_err(failure)?;
    tell(&report, arguments.form)
}

/// Prints what was found; a path over which nothing came back is none.
fn tell(report: &PathMtuReport, form: Form) -> Result<ExitCode, Failure> {
    if form.json {
        print(serde_json::to_string_pretty(report).map_err(Failure::failed)?)?;
    } else {
        print(report.text().trim_end())?;
    }
    let is_useless = report.valid && !report.interrupted && report.path_mtu.is_none();
    Ok(if is_useless { ExitCode::from(FAILED) } else { exit_code(report.interrupted, report.valid) })
}
