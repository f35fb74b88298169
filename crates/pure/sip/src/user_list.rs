//! Files of users: a line for each, `name,password` or `name,password,contact`.
//!
//! A field with a comma is in quotation marks; spaces are part of a password (RFC 4180). A byte order mark, empty lines and
//! lines that begin with `#` are ignored. If the first line is SIPp's order of use (`SEQUENTIAL`, `RANDOM` or `USER`), it is
//! ignored too, and fields are separated by semicolons.

use std::collections::BTreeMap;

use csv::{ReaderBuilder, StringRecord};

use crate::Uri;

/// Buffer of the reader, bytes: about one line.
const LINE: usize = 256;

/// A user of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedUser {
    /// The user part of the URI, with its escapes (RFC 3261 section 25.1).
    pub name: String,
    /// The password, if the line has a second column.
    pub password: Option<String>,
    /// Line number, from 1.
    pub line: u64,
    /// The contact, if the line has a third column that is not empty.
    pub contact: Option<String>,
}

/// A file is not a list of users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserListError {
    /// No line names a user.
    #[error("has no users")]
    Empty,
    /// A line does not name a user.
    #[error("{line}: {fault}")]
    Line {
        /// Line number, from 1.
        line: u64,
        /// The defect of the line.
        fault: UserFault,
    },
}

/// The defect of a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserFault {
    /// A quotation mark without a second one.
    #[error("a quotation mark is not closed: one within a field is written twice")]
    OpenQuotation,
    /// The line is not valid CSV.
    #[error("the line is not valid CSV")]
    Unreadable,
    /// The first column cannot be the user part of a SIP URI.
    #[error("`{0}` cannot be the user of a SIP URI{hint}", hint = hint(.0))]
    Name(String),
    /// The same name is in an earlier line.
    #[error("`{name}` is in line {line} already")]
    Repeated {
        /// The name.
        name: String,
        /// The earlier line, from 1.
        line: u64,
    },
}

/// All users of a file. Names are unique.
///
/// # Errors
/// If a line does not name a user, or if no line does.
pub fn read_users(text: &str) -> Result<Vec<ListedUser>, UserListError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_note = |line: &str| line.trim().is_empty() || line.starts_with('#');
    let mut lines = text.lines().zip(1..).filter(|(line, _)| !is_note(line)).peekable();
    let is_of_sipp = lines
        .next_if(|(line, _)| matches!(line.trim().split(',').next(), Some("SEQUENTIAL" | "RANDOM" | "USER")))
        .is_some();
    let mut reader = ReaderBuilder::new();
    reader.has_headers(false).buffer_capacity(LINE).delimiter(if is_of_sipp { b';' } else { b',' });
    let (mut users, mut seen) = (Vec::new(), BTreeMap::new());
    for (text, line) in lines {
        let wrong = |fault| Err(UserListError::Line { line, fault });
        if text.matches('"').count() % 2 == 1 {
            return wrong(UserFault::OpenQuotation);
        }
        let mut fields = StringRecord::new();
        if reader.from_reader(text.as_bytes()).read_record(&mut fields).is_err() || fields.is_empty() {
            return wrong(UserFault::Unreadable);
        }
        let name = fields[0].trim();
        if !is_user(name) {
            return wrong(UserFault::Name(name.to_owned()));
        }
        if let Some(before) = seen.insert(name.to_owned(), line) {
            return wrong(UserFault::Repeated { name: name.to_owned(), line: before });
        }
        let rest: Vec<&str> = fields.iter().skip(2).collect();
        let contact = rest.join(if is_of_sipp { ";" } else { "," });
        users.push(ListedUser {
            line,
            name: name.to_owned(),
            password: fields.get(1).map(str::to_owned),
            contact: Some(contact.trim().to_owned()).filter(|contact| !contact.is_empty()),
        });
    }
    if users.is_empty() { Err(UserListError::Empty) } else { Ok(users) }
}

/// Whether the name can be a user part without escapes. The grammar allows a semicolon (RFC 3261 section 25.1), but
/// here a semicolon shows that the file has other separators.
fn is_user(name: &str) -> bool {
    let uri = format!("sip:{name}@localhost").parse::<Uri>();
    uri.is_ok_and(|uri| uri.as_sip().is_some_and(|uri| uri.user.as_deref() == Some(name)))
        && !name.contains(';')
}

fn hint(name: &str) -> &'static str {
    match name {
        _ if name.contains(';') => {
            ": expected `name,password`, or a file of SIPp, whose first line is SEQUENTIAL, RANDOM or USER"
        }
        _ if name.contains('@') => ": expected the part before the `@` alone; --domain says the other",
        _ => {
            ": any other character than letters, digits and -_.!~*'()&=+$,?/ is written as % and two hexadecimal digits"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(line: u64, name: &str, password: Option<&str>, contact: Option<&str>) -> ListedUser {
        ListedUser {
            line,
            name: name.to_owned(),
            password: password.map(str::to_owned),
            contact: contact.map(str::to_owned),
        }
    }

    #[test]
    fn a_line_is_a_user() {
        let text = "\u{feff}# who\r\nalice,zan zibar\r\n\r\n   \r\nbob,,sip:bob@192.0.2.1;x=1,2\r\n\
                    \"carol\",\"p,w \"\"x\"\"\"\n# dave,off\nerin\n+39021234,p;w\n";
        assert_eq!(
            read_users(text).unwrap(),
            [
                user(2, "alice", Some("zan zibar"), None),
                user(5, "bob", Some(""), Some("sip:bob@192.0.2.1;x=1,2")),
                user(6, "carol", Some("p,w \"x\""), None),
                user(8, "erin", None, None),
                user(9, "+39021234", Some("p;w"), None),
            ]
        );
    }

    #[test]
    fn users_of_sipp_have_semicolons() {
        let found =
            read_users("# made\nSEQUENTIAL,PRINTF=2\nann;pw\nben;p,w;sip:ben@192.0.2.1;transport=tcp\n")
                .unwrap();
        let contact = Some("sip:ben@192.0.2.1;transport=tcp");
        assert_eq!(found, [user(3, "ann", Some("pw"), None), user(4, "ben", Some("p,w"), contact)]);
    }

    #[test]
    fn a_line_that_is_no_user_is_told_by_its_number() {
        for (text, said) in [
            ("", "has no users"),
            ("# a,b\n\n", "has no users"),
            ("SEQUENTIAL\n", "has no users"),
            (
                "a,b\n\nuser4;pw;x\n",
                "3: `user4;pw;x` cannot be the user of a SIP URI: expected `name,password`",
            ),
            ("a,b\nüser6,pw\n", "2: `üser6` cannot be the user of a SIP URI: any other"),
            ("two words,pw\n", "1: `two words` cannot be"),
            (
                "user8@example.com,pw\n",
                "1: `user8@example.com` cannot be the user of a SIP URI: expected the part",
            ),
            ("a,b\n,c\n", "2: `` cannot be"),
            ("a,b\n\"c,d\n", "2: a quotation mark is not closed"),
            ("a,b\n# x\na,c\n", "3: `a` is in line 1 already"),
        ] {
            let error = read_users(text).unwrap_err().to_string();
            assert!(error.starts_with(said), "{text}: {error}");
        }
    }
}
