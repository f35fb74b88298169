//! Values that files write as a text, or as a number beside it.

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::de::{self, Deserializer, Unexpected};

/// A value of a file that has no parts.
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

/// Reads a value that a file writes as a scalar. `read` returns nothing for a scalar that is none of its forms. The error
/// arises while the scalar is visited, so that a reader that knows its position can add it.
///
/// # Errors
/// If the file has another form, or `read` refuses the scalar.
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

/// Reads a value that a file writes as a text, or as an integer instead of a text of its digits.
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

/// Implements how files write a type by its text: the text is written, and read as [`read_from_scalar!`] says.
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

/// Implements how a type is read from a file: by `$read`, such as [`text`](crate::written::text), which gets the words for
/// what it expects. The name and the schema are those of the JSON schema.
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
