//! The error of a setting.

/// An invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {why}")]
pub struct SettingError {
    /// The key in the file, below that of the application.
    pub field: &'static str,
    /// The reason why the value is invalid.
    pub why: String,
}

pub(super) fn wrong(field: &'static str, why: impl Into<String>) -> Result<(), SettingError> {
    Err(SettingError { field, why: why.into() })
}
