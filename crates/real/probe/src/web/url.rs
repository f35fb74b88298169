//! URLs of objects: `http://host:port/path`.

use std::fmt;
use std::str::FromStr;

/// Default port of HTTP.
const PORT: u16 = 80;

/// The URL of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// A name or an address. An IPv6 address has no brackets here.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Path and query.
    pub path: String,
}

/// Why a text is not a URL of an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The URL needs TLS.
    #[error("“{0}”: TLS is not supported here; expected http://HOST[:PORT]/PATH")]
    Tls(String),
    /// The text is not an HTTP URL.
    #[error("“{0}” is not a URL of an object: expected http://HOST[:PORT]/PATH")]
    Wrong(String),
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text.starts_with("https://") {
            return Err(UrlError::Tls(text.to_owned()));
        }
        let wrong = || UrlError::Wrong(text.to_owned());
        let rest = text.strip_prefix("http://").ok_or_else(wrong)?;
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let path = path.split('#').next().unwrap_or_default();
        let (host, port) = match authority.strip_prefix('[') {
            Some(v6) => v6.split_once(']').ok_or_else(wrong)?,
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(digits) => digits.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?,
            None if port.is_empty() => PORT,
            None => return Err(wrong()),
        };
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || host.contains('@') || !is_plain(host) || !is_plain(path) {
            return Err(wrong());
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { host: host.to_owned(), port, path })
    }
}

impl Url {
    /// Host and port in the format of the Host header field.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == PORT { host } else { format!("{host}:{}", self.port) }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn places_are_read() {
        for (text, host, port, path) in [
            ("http://a", "a", 80, "/"),
            ("http://a:8621/object/7?x#y", "a", 8621, "/object/7?x"),
            ("http://[2001:db8::1]:81/", "2001:db8::1", 81, "/"),
            ("http://[::1]?q", "::1", 80, "/?q"),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!((url.host.as_str(), url.port, url.path.as_str()), (host, port, path), "{text}");
            assert_eq!(url.to_string().parse(), Ok(url), "{text}");
        }
    }

    #[test]
    fn what_is_no_place_is_told() {
        for text in [
            "",
            "a",
            "ftp://a/",
            "http://",
            "http://:80/",
            "http://a:0/",
            "http://a:x/",
            "http://a:70000/",
            "http://[::1/",
            "http://[::1]x/",
            "http://u@a/",
            "http://a /",
            "http://a/\r\nX: y",
        ] {
            assert_eq!(text.parse::<Url>(), Err(UrlError::Wrong(text.to_owned())));
        }
        assert!(matches!("https://a/".parse::<Url>(), Err(UrlError::Tls(_))));
    }

    proptest! {
        #[test]
        fn any_text_is_a_place_or_not(text in "\\PC{0,40}") {
            for text in [text.clone(), format!("http://{text}")] {
                if let Ok(url) = text.parse::<Url>() {
                    prop_assert_eq!(url.to_string().parse(), Ok(url));
                }
            }
        }
    }
}
