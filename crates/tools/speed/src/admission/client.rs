//! The client of a session: its key and its address range.

use std::net::IpAddr;

/// A client that requests admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionClient {
    /// The household of its address.
    pub household: Household,
    /// The name of the key that it has proved, if any.
    pub key: Option<String>,
}

/// A group of addresses that probably share one access line: an IPv4 address, or an IPv6 /64, which is the size of one
/// network (RFC 6177 section 2, RFC 4291 section 2.5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Household(IpAddr);

impl Household {
    /// The household of an address. An IPv4-mapped IPv6 address (RFC 4291 section 2.5.5.2) counts as IPv4.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => Self(IpAddr::V6((address.to_bits() >> 64 << 64).into())),
            address @ IpAddr::V4(_) => Self(address),
        }
    }
}

/// The limit of a site is the limit of a household multiplied by this factor. An IPv6 /48, the largest assignment to an
/// end site (RFC 6177 section 2), has 65,536 households.
pub const HOUSEHOLDS_OF_A_SITE: usize = 4;

/// A group of addresses that may belong to one subscriber with many networks: an IPv4 address or an IPv6 /48.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site(IpAddr);

impl Household {
    /// The site of the household.
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
