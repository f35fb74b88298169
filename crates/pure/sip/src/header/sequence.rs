//! `CSeq` (RFC 3261 section 20.16) and `RAck` (RFC 3262 section 7.2).

use std::fmt;
use std::str::FromStr;

use crate::Method;
use crate::error::ParseError;
use crate::grammar::Cursor;

/// `CSeq: 4711 INVITE`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CSeq {
    /// Below 2^31 (RFC 3261 section 8.1.1.5).
    pub number: u32,
    /// The method of the request.
    pub method: Method,
}

/// `RAck: 776656 1 INVITE`: the provisional response that is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RAck {
    /// `RSeq` of the response, "a single numeric value from 1 to 2**32 - 1" (RFC 3262 section 7.1).
    pub response: u32,
    /// `CSeq` of the request.
    pub request: CSeq,
}

const BOUND: u32 = 1 << 31;

/// The number of a `CSeq`.
pub(crate) fn number(cursor: &mut Cursor<'_>) -> Result<u32, ParseError> {
    let before = *cursor;
    let number: u32 = cursor.number("a number below 2^31")?;
    if number < BOUND { Ok(number) } else { Err(before.error("a number below 2^31")) }
}

fn cseq(cursor: &mut Cursor<'_>) -> Result<CSeq, ParseError> {
    let number = number(cursor)?;
    cursor.white()?;
    let method = cursor.token("a method")?;
    // Every token is a method.
    Ok(CSeq { number, method: method.parse().map_err(|_| cursor.error("a method"))? })
}

impl FromStr for CSeq {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut cursor = Cursor::new(text, "RFC 3261 section 20.16");
        let found = cseq(&mut cursor)?;
        cursor.end().map(|()| found)
    }
}

impl FromStr for RAck {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut cursor = Cursor::new(text, "RFC 3262 section 7.2");
        let response = cursor.number("a number below 2^32")?;
        cursor.white()?;
        let request = cseq(&mut cursor)?;
        cursor.end().map(|()| Self { response, request })
    }
}

impl fmt::Display for CSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number, self.method)
    }
}

impl fmt::Display for RAck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.response, self.request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_below_two_to_the_31() {
        assert_eq!("4711  INVITE".parse::<CSeq>().unwrap().to_string(), "4711 INVITE");
        assert_eq!("0 ACK".parse::<CSeq>().unwrap().number, 0);
        assert_eq!("2147483647 BYE".parse::<CSeq>().unwrap().number, 2_147_483_647);
        for text in ["2147483648 BYE", "36893488147419103232 BYE", "-1 BYE", "INVITE", "1", "1 ", "1 A B"] {
            assert!(text.parse::<CSeq>().is_err(), "{text}");
        }
        let rack: RAck = "776656 1 INVITE".parse().unwrap();
        assert_eq!((rack.response, rack.request.number), (776_656, 1));
        assert_eq!("4294967295 1 INVITE".parse::<RAck>().unwrap().response, u32::MAX);
        for text in ["4294967296 1 INVITE", "1 2147483648 INVITE", "1 INVITE"] {
            assert!(text.parse::<RAck>().is_err(), "{text}");
        }
    }
}
