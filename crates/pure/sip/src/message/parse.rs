//! Parsing of messages, strictly by the grammar of RFC 3261 section 25.

use bytes::Bytes;
use memchr::memchr2;

use super::{Message, Request, Response};
use crate::error::ParseError;
use crate::grammar::is_a_token;
use crate::{Headers, Name, Status, Uri};

/// Most header fields of a message. Real messages have far fewer.
pub const MOST_HEADERS: usize = 512;

const START_LINE: &str = "RFC 3261 section 7.1";
const HEADERS: &str = "RFC 3261 section 7.3.1";

impl Message {
    /// Parses a datagram with one message. If the message has a `Content-Length`, bytes after the body are ignored (RFC 3261
    /// section 18.3). Empty lines before the message are skipped (section 7.5).
    ///
    /// Values of header fields are kept unchanged. Their grammar is checked when a value is read, or by
    /// [`Message::violations`].
    ///
    /// # Errors
    /// If the start line or the header fields break the grammar, or if the body is shorter than its `Content-Length`.
    pub fn parse(datagram: &Bytes) -> Result<Self, ParseError> {
        let skipped = datagram.chunks(2).take_while(|line| *line == b"\r\n").count() * 2;
        let message = datagram.slice(skipped..);
        let head = head_length(&message).ok_or(ParseError {
            at: datagram.len(),
            expected: "an empty line after the header fields",
            rule: "RFC 3261 section 7",
        })?;
        let text = std::str::from_utf8(&message[..head]).map_err(|error| ParseError {
            at: skipped + error.valid_up_to(),
            expected: "UTF-8",
            rule: "RFC 3261 section 7",
        })?;
        Self::read(text, &message, head).map_err(|error| error.moved(skipped))
    }

    fn read(head: &str, message: &Bytes, head_length: usize) -> Result<Self, ParseError> {
        let (line, rest) = line(head, 0)?;
        let start = start_line(line)?;
        let headers = headers(head, rest)?;
        let body = body(&headers, message.slice(head_length..), head_length)?;
        Ok(match start {
            StartLine::Request(method, uri) => Self::Request(Request { method, uri, headers, body }),
            StartLine::Status(status, reason) => Self::Response(Response { status, reason, headers, body }),
        })
    }
}

/// Length of the head, bytes: up to and including the empty line after the header fields.
pub(crate) fn head_length(message: &[u8]) -> Option<usize> {
    memchr::memmem::find(message, b"\r\n\r\n").map(|place| place + 4)
}

enum StartLine {
    Request(crate::Method, Uri),
    Status(Status, String),
}

/// The line at `at` without its end, and the start of the next line.
pub(crate) fn line(text: &str, at: usize) -> Result<(&str, usize), ParseError> {
    let rest = &text[at..];
    // "The start-line, each message-header line, and the empty line MUST be terminated by a carriage-return line-feed
    // sequence (CRLF)." (RFC 3261 section 7)
    match memchr2(b'\r', b'\n', rest.as_bytes()) {
        None => Ok((rest, at + rest.len() + 2)),
        Some(end) if rest[end..].starts_with("\r\n") => Ok((&rest[..end], at + end + 2)),
        Some(place) => Err(ParseError {
            at: at + place,
            expected: "CR LF at the end of a line",
            rule: "RFC 3261 section 7",
        }),
    }
}

fn start_line(line: &str) -> Result<StartLine, ParseError> {
    let error = |at: usize, expected: &'static str| ParseError { at, expected, rule: START_LINE };
    // Only a status line begins with `SIP/`: no method has a slash.
    if let Some(prefix) = line.get(..4).filter(|prefix| prefix.eq_ignore_ascii_case("SIP/")) {
        let (version, rest) =
            line.split_once(' ').ok_or_else(|| error(line.len(), "a space after the version"))?;
        if version[prefix.len()..] != *"2.0" {
            return Err(error(prefix.len(), "version 2.0"));
        }
        let at = version.len() + 1;
        let (code, reason) =
            rest.split_once(' ').ok_or_else(|| error(line.len(), "a space after the status code"))?;
        let is_code = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
        let status = code.parse().ok().filter(|_| is_code).and_then(Status::new);
        let status = status.ok_or_else(|| error(at, "a status code from 100 to 699"))?;
        return Ok(StartLine::Status(status, reason.to_owned()));
    }
    let (method, rest) = line.split_once(' ').ok_or_else(|| error(line.len(), "a space after the method"))?;
    let method_is = method.parse()?;
    let at = method.len() + 1;
    let (uri, version) =
        rest.split_once(' ').ok_or_else(|| error(line.len(), "a space after the Request-URI"))?;
    let uri: Uri = uri.parse().map_err(|error: ParseError| error.moved(at))?;
    if !version.eq_ignore_ascii_case("SIP/2.0") {
        return Err(error(at + rest.len() - version.len(), "`SIP/2.0`"));
    }
    Ok(StartLine::Request(method_is, uri))
}

fn headers(head: &str, mut at: usize) -> Result<Headers, ParseError> {
    let error = |at: usize, expected: &'static str| ParseError { at, expected, rule: HEADERS };
    let mut headers = Headers::default();
    loop {
        let (first, mut next) = line(head, at)?;
        if first.is_empty() {
            return Ok(headers);
        }
        let colon =
            first.find(':').ok_or_else(|| error(at + first.len(), "`:` after the name of a header field"))?;
        // HCOLON = *( SP / HTAB ) ":" SWS
        let name = first[..colon].trim_end_matches([' ', '\t']);
        if !is_a_token(name) {
            return Err(error(at, "the name of a header field"));
        }
        if headers.len() == MOST_HEADERS {
            return Err(error(at, "at most 512 header fields"));
        }
        let mut value = first[colon + 1..].trim_matches([' ', '\t']).to_owned();
        // "Header fields can be extended over multiple lines by preceding each extra line with at least one SP or
        // horizontal tab" (RFC 3261 section 7.3.1): a fold means one space.
        while head[next.min(head.len())..].starts_with([' ', '\t']) {
            let (more, after) = line(head, next)?;
            let more = more.trim_matches([' ', '\t']);
            if !value.is_empty() && !more.is_empty() {
                value.push(' ');
            }
            value.push_str(more);
            next = after;
        }
        headers.push(Name::new(name), value);
        at = next;
    }
}

fn body(headers: &Headers, rest: Bytes, at: usize) -> Result<Bytes, ParseError> {
    match headers.number(&Name::ContentLength)? {
        None => Ok(rest),
        Some(length) => match usize::try_from(length) {
            Ok(length) if length <= rest.len() => Ok(rest.slice(..length)),
            // RFC 3261 section 18.3: a message that ends before its body does is discarded.
            _ => Err(ParseError {
                at: at + rest.len(),
                expected: "as many bytes as Content-Length says",
                rule: "RFC 3261 section 18.3",
            }),
        },
    }
}
