//! What the kernel puts beside a message of a socket's error queue: `struct sock_extended_err` (ip(7), `IP_RECVERR`).

use std::net::IpAddr;

use super::socket_name::{NAME, decode_name};

/// Octets of the structure; the address of who said it follows.
const LEN: usize = 16;

/// `SO_EE_RFC4884_FLAG_INVALID` (include/uapi/linux/errqueue.h).
const INVALID: u8 = 1;

/// Who says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorOrigin {
    /// This host.
    Local,
    /// A packet of ICMP.
    Icmp,
    /// A packet of ICMPv6.
    Icmp6,
    /// It is about a stamp.
    Stamp,
    /// None of these.
    Other,
}

/// What a message of the error queue is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedError {
    /// The number of the error (errno(3)).
    pub errno: i32,
    /// Who says it.
    pub origin: ErrorOrigin,
    /// Type of ICMP.
    pub kind: u8,
    /// Code of ICMP.
    pub code: u8,
    /// The MTU, where that is what is said.
    pub info: u32,
    /// Which datagram, of a stamp; of ICMP where its extension is (RFC 4884), as the kernel writes it.
    data: [u8; 4],
    /// The host that sent the packet of ICMP.
    pub offender: Option<IpAddr>,
}

impl ExtendedError {
    /// What these octets say; nothing if they are too few.
    pub fn parse(content: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_ne_bytes(*content.get(at..)?.first_chunk()?));
        let data = *content.get(12..)?.first_chunk()?;
        let mut name = [0; NAME];
        let address = content.get(LEN..).unwrap_or_default();
        let len = address.len().min(NAME);
        name[..len].copy_from_slice(&address[..len]);
        Some(Self {
            errno: word(0)?.cast_signed(),
            origin: match content.get(4)? {
                1 => ErrorOrigin::Local,
                2 => ErrorOrigin::Icmp,
                3 => ErrorOrigin::Icmp6,
                4 => ErrorOrigin::Stamp,
                _ => ErrorOrigin::Other,
            },
            kind: *content.get(5)?,
            code: *content.get(6)?,
            info: word(8)?,
            data,
            offender: decode_name(&name).map(|address| address.ip()),
        })
    }

    /// Which datagram was given to the device, if that is what is said (Documentation/networking/timestamping).
    pub fn stamped(&self) -> Option<u32> {
        const STAMPED_WHEN_SENT: u32 = 0;
        (self.origin == ErrorOrigin::Stamp && self.info == STAMPED_WHEN_SENT)
            .then(|| u32::from_ne_bytes(self.data))
    }

    /// Where in the repeated octets the extension of RFC 4884 begins, if the packet says so and the socket was asked to tell
    /// (`IP_RECVERR_RFC4884`); one whose octets are not as they should be is none.
    pub fn extension(&self) -> Option<usize> {
        let at = usize::from(u16::from_ne_bytes([self.data[0], self.data[1]]));
        let is_said = matches!(self.origin, ErrorOrigin::Icmp | ErrorOrigin::Icmp6) && at > 0;
        (is_said && self.data[2] & INVALID == 0).then_some(at)
    }

    /// Whether it is one of those messages of ICMP: "Host, network, port or protocol unreachable errors, or parameter problem
    /// errors SHOULD cause the transport layer to inform the transport user of a failure in sending." (RFC 3261 section 18.4)
    pub fn says_unreachable(&self) -> bool {
        /// A datagram that is too long and must not be cut is told by the size of the way, and sent again in pieces.
        const FRAGMENTATION_NEEDED: u8 = 4;
        match (self.origin, self.kind) {
            (ErrorOrigin::Icmp, 3) => self.code != FRAGMENTATION_NEEDED,
            (ErrorOrigin::Icmp, 12) | (ErrorOrigin::Icmp6, 1 | 4) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn octets(origin: u8, kind: u8, code: u8, info: u32, data: [u8; 4]) -> Vec<u8> {
        let mut octets = 113_u32.to_ne_bytes().to_vec();
        octets.extend([origin, kind, code, 0]);
        octets.extend(info.to_ne_bytes());
        octets.extend(data);
        octets
    }

    #[test]
    fn a_router_says_that_a_packet_was_too_long() {
        let mut said = octets(2, 3, 4, 1400, [0; 4]);
        said.extend((libc::AF_INET as u16).to_ne_bytes());
        said.extend([0, 0, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        let error = ExtendedError::parse(&said).unwrap();
        assert_eq!((error.errno, error.origin, error.info), (113, ErrorOrigin::Icmp, 1400));
        assert_eq!(error.offender, Some([192, 0, 2, 1].into()));
        assert!(!error.says_unreachable() && error.stamped().is_none() && error.extension().is_none());
    }

    #[test]
    fn a_stamp_and_an_extension_are_what_they_are() {
        let stamp = ExtendedError::parse(&octets(4, 0, 0, 0, 7_u32.to_ne_bytes())).unwrap();
        assert_eq!((stamp.stamped(), stamp.extension()), (Some(7), None));
        let at = 100_u16.to_ne_bytes();
        let said = |flags| ExtendedError::parse(&octets(2, 11, 0, 0, [at[0], at[1], flags, 0])).unwrap();
        assert_eq!(
            (said(0).extension(), said(INVALID).extension(), said(0).stamped()),
            (Some(100), None, None)
        );
    }

    proptest! {
        #[test]
        fn any_octets_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let error = ExtendedError::parse(&bytes);
            prop_assert_eq!(error.is_some(), bytes.len() >= LEN);
        }
    }
}
