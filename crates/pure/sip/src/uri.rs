//! SIP, SIPS and other URIs (RFC 3261 section 19.1).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::error::ParseError;
use crate::grammar::{Cursor, escaped, is_unreserved, take_escaped, unescaped_but};
use crate::header::{ParameterGrammar, Parameters, ParametersView};
use crate::host::{Host, HostView, read_port};

const RULE: &str = "RFC 3261 section 19.1.1";

/// Most header fields of a URI. The limit bounds the time to compare two URIs.
const MOST_HEADERS: usize = 64;

/// A URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uri {
    /// A SIP or SIPS URI.
    Sip(SipUri),
    /// A URI of any other scheme, unchanged: `tel:`, `urn:`, `mailto:`.
    Other {
        /// The scheme without the colon.
        scheme: String,
        /// The text after the colon.
        rest: String,
    },
}

/// The scheme of a SIP URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `sip`: any transport.
    Sip,
    /// `sips`: TLS on every hop.
    Sips,
}

/// `sip:user:password@host:port;parameters?headers`. All parts are kept unchanged, with their escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SipUri {
    /// The scheme.
    pub scheme: Scheme,
    /// The user part, without the password.
    pub user: Option<String>,
    /// The password. RFC 3261 section 19.1.1 does not recommend its use.
    pub password: Option<String>,
    /// The domain name or address.
    pub host: Host,
    /// The port. Without one, the transport's default applies: 5060, or 5061 for TLS.
    pub port: Option<u16>,
    /// Parameters, such as `;transport=tcp;lr`.
    pub parameters: Parameters,
    /// Names and values of header fields for a request made from the URI, without `?` and `&`.
    pub headers: Vec<(String, String)>,
}

impl Uri {
    /// The SIP or SIPS URI; `None` for another scheme.
    pub const fn as_sip(&self) -> Option<&SipUri> {
        match self {
            Self::Sip(uri) => Some(uri),
            Self::Other { .. } => None,
        }
    }

    /// Whether both name the same resource. SIP URIs are compared by RFC 3261 section 19.1.4, all others by their text, apart
    /// from the case of the scheme.
    pub fn is_equivalent(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Sip(a), Self::Sip(b)) => a.is_equivalent(b),
            (Self::Other { scheme: a, rest: x }, Self::Other { scheme: b, rest: y }) => {
                a.eq_ignore_ascii_case(b) && x == y
            }
            _ => false,
        }
    }
}

impl SipUri {
    /// `sip:host`.
    pub fn new(host: Host) -> Self {
        Self {
            scheme: Scheme::Sip,
            user: None,
            password: None,
            host,
            port: None,
            parameters: Parameters::default(),
            headers: Vec::new(),
        }
    }

    /// Sets the user part. Characters that the grammar does not allow are escaped.
    #[must_use]
    pub fn with_user(mut self, user: &str) -> Self {
        self.user = Some(escaped(user, is_user));
        self
    }

    /// Sets the port.
    #[must_use]
    pub const fn with_port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Sets a parameter, or a flag without a value.
    #[must_use]
    pub fn with_parameter(mut self, name: &str, value: Option<&str>) -> Self {
        self.parameters.set(name, value);
        self
    }

    /// The target to locate: "the value of the maddr parameter of the URI, if present", else the host (RFC 3263 section 4).
    pub fn target(&self) -> Host {
        match self.parameters.value("maddr") {
            None => self.host.clone(),
            Some(maddr) => match maddr.trim_matches(['[', ']']).parse::<IpAddr>() {
                Ok(address) => Host::Address(address),
                Err(_) => Host::Name(maddr.to_owned()),
            },
        }
    }

    /// Whether the URI has `lr`, so that its proxy is a loose router and keeps the Request-URI (RFC 3261 section 19.1.1).
    pub fn is_loose(&self) -> bool {
        self.parameters.has("lr")
    }

    /// Whether both name the same resource (RFC 3261 section 19.1.4).
    pub fn is_equivalent(&self, other: &Self) -> bool {
        /// "A URI that includes an maddr parameter will not match a URI that contains no maddr parameter."; "A user, ttl, or
        /// method uri-parameter appearing in only one URI never matches, even if it contains the default value."; and of the
        /// transport "A URI omitting any component with a default value will not match a URI explicitly containing that
        /// component with its default value."
        const MUST_BE_IN_BOTH: [&str; 5] = ["user", "ttl", "method", "maddr", "transport"];
        let same = |a: &Option<String>, b: &Option<String>| {
            a.as_deref().map(canonical) == b.as_deref().map(canonical)
        };
        let parameters = |a: &Self, b: &Self| {
            a.parameters.iter().all(|(name, value)| match b.parameters.get(name) {
                Some(other) => same_value(value, other),
                None => !MUST_BE_IN_BOTH.iter().any(|must| must.eq_ignore_ascii_case(name)),
            })
        };
        let headers = |a: &Self, b: &Self| {
            let equals = |x: &(String, String), y: &(String, String)| {
                canonical(&x.0).eq_ignore_ascii_case(&canonical(&y.0)) && canonical(&x.1) == canonical(&y.1)
            };
            let count = |all: &[(String, String)], x| all.iter().filter(|y| equals(x, y)).count();
            a.headers.iter().all(|x| count(&a.headers, x) == count(&b.headers, x))
        };
        self.scheme == other.scheme
            && same(&self.user, &other.user)
            && same(&self.password, &other.password)
            && self.host.is_equivalent(&other.host)
            && self.port == other.port
            && parameters(self, other)
            && parameters(other, self)
            && headers(self, other)
            && headers(other, self)
    }
}

fn same_value(a: Option<&str>, b: Option<&str>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => canonical(a).eq_ignore_ascii_case(&canonical(b)),
        (None, None) => true,
        _ => false,
    }
}

const fn is_user(byte: u8) -> bool {
    is_unreserved(byte) || matches!(byte, b'&' | b'=' | b'+' | b'$' | b',' | b';' | b'?' | b'/')
}

const fn is_password(byte: u8) -> bool {
    is_unreserved(byte) || matches!(byte, b'&' | b'=' | b'+' | b'$' | b',')
}

const fn is_header(byte: u8) -> bool {
    is_unreserved(byte) || matches!(byte, b'[' | b']' | b'/' | b'?' | b':' | b'+' | b'$')
}

/// The form of a part of a URI for comparison. Characters are equivalent to their escapes, except reserved ones (RFC 3261
/// section 19.1.4).
fn canonical(text: &str) -> Vec<u8> {
    unescaped_but(text, |byte| b";/?:@&=+$,".contains(&byte))
}

/// A URI that borrows its text. Its grammar has been checked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UriView<'a> {
    Sip(SipUriView<'a>),
    Other { scheme: &'a str, rest: &'a str },
}

/// A SIP URI that borrows its text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SipUriView<'a> {
    pub scheme: Scheme,
    pub user: Option<&'a str>,
    pub password: Option<&'a str>,
    pub host: HostView<'a>,
    pub port: Option<u16>,
    pub parameters: ParametersView<'a>,
    /// `name=value&name=value`.
    pub headers: &'a str,
}

impl From<UriView<'_>> for Uri {
    fn from(view: UriView<'_>) -> Self {
        match view {
            UriView::Sip(view) => Self::Sip(view.into()),
            UriView::Other { scheme, rest } => Self::Other { scheme: scheme.into(), rest: rest.into() },
        }
    }
}

impl From<SipUriView<'_>> for SipUri {
    fn from(view: SipUriView<'_>) -> Self {
        let headers = view.headers.split('&').filter_map(|header| header.split_once('='));
        Self {
            scheme: view.scheme,
            user: view.user.map(str::to_owned),
            password: view.password.map(str::to_owned),
            host: view.host.into(),
            port: view.port,
            parameters: view.parameters.into(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        }
    }
}

/// Reads a URI up to the end of the text, or to the first character that a URI cannot have.
pub(crate) fn uri<'a>(cursor: &mut Cursor<'a>) -> Result<UriView<'a>, ParseError> {
    let start = *cursor;
    let scheme = cursor.take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    if !scheme.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return Err(start.error("the scheme of a URI"));
    }
    cursor.expect(b':', "`:` after the scheme of a URI")?;
    let sip = [("sip", Scheme::Sip), ("sips", Scheme::Sips)];
    match sip.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(scheme)) {
        Some((_, scheme)) => sip_uri(cursor, scheme).map(UriView::Sip),
        None => {
            let rest =
                cursor.take_while(|byte| byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>' | b'"'));
            if rest.is_empty() {
                return Err(cursor.error("text after the scheme of a URI"));
            }
            Ok(UriView::Other { scheme, rest })
        }
    }
}

fn sip_uri<'a>(cursor: &mut Cursor<'a>, scheme: Scheme) -> Result<SipUriView<'a>, ParseError> {
    let (user, password) = user_info(cursor)?;
    let host = HostView::read(cursor)?;
    let port = if cursor.eat(b':') { Some(read_port(cursor)?) } else { None };
    let parameters = ParametersView::read(cursor, ParameterGrammar::Uri)?;
    let headers = if cursor.eat(b'?') { headers(cursor)? } else { "" };
    Ok(SipUriView { scheme, user, password, host, port, parameters, headers })
}

/// `header *( "&" header )`.
fn headers<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str, ParseError> {
    let start = *cursor;
    let mut count = 0;
    loop {
        if count == MOST_HEADERS {
            return Err(cursor.error("at most 64 header fields"));
        }
        count += 1;
        if take_escaped(cursor, is_header)?.is_empty() {
            return Err(cursor.error("the name of a header field"));
        }
        cursor.expect(b'=', "`=` after the name of a header field")?;
        take_escaped(cursor, is_header)?;
        if !cursor.eat(b'&') {
            return Ok(&start.rest()[..cursor.at() - start.at()]);
        }
    }
}

/// `[ userinfo "@" ]`: the user and the password.
fn user_info<'a>(cursor: &mut Cursor<'a>) -> Result<(Option<&'a str>, Option<&'a str>), ParseError> {
    // A SIP URI has no other `@`. The text after a URI may have one, and begins with one of the other characters.
    let first = cursor.rest().bytes().find(|byte| matches!(byte, b'@' | b'<' | b'>' | b'"' | b' ' | b'\t'));
    if first != Some(b'@') {
        return Ok((None, None));
    }
    let user = take_escaped(cursor, is_user)?;
    if user.is_empty() {
        return Err(cursor.error("a user before `@`"));
    }
    let password = if cursor.eat(b':') { Some(take_escaped(cursor, is_password)?) } else { None };
    cursor.expect(b'@', "`@` after the user")?;
    Ok((Some(user), password))
}

impl FromStr for Uri {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut cursor = Cursor::new(text, RULE);
        let found = uri(&mut cursor)?;
        cursor.end()?;
        Ok(found.into())
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sip(uri) => uri.fmt(f),
            Self::Other { scheme, rest } => write!(f, "{scheme}:{rest}"),
        }
    }
}

impl fmt::Display for SipUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.scheme {
            Scheme::Sip => "sip:",
            Scheme::Sips => "sips:",
        })?;
        if let Some(user) = &self.user {
            f.write_str(user)?;
            if let Some(password) = &self.password {
                write!(f, ":{password}")?;
            }
            f.write_str("@")?;
        }
        write!(f, "{}", self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        write!(f, "{}", self.parameters)?;
        for ((name, value), sign) in
            self.headers.iter().zip(std::iter::once('?').chain(std::iter::repeat('&')))
        {
            write!(f, "{sign}{name}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::unescaped;

    fn read(text: &str) -> Uri {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// RFC 3261 section 19.1.3.
    #[test]
    fn the_examples_of_the_rfc_come_back_as_they_were() {
        for text in [
            "sip:alice@atlanta.com",
            "sip:alice:secretword@atlanta.com;transport=tcp",
            "sips:alice@atlanta.com?subject=project%20x&priority=urgent",
            "sip:+1-212-555-1212:1234@gateway.com;user=phone",
            "sips:1212@gateway.com",
            "sip:alice@192.0.2.4",
            "sip:atlanta.com;method=REGISTER?to=alice%40atlanta.com",
            "sip:alice;day=tuesday@atlanta.com",
            "sip:[2001:db8::10]:5070;lr",
            "tel:+358-555-1234567;postd=pp22",
        ] {
            assert_eq!(read(text).to_string(), text);
        }
    }

    /// RFC 3261 section 19.1.4.
    #[test]
    fn equivalence_is_that_of_the_rfc() {
        let same = [
            ("sip:%61lice@atlanta.com;transport=TCP", "sip:alice@AtLanTa.CoM;Transport=tcp"),
            ("sip:carol@chicago.com", "sip:carol@chicago.com;newparam=5"),
            ("sip:carol@chicago.com", "sip:carol@chicago.com;security=on"),
            ("sip:carol@chicago.com;newparam=5", "sip:carol@chicago.com;security=on"),
            (
                "sip:biloxi.com;transport=tcp;method=REGISTER?to=sip:bob%40biloxi.com",
                "sip:biloxi.com;method=REGISTER;transport=tcp?to=sip:bob%40biloxi.com",
            ),
            (
                "sip:alice@atlanta.com?subject=project%20x&priority=urgent",
                "sip:alice@atlanta.com?priority=urgent&subject=project%20x",
            ),
        ];
        // Pairs that are not in the RFC's list: hosts, escapes, and default values.
        let same_beside = [
            ("sip:a%3bb@h", "sip:a%3Bb@h"),
            ("sip:a@[2001:DB8:0::1]", "sip:a@[2001:db8::1]"),
            ("sip:a@h;lr", "sip:a@h;LR"),
            ("sip:h?a=1&a=2", "sip:h?A=2&a=1"),
            ("tel:+1", "TEL:+1"),
        ];
        let different_beside = [
            ("sip:a%3Bb@h", "sip:a;b@h"),
            ("sip:%ff@h", "sip:%fe@h"),
            ("sip:a@h;user=ip", "sip:a@h"),
            ("sip:a@h;ttl=1", "sip:a@h"),
            ("sip:a@h;maddr=h", "sip:a@h"),
            ("sip:a:p@h", "sip:a@h"),
            ("sip:h?a=1&a=1", "sip:h?a=1"),
            ("sip:+1@h", "tel:+1"),
        ];
        let different = [
            ("SIP:ALICE@AtLanTa.CoM;Transport=udp", "sip:alice@AtLanTa.CoM;Transport=UDP"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com;transport=udp"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com:6000;transport=tcp"),
            ("sip:carol@chicago.com", "sip:carol@chicago.com?Subject=next%20meeting"),
            ("sip:bob@phone21.boxesbybob.com", "sip:bob@192.0.2.4"),
            ("sip:carol@chicago.com;security=on", "sip:carol@chicago.com;security=off"),
            ("sip:bob@biloxi.com", "sips:bob@biloxi.com"),
        ];
        for (a, b) in same.into_iter().chain(same_beside) {
            assert!(read(a).is_equivalent(&read(b)) && read(b).is_equivalent(&read(a)), "{a} {b}");
        }
        for (a, b) in different.into_iter().chain(different_beside) {
            assert!(!read(a).is_equivalent(&read(b)) && !read(b).is_equivalent(&read(a)), "{a} {b}");
        }
    }

    #[test]
    fn what_is_no_uri_says_where() {
        for (text, at) in [
            ("", 0),
            ("alice", 5),
            ("sip:", 4),
            ("sip:@host", 4),
            ("sip:alice@", 10),
            ("sip:a b@host", 5),
            ("sip:host:65536", 9),
            ("sip:host;", 9),
            ("sip:host;lr=", 12),
            ("sip:host?x", 10),
            ("sip:a%4@host", 7),
            ("sip:-host", 4),
            ("sip:1.2.3.4.5", 4),
            ("sip:[::g]", 5),
            ("sip:host x", 8),
        ] {
            let error = text.parse::<Uri>().unwrap_err();
            assert_eq!(error.at, at, "{text}: {error}");
        }
    }

    #[test]
    fn a_user_is_escaped() {
        let uri = SipUri::new(Host::Name("a.example".into())).with_user("j@s n");
        assert_eq!(uri.to_string(), "sip:j%40s%20n@a.example");
        assert_eq!(unescaped("j%40s%20n%"), "j@s n%");
    }
}
