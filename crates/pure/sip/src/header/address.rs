//! Addresses of `From`, `To`, `Contact`, `Route` and similar fields (RFC 3261 section 20.10).

use std::fmt;

use super::parameters::{ParameterGrammar, Parameters, ParametersView};
use crate::error::ParseError;
use crate::grammar::{Cursor, is_token, quoted, unquoted};
use crate::uri::{self, Uri, UriView};

/// `"Name" <uri>;parameters`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameAddr {
    /// The display name, without quotes.
    pub display: Option<String>,
    /// The URI.
    pub uri: Uri,
    /// Parameters of the header field, not of the URI.
    pub parameters: Parameters,
}

impl NameAddr {
    /// `<uri>`.
    pub fn new(uri: Uri) -> Self {
        Self { display: None, uri, parameters: Parameters::default() }
    }

    /// Sets the tag.
    #[must_use]
    pub fn with_tag(mut self, tag: &str) -> Self {
        self.parameters.set("tag", Some(tag));
        self
    }

    /// The tag of `From` and `To`.
    pub fn tag(&self) -> Option<&str> {
        self.parameters.value("tag")
    }

    /// `( name-addr / addr-spec ) *( SEMI generic-param )`.
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self, ParseError> {
        NameAddrView::read(cursor).map(Self::from)
    }
}

/// An address that borrows its text. Its grammar has been checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameAddrView<'a> {
    /// The display name: tokens, or a quoted string with its quotes.
    pub display: Option<&'a str>,
    pub uri: UriView<'a>,
    pub parameters: ParametersView<'a>,
}

impl<'a> NameAddrView<'a> {
    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self, ParseError> {
        cursor.skip_white();
        let display = display(cursor)?;
        if display.is_none() && cursor.peek() != Some(b'<') {
            return Self::bare(cursor);
        }
        cursor.skip_white();
        cursor.expect(b'<', "`<` before the URI")?;
        let uri = uri::uri(cursor)?;
        cursor.expect(b'>', "`>` after the URI")?;
        let parameters = ParametersView::read(cursor, ParameterGrammar::Field)?;
        Ok(Self { display, uri, parameters })
    }

    /// An address without `<` and `>`. Its parameters belong to the header field, and its URI has no comma, semicolon or
    /// question mark (RFC 3261 section 20).
    fn bare(cursor: &mut Cursor<'a>) -> Result<Self, ParseError> {
        let start = cursor.at();
        let addr_spec = cursor.take_until(b";,? \t");
        if cursor.peek() == Some(b'?') {
            return Err(cursor.error("`<` and `>` around a URI with a question mark"));
        }
        let mut own = Cursor::new(addr_spec, "RFC 3261 section 20");
        let uri = uri::uri(&mut own).and_then(|uri| own.end().map(|()| uri));
        let uri = uri.map_err(|error| error.moved(start))?;
        let parameters = ParametersView::read(cursor, ParameterGrammar::Field)?;
        Ok(Self { display: None, uri, parameters })
    }
}

impl From<NameAddrView<'_>> for NameAddr {
    fn from(view: NameAddrView<'_>) -> Self {
        let display = |text: &str| if text.starts_with('"') { unquoted(text) } else { text.to_owned() };
        Self { display: view.display.map(display), uri: view.uri.into(), parameters: view.parameters.into() }
    }
}

/// `*( token LWS ) / quoted-string`, if a `<` follows.
fn display<'a>(cursor: &mut Cursor<'a>) -> Result<Option<&'a str>, ParseError> {
    if cursor.peek() == Some(b'"') {
        return cursor.quoted().map(Some);
    }
    let mut ahead = *cursor;
    let words = ahead.take_while(|byte| is_token(byte) || matches!(byte, b' ' | b'\t'));
    if words.is_empty() || ahead.peek() != Some(b'<') {
        return Ok(None);
    }
    *cursor = ahead;
    Ok(Some(words.trim_end()))
}

impl fmt::Display for NameAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(display) = &self.display {
            write!(f, "{} ", quoted(display))?;
        }
        write!(f, "<{}>{}", self.uri, self.parameters)
    }
}

impl From<Uri> for NameAddr {
    fn from(uri: Uri) -> Self {
        Self::new(uri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<NameAddr, ParseError> {
        let mut cursor = Cursor::new(text, "");
        let found = NameAddr::read(&mut cursor)?;
        cursor.end().map(|()| found)
    }

    #[test]
    fn a_name_may_be_quoted_or_words_or_none() {
        for (text, name, tag) in [
            (
                "\"A. G. \\\"Bell\\\"\" <sip:agb@bell-telephone.com> ;tag=a48s",
                Some("A. G. \"Bell\""),
                Some("a48s"),
            ),
            ("Anonymous <sip:c8oqz84zk7z@privacy.org>;tag=hyh8", Some("Anonymous"), Some("hyh8")),
            ("sip:+12125551212@server.phone2net.com;tag=887s", None, Some("887s")),
            ("<sip:a@b;transport=tcp?x=y>", None, None),
            ("Two Words<sip:a@b>", Some("Two Words"), None),
            ("\"\" <sip:a@b>", Some(""), None),
        ] {
            let found = read(text).unwrap();
            assert_eq!((found.display.as_deref(), found.tag()), (name, tag), "{text}");
        }
    }

    /// RFC 3261 section 20.10: "If no "<" and ">" are present, all parameters after the URI are header parameters, not URI
    /// parameters."
    #[test]
    fn parameters_of_a_bare_uri_are_the_headers() {
        let bare = read("sip:a@b;transport=tcp").unwrap();
        assert!(bare.parameters.has("transport") && bare.uri.to_string() == "sip:a@b");
        assert!(read("sip:a@b?x=y").is_err());
    }

    #[test]
    fn an_invalid_address_is_reported_with_its_position() {
        for (text, at) in [("", 0), ("<sip:a@b", 8), ("A B", 1), ("\"A\" sip:a@b", 4), ("\"A <sip:a@b>", 12)]
        {
            assert_eq!(read(text).unwrap_err().at, at, "{text}");
        }
    }
}
