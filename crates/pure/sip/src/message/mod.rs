//! Requests and responses.

mod parse;
mod rules;
mod write;

use bytes::Bytes;

pub(crate) use parse::{head_length, line};
pub(crate) use write::push_status_line;

use crate::{Headers, Method, Name, Status, Uri};

/// A request or a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A request.
    Request(Request),
    /// A response.
    Response(Response),
}

/// A request (RFC 3261 section 7.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The Request-URI.
    pub uri: Uri,
    /// The header fields in their order.
    pub headers: Headers,
    /// May be empty.
    pub body: Bytes,
}

/// A response (RFC 3261 section 7.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: Status,
    /// The reason phrase.
    pub reason: String,
    /// The header fields in their order.
    pub headers: Headers,
    /// May be empty.
    pub body: Bytes,
}

impl Message {
    /// The header fields.
    pub const fn headers(&self) -> &Headers {
        match self {
            Self::Request(request) => &request.headers,
            Self::Response(response) => &response.headers,
        }
    }

    /// The header fields, for changes.
    pub const fn headers_mut(&mut self) -> &mut Headers {
        match self {
            Self::Request(request) => &mut request.headers,
            Self::Response(response) => &mut response.headers,
        }
    }

    /// The body.
    pub const fn body(&self) -> &Bytes {
        match self {
            Self::Request(request) => &request.body,
            Self::Response(response) => &response.body,
        }
    }

    /// The request; `None` for a response.
    pub const fn as_request(&self) -> Option<&Request> {
        match self {
            Self::Request(request) => Some(request),
            Self::Response(_) => None,
        }
    }

    /// The response; `None` for a request.
    pub const fn as_response(&self) -> Option<&Response> {
        match self {
            Self::Request(_) => None,
            Self::Response(response) => Some(response),
        }
    }
}

impl Request {
    /// A request without header fields and body.
    pub fn new(method: Method, uri: Uri) -> Self {
        Self { method, uri, headers: Headers::default(), body: Bytes::new() }
    }

    /// A response with the header fields that RFC 3261 section 8.2.6.2 requires: `Via`s, `From`, `To`, `Call-ID` and `CSeq`.
    /// The caller adds the tag of `To`.
    pub fn response(&self, status: Status) -> Response {
        let copied = [Name::Via, Name::From, Name::To, Name::CallId, Name::CSeq];
        let mut headers = Headers::default();
        for (name, value) in self.headers.iter().filter(|(name, _)| copied.contains(name)) {
            headers.push(name.clone(), value);
        }
        Response { status, reason: status.reason().to_owned(), headers, body: Bytes::new() }
    }
}

impl From<Request> for Message {
    fn from(request: Request) -> Self {
        Self::Request(request)
    }
}

impl From<Response> for Message {
    fn from(response: Response) -> Self {
        Self::Response(response)
    }
}
