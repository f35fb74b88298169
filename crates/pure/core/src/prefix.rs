//! Networks of IP addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network: the addresses that begin with the same bits. The text form is an address (`192.0.2.1`, a network of one
/// address) or a prefix with its length (`10.0.0.0/8`, `2001:db8::/32`). The bits after the prefix are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    network: IpAddr,
    length: u8,
}

impl Prefix {
    /// The loopback addresses of a host: `127.0.0.0/8` and `::1`.
    pub const LOOPBACK: [Self; 2] = [
        Self { network: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), length: 8 },
        Self { network: IpAddr::V6(Ipv6Addr::LOCALHOST), length: 128 },
    ];

    /// Whether the network contains the address. It contains no address of the other IP version.
    pub fn contains(self, address: IpAddr) -> bool {
        let bits = match (self.network, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            _ => return false,
        };
        bits >= u32::from(self.length)
    }

    /// Whether the network contains every address of `other`.
    pub fn covers(self, other: Self) -> bool {
        self.length <= other.length && self.contains(other.network)
    }
}

impl From<IpAddr> for Prefix {
    /// The network of this one address.
    fn from(network: IpAddr) -> Self {
        Self { network, length: if network.is_ipv4() { 32 } else { 128 } }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::from(self.network) {
            self.network.fmt(f)
        } else {
            write!(f, "{}/{}", self.network, self.length)
        }
    }
}

/// The text is not an address or a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address, nor a prefix such as `10.0.0.0/8` with no bits behind its length")]
pub struct PrefixError(String);

impl FromStr for Prefix {
    type Err = PrefixError;

    /// # Errors
    /// The text is neither an address nor a prefix, or a bit after the prefix is set.
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let wrong = || PrefixError(text.to_owned());
        let (network, length) = match text.split_once('/') {
            Some((network, length)) => (network, Some(length)),
            None => (text, None),
        };
        let whole = Self::from(network.parse::<IpAddr>().map_err(|_| wrong())?);
        let Some(length) = length else { return Ok(whole) };
        let length: u8 = length.parse().map_err(|_| wrong())?;
        let bits_behind = match whole.network {
            IpAddr::V4(network) => network.to_bits().checked_shl(length.into()).unwrap_or(0) != 0,
            IpAddr::V6(network) => network.to_bits().checked_shl(length.into()).unwrap_or(0) != 0,
        };
        if length > whole.length || bits_behind { Err(wrong()) } else { Ok(Self { length, ..whole }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn prefixes_are_read_as_people_write_them() {
        let contains = |network: &str, address: &str| prefix(network).contains(address.parse().unwrap());
        assert!(contains("0.0.0.0/0", "203.0.113.9") && !contains("0.0.0.0/0", "::1"));
        assert!(contains("10.0.0.1", "10.0.0.1") && !contains("10.0.0.1", "10.0.0.2"));
        assert!(contains("::/0", "2001:db8::1") && contains("fe80::/10", "febf::1"));
        assert!(!contains("::/0", "127.0.0.1") && !contains("2001:db8::/32", "2001:db9::"));
        for text in ["10.0.0.0/8", "10.0.0.1", "2001:db8::/32", "::1", "0.0.0.0/0"] {
            assert_eq!(prefix(text).to_string(), text);
        }
        assert_eq!(prefix("10.0.0.1/32"), prefix("10.0.0.1"));
    }

    #[test]
    fn what_is_no_prefix_is_told() {
        // The last two have bits set after the prefix.
        for wrong in
            ["", "10.0.0.0/33", "::/129", "10.0.0.0/", "host", "10.0.0.0/-1", "10.0.0.1/8", "2001:db8::1/32"]
        {
            let error = wrong.parse::<Prefix>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{wrong}` is not an address, nor")), "{error}");
        }
    }

    #[test]
    fn a_network_covers_its_parts() {
        assert!(prefix("10.0.0.0/8").covers(prefix("10.1.0.0/16")));
        assert!(!prefix("10.1.0.0/16").covers(prefix("10.0.0.0/8")));
        assert!(!prefix("0.0.0.0/0").covers(prefix("::1")));
        let reaches =
            |address: &str| Prefix::LOOPBACK.iter().any(|own| own.contains(address.parse().unwrap()));
        assert!(reaches("127.255.0.1") && reaches("::1") && !reaches("128.0.0.1") && !reaches("::2"));
    }
}
