//! `WWW-Authenticate`, `Authorization` and similar fields (RFC 3261 sections 20.7 and 20.44), as lists of parameters.
//! [`digest`](crate::digest) interprets them.

use std::fmt;

use super::Parameters;
use super::parameters::value;
use crate::error::ParseError;
use crate::grammar::{Cursor, is_token};

/// The challenge of a server: `Digest realm="example.com", nonce="…"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge(pub AuthScheme);

/// The credentials of a client: `Digest username="bob", response="…"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials(pub AuthScheme);

/// An authentication scheme with its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthScheme {
    /// The name, `Digest`, which is case-insensitive.
    pub name: String,
    /// The parameters in their order.
    pub parameters: Parameters,
}

/// `Authentication-Info` of a server that accepted credentials (RFC 3261 section 20.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticationInfo(pub Parameters);

impl AuthScheme {
    /// A scheme without parameters.
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), parameters: Parameters::default() }
    }

    /// `scheme LWS param *( COMMA param )`. SIP has one challenge per header field (RFC 3261 section 7.3.1).
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, ParseError> {
        let mut found = Self::new(cursor.token("an authentication scheme")?);
        cursor.white()?;
        found.parameters = auth_parameters(cursor)?;
        Ok(found)
    }
}

/// `param *( COMMA param )`.
fn auth_parameters(cursor: &mut Cursor<'_>) -> Result<Parameters, ParseError> {
    let mut found = Parameters::default();
    loop {
        let name = cursor.token("the name of a parameter")?;
        if !cursor.eat_separator(b'=') {
            return Err(cursor.error("`=` after the name of a parameter"));
        }
        let value = auth_value(cursor)?;
        found.add(name, Some(value), cursor)?;
        if !cursor.eat_separator(b',') {
            return Ok(found);
        }
    }
}

/// A token or quoted string. The grammar quotes URIs (`uri`) and lists of URIs (`domain`), so unquoted ones are refused.
fn auth_value<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str, ParseError> {
    if cursor.peek().is_some_and(|byte| byte == b'"' || is_token(byte)) {
        value(cursor)
    } else {
        Err(cursor.error("the value of a parameter"))
    }
}

impl fmt::Display for AuthScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for ((name, value), sign) in
            self.parameters.iter().zip(std::iter::once(" ").chain(std::iter::repeat(", ")))
        {
            write!(f, "{sign}{name}={}", value.unwrap_or("\"\""))?;
        }
        Ok(())
    }
}

impl Challenge {
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self, ParseError> {
        AuthScheme::read(cursor).map(Self)
    }
}

impl Credentials {
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self, ParseError> {
        AuthScheme::read(cursor).map(Self)
    }
}

impl AuthenticationInfo {
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self, ParseError> {
        auth_parameters(cursor).map(Self)
    }
}

impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3261 section 20.44.
    #[test]
    fn the_example_of_rfc_3261_section_20_44() {
        let text = "Digest realm=\"atlanta.com\", domain=\"sip:boxesbybob.com\", qop=\"auth\", \
                    nonce=\"f84f1cec41e6cbe5aea9c8e88d359\", opaque=\"\", stale=FALSE, algorithm=MD5";
        let mut cursor = Cursor::new(text, "");
        let challenge = Challenge::read(&mut cursor).unwrap();
        assert!(cursor.is_at_end());
        assert_eq!(challenge.0.parameters.text("realm").as_deref(), Some("atlanta.com"));
        assert_eq!(challenge.0.parameters.value("stale"), Some("FALSE"));
        assert_eq!(challenge.to_string(), text);
    }

    #[test]
    fn an_invalid_challenge_is_reported_with_its_position() {
        for (text, at) in [("Digest", 6), ("Digest realm", 12), ("Digest realm=", 13), ("Digest a=b,", 11)] {
            assert_eq!(Credentials::read(&mut Cursor::new(text, "")).unwrap_err().at, at, "{text}");
        }
    }
}
