//! `netrig probe web`.

use std::process::ExitCode;

use netrig_probe::web::{Url, WebOrder, WebReport, web as carry_out};

use super::arguments::Web;
use super::ending::{exit_code, failure};
use super::path_arguments::{Form, Target};
use super::target;
use crate::failure::{FAILED, Failure, print};
use crate::interruption::until_interrupted;

pub fn web(arguments: &Web) -> Result<ExitCode, Failure> {
    let url: Url = arguments.url.parse().map_err(Failure::request)?;
    let (ipv4, ipv6) = (arguments.ipv4, arguments.ipv6);
    let address = target::resolve(&Target { target: url.host.clone(), ipv4, ipv6 }, url.port)?;
    let order = WebOrder { url, address, wait: arguments.wait, limit: arguments.limit };
    let report = carry_out(&order, &*until_interrupted()?).map_err(failure)?;
    tell(&report, arguments.form)
}

/// Prints what was found; an object that is not there, or did not come to its end, is no measurement to rely on.
fn tell(report: &WebReport, form: Form) -> Result<ExitCode, Failure> {
    if form.json {
        print(serde_json::to_string_pretty(report).map_err(Failure::failed)?)?;
    } else {
        print(report.text().trim_end())?;
    }
    let came = report.status == Some(200) && report.bytes > 0 && (report.complete || report.limited);
    Ok(if report.interrupted || came { exit_code(report.interrupted, true) } else { ExitCode::from(FAILED) })
}
