//! Quantities as people write them: `0.5 Mbit/s`, `100 ms`, `10 KB`, `2 %`.
//!
//! Prefixes are SI: 1 KB = 1000 B, 1 KiB = 1024 B. A rate is in bit/s and a size in B; `10 Mb` is refused with a
//! suggestion. Parsing is exact: a value that is not a whole number of nanoseconds, bits per second or bytes is
//! refused, not rounded.
//!
//! ```
//! use netrig_core::{Duration, Rate, Size};
//! assert_eq!("45 ms".parse::<Duration>()?, Duration::from_millis(45));
//! assert_eq!("0.5 Mbit/s".parse::<Rate>()?.bits_per_s(), 500_000);
//! assert_eq!("10 KB".parse::<Size>()?.bytes(), 10_000);
//! assert!("10 Mb".parse::<Rate>().is_err());
//! # Ok::<(), netrig_core::UnitError>(())
//! ```

use std::fmt;
use std::str::FromStr;

use serde::Deserializer;

use crate::written::{self, Scalar};
use crate::{Duration, written_as_text};

/// The text is not a quantity of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not {expected}: {why}")]
pub struct UnitError {
    given: String,
    expected: &'static str,
    why: String,
}

/// Splits a text into number and unit without checking them. `None` if the text does not start with a number.
///
/// The text of a quantity in its canonical form is `format!("{number} {unit}")`.
pub fn split_quantity(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_')))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    number.bytes().any(|b| b.is_ascii_digit()).then(|| (number, unit.trim()))
}

/// The units of one kind of quantity.
struct UnitFamily {
    expected: &'static str,
    base: &'static str,
    /// Name and number of base units of each unit.
    units: &'static [(&'static str, u64)],
    /// Frequent misspellings, each with the unit that is meant.
    slips: &'static [(&'static str, &'static str)],
}

const TIME: UnitFamily = UnitFamily {
    expected: "a time such as `100 ms`",
    base: "nanoseconds",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ],
    slips: &[
        ("sec", "s"),
        ("secs", "s"),
        ("seconds", "s"),
        ("m", "min"),
        ("msec", "ms"),
        ("usec", "us"),
        ("S", "s"),
    ],
};

const RATE: UnitFamily = UnitFamily {
    expected: "a rate such as `10 Mbit/s`",
    base: "bits per second",
    units: &[("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)],
    slips: &[
        ("b/s", "bit/s"),
        ("bps", "bit/s"),
        ("Kbit/s", "kbit/s"),
        ("kb/s", "kbit/s"),
        ("kbps", "kbit/s"),
        ("Kb", "kbit/s"),
        ("kb", "kbit/s"),
        ("Mb", "Mbit/s"),
        ("mb", "Mbit/s"),
        ("Mb/s", "Mbit/s"),
        ("Mbps", "Mbit/s"),
        ("mbit/s", "Mbit/s"),
        ("Mbit", "Mbit/s"),
        ("Gb", "Gbit/s"),
        ("Gbps", "Gbit/s"),
        ("Gb/s", "Gbit/s"),
        ("Gbit", "Gbit/s"),
        ("MB/s", "Mbit/s (1 MB/s is 8 Mbit/s)"),
        ("KB/s", "kbit/s (1 KB/s is 8 kbit/s)"),
        ("B/s", "bit/s (1 B/s is 8 bit/s)"),
    ],
};

const SIZE: UnitFamily = UnitFamily {
    expected: "a size such as `10 KB`",
    base: "bytes",
    units: &[
        ("B", 1),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ],
    slips: &[
        ("b", "B"),
        ("byte", "B"),
        ("bytes", "B"),
        ("kB", "KB"),
        ("kb", "KB"),
        ("K", "KB"),
        ("k", "KB"),
        ("M", "MB"),
        ("Mb", "MB"),
        ("G", "GB"),
        ("kiB", "KiB"),
    ],
};

impl UnitFamily {
    fn error(&self, given: &str, why: impl Into<String>) -> UnitError {
        UnitError { given: given.to_owned(), expected: self.expected, why: why.into() }
    }

    /// Parses `text` as a whole number of base units.
    fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let (number, unit) =
            split_quantity(text).ok_or_else(|| self.error(text, "it does not start with a number"))?;
        if unit.is_empty() {
            return Err(self.error(text, format!("the unit is missing ({})", self.unit_names())));
        }
        let Some(&(_, worth)) = self.units.iter().find(|(name, _)| *name == unit) else {
            return Err(self.error(text, self.suggest(unit)));
        };
        decimal(number, worth).map_err(|e| match e {
            DecimalError::Negative => self.error(text, "it must not be negative"),
            DecimalError::NotANumber => self.error(text, format!("`{number}` is not a decimal number")),
            DecimalError::TooFine => self.error(text, format!("it is not a whole number of {}", self.base)),
            DecimalError::TooLarge => self.error(text, "it is too large"),
        })
    }

    fn unit_names(&self) -> String {
        let names: Vec<_> = self.units.iter().map(|(name, _)| *name).filter(|name| name.is_ascii()).collect();
        names.join(", ")
    }

    fn suggest(&self, unit: &str) -> String {
        let slip = self.slips.iter().find(|(slip, _)| *slip == unit).map(|(_, meant)| (*meant).to_owned());
        match slip {
            Some(meant) => format!("unknown unit `{unit}`; did you mean {meant}?"),
            None => format!("unknown unit `{unit}` (known: {})", self.unit_names()),
        }
    }

    /// Writes `base` base units in the largest decimal unit (a power of 1000) that needs at most three decimals.
    fn display(&self, base: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimal_units = self.units.iter().filter(|(name, worth)| {
            name.is_ascii()
                && (name.len() == 1 || !name.contains('i') || name.contains('/'))
                && is_power_of_1000(*worth)
        });
        let (name, worth) = decimal_units
            .rev()
            .find(|(_, worth)| base >= *worth && base.is_multiple_of((*worth / 1000).max(1)))
            .unwrap_or(&self.units[0]);
        let (whole, rest) = (base / worth, base % worth);
        if rest == 0 {
            return write!(f, "{whole} {name}");
        }
        let thousandths = rest / (worth / 1000);
        let decimals = format!("{thousandths:03}");
        write!(f, "{whole}.{} {name}", decimals.trim_end_matches('0'))
    }
}

fn is_power_of_1000(mut n: u64) -> bool {
    while n.is_multiple_of(1000) {
        n /= 1000;
    }
    n == 1
}

enum DecimalError {
    NotANumber,
    Negative,
    TooFine,
    TooLarge,
}

/// `number` times `worth`, exactly.
fn decimal(number: &str, worth: u64) -> Result<u64, DecimalError> {
    let digits: String = number.strip_prefix('+').unwrap_or(number).chars().filter(|c| *c != '_').collect();
    if digits.starts_with('-') {
        return Err(DecimalError::Negative);
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let all = format!("{whole}{fraction}");
    if all.is_empty() && !digits.contains('0') || !all.bytes().all(|b| b.is_ascii_digit()) {
        return Err(DecimalError::NotANumber);
    }
    if all.trim_start_matches('0').len() > 25 {
        return Err(if fraction.len() > 20 { DecimalError::TooFine } else { DecimalError::TooLarge });
    }
    let mantissa: u128 =
        if all.is_empty() { 0 } else { all.parse().map_err(|_| DecimalError::NotANumber)? };
    let scaled = mantissa.checked_mul(u128::from(worth)).ok_or(DecimalError::TooLarge)?;
    let power = u32::try_from(fraction.len())
        .ok()
        .and_then(|n| 10u128.checked_pow(n))
        .ok_or(DecimalError::TooFine)?;
    if !scaled.is_multiple_of(power) {
        return Err(DecimalError::TooFine);
    }
    u64::try_from(scaled / power).map_err(|_| DecimalError::TooLarge)
}

/// A rate in bits per second. In files: `10 Mbit/s`. It may be zero only where a type allows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// A rate of `bits_per_s`.
    pub const fn from_bits_per_s(bits_per_s: u64) -> Self {
        Self(bits_per_s)
    }

    /// Bits per second.
    pub const fn bits_per_s(self) -> u64 {
        self.0
    }

    /// Time to send `bytes` at this rate, rounded down to the nanosecond; [`Duration::MAX`] at rate zero.
    pub const fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        // 64-bit arithmetic up to 2.3 GB, because every packet uses it.
        match bytes.checked_mul(8_000_000_000) {
            Some(scaled) => Duration::from_nanos(scaled / self.0),
            None => Duration::from_nanos((bytes as u128 * 8_000_000_000 / self.0 as u128) as u64),
        }
    }
}

/// A number of bytes. In files: `10 KB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(u64);

impl Size {
    /// A size of `bytes`.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The bytes as a length in memory, at most `usize::MAX`.
    pub fn to_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

/// A share or a probability between 0 and 1. In files: `2 %`, or a bare number such as `0.02` or `1e-5`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Fraction(f64);

impl Fraction {
    /// Accepts a `value` in 0..=1.
    pub fn new(value: f64) -> Result<Self, UnitError> {
        if (0.0..=1.0).contains(&value) {
            return Ok(Self(value));
        }
        Err(UnitError {
            given: value.to_string(),
            expected: Self::EXPECTED,
            why: "it must lie between 0 and 1 (0 % and 100 %)".into(),
        })
    }

    const EXPECTED: &'static str = "a share such as `2 %` or `0.02`";

    /// The share, 0 to 1.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for Fraction {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error =
            |why: &str| UnitError { given: text.to_owned(), expected: Self::EXPECTED, why: why.into() };
        let trimmed = text.trim();
        let (number, hundredth) = match trimmed.strip_suffix('%') {
            Some(number) => (number.trim(), true),
            None => (trimmed, false),
        };
        let value: f64 = number.parse().map_err(|_| error("it is neither a number nor a number with `%`"))?;
        let value = if hundredth { value / 100.0 } else { value };
        Self::new(value).map_err(|e| UnitError { given: text.to_owned(), ..e })
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounds the percentage to 12 decimals: 0.07 * 100 would print as 7.000000000000001.
        let percent = (self.0 * 1e14).round() / 1e12;
        write!(f, "{percent} %")
    }
}

macro_rules! quantity {
    ($type:ty, $family:expr, $make:expr, $base:expr, $name:literal, $example:literal) => {
        impl FromStr for $type {
            type Err = UnitError;
            fn from_str(text: &str) -> Result<Self, UnitError> {
                $family.parse(text).map($make)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $family.display($base(*self), f)
            }
        }

        written_as_text!($type, written::text, $family.expected, $name, {
            "type": ["string", "number"], "description": $family.expected, "examples": [$example]
        });
    };
}

quantity!(Duration, TIME, Duration::from_nanos, Duration::as_nanos, "Duration", "100 ms");
quantity!(Rate, RATE, Rate::from_bits_per_s, Rate::bits_per_s, "Rate", "10 Mbit/s");
quantity!(Size, SIZE, Size::from_bytes, Size::bytes, "Size", "10 KB");
written_as_text!(Fraction, share, Fraction::EXPECTED, "Fraction", {
    "type": ["string", "number"], "description": Fraction::EXPECTED, "examples": ["2 %"]
});

fn share<'de, D: Deserializer<'de>>(deserializer: D, expected: &'static str) -> Result<Fraction, D::Error> {
    written::scalar(deserializer, expected, |scalar| match scalar {
        Scalar::Text(text) => Some(text.parse()),
        other => other.number().map(Fraction::new),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!("0.045 s".parse(), Ok(Duration::from_millis(45)));
        assert_eq!("45ms".parse(), Ok(Duration::from_millis(45)));
        assert_eq!("0 s".parse(), Ok(Duration::ZERO));
        assert_eq!("1.5 min".parse(), Ok(Duration::from_secs(90)));
        assert_eq!("2.5 µs".parse(), Ok(Duration::from_nanos(2500)));
        assert_eq!("64 KiB".parse(), Ok(Size::from_bytes(65_536)));
        assert_eq!("2 %".parse::<Fraction>().map(Fraction::get), Ok(0.02));
        assert_eq!("1e-5".parse::<Fraction>().map(Fraction::get), Ok(1e-5));
    }

    #[test]
    fn says_what_was_wrong() {
        let rate = |text: &str| text.parse::<Rate>().unwrap_err().to_string();
        assert_eq!(
            rate("10 Mb"),
            "`10 Mb` is not a rate such as `10 Mbit/s`: unknown unit `Mb`; did you mean Mbit/s?"
        );
        assert_eq!(
            rate("10"),
            "`10` is not a rate such as `10 Mbit/s`: the unit is missing (bit/s, kbit/s, Mbit/s, Gbit/s)"
        );
        assert_eq!(rate("fast"), "`fast` is not a rate such as `10 Mbit/s`: it does not start with a number");
        assert_eq!(
            rate("-1 Mbit/s"),
            "`-1 Mbit/s` is not a rate such as `10 Mbit/s`: it must not be negative"
        );
        assert_eq!(
            rate("1.2.3 Mbit/s"),
            "`1.2.3 Mbit/s` is not a rate such as `10 Mbit/s`: `1.2.3` is not a decimal number"
        );
        assert!(rate("99999999999999 Gbit/s").ends_with("it is too large"));
        assert!(
            "0.1 ns"
                .parse::<Duration>()
                .unwrap_err()
                .to_string()
                .ends_with("it is not a whole number of nanoseconds")
        );
        assert!("120 %".parse::<Fraction>().unwrap_err().to_string().contains("between 0 and 1"));
    }

    #[test]
    fn writes_the_shortest_exact_form() {
        let show = |nanos| Duration::from_nanos(nanos).to_string();
        assert_eq!(show(45_000_000), "45 ms");
        assert_eq!(show(1_080_000_000), "1.08 s");
        assert_eq!(show(0), "0 ns");
        assert_eq!(show(1_000_001), "1000.001 us");
        assert_eq!(Rate::from_bits_per_s(500_000).to_string(), "500 kbit/s");
        assert_eq!(Size::from_bytes(65_536).to_string(), "65.536 KB");
        assert_eq!("7 %".parse::<Fraction>().unwrap().to_string(), "7 %");
    }

    proptest! {
        #[test]
        fn a_written_quantity_reads_back(n in any::<u64>()) {
            prop_assert_eq!(Duration::from_nanos(n).to_string().parse(), Ok(Duration::from_nanos(n)));
            prop_assert_eq!(Rate::from_bits_per_s(n).to_string().parse(), Ok(Rate::from_bits_per_s(n)));
            prop_assert_eq!(Size::from_bytes(n).to_string().parse(), Ok(Size::from_bytes(n)));
        }

        #[test]
        fn no_text_of_a_quantity_panics(text in ".{0,40}") {
            let _ = text.parse::<Duration>();
            let _ = text.parse::<Fraction>();
        }
    }
}
