//! The state cookie (RFC 9260 section 5.1.3). It contains the state that an INIT creates, signed. It is sent to the
//! peer, so that the listener keeps no state.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use hmac::{Hmac, KeyInit, Mac};
use netrig_core::{Duration, Instant, Stream};
use sha2::Sha256;

use crate::Serial;
use crate::sctp::packet::chunk::Init;
use crate::sctp::packet::tlv::{FieldReader, TlvWriter};

/// The key that a listener or an association uses to sign its cookies.
#[derive(Clone)]
pub(crate) struct CookieKey([u8; 64]);

impl CookieKey {
    pub(crate) fn random(random: &mut Stream) -> Self {
        let mut key = [0; 64];
        for eight in key.chunks_exact_mut(8) {
            eight.copy_from_slice(&random.label().to_le_bytes());
        }
        Self(key)
    }

    fn mac(&self, text: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new(&self.0.into());
        mac.update(text);
        mac
    }
}

impl fmt::Debug for CookieKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CookieKey")
    }
}

/// The state that INIT and INIT ACK have established.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StateCookie {
    pub(crate) created: Instant,
    pub(crate) life: Duration,
    pub(crate) local_port: u16,
    pub(crate) peer_port: u16,
    pub(crate) local_tag: u32,
    pub(crate) peer_tag: u32,
    pub(crate) local_tsn: Serial,
    pub(crate) peer_tsn: Serial,
    pub(crate) peer_rwnd: u32,
    /// Number of outbound streams after negotiation.
    pub(crate) outbound_streams: u16,
    /// Number of inbound streams after negotiation.
    pub(crate) inbound_streams: u16,
    /// Tags of the association that existed when the INIT arrived; zeros if there was none (RFC 9260 section 5.2.2).
    pub(crate) tie_tags: (u32, u32),
    /// Source and destination address of the INIT.
    pub(crate) source: (IpAddr, IpAddr),
    /// Addresses that the peer listed.
    pub(crate) peer_addresses: Vec<IpAddr>,
}

/// Reason why a cookie is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CookieError {
    /// It was not signed with this key, or was changed.
    Forged,
    /// It is older than its life.
    Stale {
        /// Time since the end of its life.
        by: Duration,
        /// The content of the cookie.
        cookie: Box<StateCookie>,
    },
}

/// Length of the signature at the end of a cookie, bytes.
const SIGNATURE: usize = 32;

impl StateCookie {
    pub(crate) fn sign(&self, key: &CookieKey) -> Vec<u8> {
        let mut out = TlvWriter::default();
        out.u64(self.created.as_nanos());
        out.u64(self.life.as_nanos());
        out.u16(self.local_port);
        out.u16(self.peer_port);
        for word in [self.local_tag, self.peer_tag, self.local_tsn.0, self.peer_tsn.0, self.peer_rwnd] {
            out.u32(word);
        }
        out.u16(self.outbound_streams);
        out.u16(self.inbound_streams);
        out.u32(self.tie_tags.0);
        out.u32(self.tie_tags.1);
        for address in [self.source.0, self.source.1].iter().chain(&self.peer_addresses) {
            write_address(&mut out, *address);
        }
        let mut bytes = out.into_bytes();
        let signature = key.mac(&bytes).finalize().into_bytes();
        bytes.extend_from_slice(&signature);
        bytes
    }

    /// Verifies and decodes a cookie that was received at `now`.
    pub(crate) fn verify(bytes: &[u8], key: &CookieKey, now: Instant) -> Result<Self, CookieError> {
        let cookie = bytes
            .split_last_chunk::<SIGNATURE>()
            .filter(|(text, signature)| key.mac(text).verify_slice(*signature).is_ok())
            .and_then(|(text, _)| Self::read(text))
            .ok_or(CookieError::Forged)?;
        let age = now - cookie.created;
        // A cookie from the future was created with another clock. Its age is unknown, so it is not accepted.
        if age > cookie.life || cookie.created > now {
            return Err(CookieError::Stale { by: age - cookie.life, cookie: Box::new(cookie) });
        }
        Ok(cookie)
    }

    fn read(text: &[u8]) -> Option<Self> {
        let mut reader = FieldReader::new(text, "state cookie");
        let mut cookie = Self {
            created: Instant::from_nanos(reader.u64().ok()?),
            life: Duration::from_nanos(reader.u64().ok()?),
            local_port: reader.u16().ok()?,
            peer_port: reader.u16().ok()?,
            local_tag: reader.u32().ok()?,
            peer_tag: reader.u32().ok()?,
            local_tsn: Serial(reader.u32().ok()?),
            peer_tsn: Serial(reader.u32().ok()?),
            peer_rwnd: reader.u32().ok()?,
            outbound_streams: reader.u16().ok()?,
            inbound_streams: reader.u16().ok()?,
            tie_tags: (reader.u32().ok()?, reader.u32().ok()?),
            source: (read_address(&mut reader)?, read_address(&mut reader)?),
            peer_addresses: Vec::new(),
        };
        while let Some(address) = read_address(&mut reader) {
            cookie.peer_addresses.push(address);
        }
        Some(cookie)
    }

    /// The INIT that caused this cookie, with the fields that an association needs.
    pub(crate) fn peer_init(&self) -> Init {
        Init {
            initiate_tag: self.peer_tag,
            a_rwnd: self.peer_rwnd,
            outbound_streams: self.inbound_streams,
            inbound_streams: self.outbound_streams,
            initial_tsn: self.peer_tsn,
            parameters: Vec::new(),
        }
    }
}

/// Writes an address as 16 bytes. An IPv4 address becomes an IPv4-mapped address (RFC 4291 section 2.5.5.2).
fn write_address(out: &mut TlvWriter, address: IpAddr) {
    let octets = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    out.bytes(&octets);
}

fn read_address(reader: &mut FieldReader<'_>) -> Option<IpAddr> {
    let halves = [reader.u64().ok()?, reader.u64().ok()?];
    let bits = u128::from(halves[0]) << 64 | u128::from(halves[1]);
    Some(Ipv6Addr::from_bits(bits).to_canonical())
}

#[cfg(test)]
mod tests {
    use netrig_core::Seeds;

    use super::*;

    fn cookie() -> StateCookie {
        StateCookie {
            created: Instant::from_nanos(5_000_000_000),
            life: Duration::from_secs(60),
            local_port: 9,
            peer_port: 1000,
            local_tag: 0xAABB_CCDD,
            peer_tag: 1,
            local_tsn: Serial(u32::MAX),
            peer_tsn: Serial(7),
            peer_rwnd: 1500,
            outbound_streams: 10,
            inbound_streams: 65_535,
            tie_tags: (3, 4),
            source: ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
            peer_addresses: vec![[10, 1, 0, 1].into(), Ipv6Addr::LOCALHOST.into()],
        }
    }

    #[test]
    fn a_cookie_comes_back_as_it_was() {
        let key = CookieKey::random(&mut Seeds::new(1).stream("key"));
        let bytes = cookie().sign(&key);
        let at = Instant::from_nanos(65_000_000_000);
        assert_eq!(StateCookie::verify(&bytes, &key, at), Ok(cookie()));
        let late = at + Duration::from_millis(20);
        assert_eq!(
            StateCookie::verify(&bytes, &key, late),
            Err(CookieError::Stale { by: Duration::from_millis(20), cookie: Box::new(cookie()) })
        );
    }

    #[test]
    fn no_bit_may_change() {
        let mut random = Seeds::new(1).stream("key");
        let (key, other) = (CookieKey::random(&mut random), CookieKey::random(&mut random));
        let now = Instant::from_nanos(6_000_000_000);
        let bytes = cookie().sign(&key);
        assert_eq!(StateCookie::verify(&bytes, &other, now), Err(CookieError::Forged));
        for i in 0..bytes.len() {
            let mut forged = bytes.clone();
            forged[i] ^= 1;
            assert_eq!(StateCookie::verify(&forged, &key, now), Err(CookieError::Forged), "byte {i}");
        }
        assert_eq!(StateCookie::verify(&bytes[..31], &key, now), Err(CookieError::Forged));
    }
}
