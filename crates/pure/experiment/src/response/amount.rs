//! Numbers with units, as claims, papers and figures write them: `100 B/s`, `2 %`, `250 ms`, `0.3`.

use std::fmt;
use std::str::FromStr;

use netrig_core::written::{self, Scalar};
use netrig_core::{Fraction, read_from_scalar};
use serde::ser::SerializeMap;
use serde::{Deserializer, Serialize, Serializer};

/// The kind of quantity that a unit measures. Amounts are convertible only within a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnitKind {
    Time,
    Data,
    DataRate,
    Number,
    NumberRate,
}

/// The name of each unit, its kind, and its size in base units (s, bit, bit/s, 1, 1/s).
const UNITS: &[(&str, UnitKind, f64)] = &[
    ("ns", UnitKind::Time, 1e-9),
    ("us", UnitKind::Time, 1e-6),
    ("µs", UnitKind::Time, 1e-6),
    ("ms", UnitKind::Time, 1e-3),
    ("s", UnitKind::Time, 1.0),
    ("min", UnitKind::Time, 60.0),
    ("h", UnitKind::Time, 3600.0),
    ("bit", UnitKind::Data, 1.0),
    ("kbit", UnitKind::Data, 1e3),
    ("Mbit", UnitKind::Data, 1e6),
    ("B", UnitKind::Data, 8.0),
    ("KB", UnitKind::Data, 8e3),
    ("MB", UnitKind::Data, 8e6),
    ("GB", UnitKind::Data, 8e9),
    ("KiB", UnitKind::Data, 8.0 * 1024.0),
    ("MiB", UnitKind::Data, 8.0 * 1_048_576.0),
    ("GiB", UnitKind::Data, 8.0 * 1_073_741_824.0),
    ("bit/s", UnitKind::DataRate, 1.0),
    ("kbit/s", UnitKind::DataRate, 1e3),
    ("Mbit/s", UnitKind::DataRate, 1e6),
    ("Gbit/s", UnitKind::DataRate, 1e9),
    ("B/s", UnitKind::DataRate, 8.0),
    ("KB/s", UnitKind::DataRate, 8e3),
    ("MB/s", UnitKind::DataRate, 8e6),
    ("GB/s", UnitKind::DataRate, 8e9),
    ("1", UnitKind::Number, 1.0),
    ("%", UnitKind::Number, 0.01),
    // Percentage points. A margin in pp is absolute; a margin in % is relative.
    ("pp", UnitKind::Number, 0.01),
    ("packets", UnitKind::Number, 1.0),
    ("segments", UnitKind::Number, 1.0),
    ("objects", UnitKind::Number, 1.0),
    ("events", UnitKind::Number, 1.0),
    ("1/s", UnitKind::NumberRate, 1.0),
    ("packets/s", UnitKind::NumberRate, 1.0),
    ("objects/s", UnitKind::NumberRate, 1.0),
];

/// The text is not an amount, or has no value in the requested unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// The text does not start with a number.
    #[error("`{0}` does not start with a number")]
    NotANumber(String),
    /// The number is infinite, not a number, or too large for a double.
    #[error("`{0}` is not a finite number")]
    NotFinite(String),
    /// The unit is unknown.
    #[error("`{unit}` is no unit that netrig knows{hint}")]
    UnknownUnit {
        /// The given unit.
        unit: String,
        /// The suggestion `; did you mean KB/s?`, or an empty text.
        hint: String,
    },
    /// The unit is known, but measures another quantity.
    #[error("an amount in {given} cannot be compared with one in {wanted}")]
    OtherKind {
        /// The given unit.
        given: String,
        /// The requested unit.
        wanted: String,
    },
}

/// A finite number with the unit as given. A number without a unit takes the unit of the value with which it is
/// compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Amount {
    value: f64,
    unit: Option<&'static str>,
}

/// The number is finite, so an amount always equals itself.
impl Eq for Amount {}

impl Amount {
    /// A number without a unit.
    pub const fn bare(value: f64) -> Self {
        Self { value, unit: None }
    }

    /// `value` in `unit`.
    ///
    /// # Errors
    /// An unknown unit, or a number that is not finite.
    pub fn new(value: f64, unit: &str) -> Result<Self, AmountError> {
        if !value.is_finite() {
            return Err(AmountError::NotFinite(value.to_string()));
        }
        Ok(Self { value, unit: Some(find(unit)?.0) })
    }

    /// The number as it was written.
    pub const fn value(&self) -> f64 {
        self.value
    }

    /// The unit as it was written.
    pub const fn unit(&self) -> Option<&'static str> {
        self.unit
    }

    /// Whether the amount is in percent. A margin in percent is a share of the compared value.
    pub fn is_share(&self) -> bool {
        self.unit == Some("%")
    }

    /// The margin in `unit`; `None` for a share, which has no unit of its own.
    ///
    /// # Errors
    /// As [`Amount::in_unit`].
    pub(crate) fn of(&self, unit: &str) -> Result<Option<f64>, AmountError> {
        if self.is_share() { Ok(None) } else { self.in_unit(unit).map(Some) }
    }

    /// The number in `unit`. A number without a unit is returned unchanged.
    ///
    /// # Errors
    /// A unit that is unknown or measures something else.
    pub fn in_unit(&self, unit: &str) -> Result<f64, AmountError> {
        match self.unit {
            Some(given) => Ok(self.value * factor(given, unit)?),
            None => Ok(self.value),
        }
    }

    /// The number in base units (s, bit, bit/s, 1, 1/s), for the axes of figures and the order of levels.
    pub fn base(&self) -> f64 {
        let worth = self.unit.and_then(|unit| find(unit).ok()).map_or(1.0, |(_, _, worth)| worth);
        self.value * worth
    }

    /// Whether both are the same amount of the same kind, such as `500 ms` and `0.5 s`.
    pub fn same(&self, other: &Self) -> bool {
        let kind = |amount: &Self| amount.unit.and_then(|unit| find(unit).ok()).map(|(_, kind, _)| kind);
        let (a, b) = (self.base(), other.base());
        kind(self) == kind(other) && (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
    }
}

fn find(unit: &str) -> Result<(&'static str, UnitKind, f64), AmountError> {
    UNITS.iter().find(|(name, ..)| *name == unit).copied().ok_or_else(|| {
        let near = UNITS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(unit));
        let hint = near.map_or(String::new(), |(name, ..)| format!("; did you mean {name}?"));
        AmountError::UnknownUnit { unit: unit.to_owned(), hint }
    })
}

/// The factor that converts a number from the unit `from` to the unit `to`.
///
/// # Errors
/// An unknown unit, or two units that measure different quantities.
pub fn factor(from: &str, to: &str) -> Result<f64, AmountError> {
    if from == to {
        return Ok(1.0);
    }
    let ((_, kind, worth), (_, other, base)) = (find(from)?, find(to)?);
    if kind != other {
        return Err(AmountError::OtherKind { given: from.to_owned(), wanted: to.to_owned() });
    }
    Ok(worth / base)
}

impl From<Fraction> for Amount {
    /// The share in percent.
    fn from(share: Fraction) -> Self {
        // Rounded to 12 decimals: 0.07 * 100 is 7.000000000000001.
        Self { value: (share.get() * 1e14).round() / 1e12, unit: Some("%") }
    }
}

impl FromStr for Amount {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        let text = text.trim();
        // Takes the longest prefix that is a number: `1e-5`, but not an `e` that begins a unit.
        let ends = text.char_indices().map(|(at, _)| at).skip(1).chain([text.len()]);
        let number = ends
            .take_while(|end| text[..*end].chars().all(|c| c.is_ascii_digit() || ".+-eE".contains(c)))
            .filter_map(|end| Some((end, text[..end].parse::<f64>().ok()?)))
            .last();
        let Some((end, value)) = number else {
            return Err(AmountError::NotANumber(text.to_owned()));
        };
        if !value.is_finite() {
            return Err(AmountError::NotFinite(text.to_owned()));
        }
        match text[end..].trim() {
            "" => Ok(Self::bare(value)),
            unit => Self::new(value, unit),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit {
            Some(unit) => write!(f, "{} {unit}", self.value),
            None => write!(f, "{}", self.value),
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.unit {
            Some(_) => serializer.collect_str(self),
            None => serializer.serialize_f64(self.value),
        }
    }
}

read_from_scalar!(Amount, amount, "a number, or a number with its unit such as `100 B/s`", "Amount", {
    "type": ["string", "number"],
    "description": "A number, or a number with its unit; without one it counts in the response's unit.",
    "examples": ["100 B/s", "2 %", 0.5]
});

fn amount<'de, D: Deserializer<'de>>(deserializer: D, expected: &'static str) -> Result<Amount, D::Error> {
    written::scalar(deserializer, expected, |scalar| match scalar {
        Scalar::Text(text) => Some(text.parse().map_err(|error: AmountError| error.to_string())),
        other => other.number().map(|number| {
            if number.is_finite() { Ok(Amount::bare(number)) } else { Err("it must be finite".to_owned()) }
        }),
    })
}

/// An amount in JSON documents: a number, or a number with its unit.
pub(crate) struct TypedAmount<'a>(pub(crate) &'a Amount);

impl Serialize for TypedAmount<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number = ShortNumber(self.0.value());
        let Some(unit) = self.0.unit() else { return number.serialize(serializer) };
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("value", &number)?;
        map.serialize_entry("unit", unit)?;
        map.end()
    }
}

/// A number that is serialised without a decimal point if it is whole, as a file writes a level.
struct ShortNumber(f64);

impl Serialize for ShortNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Every whole number below 2⁵³ is exact in both types.
        if self.0.fract() == 0.0 && self.0.abs() < 9_007_199_254_740_992.0 {
            serializer.serialize_i64(self.0 as i64)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Amount {
        text.parse().unwrap()
    }

    #[test]
    fn converts_within_a_kind() {
        assert_eq!(amount("54 KB/s").in_unit("B/s"), Ok(54_000.0));
        assert_eq!(amount("0.5 Mbit/s").in_unit("B/s"), Ok(62_500.0));
        assert_eq!(amount("250 ms").in_unit("s"), Ok(0.25));
        assert_eq!(amount("2 %").in_unit("1"), Ok(0.02));
        assert_eq!(amount("1e-5").in_unit("1"), Ok(1e-5));
        assert_eq!(amount("7").in_unit("B/s"), Ok(7.0));
    }

    #[test]
    fn never_converts_between_kinds() {
        let error = amount("3 s").in_unit("B/s").unwrap_err();
        assert_eq!(error.to_string(), "an amount in s cannot be compared with one in B/s");
        assert!(amount("1 MB").in_unit("MB/s").is_err());
    }

    #[test]
    fn says_what_was_meant() {
        let error = "54 kB/s".parse::<Amount>().unwrap_err();
        assert_eq!(error.to_string(), "`kB/s` is no unit that netrig knows; did you mean KB/s?");
        let error = |text: &str| text.parse::<Amount>().unwrap_err().to_string();
        assert_eq!(error("fast"), "`fast` does not start with a number");
        assert_eq!(error("1e999 B/s"), "`1e999 B/s` is not a finite number");
        assert!("".parse::<Amount>().is_err());
    }

    #[test]
    fn the_same_amount_in_other_words() {
        assert!(amount("500 ms").same(&amount("0.5 s")));
        assert!(amount("1.50").same(&amount("1.5")));
        assert!(!amount("5 s").same(&amount("5")));
        assert!(!amount("5 s").same(&amount("5 KB")));
    }
}
