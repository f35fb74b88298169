//! Input files of the user.

use std::path::Path;

use netrig_host::random;
use netrig_host::user_file::{self, UserFileError};

use crate::failure::Failure;

pub fn read(path: &Path) -> Result<String, Failure> {
    user_file::read_text(path, user_file::LONGEST_DATA).map_err(|error| unreadable(path, &error))
}

/// The bytes of a file. A file of more than `limit` bytes is an error.
pub fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    user_file::read(path, limit).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &UserFileError) -> Failure {
    Failure::request(format!("cannot read {}: {error}", path.display()))
}

/// A seed that cannot be guessed.
pub fn random_seed() -> Result<u64, Failure> {
    random().map(u64::from_le_bytes).map_err(|error| Failure::failed(format!("no random seed: {error}")))
}

/// The password in the environment variable `name`.
pub fn password(name: &str) -> Result<String, Failure> {
    std::env::var(name).map_err(|error| Failure::request(format!("the password in `{name}`: {error}")))
}
