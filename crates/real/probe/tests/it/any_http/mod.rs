//! A property that must hold for any octets from an HTTP server or client. `fuzz/` searches for counterexamples, and
//! the test `corpora` replays the corpus.

use netrig_host::http::body::HttpBody;
use netrig_host::http::message::{HttpRequest, HttpResponse, LONGEST_HEAD, MOST_FIELDS};
use netrig_probe::web::Url;
use netrig_probe::web::answer::Objects;

/// Maximum size of an object, octets.
const LONGEST: u64 = 1_000_000;

/// A head is parsed completely or not at all, and the octets after it do not affect the result. The end of a body does
/// not depend on how its octets are split into pieces. The server's answers do not exceed the limit.
pub fn check(bytes: &[u8]) {
    if let Ok(Some((request, len))) = HttpRequest::read(bytes) {
        assert!(len <= bytes.len().min(LONGEST_HEAD) && request.fields.len() <= MOST_FIELDS);
        let answer = Objects { longest: LONGEST }.answer(&request);
        assert!(answer.fill <= LONGEST);
        let (response, head) = HttpResponse::read(&answer.head).expect("an answer").expect("a whole one");
        assert_eq!((response.status, head), (answer.status, answer.head.len()));
        assert_eq!(HttpRequest::read(&bytes[..len]), Ok(Some((request, len))));
        assert_eq!(HttpRequest::read(&bytes[..len - 1]), Ok(None), "it had gone on");
    }
    if let Ok(Some((response, len))) = HttpResponse::read(bytes) {
        assert!(len <= bytes.len().min(LONGEST_HEAD) && response.fields.len() <= MOST_FIELDS);
        assert_eq!(HttpResponse::read(&bytes[..len]).map(|read| read.map(|(_, len)| len)), Ok(Some(len)));
        if let Ok(framing) = response.framing() {
            let body = &bytes[len..];
            let took = |piece: usize| {
                let mut taken = HttpBody::new(framing);
                body.chunks(piece)
                    .try_for_each(|piece| taken.take(piece))
                    .map(|()| (taken.received(), taken.is_done()))
            };
            let whole = took(body.len().max(1));
            assert_eq!(whole, took(1));
            assert!(whole.is_ok() || whole.is_err_and(|error| one_line(&error.to_string())));
        }
    }
    for error in [HttpRequest::read(bytes).err(), HttpResponse::read(bytes).err()].into_iter().flatten() {
        assert!(one_line(&error.to_string()), "{error}");
    }
    if let Ok(url) = String::from_utf8_lossy(bytes).parse::<Url>() {
        assert!(one_line(&url.path) && !url.path.contains(' '));
    }
}

/// Whether a text has no control characters.
fn one_line(text: &str) -> bool {
    !text.contains(char::is_control)
}
