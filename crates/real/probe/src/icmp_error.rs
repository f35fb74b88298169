//! ICMP errors (RFC 792, RFC 1812 section 5.2.7) and ICMPv6 errors (RFC 4443 section 3) about a packet, with their
//! extensions (RFC 4884). An extension can contain the MPLS labels that the packet had on arrival (RFC 4950).

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use netrig_core::internet_checksum;
use serde::{Serialize, Serializer};

use super::icmp::IcmpVersion;

/// Default position of an extension, used if the message does not state the length of the original datagram: octets
/// from the start of that datagram (RFC 4884 section 5.5).
const OLD_PLACE: usize = 128;

/// Maximum number of objects read from an extension.
const MOST_OBJECTS: usize = 16;

/// Maximum number of labels read from a message.
const MOST_LABELS: usize = 16;

/// The meaning of an ICMP message about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IcmpError {
    /// The TTL or hop limit expired.
    Expired,
    /// The destination is unreachable.
    Unreachable(Unreachable),
    /// A message of another type.
    Other {
        /// ICMP type.
        kind: u8,
        /// ICMP code.
        code: u8,
    },
}

/// Why a destination is unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unreachable {
    /// No route to the network.
    Network,
    /// The host does not answer on its link.
    Host,
    /// The host does not support the protocol.
    Protocol,
    /// No program listens on the port.
    Port,
    /// The packet is longer than the MTU of the next link, octets of IP; 0 if the message does not state the MTU.
    TooLong(u32),
    /// The source route failed.
    SourceRoute,
    /// Communication is administratively prohibited.
    Prohibited,
    /// Another reason, by its code.
    Code(u8),
}

impl Unreachable {
    /// Whether a shorter packet might be forwarded.
    pub const fn is_of_length(self) -> bool {
        matches!(self, Self::TooLong(_))
    }
}

/// Written in the notation of traceroute: `!N`, `!H`, `!P`, `!F-1400`, `!S`, `!X` or `!<code>`. A closed port is the
/// end of a trace and is written as an empty text.
impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network => f.write_str("!N"),
            Self::Host => f.write_str("!H"),
            Self::Protocol => f.write_str("!P"),
            Self::Port => Ok(()),
            Self::TooLong(0) => f.write_str("!F"),
            Self::TooLong(mtu) => write!(f, "!F-{mtu}"),
            Self::SourceRoute => f.write_str("!S"),
            Self::Prohibited => f.write_str("!X"),
            Self::Code(code) => write!(f, "!<{code}>"),
        }
    }
}

impl IcmpError {
    /// Meaning of a message with this type and code. `info` is the MTU if the message states one.
    pub const fn of(version: IcmpVersion, kind: u8, code: u8, info: u32) -> Self {
        use Unreachable::{Code, Host, Network, Port, Prohibited, Protocol, SourceRoute, TooLong};
        let unreachable = match (version, kind, code) {
            (IcmpVersion::V4, 11, 0) | (IcmpVersion::V6, 3, 0) => return Self::Expired,
            (IcmpVersion::V4, 3, 0 | 6 | 11) | (IcmpVersion::V6, 1, 0) => Network,
            (IcmpVersion::V4, 3, 1 | 7 | 12) | (IcmpVersion::V6, 1, 3) => Host,
            (IcmpVersion::V4, 3, 2) | (IcmpVersion::V6, 4, 1) => Protocol,
            (IcmpVersion::V4, 3, 3) | (IcmpVersion::V6, 1, 4) => Port,
            (IcmpVersion::V4, 3, 4) | (IcmpVersion::V6, 2, _) => TooLong(info),
            (IcmpVersion::V4, 3, 5) => SourceRoute,
            (IcmpVersion::V4, 3, 9 | 10 | 13) | (IcmpVersion::V6, 1, 1 | 5 | 6) => Prohibited,
            (IcmpVersion::V4, 3, code) | (IcmpVersion::V6, 1, code) => Code(code),
            _ => return Self::Other { kind, code },
        };
        Self::Unreachable(unreachable)
    }
}

/// Written with the name in the RFCs.
impl fmt::Display for IcmpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Unreachable::{Code, Host, Network, Port, Prohibited, Protocol, SourceRoute, TooLong};
        match self {
            Self::Expired => f.write_str("time to live exceeded"),
            Self::Unreachable(Network) => f.write_str("network unreachable"),
            Self::Unreachable(Host) => f.write_str("host unreachable"),
            Self::Unreachable(Protocol) => f.write_str("protocol unreachable"),
            Self::Unreachable(Port) => f.write_str("port unreachable"),
            Self::Unreachable(TooLong(0)) => f.write_str("packet too long"),
            Self::Unreachable(TooLong(mtu)) => write!(f, "packet too long for an MTU of {mtu} B"),
            Self::Unreachable(SourceRoute) => f.write_str("source route failed"),
            Self::Unreachable(Prohibited) => f.write_str("administratively prohibited"),
            Self::Unreachable(Code(code)) => write!(f, "unreachable, code {code}"),
            Self::Other { kind, code } => write!(f, "ICMP type {kind}, code {code}"),
        }
    }
}

/// Maximum number of pairs of sender and error that are counted separately: an attacker chooses both.
const MOST_ERRORS: usize = 64;

/// The ICMP errors about the packets of one probe, by sender and error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IcmpErrors {
    counts: BTreeMap<(IpAddr, IcmpError), u64>,
    /// Number of errors of pairs beyond the first [`MOST_ERRORS`].
    others: u64,
}

impl IcmpErrors {
    /// Counts an error.
    pub fn count(&mut self, from: IpAddr, error: IcmpError) {
        self.add(from, error, 1);
    }

    fn add(&mut self, from: IpAddr, error: IcmpError, times: u64) {
        let is_full = self.counts.len() >= MOST_ERRORS;
        match self.counts.get_mut(&(from, error)) {
            Some(count) => *count += times,
            None if is_full => self.others += times,
            None => drop(self.counts.insert((from, error), times)),
        }
    }

    /// Whether no error was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Adds the counts of another part of the probe.
    pub fn append(&mut self, more: &Self) {
        more.counts.iter().for_each(|((from, error), count)| self.add(*from, *error, *count));
        self.others += more.others;
    }

    /// A sentence for each sender and error.
    pub fn sentences(&self) -> Vec<String> {
        let sentence = |((from, error), count): (&(IpAddr, IcmpError), &u64)| {
            let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
            let advice = match error {
                IcmpError::Unreachable(Unreachable::Port) => ": no program listens there",
                _ => "",
            };
            format!("{from} refused packets {times} with the ICMP error \u{201c}{error}\u{201d}{advice}")
        };
        let others = (self.others > 0)
            .then(|| format!("{} more ICMP errors arrived, from too many senders to list", self.others));
        self.counts.iter().map(sentence).chain(others).collect()
    }
}

/// Serialised as a list of objects with the sender, the error as text and the count.
impl Serialize for IcmpErrors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct IcmpErrorCount {
            from: IpAddr,
            error: String,
            count: u64,
        }
        let counted = self.counts.iter().map(|((from, error), count)| IcmpErrorCount {
            from: *from,
            error: error.to_string(),
            count: *count,
        });
        serializer.collect_seq(counted)
    }
}

/// An MPLS label (RFC 3032 section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Label {
    /// The label, 20 bits.
    pub label: u32,
    /// Its traffic class (RFC 5462), 0 to 7.
    pub class: u8,
    /// Whether the label is the last of the stack.
    pub bottom: bool,
    /// Its time to live.
    pub ttl: u8,
}

impl Label {
    const fn read([a, b, c, ttl]: [u8; 4]) -> Self {
        Self {
            label: (a as u32) << 12 | (b as u32) << 4 | (c as u32) >> 4,
            class: (c >> 1) & 7,
            bottom: c & 1 == 1,
            ttl,
        }
    }
}

/// The extension after the quoted packet in an ICMP message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extension {
    /// The label stack of the packet, outermost label first; empty if the message has no labels.
    pub labels: Vec<Label>,
    /// Class and type of each other object.
    pub others: Vec<(u8, u8)>,
}

impl Extension {
    /// Finds the extension of a message in `repeated`, the quoted octets. If the message states its length, the
    /// extension begins at `place` in them. Otherwise it begins at the default position, and its checksum must be
    /// present and correct. `before` is the number of octets of the datagram that precede `repeated` and were not kept.
    /// Returns `None` if there is no valid extension.
    pub fn find(repeated: &[u8], place: Option<usize>, before: usize) -> Option<Self> {
        if let Some(at) = place {
            return Self::read(repeated.get(at..)?, false);
        }
        Self::read(repeated.get(OLD_PLACE.checked_sub(before)?..)?, true)
    }

    /// Parses the version, the checksum and the objects (RFC 4884 sections 7 and 8).
    fn read(bytes: &[u8], checked: bool) -> Option<Self> {
        const VERSION: u8 = 2;
        let (header, mut rest) = bytes.split_first_chunk::<4>()?;
        let summed = header[2..] != [0, 0];
        if header[0] >> 4 != VERSION || (checked && !summed) || (summed && internet_checksum(&[bytes]) != 0) {
            return None;
        }
        let mut extension = Self::default();
        for _ in 0..MOST_OBJECTS {
            let Some((&[high, low, class, kind], _)) = rest.split_first_chunk::<4>() else { break };
            let len = usize::from(u16::from_be_bytes([high, low]));
            // The length of an object includes its header of 4 octets and must not exceed the rest of the message.
            let object = rest.get(4..len)?;
            match (class, kind) {
                (1, 1) => extension.push_labels(object),
                other => extension.others.push(other),
            }
            rest = &rest[len..];
        }
        Some(extension)
    }

    fn push_labels(&mut self, object: &[u8]) {
        let room = MOST_LABELS - self.labels.len();
        self.labels.extend(object.as_chunks().0.iter().take(room).map(|entry| Label::read(*entry)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An extension (RFC 4884) with these objects and a correct checksum.
    fn extension(objects: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x20, 0, 0, 0];
        bytes.extend(objects);
        let sum = internet_checksum(&[&bytes]);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// Label 0x12345 with class 5 and TTL 3; below it the bottom label, 16, with TTL 1; and an object of another class.
    const OBJECTS: [u8; 20] =
        [0, 12, 1, 1, 0x12, 0x34, 0x5A, 3, 0x00, 0x01, 0x01, 1, 0, 8, 2, 1, 0xAA, 0xBB, 0xCC, 0xDD];

    #[test]
    fn labels_are_read_and_other_objects_named() {
        let read = Extension::find(&extension(&OBJECTS), Some(0), 28).unwrap();
        let outer = Label { label: 0x12345, class: 5, bottom: false, ttl: 3 };
        assert_eq!(read.labels, [outer, Label { label: 16, class: 0, bottom: true, ttl: 1 }]);
        assert_eq!(read.others, [(2, 1)]);
    }

    #[test]
    fn an_extension_that_nobody_told_of_needs_its_checksum() {
        let behind = |extension: &[u8]| [&[7; 100], extension].concat();
        let right = extension(&OBJECTS);
        assert!(Extension::find(&behind(&right), None, 28).is_some());
        assert_eq!(Extension::find(&behind(&right), None, 20), None, "it is not there");
        let mut unsummed = right.clone();
        unsummed[2..4].fill(0);
        assert_eq!(Extension::find(&behind(&unsummed), None, 28), None);
        assert!(
            Extension::find(&behind(&unsummed), Some(100), 28).is_some(),
            "who says where it is need not sum"
        );
        let mut wrong = right;
        wrong[8] ^= 1;
        assert_eq!(Extension::find(&behind(&wrong), Some(100), 28), None);
    }

    #[test]
    fn an_object_that_is_longer_than_the_message_or_shorter_than_its_header_is_none() {
        for len in [3, 9, 200] {
            let objects = [0, len, 1, 1, 0, 0, 0, 0];
            assert_eq!(Extension::find(&extension(&objects), Some(0), 28), None, "{len}");
        }
    }

    #[test]
    fn codes_are_what_traceroute_writes() {
        let v4 = |kind, code| match IcmpError::of(IcmpVersion::V4, kind, code, 1400) {
            IcmpError::Unreachable(why) => why.to_string(),
            other => format!("{other:?}"),
        };
        let written: Vec<_> = (0..=15).map(|code| v4(3, code)).collect();
        let expected = [
            "!N", "!H", "!P", "", "!F-1400", "!S", "!N", "!H", "!<8>", "!X", "!X", "!N", "!H", "!X", "!<14>",
            "!<15>",
        ];
        assert_eq!(written, expected);
        assert_eq!((v4(11, 0), v4(12, 0)), ("Expired".into(), "Other { kind: 12, code: 0 }".into()));
        let v6 = |kind, code| IcmpError::of(IcmpVersion::V6, kind, code, 1280);
        let unreachable = [(1, 0), (1, 1), (1, 3), (1, 4), (2, 0), (4, 1)].map(|(kind, code)| v6(kind, code));
        use Unreachable::{Host, Network, Port, Prohibited, Protocol, TooLong};
        let expected = [Network, Prohibited, Host, Port, TooLong(1280), Protocol].map(IcmpError::Unreachable);
        assert_eq!(unreachable, expected);
        assert_eq!(v6(3, 0), IcmpError::Expired);
        assert_eq!(TooLong(0).to_string(), "!F");
    }

    #[test]
    fn icmp_errors_are_counted_by_sender_and_named_in_words() {
        let [router, target] = [IpAddr::from([10, 98, 0, 2]), IpAddr::from([10, 99, 0, 1])];
        let (host, port) =
            (IcmpError::Unreachable(Unreachable::Host), IcmpError::Unreachable(Unreachable::Port));
        let (mut errors, mut more) = (IcmpErrors::default(), IcmpErrors::default());
        assert!(errors.is_empty() && errors.sentences().is_empty());
        (0..4).for_each(|_| errors.count(router, host));
        more.count(router, host);
        more.count(target, port);
        errors.append(&more);
        assert_eq!(
            errors.sentences(),
            [
                "10.98.0.2 refused packets 5 times with the ICMP error “host unreachable”",
                "10.99.0.1 refused packets once with the ICMP error “port unreachable”: no program listens there",
            ]
        );
        let json = serde_json::to_value(&errors).unwrap();
        assert_eq!(
            json[0],
            serde_json::json!({ "from": "10.98.0.2", "error": "host unreachable", "count": 5 })
        );
        let prohibited = [(IcmpVersion::V4, 3, 13), (IcmpVersion::V6, 1, 1)];
        for (version, kind, code) in prohibited {
            assert_eq!(IcmpError::of(version, kind, code, 0).to_string(), "administratively prohibited");
        }
    }

    /// Forged errors from many senders use a bounded amount of memory.
    #[test]
    fn icmp_errors_of_many_senders_are_bounded() {
        let mut errors = IcmpErrors::default();
        for number in 0..1000_u32 {
            errors.count(IpAddr::V4(number.into()), IcmpError::Expired);
        }
        assert_eq!((errors.counts.len(), errors.others), (MOST_ERRORS, 1000 - MOST_ERRORS as u64));
        assert!(errors.sentences().last().unwrap().starts_with("936 more ICMP errors"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_extension_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0usize..200) {
            for place in [Some(at), None] {
                if let Some(read) = Extension::find(&bytes, place, 28) {
                    prop_assert!(read.labels.len() <= MOST_LABELS && read.others.len() <= MOST_OBJECTS);
                }
            }
        }

        #[test]
        fn a_label_is_read_as_it_is_written(label in 0u32..1 << 20, class in 0u8..8, bottom: bool, ttl: u8) {
            let word = label << 12 | u32::from(class) << 9 | u32::from(bottom) << 8 | u32::from(ttl);
            let object = [&[0, 8, 1, 1], &word.to_be_bytes()[..]].concat();
            let read = Extension::find(&extension(&object), Some(0), 28).unwrap();
            prop_assert_eq!(read.labels, [Label { label, class, bottom, ttl }]);
        }
    }
}
