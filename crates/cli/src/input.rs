//! Files that the user names.

use std::path::Path;

use netrig_host::user_file;

use crate::failure::Failure;

/// The contents of a file.
pub fn read(path: &Path) -> Result<String, Failure> {
    user_file::read_text(path, user_file::LONGEST_DATA)
        .map_err(|error| Failure::request(format!("cannot read {}: {error}", path.display())))
}
