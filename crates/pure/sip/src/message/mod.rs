//! Requests and responses as they stand on the wire.

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
    /// It asks.
    Request(Request),
    /// It answers.
    Response(Response),
}

/// What is asked of whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What.
    pub method: Method,
    /// Of whom: the Request-URI.
    pub uri: Uri,
    /// In their order.
    pub headers: Headers,
    /// May be empty.
    pub body: Bytes,
}

/// How a request went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// In a number.
    pub status: Status,
    /// In words, for people.
    pub reason: String,
    /// In their order.
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

    /// The header fields, to be changed.
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

    /// The request that it is, if it is one.
    pub const fn as_request(&self) -> Option<&Request> {
        match self {
            Self::Request(request) => Some(request),
            Self::Response(_) => None,
        }
    }

    /// The response that it is, if it is one.
    pub const fn as_response(&self) -> Option<&Response> {
        match self {
            Self::Request(_) => None,
            Self::Response(response) => Some(response),
        }
    }
}

impl Request {
    /// Without header fields and body.
    pub fn new(method: Method, uri: Uri) -> Self {
        Self { method, uri, headers: Headers::default(), body: Bytes::new() }
    }

    /// The response to it as far as RFC 3261 section 8.2.6.2 says: its `Via`s, `From`, `To`, `Call-ID` and `CSeq`. A tag in
    /// `To` is the caller's affair.
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
