//! Users by a number, or from a file.

use std::collections::BTreeSet;
use std::path::Path;

use netrig_agent::user_file;
use netrig_sip::Uri;
use netrig_sip::server::User;

use super::arguments::Users;
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
    let text = user_file::read_text(file, user_file::LONGEST_DATA)
        .map_err(|error| Failure::request(format!("cannot read the users {}: {error}", file.display())))?;
    parse(file, &text).map(Some)
}

/// Lines `name,password` or `name,password,contact`; empty ones, and those that begin with `#`, are left out.
fn parse(file: &Path, text: &str) -> Result<Vec<User>, Failure> {
    let (mut users, mut names) = (Vec::new(), BTreeSet::new());
    for (line, number) in text.lines().zip(1_u32..) {
        let wrong = |why: String| Failure::request(format!("{}:{number}: {why}", file.display()));
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let mut columns = line.trim_end().splitn(3, ',');
        let (Some(name), Some(password)) = (columns.next(), columns.next()) else {
            return Err(wrong(format!(
                "`{line}` is no user: expected `name,password` or `name,password,contact`"
            )));
        };
        if !is_user(name) {
            return Err(wrong(format!("`{name}` cannot be the user of a SIP URI")));
        }
        if !names.insert(name) {
            return Err(wrong(format!("`{name}` stands above already")));
        }
        let contact = columns.next().filter(|contact| !contact.is_empty()).map(str::to_owned);
        users.push(User { name: name.to_owned(), password: password.to_owned(), contact });
    }
    if users.is_empty() {
        return Err(Failure::request(format!("{} has no users", file.display())));
    }
    Ok(users)
}

fn is_user(name: &str) -> bool {
    let uri = format!("sip:{name}@localhost").parse::<Uri>();
    uri.is_ok_and(|uri| uri.as_sip().is_some_and(|uri| uri.user.as_deref() == Some(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(text: &str) -> Result<Vec<User>, String> {
        parse(Path::new("users.csv"), text).map_err(|failure| match failure {
            Failure::Request(why) => why,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn a_line_is_a_user() {
        let found = users("# who\nalice,zan zibar\n\nbob,,sip:bob@192.0.2.1;x=1,2\r\n").unwrap();
        let user = |name: &str, password: &str, contact: Option<&str>| User {
            name: name.into(),
            password: password.into(),
            contact: contact.map(str::to_owned),
        };
        assert_eq!(
            found,
            [user("alice", "zan zibar", None), user("bob", "", Some("sip:bob@192.0.2.1;x=1,2"))]
        );
    }

    #[test]
    fn what_is_none_is_named_with_its_line() {
        assert_eq!(users("\n\n").unwrap_err(), "users.csv has no users");
        assert!(users("a,b\nc\n").unwrap_err().starts_with("users.csv:2: `c` is no user: expected"));
        assert!(users("a@b,c\n").unwrap_err().starts_with("users.csv:1: `a@b` cannot be"));
        assert!(users("a,b\na,c\n").unwrap_err().starts_with("users.csv:2: `a` stands above"));
    }
}
