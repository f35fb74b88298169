//! Errors in the description of a line.

use netrig_core::SettingsError;

/// Returns the error `why` about `field` unless `holds` is true.
pub(crate) fn ensure(holds: bool, field: &str, why: &str) -> Result<(), SettingsError> {
    if holds { Ok(()) } else { Err(SettingsError::new(field, why)) }
}

/// Fails unless `name` is a valid name of a rule or a class.
pub(crate) fn check_name(name: &str) -> Result<(), SettingsError> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    let why = "must be up to 64 letters, digits, `_` and `-`";
    ensure(!name.is_empty() && name.len() <= 64 && name.bytes().all(fine), "name", why)
}
