//! Messages as bytes.

use std::fmt;

use bytes::Bytes;

use super::{Message, Request, Response};
use crate::{Headers, Name};

impl Message {
    /// As it goes on the wire. `Content-Length` is set to what the body has, wherever it stands or at the end (RFC 3261
    /// section 20.14: a stream needs it); all else is written as it is.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = Vec::with_capacity(512 + self.body().len());
        out.extend_from_slice(self.start_line().as_bytes());
        let length = self.body().len();
        let mut headers: Headers = self.headers().clone();
        if !headers.all(&Name::ContentLength).eq([length.to_string().as_str()]) {
            headers.set(Name::ContentLength, length);
        }
        out.extend_from_slice(headers.to_string().as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(self.body());
        out.into()
    }

    fn start_line(&self) -> String {
        match self {
            Self::Request(Request { method, uri, .. }) => format!("{method} {uri} SIP/2.0\r\n"),
            Self::Response(Response { status, reason, .. }) => format!("SIP/2.0 {status} {reason}\r\n"),
        }
    }
}

/// As it stands on the wire, for people: a body that is no text is left out.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}\r\n", self.start_line(), self.headers())?;
        f.write_str(std::str::from_utf8(self.body()).unwrap_or_default())
    }
}
