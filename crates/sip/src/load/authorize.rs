//! Answers to challenges, as lines of a request.

use super::scan::{Field, Scan};
use super::text::put_unfolded;
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
    // Of several "the topmost header field that it supports" (RFC 8760 section 2.4).
    let (challenge, name) =
        [(Field::WwwAuthenticate, Name::Authorization), (Field::ProxyAuthenticate, Name::ProxyAuthorization)]
            .into_iter()
            .find_map(|(field, name)| {
                scan.all(field).find_map(challenge).map(|challenge| (challenge, name))
            })?;
    let [uri, cnonce, user, password] =
        [uri, cnonce, credentials.name, credentials.password].map(|bytes| std::str::from_utf8(bytes).ok());
    if !first && !challenge.stale {
        return None;
    }
    let answer = Session::new(challenge, user?, password?).answer(method, uri?, b"", cnonce?);
    Some(format!("{name}: {}\r\n", answer.write()).into_bytes())
}

/// A challenge as it stands in a response, often in several lines, if it is one that can be answered.
fn challenge(value: &[u8]) -> Option<Challenge> {
    let mut line = Vec::with_capacity(value.len());
    put_unfolded(value, &mut line);
    let text = std::str::from_utf8(&line).ok()?;
    let challenge = header::Challenge::read(&mut Cursor::new(text, "RFC 3261 section 20.44")).ok()?;
    Challenge::read(&challenge).ok()
}
