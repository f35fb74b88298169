//! A file of users.

use std::path::Path;

use netrig_host::user_file;
use netrig_sip::user_list::{ListedUser, UserListError, read_users};

use super::error::RequestError;

/// The users of a file. Other users of the machine must not be able to read one that has passwords.
///
/// # Errors
/// If the file cannot be read, is wrong, or has a password that others can read.
pub fn listed_users(file: &Path) -> Result<Vec<ListedUser>, RequestError> {
    let unreadable = |error| RequestError::Unreadable { file: file.to_owned(), error };
    let wrong = |why: String| RequestError::File { file: file.to_owned(), why };
    let (text, hidden) = user_file::read_guarded(file, user_file::LONGEST_DATA).map_err(unreadable)?;
    let users = read_users(&text).map_err(|error| {
        let between = if error == UserListError::Empty { " " } else { ":" };
        wrong(format!("{between}{error}"))
    })?;
    let has_password = |user: &&ListedUser| user.password.as_ref().is_some_and(|own| !own.is_empty());
    if let Some(user) = users.iter().find(has_password) {
        hidden.map_err(|error| {
            wrong(format!(":{}: the file has the password of `{}`: {error}", user.line, user.name))
        })?;
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_with_passwords_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users.csv");
        let listed = |text: &str, mode| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            listed_users(&file)
        };
        for mode in [0o644, 0o666] {
            let why = listed("bob,\nalice,zanzibar\n", mode).unwrap_err().to_string();
            assert!(
                why.contains(":2: the file has the password of `alice`: other users can read it"),
                "{why}"
            );
            assert!(why.contains(&format!("its mode is {mode:o}")) && why.contains("chmod 600"), "{why}");
        }
        assert_eq!(listed("bob,\nalice,zanzibar\n", 0o600).unwrap().len(), 2);
        for text in ["bob\nalice\n", "bob,\nalice,,sip:alice@192.0.2.1\n"] {
            assert_eq!(listed(text, 0o644).unwrap().len(), 2, "{text}");
        }
    }
}
