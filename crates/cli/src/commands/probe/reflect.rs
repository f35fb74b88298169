//! `netrig probe reflect`.

use std::process::ExitCode;

use netrig_probe::FarEnd;

use super::arguments::Reflect;
use super::common::failure;
use crate::failure::{Failure, print_report};
use crate::interruption::until_interrupted;

pub fn reflect(arguments: &Reflect) -> Result<ExitCode, Failure> {
    let order = arguments.far_end.settings.order(arguments.key.read()?, arguments.connections.settings);
    let cancel = until_interrupted()?;
    let far_end = FarEnd::open(order).map_err(failure)?;
    if let Some(shortage) = far_end.shortage() {
        eprintln!("warning: {shortage}");
    }
    for address in far_end.stamp_addresses() {
        eprintln!("STAMP is answered at {address} (UDP)");
    }
    for address in far_end.control_addresses() {
        eprintln!("probes are expected at {address} (TCP); Ctrl-C ends it");
    }
    let tally = far_end.serve(&cancel).map_err(failure)?;
    print_report(arguments.form.json, &tally.document(), || tally.text())?;
    Ok(ExitCode::SUCCESS)
}
