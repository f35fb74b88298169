//! The base packets of STAMP: 44 octets without authentication, 112 with authentication.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::timestamp::ErrorEstimate;

/// Octets of a base packet without authentication (RFC 8762 section 4.2).
pub const BASE: usize = 44;
/// Octets of a base packet with authentication.
pub const BASE_AUTHENTICATED: usize = 112;
/// Octets of a TWAMP reflector packet (RFC 5357 section 4.2.1). It has all fields that a reflector writes. Packets of a
/// TWAMP Light sender may be as short.
pub const LEAST: usize = 41;
/// Octets of an HMAC: SHA-256 truncated to 128 bits (RFC 8762 section 4.4).
pub const HMAC: usize = 16;

/// Why a base packet is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The packet is too short.
    #[error("a packet of {len} octets; {least} is the least")]
    TooShort {
        /// Octets of the packet.
        len: usize,
        /// Minimum number of octets.
        least: usize,
    },
    /// The HMAC does not match the key.
    #[error("the packet's HMAC is wrong: it was changed, or the keys differ")]
    Integrity,
}

/// A key that both ends share, for HMAC-SHA-256.
#[derive(Clone)]
pub struct HmacKey(Hmac<Sha256>);

impl std::fmt::Debug for HmacKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl HmacKey {
    /// Minimum number of octets of a key. A shorter key could be guessed.
    pub const LEAST: usize = 16;

    /// A key with these octets. `None` if there are fewer than [`Self::LEAST`].
    pub fn new(octets: &[u8]) -> Option<Self> {
        let mac = Hmac::new_from_slice(octets).ok()?;
        (octets.len() >= Self::LEAST).then_some(Self(mac))
    }

    /// HMAC-SHA-256 over the concatenated parts.
    pub fn digest(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.over(parts).finalize().into_bytes().into()
    }

    /// HMAC-SHA-256 over the concatenated parts, truncated to 128 bits.
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; HMAC] {
        let digest = self.digest(parts);
        std::array::from_fn(|at| digest[at])
    }

    /// Whether `digest` is the HMAC of the parts, whole or truncated to 128 bits. The comparison takes constant time.
    pub fn verify(&self, parts: &[&[u8]], digest: &[u8]) -> bool {
        (digest.len() == 32 || digest.len() == HMAC) && self.over(parts).verify_truncated_left(digest).is_ok()
    }

    fn over(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        parts.iter().for_each(|part| mac.update(part));
        mac
    }
}

/// Octets of the base packet with a key or without one.
pub const fn base(key: Option<&HmacKey>) -> usize {
    if key.is_some() { BASE_AUTHENTICATED } else { BASE }
}

/// Offsets of the fields of a packet (RFC 8762 figures 2, 4, 5 and 6; RFC 8972 section 3 for the session identifier).
struct PacketLayout {
    timestamp: usize,
    error: usize,
    session: usize,
    received: usize,
    sender_sequence: usize,
    sender_timestamp: usize,
    sender_error: usize,
    sender_ttl: usize,
}

const OPEN: PacketLayout = PacketLayout {
    timestamp: 4,
    error: 12,
    session: 14,
    received: 16,
    sender_sequence: 24,
    sender_timestamp: 28,
    sender_error: 36,
    sender_ttl: 40,
};

const AUTHENTICATED: PacketLayout = PacketLayout {
    timestamp: 16,
    error: 24,
    session: 26,
    received: 32,
    sender_sequence: 48,
    sender_timestamp: 64,
    sender_error: 72,
    sender_ttl: 80,
};

const fn layout(authenticated: bool) -> &'static PacketLayout {
    if authenticated { &AUTHENTICATED } else { &OPEN }
}

/// Fields of a sender's test packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestPacket {
    /// Sequence number, from 0.
    pub sequence: u32,
    /// Time of sending, in the format that the error estimate states.
    pub timestamp: u64,
    /// Error estimate of the sender's clock.
    pub error: ErrorEstimate,
    /// The STAMP session identifier (RFC 8972 section 3); 0 if the sender has none.
    pub session: u16,
}

impl TestPacket {
    /// Encodes the base packet; the MBZ fields are zero (RFC 8762 section 4.2).
    pub fn encode(&self, key: Option<&HmacKey>) -> Vec<u8> {
        let mut bytes = vec![0; base(key)];
        self.write(&mut bytes, key);
        seal(&mut bytes, key);
        bytes
    }

    /// Decodes a base packet at the beginning of a packet. Without a key, the packet may also be a TWAMP Light packet
    /// (RFC 8762 section 4.6).
    ///
    /// Fails if the packet is too short, or if its HMAC does not match the key.
    pub fn decode(bytes: &[u8], key: Option<&HmacKey>) -> Result<Self, PacketError> {
        check(bytes, key)?;
        Ok(Self::read(bytes, layout(key.is_some())))
    }

    fn read(bytes: &[u8], layout: &PacketLayout) -> Self {
        Self {
            sequence: u32::from_be_bytes(octets(bytes, 0)),
            timestamp: u64::from_be_bytes(octets(bytes, layout.timestamp)),
            error: ErrorEstimate::decode(octets(bytes, layout.error)),
            session: u16::from_be_bytes(octets(bytes, layout.session)),
        }
    }

    fn write(&self, bytes: &mut [u8], key: Option<&HmacKey>) {
        let layout = layout(key.is_some());
        put(bytes, 0, &self.sequence.to_be_bytes());
        put(bytes, layout.timestamp, &self.timestamp.to_be_bytes());
        put(bytes, layout.error, &self.error.encode());
        put(bytes, layout.session, &self.session.to_be_bytes());
    }
}

/// Fields of a reflector's packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReflectedPacket {
    /// The reflector's own fields: its sequence number, its time of sending, its error estimate, and the received
    /// session identifier. The sequence number of a stateless reflector is a copy of the sender's.
    pub own: TestPacket,
    /// Time of reception of the sender's packet, in the format of the reflector's error estimate.
    pub received: u64,
    /// Copies of the sender's fields. The packet has no copy of the session identifier.
    pub sender: TestPacket,
    /// TTL or hop limit with which the sender's packet arrived.
    pub sender_ttl: u8,
}

impl ReflectedPacket {
    /// Encodes the base packet; the MBZ fields are zero (RFC 8762 section 4.3).
    pub fn encode(&self, key: Option<&HmacKey>) -> Vec<u8> {
        let layout = layout(key.is_some());
        let mut bytes = vec![0; base(key)];
        self.own.write(&mut bytes, key);
        put(&mut bytes, layout.received, &self.received.to_be_bytes());
        put(&mut bytes, layout.sender_sequence, &self.sender.sequence.to_be_bytes());
        put(&mut bytes, layout.sender_timestamp, &self.sender.timestamp.to_be_bytes());
        put(&mut bytes, layout.sender_error, &self.sender.error.encode());
        put(&mut bytes, layout.sender_ttl, &[self.sender_ttl]);
        seal(&mut bytes, key);
        bytes
    }

    /// Decodes a base packet at the beginning of a packet.
    ///
    /// Fails if the packet is too short, or if its HMAC does not match the key.
    pub fn decode(bytes: &[u8], key: Option<&HmacKey>) -> Result<Self, PacketError> {
        check(bytes, key)?;
        Ok(Self::read(bytes, layout(key.is_some())))
    }

    /// Decodes a base packet of the given mode without checking the HMAC. The result shows in which mode a reflector
    /// interpreted a packet and must not be used for measurements. Returns `None` if the octets cannot be a packet of
    /// this mode.
    pub fn claimed(bytes: &[u8], authenticated: bool) -> Option<Self> {
        let least = if authenticated { BASE_AUTHENTICATED } else { LEAST };
        // RFC 8762 figure 6: in authenticated mode, zeros follow the number.
        let is_of_mode = bytes.len() >= least && (!authenticated || bytes[4..16] == [0; 12]);
        is_of_mode.then(|| Self::read(bytes, layout(authenticated)))
    }

    fn read(bytes: &[u8], layout: &PacketLayout) -> Self {
        let own = TestPacket::read(bytes, layout);
        Self {
            own,
            received: u64::from_be_bytes(octets(bytes, layout.received)),
            sender: TestPacket {
                sequence: u32::from_be_bytes(octets(bytes, layout.sender_sequence)),
                timestamp: u64::from_be_bytes(octets(bytes, layout.sender_timestamp)),
                error: ErrorEstimate::decode(octets(bytes, layout.sender_error)),
                session: own.session,
            },
            sender_ttl: octets::<1>(bytes, layout.sender_ttl)[0],
        }
    }
}

/// Checks length and HMAC before any field is used (RFC 8762 section 4.4).
fn check(bytes: &[u8], key: Option<&HmacKey>) -> Result<(), PacketError> {
    let least = if key.is_some() { BASE_AUTHENTICATED } else { LEAST };
    if bytes.len() < least {
        return Err(PacketError::TooShort { len: bytes.len(), least });
    }
    match key {
        Some(key) if !key.verify(&[&bytes[..COVERED]], &bytes[COVERED..BASE_AUTHENTICATED]) => {
            Err(PacketError::Integrity)
        }
        _ => Ok(()),
    }
}

/// Octets covered by the HMAC: the first six blocks (RFC 8762 section 4.4).
const COVERED: usize = BASE_AUTHENTICATED - HMAC;

fn seal(bytes: &mut [u8], key: Option<&HmacKey>) {
    if let Some(key) = key {
        let tag = key.tag(&[&bytes[..COVERED]]);
        put(bytes, COVERED, &tag);
    }
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

/// The octets of a field. The caller has checked the length of the packet: the last field ends at octet 41, or 81 with
/// authentication.
fn octets<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|n| bytes[at + n])
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stamp::Format;

    pub fn key() -> HmacKey {
        HmacKey::new(b"0123456789abcdef").unwrap()
    }

    pub fn test_packet() -> TestPacket {
        TestPacket {
            sequence: 0x0102_0304,
            timestamp: 0x1112_1314_1516_1718,
            error: ErrorEstimate::decode([0xA1, 0xB2]),
            session: 0xCAFE,
        }
    }

    fn reflected() -> ReflectedPacket {
        let own = TestPacket {
            sequence: 0x2122_2324,
            timestamp: 0x3132_3334_3536_3738,
            error: ErrorEstimate::decode([0x41, 0x42]),
            session: 0xCAFE,
        };
        ReflectedPacket { own, received: 0x5152_5354_5556_5758, sender: test_packet(), sender_ttl: 63 }
    }

    #[test]
    fn a_senders_packet_is_laid_out_as_figure_2_says() {
        let mut expected =
            vec![1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0xA1, 0xB2, 0xCA, 0xFE];
        expected.resize(44, 0);
        assert_eq!(test_packet().encode(None), expected);
    }

    #[test]
    fn an_authenticated_senders_packet_is_laid_out_as_figure_4_says() {
        let bytes = test_packet().encode(Some(&key()));
        assert_eq!(bytes.len(), 112);
        assert_eq!(bytes[..4], [1, 2, 3, 4]);
        assert_eq!(bytes[4..16], [0; 12]);
        assert_eq!(bytes[16..28], [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0xA1, 0xB2, 0xCA, 0xFE]);
        assert_eq!(bytes[28..96], [0; 68]);
    }

    #[test]
    fn a_reflectors_packet_is_laid_out_as_figure_5_says() {
        let mut expected =
            vec![0x21, 0x22, 0x23, 0x24, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x41, 0x42];
        expected.extend([0xCA, 0xFE, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 1, 2, 3, 4]);
        expected.extend([0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0xA1, 0xB2, 0, 0, 63, 0, 0, 0]);
        assert_eq!(reflected().encode(None), expected);
    }

    #[test]
    fn an_authenticated_reflectors_packet_is_laid_out_as_figure_6_says() {
        let bytes = reflected().encode(Some(&key()));
        assert_eq!(bytes[..4], [0x21, 0x22, 0x23, 0x24]);
        assert_eq!(bytes[16..28], [0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x41, 0x42, 0xCA, 0xFE]);
        assert_eq!(bytes[32..40], [0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58]);
        assert_eq!(bytes[48..52], [1, 2, 3, 4]);
        assert_eq!(bytes[64..74], [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0xA1, 0xB2]);
        assert_eq!(bytes[80], 63);
        let zero = [4..16, 28..32, 40..48, 52..64, 74..80, 81..96];
        assert!(zero.into_iter().flatten().all(|at| bytes[at] == 0), "what must be zero is");
    }

    #[test]
    fn the_hmac_is_the_one_of_rfc_4231() {
        // Test case 2 of RFC 4231 section 4.3 has a key of 4 octets, which is too short here; case 6 has 131.
        let key = HmacKey::new(&[0xAA; 131]).unwrap();
        let tag = key.tag(&[b"Test Using Larger Than Block-Size Key - Hash Key First"]);
        let expected = 0x60e4_3159_1ee0_b67f_0d8a_26aa_cbf5_b77f_u128.to_be_bytes();
        assert_eq!(tag, expected);
        assert!(HmacKey::new(&[0; 15]).is_none());
    }

    #[test]
    fn a_packet_of_twamp_light_has_its_fields_at_the_same_places() {
        let bytes = &test_packet().encode(None)[..LEAST];
        assert_eq!(TestPacket::decode(bytes, None), Ok(test_packet()));
        let error = TestPacket::decode(&bytes[..LEAST - 1], None).unwrap_err();
        assert_eq!(error, PacketError::TooShort { len: 40, least: 41 });
    }

    proptest! {
        #[test]
        fn a_stamp_packet_survives_the_way(
            sequence: u32, timestamp: u64, error: [u8; 2], session: u16, received: u64, ttl: u8, secret: bool,
        ) {
            let key = secret.then(key);
            let sender = TestPacket { sequence, timestamp, error: ErrorEstimate::decode(error), session };
            prop_assert_eq!(TestPacket::decode(&sender.encode(key.as_ref()), key.as_ref()), Ok(sender));
            let own = TestPacket { sequence: !sequence, timestamp: !timestamp, ..sender };
            let reflected = ReflectedPacket { own, received, sender, sender_ttl: ttl };
            prop_assert_eq!(ReflectedPacket::decode(&reflected.encode(key.as_ref()), key.as_ref()), Ok(reflected));
        }

        #[test]
        fn any_changed_bit_of_an_authenticated_packet_shows(at in 0..BASE_AUTHENTICATED * 8) {
            let mut bytes = test_packet().encode(Some(&key()));
            bytes[at / 8] ^= 1 << (at % 8);
            prop_assert_eq!(TestPacket::decode(&bytes, Some(&key())), Err(PacketError::Integrity));
        }

        #[test]
        fn any_bytes_are_a_packet_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), secret: bool) {
            let key = secret.then(key);
            let _ = (TestPacket::decode(&bytes, key.as_ref()), ReflectedPacket::decode(&bytes, key.as_ref()));
            let _ = ReflectedPacket::claimed(&bytes, secret);
        }
    }

    #[test]
    fn the_estimate_of_the_example_is_of_ntp() {
        assert_eq!(test_packet().error.format, Format::Ntp);
    }
}
