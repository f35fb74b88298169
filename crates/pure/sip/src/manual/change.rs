//! Changes of the text of a composed message, which may break any rule, and deliberate faults.

use std::str::FromStr;

use bytes::Bytes;

use crate::Method;
use crate::fault::{Fault, FaultError};

/// A change of all requests, or of those of one method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageChange {
    method: Option<Method>,
    /// Whether the field is appended and replaces nothing.
    is_added: bool,
    name: String,
    value: String,
}

/// A text that is not a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a change: expected `Name: value`, or with a method for its requests only, such as `BYE CSeq: 9 BYE`"
)]
pub struct ChangeError(String);

impl FromStr for MessageChange {
    type Err = ChangeError;

    /// `Name: value` replaces the fields of that name, and without a value removes them. `+Name: value` appends a
    /// field. A method before the name limits the change to the requests of that method. `Request-URI` and
    /// `Request-Line` mean the first line, and `Body` the body, with `\n` for a line end.
    fn from_str(text: &str) -> Result<Self, ChangeError> {
        let wrong = || ChangeError(text.to_owned());
        let (head, value) = text.trim().split_once(':').ok_or_else(wrong)?;
        let head = head.trim();
        let (method, name) = match head.split_once(' ') {
            None => (None, head),
            Some((method, name)) => (Some(method.parse().map_err(|_| wrong())?), name.trim()),
        };
        let (is_added, name) = match name.strip_prefix('+') {
            Some(name) => (true, name),
            None => (false, name),
        };
        if name.is_empty() || name.contains([' ', '\r', '\n']) {
            return Err(wrong());
        }
        Ok(Self { method, is_added, name: name.to_owned(), value: value.trim().to_owned() })
    }
}

impl MessageChange {
    /// The same change, but it appends its field.
    #[must_use]
    pub fn added(self) -> Self {
        Self { is_added: true, ..self }
    }

    /// Whether it applies to requests of this method.
    pub fn is_of(&self, method: &Method) -> bool {
        self.method.as_ref().is_none_or(|own| own == method)
    }

    /// Applies the change to a message.
    pub fn apply(&self, message: &Bytes) -> Bytes {
        let text = String::from_utf8_lossy(message);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines: Vec<String> = head.split("\r\n").map(str::to_owned).collect();
        let mut body = body.to_owned();
        match self.name.as_str() {
            name if name.eq_ignore_ascii_case("Request-Line") => lines[0].clone_from(&self.value),
            name if name.eq_ignore_ascii_case("Request-URI") => {
                let mut words: Vec<&str> = lines[0].split(' ').collect();
                if let Some(uri) = words.get_mut(1) {
                    *uri = &self.value;
                }
                lines[0] = words.join(" ");
            }
            name if name.eq_ignore_ascii_case("Body") => {
                body = self.value.replace("\\n", "\r\n");
                set(&mut lines, "Content-Length", &body.len().to_string());
            }
            name if self.is_added => lines.push(format!("{name}: {}", self.value)),
            name => set(&mut lines, name, &self.value),
        }
        format!("{}\r\n\r\n{body}", lines.join("\r\n")).into()
    }
}

/// A deliberate [`Fault`] of all requests, or of those of one method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    method: Option<Method>,
    /// The fault.
    pub fault: Fault,
}

impl FromStr for Flaw {
    type Err = FaultError;

    /// Parses `garbled-via`, or with a method `INVITE garbled-via`.
    fn from_str(text: &str) -> Result<Self, FaultError> {
        let text = text.trim();
        let of_method = text.split_once(' ').and_then(|(method, name)| Some((method.parse().ok()?, name)));
        let (method, name) = of_method.map_or((None, text), |(method, name)| (Some(method), name.trim()));
        Ok(Self { method, fault: name.parse()? })
    }
}

impl Flaw {
    /// Whether it applies to requests of this method.
    pub fn is_of(&self, method: &Method) -> bool {
        self.method.as_ref().is_none_or(|own| own == method)
    }
}

/// Replaces all lines of that name by one at the position of the first, or at the end. An empty value only removes
/// them.
fn set(lines: &mut Vec<String>, name: &str, value: &str) {
    let is_own =
        |line: &String| line.split_once(':').is_some_and(|(own, _)| own.trim().eq_ignore_ascii_case(name));
    let place = lines.iter().skip(1).position(is_own).map_or(lines.len(), |place| place + 1);
    let mut number = 0;
    lines.retain(|line| {
        number += 1;
        number == 1 || !is_own(line)
    });
    if !value.is_empty() {
        lines.insert(place.min(lines.len()), format!("{name}: {value}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYE: &str =
        "BYE sip:b@x SIP/2.0\r\nVia: 1\r\nRoute: <sip:p>\r\nRoute: <sip:q>\r\nContent-Length: 0\r\n\r\n";

    fn changed(change: &str) -> String {
        let change: MessageChange = change.parse().unwrap();
        assert!(change.is_of(&Method::Bye));
        String::from_utf8(change.apply(&Bytes::from(BYE)).to_vec()).unwrap()
    }

    #[test]
    fn a_change_is_made_and_nothing_else() {
        assert_eq!(changed("via: 2"), BYE.replace("Via: 1", "via: 2"));
        assert_eq!(changed("BYE Route: <sip:r>"), BYE.replace("<sip:p>\r\nRoute: <sip:q>", "<sip:r>"));
        assert_eq!(changed("Route:"), BYE.replace("Route: <sip:p>\r\nRoute: <sip:q>\r\n", ""));
        assert_eq!(changed("+Via: 2"), BYE.replace(": 0", ": 0\r\nVia: 2"));
        assert_eq!(changed("X: y:z"), BYE.replace(": 0", ": 0\r\nX: y:z"));
        assert_eq!(changed("Request-URI: tel:1"), BYE.replace("sip:b@x", "tel:1"));
        assert_eq!(changed("Request-Line: HELLO"), BYE.replace("BYE sip:b@x SIP/2.0", "HELLO"));
        assert_eq!(changed("Body: a\\nb"), BYE.replace(": 0", ": 4") + "a\r\nb");
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in ["Via", ": x", "a b c: x", ""] {
            assert!(text.parse::<MessageChange>().is_err(), "{text}");
        }
        for text in ["", "no-fault", "HELLO", "INVITE", "INVITE no-fault"] {
            assert!(text.parse::<Flaw>().is_err(), "{text}");
        }
        let flaw: Flaw = "INVITE garbled-via".parse().unwrap();
        assert_eq!((flaw.fault, flaw.is_of(&Method::Bye)), (Fault::GarbledVia, false));
        assert!("garbled-via".parse::<Flaw>().unwrap().is_of(&Method::Bye));
        let of_invites: MessageChange = "INVITE To: x".parse().unwrap();
        assert!(!of_invites.is_of(&Method::Bye));
    }
}
