//! `netrig probe train`.

use std::process::ExitCode;

use netrig_probe::train::{TrainOrder, train as carry_out};

use super::arguments::Train;
use super::ending::{failure, tell_answers};
use crate::failure::Failure;
use crate::interruption::until_interrupted;

pub fn train(arguments: &Train) -> Result<ExitCode, Failure> {
    let order = TrainOrder {
        target: arguments.target.resolve(0)?,
        trains: arguments.trains.iter().map(|typed| typed.0).collect(),
        gap: arguments.interval,
        wait: arguments.wait,
        dscp: arguments.dscp.0,
    };
    let report = carry_out(&order, &*until_interrupted()?).map_err(failure)?;
    tell_answers(&report, arguments.form)
}
