//! Users by a number, or from a file.

use netrig_sip::server::User;
use netrig_sip::user_list::ListedUser;
use netrig_sip_tester::request::listed_users;

use super::arguments::Users;
use crate::commands::sip::refusal::refused;
use crate::failure::Failure;

/// The most users of a pattern.
const MOST: u32 = 1_000_000;

/// Who there is; `None` is whoever comes. The users of a pattern have this password.
pub fn read(users: &Users, password: Option<&str>) -> Result<Option<Vec<User>>, Failure> {
    if let Some(count) = users.users {
        if !(1..=MOST).contains(&count) {
            return Err(Failure::request(format!("--users {count}: expected 1 to {MOST}")));
        }
        let password = password.unwrap_or_default().to_owned();
        let named =
            |number| User { name: format!("user{number:06}"), password: password.clone(), contact: None };
        return Ok(Some((0..count).map(named).collect()));
    }
    let Some(file) = &users.users_file else { return Ok(None) };
    let user = |ListedUser { name, password, contact, line }| {
        let wrong = |why: String| Failure::request(format!("{}:{line}: {why}", file.display()));
        let Some(password) = password else {
            return Err(wrong(format!(
                "`{name}` has no password: expected `name,password` or `name,password,contact`"
            )));
        };
        let user = User { name, password, contact };
        user.contact_or(None).map_err(|error| wrong(error.to_string()))?;
        Ok(user)
    };
    listed_users(file).map_err(refused)?.into_iter().map(user).collect::<Result<_, _>>().map(Some)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A server has no password in common for users without one, as a load has.
    #[test]
    fn a_user_of_a_server_has_a_password() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users.csv");
        let read_from = |text: &str| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
            let typed =
                Users { domain: Vec::new(), users: None, users_file: Some(file.clone()), max_users: 10 };
            read(&typed, None).map_err(|failure| match failure {
                Failure::Request(why) => why.replace(&file.display().to_string(), "users.csv"),
                other => panic!("{other:?}"),
            })
        };
        let found = read_from("alice,zan zibar\nbob,,sip:bob@192.0.2.1\n").unwrap().unwrap();
        assert_eq!(found[1].contact.as_deref(), Some("sip:bob@192.0.2.1"));
        assert!(read_from("alice,x\nbob\n").unwrap_err().starts_with("users.csv:2: `bob` has no password"));
        assert_eq!(read_from("# a comment\n").unwrap_err(), "users.csv has no users");
        assert!(
            read_from("alice,x\nbob,pw,extra\n")
                .unwrap_err()
                .starts_with("users.csv:2: `extra` is not a contact")
        );
    }
}
