//! The answers of an HTTP/1.1 server of objects: a head and a number of fill octets. The owner of the connection writes
//! them.

use netrig_host::http::message::{HttpError, HttpRequest, HttpResponse, LONGEST_HEAD};

/// Path of objects: `/object/1000000` has that many octets.
const OBJECTS: &str = "/object/";

/// An answer to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectResponse {
    /// The status: 200.
    pub status: u16,
    /// The encoded head.
    pub head: Vec<u8>,
    /// Number of fill octets behind the head.
    pub fill: u64,
    /// The connection is to be closed after the answer.
    pub closes: bool,
}

/// A server of objects of any size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Objects {
    /// Maximum size of an object, octets.
    pub longest: u64,
}

impl Objects {
    /// The path of an object with `length` octets.
    pub fn path(length: u64) -> String {
        format!("{OBJECTS}{length}")
    }

    /// Parses the request at the beginning of `bytes`. Returns the answer and the length of the request; nothing if the
    /// request is incomplete.
    pub fn answer(self, bytes: &[u8]) -> Option<(ObjectResponse, usize)> {
        match HttpRequest::read(bytes) {
            Ok(Some((request, len))) => Some((self.answer_to(&request), len)),
            Ok(None) => None,
            Err(error) => Some((refusal(&error), bytes.len().min(LONGEST_HEAD))),
        }
    }

    /// The answer to a request. A request with a body is answered without reading the body.
    pub fn answer_to(self, request: &HttpRequest) -> ObjectResponse {
        let has_body = ["content-length", "transfer-encoding"]
            .iter()
            .any(|name| request.field(name).is_some_and(|value| value != "0"));
        let closes =
            has_body || request.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let length = request
            .path()
            .strip_prefix(OBJECTS)
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
        let length = length.and_then(|digits| digits.parse::<u64>().ok());
        match (request.method.as_str(), length) {
            ("GET" | "HEAD", Some(length)) if length <= self.longest => {
                let fill = if request.method == "GET" { length } else { 0 };
                answer(200, length, &[("Content-Type", "application/octet-stream")], fill, closes)
            }
            ("GET" | "HEAD", _) => answer(404, 0, &[], 0, closes),
            _ => answer(405, 0, &[("Allow", "GET, HEAD")], 0, closes),
        }
    }
}

/// The answer to an invalid request: the connection cannot be used any further.
fn refusal(error: &HttpError) -> ObjectResponse {
    let response = error.response();
    ObjectResponse { status: response.status, head: response.closing(""), fill: 0, closes: true }
}

fn answer(status: u16, length: u64, fields: &[(&str, &str)], fill: u64, closes: bool) -> ObjectResponse {
    let length = length.to_string();
    // Proxies must neither store nor transform the fill octets of a measurement.
    let always = [("Content-Length", length.as_str()), ("Cache-Control", "no-store, no-transform")];
    let close: &[_] = if closes { &[("Connection", "close")] } else { &[] };
    let head = HttpResponse::new(status, &[&always, fields, close].concat()).to_string().into_bytes();
    ObjectResponse { status, head, fill, closes }
}

#[cfg(test)]
mod tests {
    use netrig_host::http::message::BodyFraming;
    use proptest::prelude::*;

    use super::*;

    const OBJECTS: Objects = Objects { longest: 1_000_000 };

    fn asked(method: &str, target: &str, fields: &str) -> ObjectResponse {
        let text = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let (answer, len) = OBJECTS.answer(text.as_bytes()).unwrap();
        assert_eq!(len, text.len());
        let (response, len) = HttpResponse::read(&answer.head).unwrap().unwrap();
        assert_eq!((response.status, len), (answer.status, answer.head.len()));
        if method != "HEAD" {
            assert_eq!(response.framing(), Ok(BodyFraming::Length(answer.fill)));
        }
        assert_eq!(response.field("connection").is_some(), answer.closes);
        answer
    }

    #[test]
    fn an_object_has_the_length_of_its_name() {
        let answer = asked("GET", &Objects::path(12_345), "");
        assert_eq!((answer.status, answer.fill, answer.closes), (200, 12_345, false));
        let head = asked("HEAD", "/object/7?x", "Connection: Close\r\n");
        assert_eq!((head.status, head.fill, head.closes), (200, 0, true));
    }

    #[test]
    fn what_is_not_there_is_told() {
        for target in [
            "/",
            "/object/",
            "/object/1000001",
            "/object/-1",
            "/object/1/2",
            "*",
            "/object/99999999999999999999",
        ] {
            assert_eq!(
                (asked("GET", target, "").status, asked("GET", target, "").fill),
                (404, 0),
                "{target}"
            );
        }
        let post = asked("POST", "/object/1", "Content-Length: 5\r\n");
        assert_eq!((post.status, post.closes), (405, true));
        for (bytes, status) in [(&b"\x16\x03\x01\n"[..], 400), (&[b'A'; 20_000][..], 431)] {
            let (answer, _) = OBJECTS.answer(bytes).unwrap();
            assert_eq!((answer.status, answer.fill, answer.closes), (status, 0, true));
        }
        assert_eq!(OBJECTS.answer(b"GET /object/1 HTTP/1.1\r\n"), None);
    }

    proptest! {
        /// No answer exceeds the maximum size, and every answer is a valid HTTP message.
        #[test]
        fn any_bytes_are_answered_within_the_bound(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some((answer, len)) = OBJECTS.answer(&bytes) {
                prop_assert!(answer.fill <= OBJECTS.longest && len <= bytes.len());
                prop_assert!(HttpResponse::read(&answer.head).unwrap().is_some());
            }
        }
    }
}
