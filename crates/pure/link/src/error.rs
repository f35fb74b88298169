//! Errors in the description of a line.

/// A setting is out of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {why}")]
pub struct SettingsError {
    /// The field's name as the file writes it, with dots between the names of nested tables
    /// (`queue.thresholds.min`).
    pub field: String,
    /// The problem, as the rest of a sentence that starts with the field: `must be above zero`.
    pub why: String,
}

impl SettingsError {
    pub(crate) fn new(field: &str, why: impl Into<String>) -> Self {
        Self { field: field.to_owned(), why: why.into() }
    }

    /// The same error, seen from the table in which `table` is a field.
    #[must_use]
    pub fn within(self, table: &str) -> Self {
        Self { field: format!("{table}.{}", self.field), why: self.why }
    }
}

/// Fails with `why` about `field` unless `holds`.
pub(crate) fn ensure(holds: bool, field: &str, why: &str) -> Result<(), SettingsError> {
    if holds { Ok(()) } else { Err(SettingsError::new(field, why)) }
}

/// Fails unless `name` is a valid name of a rule or a class.
pub(crate) fn check_name(name: &str) -> Result<(), SettingsError> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    let why = "must be up to 64 letters, digits, `_` and `-`";
    ensure(!name.is_empty() && name.len() <= 64 && name.bytes().all(fine), "name", why)
}
