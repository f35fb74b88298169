//! The request that opens a WebSocket (RFC 6455 section 4) for ndt7.

use data_encoding::BASE64;
use netrig_host::http::message::{HttpRequest, HttpResponse};
use netrig_host::shown;
use sha1::{Digest as _, Sha1};

use super::{Ndt7Test, SUBPROTOCOL};

/// Maximum length of a query, bytes.
const LONGEST_QUERY: usize = 4096;

/// Maximum value of `early_exit`, MB. A download may end once this amount of data has arrived.
const MOST_EARLY_EXIT: u64 = 100_000;

/// A valid request for a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// The test.
    pub test: Ndt7Test,
    /// The number of bytes after which the download may end.
    pub early_exit: Option<u64>,
    /// Metadata of the client, names and values.
    pub metadata: Vec<(String, String)>,
    accept: String,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpgradeError {
    /// The path does not belong to a test.
    #[error("there is no {0}")]
    Path(String),
    /// The method is not `GET`.
    #[error("a test is requested by GET, not by {0}")]
    Method(String),
    /// The request does not ask for a WebSocket.
    #[error("{0} does not ask for a WebSocket")]
    NoUpgrade(&'static str),
    /// The request has an unsupported version of WebSocket.
    #[error("the request has version \"{0}\" of WebSocket: expected 13")]
    Version(String),
    /// The key is malformed.
    #[error("Sec-WebSocket-Key is not 16 bytes in base64")]
    Key,
    /// The subprotocol is missing.
    #[error("Sec-WebSocket-Protocol has no {SUBPROTOCOL} in it")]
    Subprotocol,
    /// The query is too long or malformed.
    #[error("the query is longer than {LONGEST_QUERY} bytes, or its escapes are wrong")]
    Query,
    /// The origin is not allowed.
    #[error("a web page of {0} sent the request, and its origin is not permitted (--allow-origin)")]
    Origin(String),
    /// `early_exit` is out of range.
    #[error("early_exit is not a number from 1 to {MOST_EARLY_EXIT}")]
    EarlyExit,
}

impl UpgradeError {
    /// The HTTP response to the client.
    pub fn response(&self) -> HttpResponse {
        match self {
            Self::Path(_) => HttpResponse::new(404, &[]),
            Self::Method(_) => HttpResponse::new(405, &[("Allow", "GET")]),
            Self::NoUpgrade(_) | Self::Version(_) => {
                HttpResponse::new(426, &[("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")])
            }
            Self::Origin(_) => HttpResponse::new(403, &[]),
            _ => HttpResponse::new(400, &[]),
        }
    }
}

/// Checks the `Origin` of a browser (RFC 6455 section 10.2): it must be the origin of this server or one of the allowed
/// origins. `*` allows all. Clients that are not browsers send no `Origin`.
///
/// # Errors
/// If the origin is not allowed.
pub fn check_origin(request: &HttpRequest, allowed: &[String]) -> Result<(), UpgradeError> {
    let Some(origin) = request.field("Origin") else { return Ok(()) };
    let site = origin.split_once("://").map(|(_, site)| site);
    let is_own = site.zip(request.field("Host")).is_some_and(|(site, host)| site.eq_ignore_ascii_case(host));
    let is_allowed = |allowed: &String| allowed == "*" || allowed.eq_ignore_ascii_case(origin);
    if is_own || allowed.iter().any(is_allowed) {
        return Ok(());
    }
    Err(UpgradeError::Origin(shown(origin)))
}

impl Upgrade {
    /// Checks and parses a request.
    ///
    /// # Errors
    /// If the request is invalid.
    pub fn read(request: &HttpRequest) -> Result<Self, UpgradeError> {
        let path = request.path();
        let test = Ndt7Test::of_path(path).ok_or_else(|| UpgradeError::Path(shown(path)))?;
        if request.method != "GET" {
            return Err(UpgradeError::Method(shown(&request.method)));
        }
        if !request.lists("Upgrade", "websocket") {
            return Err(UpgradeError::NoUpgrade("Upgrade"));
        }
        if !request.lists("Connection", "Upgrade") {
            return Err(UpgradeError::NoUpgrade("Connection"));
        }
        let version = request.field("Sec-WebSocket-Version").unwrap_or_default();
        if version != "13" {
            return Err(UpgradeError::Version(shown(version)));
        }
        let key = request.field("Sec-WebSocket-Key").filter(|key| is_key(key)).ok_or(UpgradeError::Key)?;
        if !request.lists("Sec-WebSocket-Protocol", SUBPROTOCOL) {
            return Err(UpgradeError::Subprotocol);
        }
        let metadata = query(request.query().unwrap_or_default()).ok_or(UpgradeError::Query)?;
        let early_exit = metadata.iter().find(|(name, _)| name == "early_exit");
        let early_exit = early_exit.map(|(_, megabytes)| early_exit_bytes(megabytes)).transpose()?;
        Ok(Self { test, early_exit, metadata, accept: accept_key(key) })
    }

    /// The HTTP response to the client. After its last byte, the WebSocket is open.
    pub fn response(&self) -> HttpResponse {
        let fields = [
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Accept", &self.accept),
            ("Sec-WebSocket-Protocol", SUBPROTOCOL),
        ];
        HttpResponse::new(101, &fields)
    }
}

fn early_exit_bytes(megabytes: &str) -> Result<u64, UpgradeError> {
    let megabytes = megabytes.parse().ok().filter(|number| (1..=MOST_EARLY_EXIT).contains(number));
    Ok(megabytes.ok_or(UpgradeError::EarlyExit)? * 1_000_000)
}

/// The value of `Sec-WebSocket-Accept` for a key (RFC 6455 section 4.2.2, item 5.4).
pub fn accept_key(key: &str) -> String {
    let mut hash = Sha1::new();
    hash.update(key);
    hash.update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    BASE64.encode(&hash.finalize())
}

/// Whether the key is sixteen bytes in base64.
fn is_key(key: &str) -> bool {
    BASE64.decode(key.as_bytes()).is_ok_and(|bytes| bytes.len() == 16)
}

/// Names and values of a query. If a name occurs several times, its first value counts. `None` if the query is too long
/// or malformed.
fn query(query: &str) -> Option<Vec<(String, String)>> {
    if query.len() > LONGEST_QUERY {
        return None;
    }
    let mut pairs: Vec<(String, String)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (unescaped(name)?, unescaped(value)?);
        if pairs.iter().all(|(known, _)| *known != name) {
            pairs.push((name, value));
        }
    }
    Some(pairs)
}

/// Decodes percent encoding (RFC 3986 section 2.1). `+` is decoded to a space, because browsers encode spaces so.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                (high << 4 | low) as u8
            }
            b'+' => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The example of ndt7's specification.
    const ASKS: &str = "GET /ndt/v7/download HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Key: DOdm+5/Cm3WwvhfcAlhJoQ==\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Protocol: net.measurementlab.ndt.v7\r\nUpgrade: websocket\r\n\
        User-Agent: ooniprobe/3.0.0 ndt7-client-go/0.1.0\r\n\r\n";

    fn read(text: &str) -> Result<Upgrade, UpgradeError> {
        Upgrade::read(&HttpRequest::read(text.as_bytes()).unwrap().unwrap().0)
    }

    /// RFC 6455 section 1.3 and the example of ndt7's specification.
    #[test]
    fn a_key_is_answered_as_the_specifications_say() {
        assert_eq!(accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let response = read(ASKS).unwrap().response().to_string();
        assert!(response.contains("Sec-WebSocket-Accept: Nhz+x95YebD6Uvd4nqPC2fomoUQ=\r\n"), "{response}");
        assert!(response.starts_with("HTTP/1.1 101 ") && response.ends_with("\r\n\r\n"));
    }

    #[test]
    fn what_the_client_tells_of_itself_is_read() {
        let asks = ASKS.replace("download", "upload?client_name=a%20b+%C3%A4&x&early_exit=250&x=2");
        let upgrade = read(&asks).unwrap();
        assert_eq!((upgrade.test, upgrade.early_exit), (Ndt7Test::Upload, Some(250_000_000)));
        let expected = [("client_name", "a b ä"), ("x", ""), ("early_exit", "250")];
        assert_eq!(upgrade.metadata, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn what_opens_no_websocket_is_answered() {
        let long = format!("download?{}", "a".repeat(LONGEST_QUERY + 1));
        for (from, to, status) in [
            ("GET", "POST", 405),
            ("/ndt/v7/download", "/", 404),
            ("Upgrade: websocket", "Upgrade: h2c", 426),
            ("Connection: Upgrade", "Connection: close", 426),
            ("Version: 13", "Version: 8", 426),
            ("DOdm", "DOdm=", 400),
            ("oQ==", "oR==", 400),
            ("ndt.v7\r\nUp", "ndt.v8\r\nUp", 400),
            ("download", "download?a=%f", 400),
            ("download", "download?a=%ff", 400),
            ("download", "download?early_exit=0", 400),
            ("download", &long, 400),
        ] {
            let error = read(&ASKS.replace(from, to)).unwrap_err();
            assert_eq!(error.response().status, status, "{to}: {error}");
        }
    }

    #[test]
    fn a_page_of_another_site_is_refused_unless_it_is_allowed() {
        let asks = |origin: &str| {
            let text = format!("GET /ndt/v7/download HTTP/1.1\r\nHost: speed.example:8621\r\n{origin}\r\n");
            let (request, _) = HttpRequest::read(text.as_bytes()).unwrap().unwrap();
            move |allowed: &[&str]| {
                let allowed: Vec<_> = allowed.iter().map(|&origin| origin.to_owned()).collect();
                check_origin(&request, &allowed)
            }
        };
        assert_eq!(asks("")(&[]), Ok(()));
        assert_eq!(asks("Origin: http://speed.example:8621\r\n")(&[]), Ok(()));
        for foreign in
            ["https://evil.example", "null", "http://speed.example", "http://evil.example/speed.example:8621"]
        {
            let page = asks(&format!("Origin: {foreign}\r\n"));
            let refused = page(&["https://good.example"]).unwrap_err();
            assert_eq!(refused, UpgradeError::Origin(foreign.to_owned()));
            assert!(refused.response().to_string().starts_with("HTTP/1.1 403 "), "{refused}");
            assert_eq!(page(&["https://good.example", foreign]), Ok(()));
            assert_eq!(page(&["*"]), Ok(()));
        }
    }

    proptest! {
        #[test]
        fn any_sixteen_bytes_are_a_key(bytes in any::<[u8; 16]>()) {
            prop_assert!(is_key(&BASE64.encode(&bytes)));
        }

        #[test]
        fn any_query_is_read_or_refused(text in ".{0,40}") {
            let _ = query(&text);
        }
    }
}
