//! Errors of deserialisation: serde's messages in the terms of an experiment file.

use std::fmt::{self, Display};

use serde::de::{self, Unexpected};

use super::diagnostic::{Diagnostic, Span};
use super::document::Kind;

/// An error that may not have its position yet.
#[derive(Debug)]
pub(super) struct Error {
    /// The diagnostic. It is boxed to keep results small, because each value returns one.
    pub(super) diagnostic: Box<Diagnostic>,
    /// Whether the position is set.
    pub(super) located: bool,
}

impl Error {
    pub(super) fn new(diagnostic: Diagnostic) -> Self {
        Self { diagnostic: Box::new(diagnostic), located: false }
    }

    /// Sets the position, unless it is already set.
    pub(super) fn at(mut self, span: &Span) -> Self {
        if !self.located {
            self.diagnostic.span = span.clone();
            self.located = true;
        }
        self
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.diagnostic.message)
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        let message = message.to_string();
        // Serde's message for a value that matches no type of an untagged enum. Only constants of transports have such
        // types.
        if message.starts_with("data did not match any variant of untagged enum") {
            let problem = Diagnostic::error(0..0, "the key does not take this value");
            return Self::new(problem.note("`netrig show profile` prints every constant with its meaning"));
        }
        Self::new(Diagnostic::error(0..0, message))
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let expected = wanted(&expected.to_string());
        Self::custom(format_args!("expected {expected}, found {}", given(&unexpected)))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::invalid_type(unexpected, expected)
    }

    fn invalid_length(found: usize, expected: &dyn de::Expected) -> Self {
        let expected = expected.to_string();
        let wanted = expected.strip_prefix("an array of length ").map(|n| format!("{n} values"));
        Self::custom(format_args!("expected {}, found {found}", wanted.unwrap_or(expected)))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::custom(format_args!("the key `{field}` is missing"))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::new(
            Diagnostic::error(0..0, format!("unknown key `{field}`")).among(field, expected.iter().copied()),
        )
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(
            Diagnostic::error(0..0, format!("unknown value `{variant}`"))
                .among(variant, expected.iter().copied()),
        )
    }
}

/// Serde's expected type, in the terms of an experiment file.
fn wanted(expected: &str) -> String {
    match expected {
        "u8" | "u16" | "u32" => {
            let bits: u32 = expected[1..].parse().unwrap_or(32);
            format!("a whole number from 0 to {}", (1_u64 << bits) - 1)
        }
        "u64" | "usize" => "a whole number from 0".into(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".into(),
        "f32" | "f64" => "a number".into(),
        "a boolean" => "`true` or `false`".into(),
        "a string" => "a text in quotes".into(),
        "a sequence" => "a list in brackets".into(),
        "a map" => "a table".into(),
        other if other.starts_with("struct ") || other.starts_with("internally tagged") => "a table".into(),
        other => other.into(),
    }
}

fn given(unexpected: &Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Str(text) => format!("the text `{text}`"),
        Unexpected::Signed(number) => format!("the number {number}"),
        Unexpected::Unsigned(number) => format!("the number {number}"),
        Unexpected::Float(number) => format!("the number {number}"),
        Unexpected::Bool(on) => format!("`{on}`"),
        Unexpected::Seq => "a list".into(),
        Unexpected::Map | Unexpected::StructVariant | Unexpected::NewtypeVariant => "a table".into(),
        Unexpected::Unit | Unexpected::UnitVariant => "a name alone".into(),
        other => other.to_string(),
    }
}

/// The kind of a value, in words.
pub(crate) fn found(kind: &Kind) -> String {
    match kind {
        Kind::Text(text) => format!("the text `{text}`"),
        Kind::Integer(number) => format!("the number {number}"),
        Kind::Float(number) => format!("the number {number}"),
        Kind::Switch(on) => format!("`{on}`"),
        Kind::Array(_) => "a list".into(),
        Kind::Table(_) => "a table".into(),
    }
}
