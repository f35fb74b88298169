//! `netrig probe web`.

use std::process::ExitCode;

use netrig_probe::web::{Url, WebOrder, web as carry_out};

use super::arguments::Web;
use super::ending::{ProbeEnd, failure, tell};
use super::path_arguments::Target;
use crate::failure::Failure;
use crate::interruption::until_interrupted;

pub fn web(arguments: &Web) -> Result<ExitCode, Failure> {
    let url: Url = arguments.url.parse().map_err(Failure::request)?;
    let target = Target { target: url.host.clone(), ipv4: arguments.ipv4, ipv6: arguments.ipv6 };
    let address = target.resolve(url.port)?;
    let order = WebOrder { url, address, wait: arguments.wait, limit: arguments.limit };
    let report = carry_out(&order, &*until_interrupted()?).map_err(failure)?;
    // An object that does not exist or is incomplete has no rate.
    let is_useful = report.status == Some(200) && report.bytes > 0 && (report.complete || report.limited);
    let end = ProbeEnd { interrupted: report.interrupted, valid: true, is_useful };
    tell(&report, || report.text(), arguments.form, end)
}
