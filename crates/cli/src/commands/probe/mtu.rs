//! `netrig probe mtu`.

use std::process::ExitCode;

use netrig_core::Size;
use netrig_probe::control::PORT;
use netrig_probe::path_mtu::{MtuResponder, PathMtuOrder, path_mtu};

use super::arguments::Mtu;
use super::ending::{ProbeEnd, failure, tell};
use super::key;
use crate::failure::Failure;
use crate::interruption::until_interrupted;

pub fn mtu(arguments: &Mtu) -> Result<ExitCode, Failure> {
    let bytes = |size: Option<Size>| size.map(|size| usize::try_from(size.bytes()).unwrap_or(usize::MAX));
    let responder = if arguments.far_end {
        MtuResponder::FarEnd(key::read(&arguments.key)?)
    } else {
        MtuResponder::Echo(arguments.tcp_port)
    };
    let order = PathMtuOrder {
        target: arguments.target.resolve(if arguments.far_end { PORT } else { 0 })?,
        responder,
        base: bytes(arguments.base),
        most: bytes(arguments.most),
        probes: arguments.count,
        wait: arguments.wait,
        dscp: arguments.dscp.0,
        locate: arguments.locate,
    };
    let report = path_mtu(&order, &*until_interrupted()?).map_err(failure)?;
    let is_useful = report.path_mtu.is_some();
    let end = ProbeEnd { interrupted: report.interrupted, valid: report.valid, is_useful };
    tell(&report, || report.text(), arguments.form, end)
}
