//! A train of packets on the command line.

use std::str::FromStr;

use netrig_core::Size;
use netrig_probe::train::Train;

/// A train on the command line: `11x100B`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypedTrain(pub Train);

impl FromStr for TypedTrain {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a train: expected COUNTxSIZE, such as 11x100B");
        let (count, size) = text.split_once('x').ok_or_else(wrong)?;
        let count = count.parse().map_err(|_| wrong())?;
        let size: Size = size.parse().map_err(|_| wrong())?;
        Ok(Self(Train { count, size: usize::try_from(size.bytes()).unwrap_or(usize::MAX) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_train_is_a_count_and_a_size() {
        assert_eq!("11x100B".parse(), Ok(TypedTrain(Train { count: 11, size: 100 })));
        assert_eq!("10x1KB".parse(), Ok(TypedTrain(Train { count: 10, size: 1000 })));
        for wrong in ["", "11", "x100B", "11x", "11x100B x", "-1x5B"] {
            assert!(wrong.parse::<TypedTrain>().unwrap_err().contains("COUNTxSIZE"), "{wrong}");
        }
    }
}
