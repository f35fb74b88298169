//! Messages written as bytes.

use std::fmt::{self, Write as _};

use bytes::Bytes;

use super::{Message, Request, Response};
use crate::digits::Decimal;
use crate::{Name, Status};

impl Message {
    /// The message on the wire. A `Content-Length` with the length of the body is written at the position of the first
    /// such field, or at the end (RFC 3261 section 20.14: a stream needs it). All other fields are written unchanged.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = Vec::with_capacity(1024 + self.body().len());
        out.extend_from_slice(self.start_line().as_bytes());
        let length = Decimal::new(self.body().len() as u64);
        let mut has_length = false;
        for (name, value) in self.headers().iter() {
            let is_length = *name == Name::ContentLength;
            // The field is written once, where the first one stood.
            if is_length && std::mem::replace(&mut has_length, true) {
                continue;
            }
            let value = if is_length { length.as_bytes() } else { value.as_bytes() };
            push_line(name, value, &mut out);
        }
        if !has_length {
            push_line(&Name::ContentLength, length.as_bytes(), &mut out);
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(self.body());
        out.into()
    }

    fn start_line(&self) -> String {
        match self {
            Self::Request(Request { method, uri, .. }) => format!("{method} {uri} SIP/2.0\r\n"),
            Self::Response(Response { status, reason, .. }) => {
                let mut line = Vec::with_capacity(32 + reason.len());
                push_status_line(*status, reason, &mut line);
                // All parts are UTF-8.
                String::from_utf8(line).unwrap_or_default()
            }
        }
    }
}

/// Appends the status line of a response.
pub(crate) fn push_status_line(status: Status, reason: &str, out: &mut Vec<u8>) {
    let code = Decimal::new(status.code().into());
    for part in [b"SIP/2.0 ", code.as_bytes(), b" ", reason.as_bytes(), b"\r\n"] {
        out.extend_from_slice(part);
    }
}

fn push_line(name: &Name, value: &[u8], out: &mut Vec<u8>) {
    for part in [name.as_str().as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

impl Request {
    /// Length of the request on the wire, bytes, as [`Message::to_bytes`] writes it.
    pub fn wire_len(&self) -> usize {
        let mut len = Length(0);
        let written = write!(len, "{} {} SIP/2.0\r\n{}\r\n", self.method, self.uri, self.headers);
        debug_assert!(written.is_ok(), "a length has room");
        if self.headers.get(&Name::ContentLength).is_none() {
            let written = write!(len, "{}: {}\r\n", Name::ContentLength, self.body.len());
            debug_assert!(written.is_ok(), "a length has room");
        }
        len.0 + self.body.len()
    }
}

/// A writer that only counts bytes.
struct Length(usize);

impl fmt::Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

/// The message on the wire. A body that is not UTF-8 is left out.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}\r\n", self.start_line(), self.headers())?;
        f.write_str(std::str::from_utf8(self.body()).unwrap_or_default())
    }
}
