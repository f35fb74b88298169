//! Extensions after the base packet: type, length, value (RFC 8972 section 4).

use super::packet::{HMAC, HmacKey};

/// Octets before a value: flags, type and length.
pub const HEADER: usize = 4;

/// Supported types (RFC 8972 section 5.2).
pub mod kind {
    /// Padding (section 4.1).
    pub const EXTRA_PADDING: u8 = 1;
    /// Class of service (section 4.4).
    pub const CLASS_OF_SERVICE: u8 = 4;
    /// Integrity of the extensions before it (section 4.8).
    pub const HMAC: u8 = 8;
}

/// Flags of an extension, which the reflector sets (RFC 8972 section 4).
pub mod flag {
    /// U: the reflector does not support the extension. A sender sets this flag, and a reflector that supports the
    /// extension clears it.
    pub const UNRECOGNIZED: u8 = 0x80;
    /// M: the length is invalid.
    pub const MALFORMED: u8 = 0x40;
    /// I: the extensions were changed in transit.
    pub const INTEGRITY: u8 = 0x20;
}

/// One extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Flags: see [`flag`].
    pub flags: u8,
    /// Type: see [`kind`].
    pub kind: u8,
    /// The value.
    pub value: &'a [u8],
}

impl Tlv<'_> {
    /// Appends the extension as a sender writes it: U set, M and I clear.
    ///
    /// A value of more than 65,535 octets is truncated, because no packet has room for it.
    pub fn append(kind: u8, value: &[u8], packet: &mut Vec<u8>) {
        let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
        packet.extend([flag::UNRECOGNIZED, kind]);
        packet.extend(len.to_be_bytes());
        packet.extend(&value[..usize::from(len)]);
    }
}

/// Iterates over the extensions after a base packet. The iteration ends before an extension that is longer than the
/// rest of the packet.
pub fn parse(mut bytes: &[u8]) -> impl Iterator<Item = Tlv<'_>> {
    std::iter::from_fn(move || {
        let [flags, kind, high, low] = *bytes.first_chunk()?;
        let end = HEADER + usize::from(u16::from_be_bytes([high, low]));
        let value = bytes.get(HEADER..end)?;
        bytes = &bytes[end..];
        Some(Tlv { flags, kind, value })
    })
}

/// The class of service of test packets in both directions (RFC 8972 section 4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassOfService {
    /// DSCP1: the requested DSCP of the reflected packet.
    pub asked: u8,
    /// DSCP2: DSCP with which the test packet arrived at the reflector.
    pub received: u8,
    /// ECN with which the test packet arrived at the reflector.
    pub ecn: u8,
    /// RP: the reflector's policy does not permit DSCP1.
    pub refused: bool,
}

impl ClassOfService {
    /// Octets of the value.
    pub const LEN: usize = 4;

    /// Encodes the value: 6 bits DSCP1, 6 bits DSCP2, 2 bits ECN, 2 bits RP, 16 bits reserved.
    pub fn encode(self) -> [u8; Self::LEN] {
        let bits = u16::from(self.asked & 0x3F) << 10
            | u16::from(self.received & 0x3F) << 4
            | u16::from(self.ecn & 3) << 2
            | u16::from(self.refused);
        let [high, low] = bits.to_be_bytes();
        [high, low, 0, 0]
    }

    /// Decodes a value. `None` if its length is wrong.
    pub fn decode(value: &[u8]) -> Option<Self> {
        let [high, low, _, _] = *<&[u8; Self::LEN]>::try_from(value).ok()?;
        let bits = u16::from_be_bytes([high, low]);
        Some(Self {
            asked: (bits >> 10) as u8,
            received: (bits >> 4) as u8 & 0x3F,
            ecn: (bits >> 2) as u8 & 3,
            refused: bits & 3 != 0,
        })
    }
}

/// Data that a reflector needs to answer extensions.
pub struct ReflectionContext<'a> {
    /// The received sequence number of the base packet.
    pub sequence: u32,
    /// The sequence number of the reflector's answer.
    pub answer: u32,
    /// The key of the session.
    pub key: Option<&'a HmacKey>,
    /// DSCP with which the packet arrived.
    pub dscp: u8,
    /// ECN with which the packet arrived.
    pub ecn: u8,
    /// Returns whether an answer may have this DSCP.
    pub may_send: &'a dyn Fn(u8) -> bool,
}

/// Answers the extensions of a packet in place (RFC 8972 section 4). Returns the DSCP of the answer if the sender
/// requested one and it is allowed.
pub fn answer(extensions: &mut [u8], arrival: &ReflectionContext<'_>) -> Option<u8> {
    let trusted = arrival.key.is_none_or(|key| is_genuine(extensions, arrival.sequence, key));
    let (mut at, mut dscp) = (0, None);
    while at + HEADER <= extensions.len() {
        let len = usize::from(u16::from_be_bytes([extensions[at + 2], extensions[at + 3]]));
        let (kind, end) = (extensions[at + 1], at + HEADER + len);
        if !trusted {
            // RFC 8972 section 4.8: changed extensions are not used.
            extensions[at] = flag::INTEGRITY;
        } else if end > extensions.len() || !may_be_long(kind, len) {
            // RFC 8972 section 4: after a malformed extension, processing stops, and the rest is copied unchanged.
            extensions[at] = flag::MALFORMED;
            break;
        } else {
            extensions[at] = 0;
            let (before, rest) = extensions.split_at_mut(at);
            let value = &mut rest[HEADER..HEADER + len];
            match (kind, arrival.key) {
                (kind::EXTRA_PADDING, _) => {}
                (kind::CLASS_OF_SERVICE, _) => dscp = class_of_service(value, arrival).or(dscp),
                (kind::HMAC, Some(key)) => {
                    value.copy_from_slice(&key.tag(&[&arrival.answer.to_be_bytes(), before]));
                }
                // RFC 8972 section 4: an unsupported extension is copied, skipped and marked. The same applies to an
                // HMAC if there is no key.
                _ => rest[0] = flag::UNRECOGNIZED,
            }
        }
        at = end;
    }
    dscp
}

/// Fills in the reflector's fields of the class of service. Returns the requested DSCP if it is allowed.
fn class_of_service(value: &mut [u8], arrival: &ReflectionContext<'_>) -> Option<u8> {
    let mut class = ClassOfService::decode(value)?;
    let may = (arrival.may_send)(class.asked);
    class = ClassOfService { received: arrival.dscp, ecn: arrival.ecn, refused: !may, ..class };
    value.copy_from_slice(&class.encode());
    may.then_some(class.asked)
}

/// Whether a value of this type can have `len` octets.
const fn may_be_long(kind: u8, len: usize) -> bool {
    match kind {
        kind::CLASS_OF_SERVICE => len == ClassOfService::LEN,
        kind::HMAC => len == HMAC,
        _ => true,
    }
}

/// Whether the extensions of an authenticated packet are unchanged. An HMAC must cover the sequence number and all
/// extensions before it, and only padding may follow it. Extensions that are only padding need no HMAC (RFC 8972
/// section 4.8).
pub fn is_genuine(extensions: &[u8], sequence: u32, key: &HmacKey) -> bool {
    let (mut at, mut verified, mut bare) = (0, false, true);
    for tlv in parse(extensions) {
        match tlv.kind {
            kind::EXTRA_PADDING => {}
            kind::HMAC if !verified => {
                verified = key.verify(&[&sequence.to_be_bytes(), &extensions[..at]], tlv.value);
                if !verified {
                    return false;
                }
            }
            // This extension follows the HMAC, which does not cover it.
            _ if verified => return false,
            _ => bare = false,
        }
        at += HEADER + tlv.value.len();
    }
    verified || bare
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stamp::packet::tests::key;

    fn arrival(key: Option<&HmacKey>) -> ReflectionContext<'_> {
        ReflectionContext { sequence: 7, answer: 9, key, dscp: 46, ecn: 1, may_send: &|dscp| dscp == 10 }
    }

    fn with(tlvs: &[(u8, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        tlvs.iter().for_each(|(kind, value)| Tlv::append(*kind, value, &mut bytes));
        bytes
    }

    /// Flags and type of each extension.
    fn marks(bytes: &[u8]) -> Vec<(u8, u8)> {
        parse(bytes).map(|tlv| (tlv.flags, tlv.kind)).collect()
    }

    #[test]
    fn a_class_of_service_is_six_six_two_and_two_bits() {
        // RFC 8972 figure 9: DSCP1 46 = 101110, DSCP2 10 = 001010, ECN 01, RP 01.
        let class = ClassOfService { asked: 46, received: 10, ecn: 1, refused: true };
        assert_eq!(class.encode(), [0b1011_1000, 0b1010_0101, 0, 0]);
        assert_eq!(ClassOfService::decode(&class.encode()), Some(class));
        assert_eq!(ClassOfService::decode(&[0; 5]), None);
    }

    #[test]
    fn a_reflector_tells_the_class_it_received_and_uses_the_one_it_may() {
        for (asked, used) in [(10, Some(10)), (12, None)] {
            let value = ClassOfService { asked, ..ClassOfService::default() }.encode();
            let mut bytes = with(&[(kind::CLASS_OF_SERVICE, &value), (kind::EXTRA_PADDING, &[1, 2])]);
            assert_eq!(answer(&mut bytes, &arrival(None)), used);
            let decoded = parse(&bytes).next().unwrap();
            assert_eq!(decoded.flags, 0, "U, M and I are clear");
            let class = ClassOfService { asked, received: 46, ecn: 1, refused: used.is_none() };
            assert_eq!(ClassOfService::decode(decoded.value), Some(class));
        }
    }

    #[test]
    fn what_is_not_understood_is_copied_and_marked() {
        let mut bytes = with(&[(200, &[9; 3]), (kind::EXTRA_PADDING, &[]), (kind::HMAC, &[5; 16])]);
        assert_eq!(answer(&mut bytes, &arrival(None)), None);
        assert_eq!(marks(&bytes), [(flag::UNRECOGNIZED, 200), (0, 1), (flag::UNRECOGNIZED, 8)]);
        assert_eq!(parse(&bytes).next().unwrap().value, [9; 3]);
    }

    #[test]
    fn behind_something_malformed_nothing_is_touched() {
        let mut bytes = with(&[(kind::CLASS_OF_SERVICE, &[0; 5]), (200, &[])]);
        answer(&mut bytes, &arrival(None));
        assert_eq!(marks(&bytes), [(flag::MALFORMED, 4), (flag::UNRECOGNIZED, 200)]);
        let mut cut = vec![flag::UNRECOGNIZED, kind::EXTRA_PADDING, 0xFF, 0xFF, 3, 3];
        answer(&mut cut, &arrival(None));
        assert_eq!(cut, [flag::MALFORMED, kind::EXTRA_PADDING, 0xFF, 0xFF, 3, 3]);
    }

    #[test]
    fn with_a_key_extensions_are_used_only_if_they_are_genuine() {
        let value = ClassOfService { asked: 10, ..ClassOfService::default() }.encode();
        let mut good = with(&[(kind::CLASS_OF_SERVICE, &value)]);
        let tag = key().tag(&[&7_u32.to_be_bytes(), &good]);
        Tlv::append(kind::HMAC, &tag, &mut good);
        Tlv::append(kind::EXTRA_PADDING, &[0; 4], &mut good);
        for broken in [0, 5, 12, 30] {
            let mut bytes = good.clone();
            bytes[broken] ^= 1;
            let covered = broken < 28;
            assert_eq!(is_genuine(&bytes, 7, &key()), !covered, "octet {broken}");
        }
        let mut bytes = good.clone();
        assert_eq!(answer(&mut bytes, &arrival(Some(&key()))), Some(10));
        assert!(is_genuine(&bytes, 9, &key()), "the answer's HMAC is over the answer");
        let mut changed = good;
        changed[5] ^= 1;
        assert_eq!(answer(&mut changed, &arrival(Some(&key()))), None);
        assert_eq!(marks(&changed), [(flag::INTEGRITY, 4), (flag::INTEGRITY, 8), (flag::INTEGRITY, 1)]);
    }

    #[test]
    fn padding_alone_needs_no_hmac_and_anything_else_does() {
        assert!(is_genuine(&with(&[(kind::EXTRA_PADDING, &[0; 9])]), 7, &key()));
        assert!(!is_genuine(&with(&[(200, &[])]), 7, &key()));
    }

    proptest! {
        /// For any extensions, the answer has the same length, and its extensions can be parsed to the end.
        #[test]
        fn any_extensions_are_answered(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), secret: bool) {
            let (len, key) = (bytes.len(), key());
            answer(&mut bytes, &arrival(secret.then_some(&key)));
            prop_assert_eq!(bytes.len(), len);
            prop_assert!(parse(&bytes).count() <= len / HEADER);
        }
    }
}
