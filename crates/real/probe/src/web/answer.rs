//! Answers of an HTTP/1.1 server that serves objects of any size. An answer has a head and a number of fill octets. The
//! code that owns the connection writes the answer and closes the connection.

use netrig_host::http::message::{HttpRequest, HttpResponse};

/// Path of objects: `/object/1000000` has 1,000,000 octets.
const OBJECTS: &str = "/object/";

/// An answer to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectResponse {
    /// The status: 200.
    pub status: u16,
    /// The encoded head.
    pub head: Vec<u8>,
    /// Number of fill octets after the head.
    pub fill: u64,
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

    /// The answer to a request. A request with a body is answered without reading the body.
    pub fn answer(self, request: &HttpRequest) -> ObjectResponse {
        let length = request
            .path()
            .strip_prefix(OBJECTS)
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
        let length = length.and_then(|digits| digits.parse::<u64>().ok());
        let (status, length, field) = match (request.method.as_str(), length) {
            ("GET" | "HEAD", Some(length)) if length <= self.longest => {
                (200, length, Some(("Content-Type", "application/octet-stream")))
            }
            ("GET" | "HEAD", _) => (404, 0, None),
            _ => (405, 0, Some(("Allow", "GET, HEAD"))),
        };
        let octets = length.to_string();
        // Proxies must neither store nor transform the fill octets of a measurement.
        let always = [("Content-Length", octets.as_str()), ("Cache-Control", "no-store, no-transform")];
        let fields = always.into_iter().chain(field).chain([("Connection", "close")]);
        let head = HttpResponse::new(status, &Vec::from_iter(fields)).to_string().into_bytes();
        ObjectResponse { status, head, fill: if request.method == "GET" { length } else { 0 } }
    }
}

#[cfg(test)]
mod tests {
    use netrig_host::http::message::BodyFraming;
    use proptest::prelude::*;

    use super::*;

    const OBJECTS: Objects = Objects { longest: 1_000_000 };

    fn asked(method: &str, target: &str, fields: &str) -> ObjectResponse {
        let text = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let (request, _) = HttpRequest::read(text.as_bytes()).unwrap().unwrap();
        let answer = OBJECTS.answer(&request);
        let (response, len) = HttpResponse::read(&answer.head).unwrap().unwrap();
        assert_eq!((response.status, len), (answer.status, answer.head.len()));
        if method != "HEAD" {
            assert_eq!(response.framing(), Ok(BodyFraming::Length(answer.fill)));
        }
        assert_eq!(response.field("connection"), Some("close"));
        answer
    }

    #[test]
    fn an_object_has_the_length_of_its_name() {
        let answer = asked("GET", &Objects::path(12_345), "");
        assert_eq!((answer.status, answer.fill), (200, 12_345));
        let head = asked("HEAD", "/object/7?x", "Connection: Close\r\n");
        assert_eq!((head.status, head.fill), (200, 0));
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
            let answer = asked("GET", target, "");
            assert_eq!((answer.status, answer.fill), (404, 0), "{target}");
        }
        assert_eq!(asked("POST", "/object/1", "Content-Length: 5\r\n").status, 405);
        for (bytes, status) in [(&b"\x16\x03\x01\n"[..], 400), (&[b'A'; 20_000][..], 431)] {
            assert_eq!(HttpRequest::read(bytes).unwrap_err().response().status, status);
        }
    }

    proptest! {
        /// No answer exceeds the maximum size, and every answer is a valid HTTP message, for any request.
        #[test]
        fn any_bytes_are_answered_within_the_bound(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let head = match HttpRequest::read(&bytes) {
                Ok(None) => return Ok(()),
                Ok(Some((request, len))) => {
                    let answer = OBJECTS.answer(&request);
                    prop_assert!(answer.fill <= OBJECTS.longest && len <= bytes.len());
                    answer.head
                }
                Err(error) => error.response().closing(""),
            };
            prop_assert!(HttpResponse::read(&head).unwrap().is_some());
        }
    }
}
