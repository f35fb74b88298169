//! Input files of the user.

use std::path::Path;

use netrig_host::user_file;

use crate::failure::Failure;

pub fn read(path: &Path) -> Result<String, Failure> {
    user_file::read_text(path, user_file::LONGEST_DATA)
        .map_err(|error| Failure::request(format!("cannot read {}: {error}", path.display())))
}
