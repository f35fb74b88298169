//! The control message of a socket's error queue: `struct sock_extended_err` (ip(7), `IP_RECVERR`).

use std::net::IpAddr;

use super::socket_name::{NAME, decode_name};

/// Length of the structure, octets. The address of the host that sent the error follows it.
const LEN: usize = 16;

/// `SO_EE_RFC4884_FLAG_INVALID` (include/uapi/linux/errqueue.h).
const INVALID: u8 = 1;

/// Origin of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorOrigin {
    /// This host.
    Local,
    /// An ICMP packet.
    Icmp,
    /// An ICMPv6 packet.
    Icmp6,
    /// No error: the message contains a transmit time stamp.
    Stamp,
    /// Another origin.
    Other,
}

/// An error of the error queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedError {
    /// The number of the error (errno(3)).
    pub errno: i32,
    /// Origin of the error.
    pub origin: ErrorOrigin,
    /// ICMP type.
    pub kind: u8,
    /// ICMP code.
    pub code: u8,
    /// The MTU, if the error reports one.
    pub info: u32,
    /// For a time stamp, the number of the datagram. For ICMP, the offset of the extension (RFC 4884). In the kernel's
    /// format.
    data: [u8; 4],
    /// The host that sent the ICMP packet.
    pub offender: Option<IpAddr>,
}

impl ExtendedError {
    /// Parses the octets; `None` if they are too few.
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

    /// If this is the transmit time stamp of a datagram that was passed to the network device: the number of the
    /// datagram (Documentation/networking/timestamping).
    pub fn stamped(&self) -> Option<u32> {
        const STAMPED_WHEN_SENT: u32 = 0;
        (self.origin == ErrorOrigin::Stamp && self.info == STAMPED_WHEN_SENT)
            .then(|| u32::from_ne_bytes(self.data))
    }

    /// Offset of the RFC 4884 extension in the quoted octets, if the ICMP packet has an extension and the socket
    /// reports it (`IP_RECVERR_RFC4884`). An invalid extension is ignored.
    pub fn extension(&self) -> Option<usize> {
        let at = usize::from(u16::from_ne_bytes([self.data[0], self.data[1]]));
        let is_said = matches!(self.origin, ErrorOrigin::Icmp | ErrorOrigin::Icmp6) && at > 0;
        (is_said && self.data[2] & INVALID == 0).then_some(at)
    }

    /// Whether this is one of the following ICMP messages: "Host, network, port or protocol unreachable errors, or
    /// parameter problem errors SHOULD cause the transport layer to inform the transport user of a failure in sending."
    /// (RFC 3261 section 18.4)
    pub fn says_unreachable(&self) -> bool {
        /// ICMP code of a message that reports the path MTU for a datagram with DF. The datagram is then sent again in
        /// fragments.
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
