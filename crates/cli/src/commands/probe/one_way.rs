//! `netrig probe owd` and `netrig probe loss`.

use std::process::ExitCode;

use netrig_probe as agent;
use netrig_probe::{OneWayMetric, OneWayOrder, StreamDirection, control};

use super::arguments::OneWay;
use super::ending::{failure, tell_answers};
use super::key;
use crate::failure::Failure;
use crate::interruption::until_interrupted;

pub fn one_way(arguments: &OneWay, metric: OneWayMetric) -> Result<ExitCode, Failure> {
    let order = OneWayOrder {
        target: arguments.target.resolve(control::PORT)?,
        direction: if arguments.reverse { StreamDirection::Back } else { StreamDirection::There },
        metric,
        plan: arguments.packets.plan(),
        size: usize::try_from(arguments.size.bytes()).unwrap_or(usize::MAX),
        dscp: arguments.packets.dscp.0,
        key: key::read(&arguments.key)?,
    };
    let report = agent::one_way(&order, &*until_interrupted()?).map_err(failure)?;
    tell_answers(&report, arguments.form)
}
