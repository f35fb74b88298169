//! Echo messages of ICMP (RFC 792) and ICMPv6 (RFC 4443 section 4).

use netrig_core::internet_checksum;

/// Octets of the header of an echo message.
pub const HEADER: usize = 8;

/// Octets at the beginning of the data that identify an answer: a token (8) and the packet's number (4).
pub const MARK: usize = 12;

/// ICMP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpVersion {
    /// ICMP over IPv4.
    V4,
    /// ICMPv6.
    V6,
}

impl IcmpVersion {
    const fn request(self) -> u8 {
        match self {
            Self::V4 => 8,
            Self::V6 => 128,
        }
    }

    const fn reply(self) -> u8 {
        match self {
            Self::V4 => 0,
            Self::V6 => 129,
        }
    }
}

/// An echo request of this host, or the reply to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpEcho {
    /// Token that distinguishes the requests from those of other senders.
    pub token: u64,
    /// The packet's number.
    pub number: u32,
}

impl IcmpEcho {
    /// Builds a request with this number of octets of data, at least [`MARK`]. For unprivileged sockets, the kernel
    /// replaces the identifier. For ICMPv6, it fills in the checksum. The sequence number is the low half of the
    /// packet's number.
    pub fn request(&self, version: IcmpVersion, data: usize) -> Vec<u8> {
        let mut bytes = vec![0; HEADER + data.max(MARK)];
        bytes[0] = version.request();
        bytes[4..6].copy_from_slice(&(self.token as u16).to_be_bytes());
        bytes[6..8].copy_from_slice(&(self.number as u16).to_be_bytes());
        bytes[HEADER..HEADER + 8].copy_from_slice(&self.token.to_be_bytes());
        bytes[HEADER + 8..HEADER + MARK].copy_from_slice(&self.number.to_be_bytes());
        if version == IcmpVersion::V4 {
            let sum = internet_checksum(&[&bytes]);
            bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        bytes
    }

    /// Parses an echo reply. Returns `None` if the packet is not one. A packet from a raw IPv4 socket begins with the
    /// IP header, which is skipped.
    pub fn reply(version: IcmpVersion, mut bytes: &[u8]) -> Option<Self> {
        if version == IcmpVersion::V4 && bytes.first()? >> 4 == 4 {
            let header = usize::from(bytes[0] & 0xF) * 4;
            bytes = bytes.get(header..)?;
        }
        let (kind, code) = (*bytes.first()?, *bytes.get(1)?);
        let data = bytes.get(HEADER..)?;
        let token = u64::from_be_bytes(*data.first_chunk()?);
        let number = u32::from_be_bytes(*data.get(8..)?.first_chunk()?);
        ((kind, code) == (version.reply(), 0)).then_some(Self { token, number })
    }

    /// Whether `quoted` is an echo request with this token. `quoted` is the part of a packet in an ICMP error, from the
    /// ICMP header of the packet on. Old hosts quote only the header (RFC 792), which does not contain the token: any
    /// such request is accepted.
    pub fn is_request(version: IcmpVersion, token: u64, quoted: &[u8]) -> bool {
        let kind = quoted.first().copied();
        let repeated = quoted.get(HEADER..).and_then(|data| data.first_chunk());
        kind == Some(version.request()) && repeated.is_none_or(|octets| u64::from_be_bytes(*octets) == token)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_reply_is_a_request_of_another_type() {
        let echo = IcmpEcho { token: 0x0102_0304_0506_0708, number: 70_000 };
        for (version, reply) in [(IcmpVersion::V4, 0), (IcmpVersion::V6, 129)] {
            let mut bytes = echo.request(version, 56);
            assert_eq!(bytes.len(), 64);
            assert_eq!(IcmpEcho::reply(version, &bytes), None, "its own request");
            bytes[0] = reply;
            assert_eq!(IcmpEcho::reply(version, &bytes), Some(echo));
            assert_eq!(IcmpEcho::reply(version, &bytes[..HEADER + MARK - 1]), None, "cut");
        }
        let quoted = echo.request(IcmpVersion::V4, 56);
        for (len, token, ours) in [(64, echo.token, true), (64, 9, false), (HEADER, 9, true), (0, 9, false)] {
            assert_eq!(IcmpEcho::is_request(IcmpVersion::V4, token, &quoted[..len]), ours, "{len} {token}");
        }
        let mut raw = vec![0x46; 24];
        raw.extend(echo.request(IcmpVersion::V4, 0));
        raw[24] = 0;
        assert_eq!(IcmpEcho::reply(IcmpVersion::V4, &raw), Some(echo), "behind an IP header with options");
    }

    proptest! {
        #[test]
        fn a_request_sums_to_nothing(token: u64, number: u32, data in 0usize..200) {
            let request = IcmpEcho { token, number }.request(IcmpVersion::V4, data);
            prop_assert_eq!(internet_checksum(&[&request]), 0);
        }

        #[test]
        fn any_bytes_are_a_reply_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = (IcmpEcho::reply(IcmpVersion::V4, &bytes), IcmpEcho::reply(IcmpVersion::V6, &bytes));
        }
    }
}
