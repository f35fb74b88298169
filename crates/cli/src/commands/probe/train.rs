//! `netrig probe train`.

use std::process::ExitCode;
use std::str::FromStr;

use netrig_core::Size;
use netrig_probe::train::{Train as Order, TrainOrder, train as carry_out};

use super::arguments::Train;
use super::{failure, target, tell};
use crate::failure::Failure;
use crate::interruption::until_interrupted;

pub fn train(arguments: &Train) -> Result<ExitCode, Failure> {
    let order = TrainOrder {
        target: target::resolve(&arguments.target, 0)?,
        trains: arguments.trains.iter().map(|typed| typed.0).collect(),
        gap: arguments.interval,
        wait: arguments.wait,
        dscp: arguments.dscp.0,
    };
    let report = carry_out(&order, &*until_interrupted()?).map_err(failure)?;
    tell(&report, arguments.form)
}

/// A train as it is typed: `11x100B`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Typed(Order);

impl FromStr for Typed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no train: expected COUNTxSIZE, as 11x100B");
        let (count, size) = text.split_once('x').ok_or_else(wrong)?;
        let count = count.parse().map_err(|_| wrong())?;
        let size: Size = size.parse().map_err(|_| wrong())?;
        Ok(Self(Order { count, size: usize::try_from(size.bytes()).unwrap_or(usize::MAX) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_train_is_a_count_and_a_size() {
        assert_eq!("11x100B".parse(), Ok(Typed(Order { count: 11, size: 100 })));
        assert_eq!("10x1KB".parse(), Ok(Typed(Order { count: 10, size: 1000 })));
        for wrong in ["", "11", "x100B", "11x", "11x100B x", "-1x5B"] {
            assert!(wrong.parse::<Typed>().unwrap_err().contains("COUNTxSIZE"), "{wrong}");
        }
    }
}
