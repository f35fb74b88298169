//! Bodies of several parts (RFC 2046 section 5.1), and the session description among them (RFC 5621).

use crate::sdp::SDP_TYPE;
use crate::{Headers, Name};

/// The session description of a message's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionBody<'a> {
    /// The session description, unchanged.
    Description(&'a [u8]),
    /// There is no session description, or a required part has an unknown type: 415.
    NotUnderstood,
    /// The parts break the grammar: 400.
    Malformed,
}

/// The session description in a body of this type: the whole body, or one of its parts.
pub fn session_body<'a>(content_type: &str, body: &'a [u8]) -> SessionBody<'a> {
    let essence = essence(content_type);
    if essence.eq_ignore_ascii_case(SDP_TYPE) {
        return SessionBody::Description(body);
    }
    let is_mixed = essence.eq_ignore_ascii_case(MIXED_TYPE);
    if !is_mixed && !essence.eq_ignore_ascii_case(ALTERNATIVE_TYPE) {
        return SessionBody::NotUnderstood;
    }
    let Some(parts) = boundary(content_type).and_then(|boundary| parts(&boundary, body)) else {
        return SessionBody::Malformed;
    };
    let is_session = |part: &&BodyPart<'_>| {
        essence_of(part).eq_ignore_ascii_case(SDP_TYPE) && part.is_plain() && part.is_of_session()
    };
    // If a required part has an unknown type, the whole message is refused (RFC 3261 section 8.2.3).
    let is_in_the_way = |part: &BodyPart<'_>| is_mixed && !is_session(&part) && part.is_required();
    // The last alternative of a known type is the best (RFC 2046 section 5.1.4).
    let found = if is_mixed { parts.iter().find(is_session) } else { parts.iter().rfind(is_session) };
    match found {
        Some(session) if !parts.iter().any(is_in_the_way) => SessionBody::Description(session.body),
        _ => SessionBody::NotUnderstood,
    }
}

/// The type of a body of several independent parts.
pub(crate) const MIXED_TYPE: &str = "multipart/mixed";

/// The type of a body with alternatives of the same content.
pub(crate) const ALTERNATIVE_TYPE: &str = "multipart/alternative";

/// A part of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BodyPart<'a> {
    headers: Headers,
    body: &'a [u8],
}

impl BodyPart<'_> {
    /// Whether the part has no transfer encoding that changes its bytes.
    fn is_plain(&self) -> bool {
        let encoding = self.headers.get(&Name::new("Content-Transfer-Encoding")).unwrap_or("binary");
        ["binary", "8bit", "7bit"].iter().any(|plain| encoding.trim().eq_ignore_ascii_case(plain))
    }

    /// Whether the disposition is `session`, the default of a session description (RFC 3261 section 20.11).
    fn is_of_session(&self) -> bool {
        let disposition = self.headers.get(&Name::new("Content-Disposition")).unwrap_or("session");
        essence(disposition).eq_ignore_ascii_case("session")
    }

    fn is_required(&self) -> bool {
        is_required(&self.headers)
    }
}

/// Whether the recipient must know the type of a body with these header fields: yes without `handling=optional` (RFC 3261
/// section 20.11).
pub(crate) fn is_required(headers: &Headers) -> bool {
    let disposition = headers.get(&Name::new("Content-Disposition")).unwrap_or_default();
    !disposition.split(';').skip(1).any(|parameter| {
        let mut words = parameter.splitn(2, '=').map(str::trim);
        let is = |word: Option<&str>, wanted| word.is_some_and(|word| word.eq_ignore_ascii_case(wanted));
        is(words.next(), "handling") && is(words.next(), "optional")
    })
}

/// A media type without its parameters.
pub(crate) fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// The type of a part; plain text if none is given (RFC 2046 section 5.1).
fn essence_of<'a>(part: &'a BodyPart<'_>) -> &'a str {
    essence(part.headers.get(&Name::ContentType).unwrap_or("text/plain"))
}

/// The `boundary` of a type, without quotation marks.
fn boundary(content_type: &str) -> Option<String> {
    let mut parameters = content_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let (_, value) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"))?;
    let value = value.trim();
    let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    // RFC 2046 section 5.1.1 allows at most 70 characters.
    (1..=70).contains(&value.len()).then(|| value.to_owned())
}

/// The parts of a body; `None` without a closing delimiter.
fn parts<'a>(boundary: &str, body: &'a [u8]) -> Option<Vec<BodyPart<'a>>> {
    let delimiter = format!("--{boundary}");
    let mut parts = Vec::new();
    let mut part: Option<usize> = None;
    let mut at = 0;
    while at < body.len() {
        let end = memchr::memchr(b'\n', &body[at..]).map_or(body.len(), |found| at + found + 1);
        let line = body[at..end].trim_ascii_end();
        let mark = line.strip_prefix(delimiter.as_bytes());
        if let Some(mark) = mark.filter(|mark| matches!(mark.trim_ascii(), b"" | b"--")) {
            // The line end before a delimiter belongs to the delimiter.
            let before = body[..at].strip_suffix(b"\n").unwrap_or(&body[..at]);
            let before = before.strip_suffix(b"\r").unwrap_or(before);
            if let Some(start) = part {
                parts.push(read_part(before.get(start..).unwrap_or_default())?);
            }
            if mark.trim_ascii() == b"--" {
                return Some(parts);
            }
            part = Some(end);
        }
        at = end;
    }
    None
}

/// Reads a part: header fields, an empty line, and its body.
fn read_part(text: &[u8]) -> Option<BodyPart<'_>> {
    let mut headers = Headers::default();
    let mut last: Option<(Name, String)> = None;
    let mut at = 0;
    while at < text.len() {
        let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |found| at + found + 1);
        let line = std::str::from_utf8(&text[at..end]).ok()?.trim_end();
        at = end;
        if line.is_empty() {
            break;
        }
        // RFC 2046 section 5.1 refers to RFC 822 for header fields: a line that begins with white space continues the field
        // before it (RFC 5322 section 2.2.3).
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = &mut last {
                value.push(' ');
                value.push_str(line.trim_start());
            }
            continue;
        }
        let field =
            line.split_once(':').map(|(name, value)| (Name::new(name.trim_end()), value.trim().to_owned()));
        if let Some((name, value)) = std::mem::replace(&mut last, field) {
            headers.push(name, value);
        }
    }
    if let Some((name, value)) = last {
        headers.push(name, value);
    }
    Some(BodyPart { headers, body: &text[at..] })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDP: &str = "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\n";

    fn mixed(second: &str) -> String {
        format!(
            "preamble\r\n--b 1\r\nContent-Type: Application/SDP; charset=utf-8\r\n\r\n{SDP}\r\n--b 1\r\n{second}\r\n\r\n--b 1 x\r\n\
             text\r\n--b 1-- \r\nepilogue"
        )
    }

    #[test]
    fn the_session_description_is_found_among_the_parts() {
        let kind = "Multipart/Mixed; Boundary=\"b 1\"";
        let optional = "Content-Type: text/x\r\nContent-Disposition: render; handling=Optional";
        let found = SessionBody::Description(SDP.as_bytes());
        assert_eq!(session_body(kind, mixed(optional).as_bytes()), found);
        assert_eq!(session_body("application/sdp;x=1", SDP.as_bytes()), found);
        for (kind, body, found) in [
            // Without `handling=optional` the part is required.
            (kind, mixed("Content-Type: text/x"), SessionBody::NotUnderstood),
            ("multipart/alternative;boundary=\"b 1\"", mixed("Content-Type: text/x"), found),
            (kind, mixed(optional).replace("SDP", "x"), SessionBody::NotUnderstood),
            (
                kind,
                mixed(optional).replace("charset=utf-8", "a=b\r\nContent-Disposition: early-session"),
                SessionBody::NotUnderstood,
            ),
            (
                kind,
                mixed(optional).replace("charset=utf-8", "a=b\r\nContent-Transfer-Encoding: base64"),
                SessionBody::NotUnderstood,
            ),
            (kind, mixed(optional).replace("--b 1-- ", "--b 1"), SessionBody::Malformed),
            ("multipart/mixed", mixed(optional), SessionBody::Malformed),
            ("multipart/mixed;boundary=\"\"", mixed(optional), SessionBody::Malformed),
            ("multipart/mixed;boundary=other", mixed(optional), SessionBody::Malformed),
            ("multipart/signed;boundary=\"b 1\"", mixed(optional), SessionBody::NotUnderstood),
            ("text/plain", SDP.to_owned(), SessionBody::NotUnderstood),
        ] {
            assert_eq!(session_body(kind, body.as_bytes()), found, "{kind}: {body}");
        }
        // The last alternative is the best.
        let two = "--x\n\nv\n--x\nContent-Type: application/sdp\n\nv=0\n--x\nContent-Type: application/sdp\n\nv=1\n--x--";
        for (kind, best) in [("alternative", b"v=1"), ("mixed", b"v=0")] {
            let optional = two.replace("--x\n\nv", "--x\nContent-Disposition: a;handling=optional\n\nv");
            let found = session_body(&format!("multipart/{kind};boundary=x"), optional.as_bytes());
            assert_eq!(found, SessionBody::Description(best));
        }
        // Line ends without CR are accepted, and parts may be empty.
        let body = "--x\n\n\n--x\nContent-Type: application/sdp\n\nv=0\n--x--";
        assert_eq!(
            session_body("multipart/alternative;boundary=x", body.as_bytes()),
            SessionBody::Description(b"v=0")
        );
    }

    #[test]
    fn folded_header_fields_of_parts_are_whole() {
        let kind = "multipart/mixed;boundary=\"b 1\"";
        let found = SessionBody::Description(SDP.as_bytes());
        for second in [
            "Content-Type: text/x\r\nContent-Disposition: render;\r\n handling=optional",
            "Content-Disposition:\r\n\trender;\r\n\thandling=optional\r\nContent-Type: text/x",
            "\tno field before\r\nContent-Disposition: render;handling\r\n =optional;\r\n a=b",
        ] {
            assert_eq!(session_body(kind, mixed(second).as_bytes()), found, "{second}");
        }
        let required = mixed("Content-Disposition: render;\r\n handling=required\r\nContent-Type: text/x");
        assert_eq!(session_body(kind, required.as_bytes()), SessionBody::NotUnderstood);
        let folded = "--x\nContent-Type:\n application/sdp;\n\ta=b\n\nv=0\n--x--";
        assert_eq!(
            session_body("multipart/mixed;boundary=x", folded.as_bytes()),
            SessionBody::Description(b"v=0")
        );
    }

    proptest::proptest! {
        /// No input makes the reader panic.
        #[test]
        fn any_body_is_read(kind in ".{0,40}", body: Vec<u8>) {
            for kind in [format!("multipart/mixed;boundary={kind}"), kind] {
                session_body(&kind, &body);
                let dashed = [&b"--"[..], &body, b"\r\n--", &body, b"--"].concat();
                session_body(&kind, &dashed);
            }
        }
    }
}
