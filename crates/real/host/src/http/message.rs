//! Heads of HTTP/1.1 messages (RFC 9112): parsing and writing.

use std::fmt;
use std::io::{self, Read};

use crate::shown;

/// Maximum octets of a head.
pub const LONGEST_HEAD: usize = 16 << 10;

/// Maximum number of fields of a head.
pub const MOST_FIELDS: usize = 100;

/// Why a message is not valid HTTP/1.1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// The first line is invalid.
    #[error("the message is not HTTP/1.1: it begins with “{0}”")]
    FirstLine(String),
    /// A field is malformed.
    #[error("a field of the head is malformed: “{0}”, expected “name: value”")]
    Field(String),
    /// The head is too long.
    #[error("the head is longer than {LONGEST_HEAD} B or has more than {MOST_FIELDS} fields")]
    TooLong,
    /// The length of the body cannot be determined.
    #[error("the length of the body cannot be determined: {0}")]
    Length(String),
    /// A chunk is malformed (RFC 9112 section 7.1).
    #[error("a chunk of the body is malformed: {0}")]
    Chunk(&'static str),
}

/// Why no request was received.
#[derive(Debug, thiserror::Error)]
pub enum HttpReceiveError {
    /// The octets are not a request.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The connection failed, or ended before the request did.
    #[error(transparent)]
    Stream(#[from] io::Error),
}

/// A field's name and value.
pub type Field = (String, String);

fn owned(fields: &[(&str, &str)]) -> Vec<Field> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// Method, such as `GET`.
    pub method: String,
    /// Request target, such as `/path`.
    pub target: String,
    /// Fields in order.
    pub fields: Vec<Field>,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// Status code, such as 200.
    pub status: u16,
    /// Reason phrase.
    pub reason: String,
    /// Fields in order.
    pub fields: Vec<Field>,
}

/// How the length of a body is determined (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// A fixed number of octets.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
    /// The body ends when the connection is closed.
    UntilClose,
}

fn values<'a>(fields: &'a [Field], name: &str) -> impl Iterator<Item = &'a str> {
    fields.iter().filter(move |(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// Whether a list field contains this element, ignoring case (RFC 9110 section 5.6.1).
fn lists(fields: &[Field], name: &str, element: &str) -> bool {
    let elements = values(fields, name).flat_map(|value| value.split(','));
    elements.map(|one| one.trim_matches([' ', '\t'])).any(|one| one.eq_ignore_ascii_case(element))
}

impl HttpError {
    /// The server's response to the error.
    pub fn response(&self) -> HttpResponse {
        match self {
            Self::TooLong => HttpResponse::new(431, &[]),
            _ => HttpResponse::new(400, &[]),
        }
    }
}

impl HttpRequest {
    /// A GET request.
    pub fn get(target: &str, fields: &[(&str, &str)]) -> Self {
        Self { method: "GET".to_owned(), target: target.to_owned(), fields: owned(fields) }
    }

    /// Receives a request. Returns the request and the octets that were received after it.
    ///
    /// # Errors
    /// If the octets are not the beginning of a valid request, or the connection fails or ends.
    pub fn receive(stream: &mut impl Read) -> Result<(Self, Vec<u8>), HttpReceiveError> {
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            match stream.read(&mut buffer)? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                len => bytes.extend_from_slice(&buffer[..len]),
            }
            if let Some((request, len)) = Self::read(&bytes)? {
                return Ok((request, bytes.split_off(len)));
            }
        }
    }

    /// The first value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        values(&self.fields, name).next()
    }

    /// Whether a list field contains this element, ignoring case.
    pub fn lists(&self, name: &str, element: &str) -> bool {
        lists(&self.fields, name, element)
    }

    /// The part of the target before a `?`.
    pub fn path(&self) -> &str {
        self.target.split(['?', '#']).next().unwrap_or_default()
    }

    /// The part of the target after a `?`.
    pub fn query(&self) -> Option<&str> {
        let (_, query) = self.target.split_once('?')?;
        query.split('#').next()
    }

    /// Parses the request at the beginning of `bytes`. Returns the request and its length, or `None` if it is
    /// incomplete.
    ///
    /// # Errors
    /// If the octets are not the beginning of a valid request.
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, HttpError> {
        let head = read_head(bytes, Self::first_line)?;
        Ok(head.map(|((method, target), fields, len)| (Self { method, target, fields }, len)))
    }

    fn first_line(line: &str) -> Option<(String, String)> {
        let mut words = line.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        let is_request = is_token(method)
            && !target.is_empty()
            && matches!(version, "HTTP/1.1" | "HTTP/1.0")
            && words.next().is_none();
        is_request.then(|| (method.to_owned(), target.to_owned()))
    }
}

impl HttpResponse {
    /// A response with the usual reason phrase.
    pub fn new(status: u16, fields: &[(&str, &str)]) -> Self {
        Self { status, reason: reason(status).to_owned(), fields: owned(fields) }
    }

    /// The response of a server that is full: 503, with the time after which the client may try again.
    pub fn busy(retry_after_s: u32, why: impl fmt::Display) -> Vec<u8> {
        let retry_after = retry_after_s.to_string();
        Self::new(503, &[("Retry-After", &retry_after)]).closing(&format!("{why}\n"))
    }

    /// The encoded response with a body, after which the connection is closed.
    pub fn closing(mut self, body: &str) -> Vec<u8> {
        let length = body.len().to_string();
        self.fields.extend(owned(&[("Content-Length", &length), ("Connection", "close")]));
        format!("{self}{body}").into_bytes()
    }

    /// The first value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        values(&self.fields, name).next()
    }

    /// Whether a list field contains this element, ignoring case.
    pub fn lists(&self, name: &str, element: &str) -> bool {
        lists(&self.fields, name, element)
    }

    /// Parses the head of the response at the beginning of `bytes`. Returns the response and the length of its head, or
    /// `None` if the head is incomplete.
    ///
    /// # Errors
    /// If the octets are not the beginning of a valid response.
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, HttpError> {
        let head = read_head(bytes, Self::first_line)?;
        Ok(head.map(|((status, reason), fields, len)| (Self { status, reason, fields }, len)))
    }

    fn first_line(line: &str) -> Option<(u16, String)> {
        let rest = line.strip_prefix("HTTP/1.1 ").or_else(|| line.strip_prefix("HTTP/1.0 "))?;
        let (digits, reason) = rest.split_once(' ').unwrap_or((rest, ""));
        let is_status = digits.len() == 3 && digits.bytes().all(|digit| digit.is_ascii_digit());
        let status = digits.parse().ok().filter(|status| is_status && *status >= 100)?;
        Some((status, reason.to_owned()))
    }

    /// The framing of the body of a response to a GET (RFC 9112 section 6.3).
    ///
    /// # Errors
    /// If the length cannot be determined.
    pub fn framing(&self) -> Result<BodyFraming, HttpError> {
        if matches!(self.status, 100..200 | 204 | 304) {
            return Ok(BodyFraming::Length(0));
        }
        if let Some(coding) = self.field("transfer-encoding") {
            let others = values(&self.fields, "transfer-encoding").nth(1).is_some();
            return if coding.eq_ignore_ascii_case("chunked") && !others {
                Ok(BodyFraming::Chunked)
            } else {
                Err(HttpError::Length(format!("transfer coding “{}”, expected chunked", shown(coding))))
            };
        }
        let mut lengths = values(&self.fields, "content-length");
        let Some(length) = lengths.next() else { return Ok(BodyFraming::UntilClose) };
        let digits = !length.is_empty() && length.bytes().all(|digit| digit.is_ascii_digit());
        let number = length.parse().ok().filter(|_| digits && lengths.all(|other| other == length));
        number
            .map(BodyFraming::Length)
            .ok_or_else(|| HttpError::Length(format!("Content-Length “{}”", shown(length))))
    }
}

/// The reason phrase of a status code that the servers of this program use (RFC 9110 section 15).
const fn reason(status: u16) -> &'static str {
    match status {
        101 => "Switching Protocols",
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        426 => "Upgrade Required",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "",
    }
}

/// Parses the head of a message. Returns its first line, its fields, and its length including the empty last line, or
/// `None` if the head is incomplete. The first line is checked as soon as it is complete.
fn read_head<T>(
    bytes: &[u8],
    first_line: impl Fn(&str) -> Option<T>,
) -> Result<Option<(T, Vec<Field>, usize)>, HttpError> {
    let (mut first, mut fields, mut len) = (None, Vec::new(), 0);
    while let Some(end) = bytes[len..].iter().take(LONGEST_HEAD - len).position(|byte| *byte == b'\n') {
        // RFC 9112 section 2.2 lets a line end without CR.
        let line = &bytes[len..len + end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        len += end + 1;
        let line = String::from_utf8_lossy(line);
        match first {
            None => first = Some(first_line(&line).ok_or_else(|| HttpError::FirstLine(shown(&line)))?),
            Some(first) if line.is_empty() => return Ok(Some((first, fields, len))),
            Some(_) if fields.len() == MOST_FIELDS => return Err(HttpError::TooLong),
            Some(_) => fields.push(field(&line).ok_or_else(|| HttpError::Field(shown(&line)))?),
        }
    }
    if bytes.len() < LONGEST_HEAD { Ok(None) } else { Err(HttpError::TooLong) }
}

/// Parses `name: value` (RFC 9112 section 5). Folded lines are invalid.
fn field(line: &str) -> Option<Field> {
    let (name, value) = line.split_once(':')?;
    let value = value.trim_matches([' ', '\t']);
    let is_value = !value.contains(|letter: char| letter.is_control() && letter != '\t');
    (is_token(name) && is_value).then(|| (name.to_owned(), value.to_owned()))
}

/// Whether a text is a token (RFC 9110 section 5.6.2).
fn is_token(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_letter)
}

impl fmt::Display for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} HTTP/1.1\r\n", self.method, self.target)?;
        write_fields(f, &self.fields)
    }
}

impl fmt::Display for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP/1.1 {} {}\r\n", self.status, self.reason)?;
        write_fields(f, &self.fields)
    }
}

fn write_fields(f: &mut fmt::Formatter<'_>, fields: &[Field]) -> fmt::Result {
    fields.iter().try_for_each(|(name, value)| write!(f, "{name}: {value}\r\n"))?;
    f.write_str("\r\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn response(fields: &str) -> HttpResponse {
        let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        let (response, len) = HttpResponse::read(text.as_bytes()).unwrap().unwrap();
        assert_eq!(len, text.len());
        response
    }

    #[test]
    fn a_response_is_read_up_to_its_body() {
        let text = b"HTTP/1.1 302 Found here\r\nLocation:\thttp://a/b \nX: \r\n\r\nbody";
        let (response, len) = HttpResponse::read(text).unwrap().unwrap();
        assert_eq!((response.status, response.reason.as_str()), (302, "Found here"));
        assert_eq!((response.field("LOCATION"), response.field("x")), (Some("http://a/b"), Some("")));
        assert_eq!(&text[len..], b"body");
        assert_eq!(HttpResponse::read(&text[..len - 1]), Ok(None), "it goes on");
    }

    #[test]
    fn bodies_end_as_the_head_says() {
        let framing = |fields| response(fields).framing();
        assert_eq!(framing(""), Ok(BodyFraming::UntilClose));
        assert_eq!(framing("content-length: 12\r\n"), Ok(BodyFraming::Length(12)));
        assert_eq!(framing("Content-Length: 12\r\nContent-Length: 12\r\n"), Ok(BodyFraming::Length(12)));
        assert_eq!(framing("Content-Length: 12\r\nTransfer-Encoding: Chunked\r\n"), Ok(BodyFraming::Chunked));
        for wrong in [
            "Content-Length: 12\r\nContent-Length: 13\r\n",
            "Content-Length: +12\r\n",
            "Content-Length:\r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        ] {
            assert!(matches!(framing(wrong), Err(HttpError::Length(_))), "{wrong}");
        }
        let none = HttpResponse { status: 204, reason: String::new(), fields: Vec::new() };
        assert_eq!(none.framing(), Ok(BodyFraming::Length(0)));
    }

    #[test]
    fn what_is_no_head_is_told_at_once() {
        for wrong in
            ["HTTP/2 200\r\n", "SSH-2.0-OpenSSH\r\n", "HTTP/1.1 20 OK\r\n", "HTTP/1.1 2000\r\n", "\r\n"]
        {
            assert!(
                matches!(HttpResponse::read(wrong.as_bytes()), Err(HttpError::FirstLine(_))),
                "{wrong:?}"
            );
        }
        for wrong in ["no field\r\n", " : x\r\n", "a b: x\r\n", "A: b\r\n folded\r\n", "A: b\0c\r\n"] {
            let text = format!("HTTP/1.1 200 OK\r\n{wrong}");
            assert!(matches!(HttpResponse::read(text.as_bytes()), Err(HttpError::Field(_))), "{wrong:?}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(LONGEST_HEAD));
        assert_eq!(HttpResponse::read(endless.as_bytes()), Err(HttpError::TooLong));
        let many = format!("HTTP/1.1 200 OK\r\n{}", "A: b\r\n".repeat(MOST_FIELDS + 1));
        assert_eq!(HttpResponse::read(many.as_bytes()), Err(HttpError::TooLong));
    }

    #[test]
    fn a_request_has_three_words() {
        let (request, _) = HttpRequest::read(b"GET /a?b HTTP/1.0\r\nHost: c\r\n\r\n").unwrap().unwrap();
        assert_eq!((request.method.as_str(), request.target.as_str()), ("GET", "/a?b"));
        assert_eq!((request.path(), request.query(), request.field("host")), ("/a", Some("b"), Some("c")));
        let (request, _) = HttpRequest::read(b"GET / HTTP/1.1\r\nA: b , C\r\na: d\r\n\r\n").unwrap().unwrap();
        assert!(request.lists("a", "c") && request.lists("A", "D") && !request.lists("a", "b ,"));
        assert_eq!(request.query(), None);
        for wrong in [
            "GET /\r\n",
            "GET  / HTTP/1.1\r\n",
            "GET / HTTP/2\r\n",
            "G<T / HTTP/1.1\r\n",
            "GET / HTTP/1.1 x\r\n",
        ] {
            assert!(matches!(HttpRequest::read(wrong.as_bytes()), Err(HttpError::FirstLine(_))), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn a_message_is_read_as_it_is_written(
            status in 100u16..1000,
            reason in "[a-zA-Z ]{0,20}",
            fields in proptest::collection::vec(("[a-zA-Z-]{1,10}", "[a-z0-9]{0,10}"), 0..10),
            cut in 0usize..200,
        ) {
            let response = HttpResponse { status, reason, fields: fields.clone() };
            let text = response.to_string();
            prop_assert_eq!(HttpResponse::read(text.as_bytes()), Ok(Some((response, text.len()))));
            let cut = cut.min(text.len() - 1);
            prop_assert_eq!(HttpResponse::read(&text.as_bytes()[..cut]), Ok(None));
            let request = HttpRequest { method: "GET".into(), target: "/".into(), fields };
            let text = request.to_string();
            prop_assert_eq!(HttpRequest::read(text.as_bytes()), Ok(Some((request, text.len()))));
        }

        #[test]
        fn any_bytes_are_a_head_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (HttpRequest::read(&bytes), HttpResponse::read(&bytes));
        }
    }
}
