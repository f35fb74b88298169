//! Answers to challenges, as lines of a request.

use super::scan::Scan;
use crate::digest::{Challenge, Session};
use crate::grammar::Cursor;
use crate::{Method, Name, header};

/// Who answers.
pub(super) struct Credentials<'a> {
    pub(super) name: &'a [u8],
    pub(super) password: &'a [u8],
}

/// The line that answers a response's challenge; `None` if there is none that can be answered, or if it is not the
/// `first` and does not say that the last answer was only too old. `cnonce` is the client's nonce: a text that no other
/// request has.
pub(super) fn authorize(
    scan: &Scan<'_>,
    credentials: &Credentials<'_>,
    method: &Method,
    uri: &[u8],
    cnonce: &[u8],
    first: bool,
) -> Option<Vec<u8>> {
    let (value, name) = match (scan.www_authenticate, scan.proxy_authenticate) {
        (Some(value), _) => (value, Name::Authorization),
        (None, value) => (value?, Name::ProxyAuthorization),
    };
    let [value, uri, cnonce, user, password] = [value, uri, cnonce, credentials.name, credentials.password]
        .map(|bytes| std::str::from_utf8(bytes).ok());
    let challenge = header::Challenge::read(&mut Cursor::new(value?, "RFC 3261 section 20.44")).ok()?;
    let challenge = Challenge::read(&challenge).ok()?;
    if !first && !challenge.stale {
        return None;
    }
    let answer = Session::new(challenge, user?, password?).answer(method, uri?, b"", cnonce?);
    Some(format!("{name}: {}\r\n", answer.write()).into_bytes())
}
