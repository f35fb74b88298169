//! Who asks.

use std::net::IpAddr;

/// Somebody who asks to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visitor {
    /// Where it is.
    pub household: Household,
    /// The name of the key that it has shown, if it has shown one.
    pub key: Option<String>,
}

/// Addresses that are taken for one line: an address of IPv4, and 2⁶⁴ addresses of IPv6, which is what one network is given
/// (RFC 6177 section 2, RFC 4291 section 2.5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Household(IpAddr);

impl Household {
    /// That of an address. An IPv4 address that is written as one of IPv6 (RFC 4291 section 2.5.5.2) is that of IPv4.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => Self(IpAddr::V6((address.to_bits() >> 64 << 64).into())),
            address @ IpAddr::V4(_) => Self(address),
        }
    }
}

/// Households that many addresses of one operator may come to: who is given 2⁸⁰ addresses of IPv6, which is the most that an end
/// site is given (RFC 6177 section 2), has 65,536 of them.
pub const HOUSEHOLDS_OF_A_SITE: usize = 4;

/// Addresses that may be one subscriber's although they are many lines: an address of IPv4, and 2⁸⁰ addresses of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site(IpAddr);

impl Household {
    /// Where it is.
    pub fn site(self) -> Site {
        match self.0 {
            IpAddr::V6(address) => Site(IpAddr::V6((address.to_bits() >> 80 << 80).into())),
            address @ IpAddr::V4(_) => Site(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Household {
        Household::of(text.parse().unwrap())
    }

    #[test]
    fn a_network_of_ipv6_is_one_household() {
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_eq!(of("2001:db8:1:2::1").site(), of("2001:db8:1:fff3::1").site());
        assert_ne!(of("2001:db8:1:2::1").site(), of("2001:db8:2:2::1").site());
        assert_ne!(of("192.0.2.1").site(), of("192.0.2.2").site());
    }
}
