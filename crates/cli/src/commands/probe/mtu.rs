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

/// Prints the report. A path on which no packet was answered has no MTU: the exit code is that of a failure.
fn tell(report: &PathMtuReport, form: Form) -> Result<ExitCode, Failure> {
    if form.json {
        print(serde_json::to_string_pretty(report).map_err(Failure::failed)?)?;
    } else {
        print(table(report).trim_end())?;
    }
    let is_useless = report.valid && !report.interrupted && report.path_mtu.is_none();
    Ok(if is_useless { ExitCode::from(FAILED) } else { exit_code(report.interrupted, report.valid) })
}

fn table(report: &PathMtuReport) -> String {
    let verdict = if report.valid { "" } else { ": INVALID, the tester was the limit" };
    let mut text = format!("mtu {}{verdict}\n", report.target);
    report.faults.iter().for_each(|fault| text += &format!("  invalid: {fault}\n"));
    if report.interrupted {
        text += "  interrupted: the results so far\n";
    }
    text += "\npacket           sent  answered  told too long\n";
    for size in &report.sizes {
        let (packet, tried) = (format!("{} B", size.size), size.tried);
        text += &format!("{packet:<12}  {:>7}  {:>8}  {:>13}\n", tried.sent, tried.answered, tried.told);
    }
    if let Some(segments) = &report.segments {
        text += "\nTCP segments     announced  received there\n";
        let row = |who: &str, announced: Option<u32>, received: Option<(u32, bool)>| {
            let announced = announced.map_or_else(|| "?".into(), |bytes| format!("{bytes} B"));
            let received = match received {
                None => "?".into(),
                Some((bytes, true)) => format!("{bytes} B"),
                Some((bytes, false)) => format!("{bytes} B or more"),
            };
            format!("{who:<15}  {announced:>9}  {received:>14}\n")
        };
        let (near, far) = (segments.near, segments.far);
        text += &row("this end", Some(near.announced), far.map(|far| (far.received, far.exactly)));
        text += &row("the far end", far.map(|far| far.announced), Some((near.received, near.exactly)));
    }
    text += &format!("\n{}\n", report.found);
    report.notes.iter().for_each(|note| text += &format!("{note}\n"));
    text
}
