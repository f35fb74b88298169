//! Names of DiffServ code points, and the colours of meters.

use std::fmt;
use std::str::FromStr;

use crate::{Dscp, written, written_as_text};

crate::named! {
    /// The result of a meter for a packet: whether its stream keeps its profile (RFC 2697, RFC 2698).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Colour {
        /// In profile.
        #[default]
        Green = "green",
        /// Above the committed rate, within the tolerated excess.
        Yellow = "yellow",
        /// Out of profile.
        Red = "red",
    }
}

impl Colour {
    /// The index in [`Colour::ALL`], for tables of counters.
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl Dscp {
    /// Best effort, the default (RFC 2474 section 4.1).
    pub const BE: Self = Self(0);
    /// Expedited forwarding (RFC 3246 section 2.7).
    pub const EF: Self = Self(0b10_1110);

    /// Assured forwarding with a class from 1 to 4 and a drop precedence from 1 to 3 (RFC 2597 section 6). A value out
    /// of range is replaced by the nearest valid value.
    pub const fn af(class: u8, precedence: u8) -> Self {
        const fn within(value: u8, most: u8) -> u8 {
            if value < 1 {
                1
            } else if value > most {
                most
            } else {
                value
            }
        }
        Self(within(class, 4) << 3 | within(precedence, 3) << 1)
    }

    /// The class selector of an IP precedence from 0 to 7 (RFC 2474 section 4.2.2).
    pub const fn cs(precedence: u8) -> Self {
        Self((precedence & 7) << 3)
    }

    /// The IP precedence (RFC 791), 0 to 7: the upper three bits.
    pub const fn precedence(self) -> u8 {
        self.0 >> 3
    }

    /// Class and drop precedence of a code point of assured forwarding.
    pub const fn as_af(self) -> Option<(u8, u8)> {
        let (class, drop) = (self.0 >> 3, self.0 >> 1 & 3);
        let is_af = self.0 & 1 == 0 && 1 <= class && class <= 4 && drop > 0;
        if is_af { Some((class, drop)) } else { None }
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self, self.as_af()) {
            (Self::BE, _) => f.write_str("be"),
            (Self::EF, _) => f.write_str("ef"),
            (_, Some((class, drop))) => write!(f, "af{class}{drop}"),
            (Self(value), None) if value & 7 == 0 => write!(f, "cs{}", value >> 3),
            (Self(value), None) => write!(f, "{value}"),
        }
    }
}

/// The text is not a code point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not {EXPECTED}")]
pub struct DscpError(String);

const EXPECTED: &str =
    "a DiffServ code point: `be`, `ef`, `af11` to `af43`, `cs0` to `cs7`, or a number from 0 to 63";

impl FromStr for Dscp {
    type Err = DscpError;

    fn from_str(text: &str) -> Result<Self, DscpError> {
        let wrong = || DscpError(text.to_owned());
        let digits = |rest: &str| -> Option<Vec<u8>> {
            rest.bytes().map(|b| b.is_ascii_digit().then(|| b - b'0')).collect()
        };
        // RFCs write the names in upper case, router configurations in lower case.
        let name = text.to_ascii_lowercase();
        match name.as_str() {
            "be" => return Ok(Self::BE),
            "ef" => return Ok(Self::EF),
            _ => {}
        }
        if let Some(rest) = name.strip_prefix("af") {
            return match digits(rest).as_deref() {
                Some([class @ 1..=4, drop @ 1..=3]) => Ok(Self::af(*class, *drop)),
                _ => Err(wrong()),
            };
        }
        if let Some(rest) = name.strip_prefix("cs") {
            return match digits(rest).as_deref() {
                Some([precedence @ 0..=7]) => Ok(Self::cs(*precedence)),
                _ => Err(wrong()),
            };
        }
        match text.parse() {
            Ok(value @ 0..=63) => Ok(Self(value)),
            _ => Err(wrong()),
        }
    }
}

written_as_text!(Dscp, written::text_or_whole, EXPECTED, "Dscp", {
    "type": ["string", "number"], "description": EXPECTED, "examples": ["ef"]
});

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of RFC 2474 section 4.2.2, RFC 2597 section 6 and RFC 3246 section 2.7.
    #[test]
    fn names_are_those_of_the_rfcs() {
        for (name, value) in [
            ("be", 0b00_0000),
            ("cs1", 0b00_1000),
            ("cs7", 0b11_1000),
            ("af11", 0b00_1010),
            ("af13", 0b00_1110),
            ("af21", 0b01_0010),
            ("af32", 0b01_1100),
            ("af41", 0b10_0010),
            ("af43", 0b10_0110),
            ("ef", 0b10_1110),
        ] {
            assert_eq!(name.parse(), Ok(Dscp(value)));
            assert_eq!(Dscp(value).to_string(), name);
        }
        assert_eq!("cs0".parse(), Ok(Dscp::BE));
        assert_eq!(["EF", "AF41", "CS1"].map(str::parse), [Ok(Dscp(46)), Ok(Dscp(34)), Ok(Dscp(8))]);
    }

    #[test]
    fn every_code_point_reads_back() {
        for value in 0..64 {
            assert_eq!(Dscp(value).to_string().parse(), Ok(Dscp(value)));
            assert_eq!(value.to_string().parse(), Ok(Dscp(value)));
        }
    }

    #[test]
    fn what_is_no_code_point_is_refused() {
        for wrong in ["", "EFF", "af", "af10", "af51", "af111", "cs8", "cs", "64", "-1", "gold"] {
            let error = wrong.parse::<Dscp>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{wrong}` is not a DiffServ code point")), "{error}");
        }
    }

    #[test]
    fn only_assured_forwarding_has_a_class_and_a_drop_precedence() {
        let found: Vec<_> = (0..64).filter(|value| Dscp(*value).as_af().is_some()).collect();
        let named = (1..=4).flat_map(|class| (1..=3).map(move |drop| Dscp::af(class, drop).0));
        assert_eq!(found, named.collect::<Vec<_>>());
        assert_eq!(Dscp::af(3, 2).as_af(), Some((3, 2)));
    }
}
