//! The head of an HTTP/1.1 request or response (RFC 9112): as much of it as a meter's server and client need.

/// Longest head that is read, bytes: a path, a query of 4096 and some header fields.
pub const LONGEST_HEAD: usize = 16 * 1024;

/// Header fields that are read.
const MOST_FIELDS: usize = 100;

/// Why a head cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// It does not end.
    #[error("a head of more than {LONGEST_HEAD} bytes, or of more than {MOST_FIELDS} header fields")]
    TooLong,
    /// Its first line is none of HTTP/1.
    #[error("the first line is none of HTTP/1.1")]
    Line,
    /// A line is no header field.
    #[error("a line is no header field")]
    Field,
}

impl HeadError {
    /// The status with which a server answers.
    pub const fn status(self) -> Status {
        match self {
            Self::TooLong => Status(431, "Request Header Fields Too Large"),
            Self::Line | Self::Field => Status(400, "Bad Request"),
        }
    }
}

/// A response's status: its code and its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u16, pub &'static str);

/// First line and header fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    line: String,
    fields: Vec<(String, String)>,
}

impl Head {
    /// Reads a head, once it is here as a whole, and says how long it is.
    ///
    /// # Errors
    /// If it is none, or does not end.
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, HeadError> {
        const END: &[u8] = b"\r\n\r\n";
        let searched = &bytes[..bytes.len().min(LONGEST_HEAD)];
        let Some(at) = searched.windows(END.len()).position(|window| window == END) else {
            return if bytes.len() >= LONGEST_HEAD { Err(HeadError::TooLong) } else { Ok(None) };
        };
        let text = std::str::from_utf8(&bytes[..at]).map_err(|_| HeadError::Field)?;
        let mut lines = text.split("\r\n");
        let line = lines.next().filter(|line| plain(line)).ok_or(HeadError::Line)?.to_owned();
        let mut fields = Vec::new();
        for line in lines {
            if fields.len() == MOST_FIELDS {
                return Err(HeadError::TooLong);
            }
            // RFC 9112 section 5.1: no white space before the colon.
            let (name, value) = line.split_once(':').ok_or(HeadError::Field)?;
            if name.is_empty() || !name.bytes().all(is_token) || !plain(value) {
                return Err(HeadError::Field);
            }
            fields.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
        }
        Ok(Some((Self { line, fields }, at + END.len())))
    }

    /// The value of a header field; of several, the first.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.values(name).next()
    }

    /// Whether a header field that is a list has this in it, in whatever case.
    pub fn lists(&self, name: &str, element: &str) -> bool {
        let elements = self.values(name).flat_map(|value| value.split(','));
        elements.map(|element| element.trim_matches([' ', '\t'])).any(|one| one.eq_ignore_ascii_case(element))
    }

    fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.fields.iter().filter(move |(field, _)| field.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }

    /// Method, path and query of a request.
    ///
    /// # Errors
    /// If the first line is none of a request.
    pub fn request(&self) -> Result<Request<'_>, HeadError> {
        let mut words = self.line.split(' ');
        let (Some(method), Some(target), Some("HTTP/1.1"), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(HeadError::Line);
        };
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        if method.is_empty() || !method.bytes().all(is_token) || !path.starts_with('/') {
            return Err(HeadError::Line);
        }
        Ok(Request { method, path, query })
    }

    /// The status of a response.
    ///
    /// # Errors
    /// If the first line is none of a response.
    pub fn status(&self) -> Result<u16, HeadError> {
        let rest = self.line.strip_prefix("HTTP/1.1 ").ok_or(HeadError::Line)?;
        let code = rest.split(' ').next().filter(|code| code.len() == 3).ok_or(HeadError::Line)?;
        code.parse().map_err(|_| HeadError::Line)
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// `GET` and the like.
    pub method: &'a str,
    /// What, as it was written.
    pub path: &'a str,
    /// What stands behind `?`, as it was written.
    pub query: Option<&'a str>,
}

impl Status {
    /// A response that says this and ends the connection, with further header fields.
    pub fn response(self, fields: &[(&str, &str)]) -> Vec<u8> {
        let Self(code, words) = self;
        let mut head = format!("HTTP/1.1 {code} {words}\r\nConnection: close\r\nContent-Length: 0\r\n");
        for (name, value) in fields {
            head += &format!("{name}: {value}\r\n");
        }
        (head + "\r\n").into_bytes()
    }
}

/// RFC 9110 section 5.6.2.
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

/// Nothing in it moves a cursor, but for tabs.
fn plain(text: &str) -> bool {
    !text.contains(|c: char| c.is_control() && c != '\t')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ASKS: &[u8] =
        b"GET /ndt/v7/download?a=b HTTP/1.1\r\nHost: x\r\nconnection: keep-alive , upgrade\r\n\r\nmore";

    #[test]
    fn a_head_is_read_once_it_is_whole() {
        let end = ASKS.len() - 4;
        for len in 0..end {
            assert_eq!(Head::read(&ASKS[..len]), Ok(None), "{len}");
        }
        let (head, len) = Head::read(ASKS).unwrap().unwrap();
        assert_eq!(len, end);
        let expected = Request { method: "GET", path: "/ndt/v7/download", query: Some("a=b") };
        assert_eq!(head.request(), Ok(expected));
        assert_eq!((head.field("HOST"), head.field("Upgrade")), (Some("x"), None));
        assert!(head.lists("Connection", "Upgrade") && !head.lists("Connection", "close"));
        assert_eq!(head.status(), Err(HeadError::Line));
    }

    #[test]
    fn what_is_no_head_is_told() {
        for (bytes, error) in [
            (&b"GET / HTTP/1.1\r\nA b\r\n\r\n"[..], HeadError::Field),
            (b"GET / HTTP/1.1\r\nA : b\r\n\r\n", HeadError::Field),
            (b"GET / HTTP/1.1\r\n: b\r\n\r\n", HeadError::Field),
            (b"GET / HTTP/1.1\r\nA: b\n\r\n\r\n", HeadError::Field),
            (b"GET / HTTP/1.1\r\nA: \xff\r\n\r\n", HeadError::Field),
            (b"GET\x1b / HTTP/1.1\r\n\r\n", HeadError::Line),
        ] {
            assert_eq!(Head::read(bytes), Err(error), "{}", bytes.escape_ascii());
        }
        for line in
            ["GET / HTTP/1.0", "GET  / HTTP/1.1", "GET / HTTP/1.1 x", "GET x HTTP/1.1", " / HTTP/1.1", ""]
        {
            let (head, _) = Head::read(format!("{line}\r\n\r\n").as_bytes()).unwrap().unwrap();
            assert_eq!(head.request(), Err(HeadError::Line), "{line}");
        }
        let many = "a: b\r\n".repeat(MOST_FIELDS + 1);
        let many = format!("GET / HTTP/1.1\r\n{many}\r\n");
        assert_eq!(Head::read(many.as_bytes()), Err(HeadError::TooLong));
        assert_eq!(Head::read(&[b'a'; LONGEST_HEAD]), Err(HeadError::TooLong));
    }

    #[test]
    fn a_response_has_a_status() {
        let bytes = Status(426, "Upgrade Required").response(&[("Upgrade", "websocket")]);
        let (head, len) = Head::read(&bytes).unwrap().unwrap();
        assert_eq!((head.status(), len, head.field("upgrade")), (Ok(426), bytes.len(), Some("websocket")));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_head_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Some((head, len))) = Head::read(&bytes) {
                prop_assert!(len <= bytes.len());
                let _ = (head.request(), head.status());
            }
        }
    }
}
