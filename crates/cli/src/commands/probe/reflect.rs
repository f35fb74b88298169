//! `netrig probe reflect`.

use std::process::ExitCode;

use netrig_core::Prefix;
use netrig_probe::{FarEnd, FarEndOrder, FarEndTally};
use serde_json::json;

use super::arguments::Reflect;
use super::ending::failure;
use super::key;
use super::target::loopback;
use crate::failure::{Failure, print};
use crate::interruption::until_interrupted;

pub fn reflect(arguments: &Reflect) -> Result<ExitCode, Failure> {
    let order = FarEndOrder {
        listen: if arguments.listen.is_empty() { loopback() } else { arguments.listen.clone() },
        stamp_port: arguments.stamp_port,
        control_port: arguments.control_port,
        key: key::read(&arguments.key)?,
        authenticated: arguments.authenticated,
        allowed: if arguments.allow.is_empty() { Prefix::LOOPBACK.to_vec() } else { arguments.allow.clone() },
        dscps: arguments.allow_dscp.as_ref().map(|dscps| dscps.iter().map(|dscp| dscp.0).collect()),
        stateful: arguments.stateful,
        format: arguments.timestamps.into(),
        most_rate: arguments.max_rate,
        slots: arguments.slots.of(FarEndOrder::SLOTS),
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
    if arguments.form.json {
        print(serde_json::to_string_pretty(&as_json(&tally)).map_err(Failure::failed)?)?;
    } else {
        print(as_text(&tally).trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(tally: &FarEndTally) -> serde_json::Value {
    json!({
        "answered": tally.answered, "unanswered": tally.unanswered,
        "streams": tally.streams, "failures": tally.failures,
    })
}

fn as_text(tally: &FarEndTally) -> String {
    let mut text =
        format!("{} STAMP packets answered, {} streams carried out\n", tally.answered, tally.streams);
    for (why, count) in &tally.unanswered {
        text += &format!("{count} STAMP packets not answered: {why}\n");
    }
    for (why, count) in &tally.failures {
        text += &format!("{count} probes refused or aborted: {why}\n");
    }
    text
}
