//! Deserialises objects, numbers and flags as cJSON does.

use std::fmt;

use serde::Deserialize as _;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};

/// Parses a JSON object. Rejects an array, which serde would accept.
pub(super) fn object<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    if json.trim_ascii_start().starts_with(b"{") {
        serde_json::from_slice(json)
    } else {
        Err(serde_json::Error::custom("an object was expected"))
    }
}

/// Visitor for a number that cJSON has written. Large numbers have an exponent, and a missing number is `null`.
/// Fractions are truncated.
struct Number;

impl Visitor<'_> for Number {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number that is not negative")
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Some(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Self::Value, E> {
        u64::try_from(value).map(Some).map_err(|_| E::custom(format_args!("{value} is negative")))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Self::Value, E> {
        if value < 0.0 {
            return Err(E::custom(format_args!("{value} is negative")));
        }
        Ok(Some(value as u64))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// Deserialises a number; `None` for `null`.
pub(super) fn some_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    from.deserialize_any(Number)
}

/// Deserialises a number; zero for `null`.
pub(super) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(some_number(from)?.unwrap_or(0))
}

/// Deserialises a flag. `true`, and every number other than zero, set the flag.
pub(super) fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    match serde_json::Value::deserialize(from)? {
        serde_json::Value::Bool(set) => Ok(set),
        serde_json::Value::Number(number) => Ok(number.as_f64() != Some(0.0)),
        serde_json::Value::Null => Ok(false),
        other => Err(D::Error::custom(format_args!("{other} where true or false was expected"))),
    }
}
