//! `netrig probe web`.

use std::process::ExitCode;

use netrig_probe::web::{Url, WebOrder, WebReport, web as carry_out};

use super::arguments::Web;
use super::ending::{exit_code, failure};
use super::path_arguments::{Form, Target};
use super::show::quantity;
use super::target;
use crate::failure::{FAILED, Failure, print};
use crate::interruption::until_interrupted;
use netrig_core::number::Unit;

pub fn web(arguments: &Web) -> Result<ExitCode, Failure> {
    let url: Url = arguments.url.parse().map_err(Failure::request)?;
    let (ipv4, ipv6) = (arguments.ipv4, arguments.ipv6);
    let address = target::resolve(&Target { target: url.host.clone(), ipv4, ipv6 }, url.port)?;
    let order = WebOrder { url, address, wait: arguments.wait, limit: arguments.limit };
    let report = carry_out(&order, &*until_interrupted()?).map_err(failure)?;
    tell(&report, arguments.form)
}

/// Prints the report. If the object is missing or incomplete, the exit code is that of a failure.
fn tell(report: &WebReport, form: Form) -> Result<ExitCode, Failure> {
    if form.json {
        print(serde_json::to_string_pretty(report).map_err(Failure::failed)?)?;
    } else {
        print(table(report).trim_end())?;
    }
    let came = report.status == Some(200) && report.bytes > 0 && (report.complete || report.limited);
    Ok(if report.interrupted || came { exit_code(report.interrupted, true) } else { ExitCode::from(FAILED) })
}

fn table(report: &WebReport) -> String {
    let mut text = format!("web {} at {}\n\n", report.url, report.address);
    let seconds = |seconds: f64| quantity(seconds, &Unit::fitting("s", [seconds]));
    let mut line = |name: &str, value: Option<String>| {
        text += &format!("{name:<26}{}\n", value.unwrap_or_else(|| "undefined".into()));
    };
    line("connection", Some(seconds(report.connect_s)));
    line("first octet", report.first_byte_s.map(seconds));
    line("in all", Some(seconds(report.total_s)));
    line(
        "octets",
        Some(format!("{}{}", report.bytes, if report.complete { "" } else { ", not to the end" })),
    );
    let rate = |rate: Option<f64>| rate.map(|rate| quantity(rate, &Unit::fitting("bit/s", [rate])));
    line("rate", rate(report.rate));
    line("rate after 1 s", rate(report.rate_after_first_second));
    text += &format!("\n{}\n", report.found);
    report.notes.iter().for_each(|note| text += &format!("{note}\n"));
    text
}
