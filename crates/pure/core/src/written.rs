//! Reads and writes values that files contain as a text, or alternatively as a number.

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::de::{self, Deserializer, Unexpected};

/// A value in a file that is neither a list nor a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// A text.
    Text(&'a str),
    /// An integer.
    Whole(i128),
    /// A number with a fraction or an exponent.
    Number(f64),
    /// `true` or `false`.
    Truth(bool),
}

impl Scalar<'_> {
    /// The value of an integer or another number.
    pub fn number(self) -> Option<f64> {
        match self {
            Self::Whole(number) => Some(number as f64),
            Self::Number(number) => Some(number),
            Self::Text(_) | Self::Truth(_) => None,
        }
    }
}

struct ScalarVisitor<F>(&'static str, F);

impl<T, E: Display, F: FnOnce(Scalar<'_>) -> Option<Result<T, E>>> ScalarVisitor<F> {
    fn read<R: de::Error>(self, scalar: Scalar<'_>, unexpected: Unexpected<'_>) -> Result<T, R> {
        let Self(expected, read) = self;
        match read(scalar) {
            Some(value) => value.map_err(R::custom),
            None => Err(R::invalid_type(unexpected, &expected)),
        }
    }
}

impl<T, E: Display, F: FnOnce(Scalar<'_>) -> Option<Result<T, E>>> de::Visitor<'_> for ScalarVisitor<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
    fn visit_str<R: de::Error>(self, text: &str) -> Result<T, R> {
        self.read(Scalar::Text(text), Unexpected::Str(text))
    }
    fn visit_i64<R: de::Error>(self, number: i64) -> Result<T, R> {
        self.read(Scalar::Whole(number.into()), Unexpected::Signed(number))
    }
    fn visit_u64<R: de::Error>(self, number: u64) -> Result<T, R> {
        self.read(Scalar::Whole(number.into()), Unexpected::Unsigned(number))
    }
    fn visit_f64<R: de::Error>(self, number: f64) -> Result<T, R> {
        self.read(Scalar::Number(number), Unexpected::Float(number))
    }
    fn visit_bool<R: de::Error>(self, truth: bool) -> Result<T, R> {
        self.read(Scalar::Truth(truth), Unexpected::Bool(truth))
    }
}

/// Reads a value that a file writes as a scalar. `read` returns `None` for a scalar of a type that it does not accept.
/// The error is created while the scalar is visited, so that a deserializer with positions can add the position.
///
/// # Errors
/// If the value is not a scalar of an accepted type, or `read` refuses the scalar.
pub fn scalar<'de, T, E: Display, D: Deserializer<'de>>(
    deserializer: D,
    expected: &'static str,
    read: impl FnOnce(Scalar<'_>) -> Option<Result<T, E>>,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(ScalarVisitor(expected, read))
}

/// Reads a value that a file writes as a text.
///
/// # Errors
/// As [`scalar`].
pub fn text<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
    deserializer: D,
    expected: &'static str,
) -> Result<T, D::Error> {
    scalar(deserializer, expected, |scalar| match scalar {
        Scalar::Text(text) => Some(text.parse()),
        _ => None,
    })
}

/// Reads a value that a file writes as a text, or as an integer, which is parsed as the text of its digits.
///
/// # Errors
/// As [`scalar`].
pub fn text_or_whole<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
    deserializer: D,
    expected: &'static str,
) -> Result<T, D::Error> {
    scalar(deserializer, expected, |scalar| match scalar {
        Scalar::Text(text) => Some(text.parse()),
        Scalar::Whole(number) => Some(number.to_string().parse()),
        _ => None,
    })
}

/// Implements `Serialize` by the type's text (`Display`), and `Deserialize` by [`read_from_scalar!`].
#[macro_export]
macro_rules! written_as_text {
    ($type:ty, $($rest:tt)+) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        $crate::read_from_scalar!($type, $($rest)+);
    };
}

/// Implements `Deserialize` by `$read`, such as [`text`](crate::written::text). `$expected` describes the expected
/// value in errors. `$name` and `$schema` are those of the JSON schema.
#[macro_export]
macro_rules! read_from_scalar {
    ($type:ty, $read:expr, $expected:expr, $name:literal, $schema:tt) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $read(deserializer, $expected)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}
