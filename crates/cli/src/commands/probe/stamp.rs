//! `netrig probe stamp`.

use std::process::ExitCode;

use netrig_probe as agent;
use netrig_probe::StampOrder;
use netrig_probe::stamp::PORT;

use super::arguments::Stamp;
use super::ending::{failure, tell_answers};
use super::key;
use crate::failure::Failure;
use crate::interruption::until_interrupted;

pub fn stamp(arguments: &Stamp) -> Result<ExitCode, Failure> {
    let order = StampOrder {
        target: arguments.target.resolve(PORT)?,
        plan: arguments.packets.plan(),
        size: arguments.size.map(|size| usize::try_from(size.bytes()).unwrap_or(usize::MAX)),
        dscp: arguments.packets.dscp.0,
        answer_dscp: arguments.answer_dscp.map(|dscp| dscp.0),
        key: key::read(&arguments.key)?,
        format: arguments.timestamps,
        stateful: arguments.stateful,
    };
    let report = agent::stamp(&order, &*until_interrupted()?).map_err(failure)?;
    tell_answers(&report, arguments.form)
}
