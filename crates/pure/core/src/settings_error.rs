//! Errors in the settings of a model.

/// A setting has an invalid value.
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
    /// An error about `field`.
    pub fn new(field: &str, why: impl Into<String>) -> Self {
        Self { field: field.to_owned(), why: why.into() }
    }

    /// The same error with `table.` in front of the field's name, for the table that contains `table`.
    #[must_use]
    pub fn within(self, table: &str) -> Self {
        Self { field: format!("{table}.{}", self.field), why: self.why }
    }
}
