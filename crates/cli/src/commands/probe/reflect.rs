//! `netrig probe reflect`.

use std::process::ExitCode;

use netrig_core::Prefix;
use netrig_host::loopback_addresses;
use netrig_probe::{FarEnd, FarEndOrder};

use super::arguments::Reflect;
use super::common::failure;
use crate::failure::{Failure, print_report};
use crate::interruption::until_interrupted;

pub fn reflect(arguments: &Reflect) -> Result<ExitCode, Failure> {
    let order = FarEndOrder {
        listen: if arguments.listen.is_empty() { loopback_addresses() } else { arguments.listen.clone() },
        stamp_port: arguments.stamp_port,
        control_port: arguments.control_port,
        key: arguments.key.read()?,
        authenticated: arguments.authenticated,
        allowed: if arguments.allow.is_empty() { Prefix::LOOPBACK.to_vec() } else { arguments.allow.clone() },
        dscps: arguments.allow_dscp.as_ref().map(|dscps| dscps.iter().map(|dscp| dscp.0).collect()),
        stateful: arguments.stateful,
        format: arguments.timestamps,
        most_rate: arguments.max_rate,
        slots: arguments.slots.settings.of(FarEndOrder::SLOTS),
    };
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
