//! Users from a file.

use std::path::{Path, PathBuf};

use netrig_host::user_file::{self, UserFileError};
use netrig_sip::server::{RoleError, User};
use netrig_sip::user_list::{ListedUser, UserListError, read_users};

/// Why a file of users cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// It cannot be read.
    #[error("cannot read the users {}: {}", .0.display(), .1)]
    File(PathBuf, UserFileError),
    /// It has no users.
    #[error("{} {}", .0.display(), UserListError::Empty)]
    Empty(PathBuf),
    /// A line names no user.
    #[error("{}:{}", .0.display(), .1)]
    Line(PathBuf, UserListError),
    /// The file has the password of a user in this line, and other users of the machine can read the file.
    #[error("{}:{}: the file has the password of `{}`: {}", .0.display(), .1, .2, .3)]
    Open(PathBuf, u64, String, UserFileError),
    /// The user of a line has no password, which a server needs.
    #[error("{}:{}: `{}` has no password: expected `name,password` or `name,password,contact`", .0.display(), .1, .2)]
    NoPassword(PathBuf, u64, String),
    /// The contact of a line is no URI.
    #[error("{}:{}: {}", .0.display(), .1, .2)]
    Contact(PathBuf, u64, RoleError),
}

/// The users of a file. Other users of the machine must not be able to read a file with passwords.
///
/// # Errors
/// If the file cannot be read, is no list of users, or others can read the passwords in it.
pub fn listed_users(file: &Path) -> Result<Vec<ListedUser>, UsersError> {
    let (text, hidden) = user_file::read_guarded(file, user_file::LONGEST_DATA)
        .map_err(|error| UsersError::File(file.to_owned(), error))?;
    let users = read_users(&text).map_err(|error| match error {
        UserListError::Empty => UsersError::Empty(file.to_owned()),
        error => UsersError::Line(file.to_owned(), error),
    })?;
    if let Some(user) = users.iter().find(|user| user.password.as_ref().is_some_and(|own| !own.is_empty())) {
        hidden.map_err(|error| UsersError::Open(file.to_owned(), user.line, user.name.clone(), error))?;
    }
    Ok(users)
}

/// The users of a server. Each needs its own password: unlike a load, a server has no common password for users without
/// one.
///
/// # Errors
/// The errors of [`listed_users`]; also if a user has no password, or its contact is no URI.
pub fn users_of_server(file: &Path) -> Result<Vec<User>, UsersError> {
    let user = |ListedUser { name, password, contact, line }| {
        let Some(password) = password else {
            return Err(UsersError::NoPassword(file.to_owned(), line, name));
        };
        let user = User { name, password, contact };
        user.contact_or(None).map_err(|error| UsersError::Contact(file.to_owned(), line, error))?;
        Ok(user)
    };
    listed_users(file)?.into_iter().map(user).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_user_of_a_server_has_a_password() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users.csv");
        let read_from = |text: &str| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
            users_of_server(&file)
                .map_err(|error| error.to_string().replace(&file.display().to_string(), "users.csv"))
        };
        let found = read_from("alice,zan zibar\nbob,,sip:bob@192.0.2.1\n").unwrap();
        assert_eq!(found[1].contact.as_deref(), Some("sip:bob@192.0.2.1"));
        assert!(read_from("alice,x\nbob\n").unwrap_err().starts_with("users.csv:2: `bob` has no password"));
        assert_eq!(read_from("# a comment\n").unwrap_err(), "users.csv has no users");
        assert!(
            read_from("alice,x\nbob,pw,extra\n")
                .unwrap_err()
                .starts_with("users.csv:2: `extra` is not a contact")
        );
    }

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
