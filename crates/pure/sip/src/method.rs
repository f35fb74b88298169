//! Methods of requests.

use std::fmt;
use std::str::FromStr;

use crate::error::ParseError;
use crate::grammar::is_a_token;

/// A method. Methods are case-sensitive (RFC 3261 section 7.1).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// RFC 3261 section 13.
    Invite,
    /// RFC 3261 section 13.
    Ack,
    /// RFC 3261 section 15.
    Bye,
    /// RFC 3261 section 9.
    Cancel,
    /// RFC 3261 section 10.
    Register,
    /// RFC 3261 section 11.
    Options,
    /// RFC 3262.
    Prack,
    /// RFC 3311.
    Update,
    /// RFC 3428.
    Message,
    /// RFC 6665.
    Subscribe,
    /// RFC 6665.
    Notify,
    /// RFC 3515.
    Refer,
    /// RFC 6086.
    Info,
    /// RFC 3903.
    Publish,
    /// Any other token.
    Other(Box<str>),
}

impl Method {
    /// All methods with a variant of their own.
    pub const KNOWN: [Self; 14] = [
        Self::Invite,
        Self::Ack,
        Self::Bye,
        Self::Cancel,
        Self::Register,
        Self::Options,
        Self::Prack,
        Self::Update,
        Self::Message,
        Self::Subscribe,
        Self::Notify,
        Self::Refer,
        Self::Info,
        Self::Publish,
    ];

    /// The method of that name; `None` if it has no variant of its own.
    pub fn known(name: &[u8]) -> Option<&'static Self> {
        static KNOWN: [Method; 14] = Method::KNOWN;
        KNOWN.iter().find(|known| known.as_str().as_bytes() == name)
    }

    /// The name of a method that has a variant of its own.
    pub const fn known_name(&self) -> Option<&'static str> {
        Some(match self {
            Self::Invite => "INVITE",
            Self::Ack => "ACK",
            Self::Bye => "BYE",
            Self::Cancel => "CANCEL",
            Self::Register => "REGISTER",
            Self::Options => "OPTIONS",
            Self::Prack => "PRACK",
            Self::Update => "UPDATE",
            Self::Message => "MESSAGE",
            Self::Subscribe => "SUBSCRIBE",
            Self::Notify => "NOTIFY",
            Self::Refer => "REFER",
            Self::Info => "INFO",
            Self::Publish => "PUBLISH",
            Self::Other(_) => return None,
        })
    }

    /// The method as a token of the request.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Other(name) => name,
            known => known.known_name().unwrap_or_default(),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Method {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if let Some(known) = Self::KNOWN.iter().find(|method| method.as_str() == text) {
            return Ok(known.clone());
        }
        if is_a_token(text) {
            return Ok(Self::Other(text.into()));
        }
        Err(ParseError { at: 0, expected: "a method", rule: "RFC 3261 section 7.1" })
    }
}
