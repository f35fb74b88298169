//! `netrig probe ping`.

use std::process::ExitCode;

use netrig_probe as agent;
use netrig_probe::PingOrder;

use super::arguments::Ping;
use super::ending::{failure, tell_answers};
use crate::failure::Failure;
use crate::interruption::until_interrupted;

pub fn ping(arguments: &Ping) -> Result<ExitCode, Failure> {
    let order = PingOrder {
        target: arguments.target.resolve(0)?,
        plan: arguments.packets.plan(),
        size: usize::try_from(arguments.size.bytes()).unwrap_or(usize::MAX),
        dscp: arguments.packets.dscp.0,
    };
    let report = agent::ping(&order, &*until_interrupted()?).map_err(failure)?;
    tell_answers(&report, arguments.form)
}
