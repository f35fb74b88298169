//! The STAMP reflector (RFC 8762 section 4.3).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use netrig_core::Prefix;

use super::packet::{self, HmacKey, PacketError, ReflectedPacket, TestPacket};
use super::timestamp::ErrorEstimate;
use super::{PORT, tlv};

/// Maximum number of sessions of a stateful reflector. When there are more, the session that was silent longest is
/// removed.
pub const MOST_SESSIONS: usize = 1024;

/// Silence after which a session ends: REFWAIT of RFC 5357 section 4.2, nanoseconds.
pub const SESSION_ENDS_AFTER: u64 = 900 * 1_000_000_000;

/// Upper bound of the time between the reception of a packet at a reflector and the sending of its answer, nanoseconds.
const ONE_EXCHANGE: u64 = 10 * 1_000_000_000;

/// Properties of a packet on arrival at a reflector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ingress {
    /// Source address and port of the packet.
    pub from: SocketAddr,
    /// Time of reception, nanoseconds since 1970.
    pub received: u64,
    /// TTL or hop limit with which the packet arrived.
    pub ttl: u8,
    /// DSCP and ECN: the IPv4 type of service octet, or the IPv6 traffic class.
    pub class: u8,
}

/// An answer of a reflector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Octets of the answer. It is as long as the answered packet.
    pub bytes: Vec<u8>,
    /// DSCP of the answer.
    pub dscp: u8,
}

/// Why a packet is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The sender is not on the list.
    #[error("its sender is not on the list")]
    NotListed,
    /// The source port is a port of reflectors. Two reflectors would answer each other without end.
    #[error("its source is a port of a reflector")]
    FromReflector,
    /// The packet is itself a reflection.
    #[error("it is a reflection")]
    Reflection,
    /// The packet is not a STAMP packet.
    #[error(transparent)]
    Packet(#[from] PacketError),
}

/// A STAMP Session-Reflector.
#[derive(Debug)]
pub struct Reflector {
    /// Key of authenticated mode. Without a key, packets are not authenticated.
    pub key: Option<HmacKey>,
    /// Addresses whose packets are answered.
    pub allowed: Vec<Prefix>,
    /// DSCP values that a sender may request for answers (RFC 8972 section 4.4); `None` permits all. If the sender
    /// requests no DSCP, the answer has the DSCP of the packet.
    pub dscps: Option<Vec<u8>>,
    /// Port of this reflector.
    pub port: u16,
    /// Sessions of a stateful reflector, which numbers its answers itself (RFC 8762 section 4).
    pub sessions: Option<ReflectorSessions>,
}

/// The sessions of a stateful reflector, each with the number of its next answer.
#[derive(Debug, Default)]
pub struct ReflectorSessions(BTreeMap<(SocketAddr, u16), ReflectorSession>);

#[derive(Debug, Default)]
struct ReflectorSession {
    next: u32,
    heard: u64,
}

impl ReflectorSessions {
    /// Returns the number of the next answer in a session.
    fn next(&mut self, sender: SocketAddr, session: u16, now: u64) -> u32 {
        if self.0.len() >= MOST_SESSIONS && !self.0.contains_key(&(sender, session)) {
            let silent = self.0.iter().min_by_key(|(_, session)| session.heard).map(|(key, _)| *key);
            silent.and_then(|key| self.0.remove(&key));
        }
        let session = self.0.entry((sender, session)).or_default();
        if now.saturating_sub(session.heard) > SESSION_ENDS_AFTER {
            session.next = 0;
        }
        session.heard = now;
        let number = session.next;
        session.next = number.wrapping_add(1);
        number
    }
}

impl Reflector {
    /// Returns the answer to a packet. `now` is the time of sending of the answer, nanoseconds since 1970, and `error`
    /// is the error estimate of the reflector's clock.
    ///
    /// The answer is exactly as long as the packet (RFC 8762 section 4.3). RFC 8762 section 4.6 would answer a packet
    /// of fewer than 41 octets with 44 octets. Such a packet is not answered here, because this host could be used for
    /// amplification.
    ///
    /// The error is the reason why the packet is not answered.
    pub fn reflect(
        &mut self,
        packet: &[u8],
        ingress: &Ingress,
        now: u64,
        error: ErrorEstimate,
    ) -> Result<Reply, Unanswered> {
        // The address may be an IPv4-mapped IPv6 address (RFC 4291 section 2.5.5.2).
        let from = ingress.from.ip().to_canonical();
        if !self.allowed.iter().any(|prefix| prefix.contains(from)) {
            return Err(Unanswered::NotListed);
        }
        // Two reflectors must not answer each other. A reflector on a well-known port also sends from this port.
        if [PORT, self.port, 0].contains(&ingress.from.port()) {
            return Err(Unanswered::FromReflector);
        }
        let key = self.key.as_ref();
        let sender = TestPacket::decode(packet, key)?;
        if is_reflection(packet, key) {
            return Err(Unanswered::Reflection);
        }
        let sequence = match &mut self.sessions {
            Some(sessions) => sessions.next(ingress.from, sender.session, ingress.received),
            None => sender.sequence,
        };
        let own = TestPacket {
            sequence,
            timestamp: error.format.encode(now),
            error,
            // RFC 8972 section 3: the session identifier is copied.
            session: sender.session,
        };
        let received = error.format.encode(ingress.received);
        let mut bytes = ReflectedPacket { own, received, sender, sender_ttl: ingress.ttl }.encode(key);
        let base = bytes.len().min(packet.len());
        bytes.truncate(base);
        bytes.extend(&packet[base..]);
        let arrival = tlv::ReflectionContext {
            sequence: sender.sequence,
            answer: sequence,
            key,
            dscp: ingress.class >> 2,
            ecn: ingress.class & 3,
            may_send: &|dscp| self.dscps.as_ref().is_none_or(|dscps| dscps.contains(&dscp)),
        };
        let asked = tlv::answer(&mut bytes[base..], &arrival);
        Ok(Reply { bytes, dscp: asked.unwrap_or(arrival.dscp) })
    }
}

/// Whether a packet has a field that only reflectors write: a time of reception within [`ONE_EXCHANGE`] of the time of
/// sending. At this position, a sender's packet has zeros or padding. Random padding matches with a probability of
/// 10⁻⁸. A zero does not count as a time, because a sender whose clock counts from its start sends times near zero.
fn is_reflection(packet: &[u8], key: Option<&HmacKey>) -> bool {
    ReflectedPacket::decode(packet, key).is_ok_and(|reflected| {
        if reflected.received == 0 {
            return false;
        }
        let format = reflected.own.error.format;
        let times = format.decode(reflected.own.timestamp).zip(format.decode(reflected.received));
        times.is_some_and(|(sent, received)| sent.abs_diff(received) < ONE_EXCHANGE)
    })
}

/// Octets of the shortest packet that is answered with a key or without one.
pub const fn least(key: Option<&HmacKey>) -> usize {
    if key.is_some() { packet::BASE_AUTHENTICATED } else { packet::LEAST }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stamp::Format;
    use crate::stamp::packet::tests::key;
    use crate::stamp::tlv::{ClassOfService, Tlv, kind};

    const NOW: u64 = 1_790_000_000_000_000_000;

    fn reflector(key: Option<HmacKey>) -> Reflector {
        Reflector { key, allowed: Prefix::LOOPBACK.to_vec(), dscps: None, port: 8620, sessions: None }
    }

    fn error() -> ErrorEstimate {
        ErrorEstimate::new(false, Format::Ntp, 1_000)
    }

    fn ingress(from: &str) -> Ingress {
        Ingress { from: from.parse().unwrap(), received: NOW - 5_000, ttl: 61, class: 46 << 2 | 2 }
    }

    fn test(sequence: u32) -> TestPacket {
        TestPacket { sequence, timestamp: Format::Ntp.encode(NOW - 70_000), error: error(), session: 77 }
    }

    #[test]
    fn an_answer_says_when_the_packet_came_and_when_it_went() {
        for key in [None, Some(key())] {
            let packet = test(3).encode(key.as_ref());
            let reply =
                reflector(key.clone()).reflect(&packet, &ingress("127.0.0.1:5000"), NOW, error()).unwrap();
            assert_eq!((reply.bytes.len(), reply.dscp), (packet.len(), 46));
            let decoded = ReflectedPacket::decode(&reply.bytes, key.as_ref()).unwrap();
            assert_eq!(Format::Ntp.decode(decoded.own.timestamp), Some(NOW));
            assert_eq!(Format::Ntp.decode(decoded.received), Some(NOW - 5_000));
            assert_eq!((decoded.own.sequence, decoded.sender, decoded.sender_ttl), (3, test(3), 61));
        }
    }

    #[test]
    fn a_stateful_reflector_counts_its_answers_for_each_session() {
        let mut reflector = Reflector { sessions: Some(ReflectorSessions::default()), ..reflector(None) };
        let mut answer = |sequence, from, received| {
            let ingress = Ingress { received, ..ingress(from) };
            let reply = reflector.reflect(&test(sequence).encode(None), &ingress, received, error()).unwrap();
            ReflectedPacket::decode(&reply.bytes, None).unwrap().own.sequence
        };
        // RFC 8762 section 4.3.1: "starts with zero and is incremented by one".
        assert_eq!([answer(0, "127.0.0.1:5000", NOW), answer(5, "127.0.0.1:5000", NOW)], [0, 1]);
        assert_eq!(answer(5, "127.0.0.1:5001", NOW), 0);
        assert_eq!(answer(6, "127.0.0.1:5000", NOW + SESSION_ENDS_AFTER), 2);
        assert_eq!(answer(7, "127.0.0.1:5000", NOW + 2 * SESSION_ENDS_AFTER + 1), 0, "the session was over");
    }

    #[test]
    fn sessions_are_bounded_and_the_silent_one_goes_first() {
        let mut sessions = ReflectorSessions::default();
        let sender = |n: usize| SocketAddr::from(([127, 0, 0, 1], 10_000 + n as u16));
        for n in 0..MOST_SESSIONS + 10 {
            sessions.next(sender(n), 0, NOW + n as u64);
        }
        assert_eq!(sessions.0.len(), MOST_SESSIONS);
        assert_eq!(sessions.next(sender(10), 0, NOW + 5_000), 1);
        assert_eq!(sessions.next(sender(3), 0, NOW + 5_000), 0, "forgotten");
    }

    #[test]
    fn only_listed_addresses_are_answered() {
        let mut reflector = reflector(None);
        reflector.allowed = vec!["192.0.2.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
        let mut of =
            |from| reflector.reflect(&test(0).encode(None), &ingress(from), NOW, error()).map(|_| ());
        assert_eq!(of("192.0.2.200:9"), Ok(()));
        assert_eq!(of("[2001:db8:ffff::1]:9"), Ok(()));
        assert_eq!(of("[::ffff:192.0.2.1]:9"), Ok(()), "IPv4 mapped to IPv6");
        for other in ["192.0.3.0:9", "127.0.0.1:9", "[2001:db9::]:9"] {
            assert_eq!(of(other), Err(Unanswered::NotListed), "{other}");
        }
    }

    #[test]
    fn a_reflection_is_never_answered() {
        for key in [None, Some(key())] {
            let mut first = reflector(key.clone());
            let packet = test(0).encode(key.as_ref());
            let reply = first.reflect(&packet, &ingress("127.0.0.1:5000"), NOW, error()).unwrap();
            // The source port and the clock of the second reflector do not matter: its clock may have another format
            // and another date.
            let ptp = ErrorEstimate::new(true, Format::Ptp, 9);
            for estimate in [error(), ptp] {
                let mut second = reflector(key.clone());
                let again = second.reflect(
                    &reply.bytes,
                    &ingress("127.0.0.1:40000"),
                    NOW + 86_400_000_000_000,
                    estimate,
                );
                assert_eq!(again, Err(Unanswered::Reflection));
            }
        }
    }

    #[test]
    fn what_comes_from_a_reflectors_port_is_not_answered() {
        for port in [PORT, 8620, 0] {
            let from = format!("127.0.0.1:{port}");
            let answer = reflector(None).reflect(&test(0).encode(None), &ingress(&from), NOW, error());
            assert_eq!(answer, Err(Unanswered::FromReflector), "{port}");
        }
    }

    #[test]
    fn padding_of_twamp_light_comes_back_as_it_was() {
        // 27 octets of padding (RFC 5357 section 4.1.2) from a TWAMP Light sender. The packet is as long as a
        // reflector's packet.
        let mut packet = test(1).encode(None)[..14].to_vec();
        packet.extend([0xA5; 27]);
        let reply = reflector(None).reflect(&packet, &ingress("127.0.0.1:5000"), NOW, error()).unwrap();
        assert_eq!(reply.bytes.len(), 41);
        let decoded = ReflectedPacket::decode(&reply.bytes, None).unwrap();
        assert_eq!((decoded.sender.sequence, decoded.sender_ttl), (1, 61));
        let short = reflector(None).reflect(&packet[..40], &ingress("127.0.0.1:5000"), NOW, error());
        assert_eq!(short, Err(Unanswered::Packet(PacketError::TooShort { len: 40, least: 41 })));
    }

    #[test]
    fn an_answer_is_sent_with_the_code_point_that_was_asked_for_if_it_may_be() {
        let mut packet = test(0).encode(None);
        let class = ClassOfService { asked: 10, ..ClassOfService::default() };
        Tlv::append(kind::CLASS_OF_SERVICE, &class.encode(), &mut packet);
        for (dscps, sent) in [(None, 10), (Some(vec![10]), 10), (Some(vec![0]), 46)] {
            let mut reflector = Reflector { dscps, ..reflector(None) };
            let reply = reflector.reflect(&packet, &ingress("[::1]:5000"), NOW, error()).unwrap();
            assert_eq!(reply.dscp, sent);
            let decoded =
                ClassOfService::decode(tlv::parse(&reply.bytes[44..]).next().unwrap().value).unwrap();
            assert_eq!((decoded.received, decoded.ecn, decoded.refused), (46, 2, sent != 10));
        }
    }

    proptest! {
        /// Any bytes get at most one answer. It has the same length, and a reflector does not answer it.
        #[test]
        fn any_bytes_are_answered_once_at_most_and_never_with_more(
            bytes in proptest::collection::vec(any::<u8>(), 0..400), secret: bool, stateful: bool,
        ) {
            let mut reflector = reflector(secret.then(key));
            reflector.sessions = stateful.then(ReflectorSessions::default);
            if let Ok(reply) = reflector.reflect(&bytes, &ingress("127.0.0.1:5000"), NOW, error()) {
                prop_assert_eq!(reply.bytes.len(), bytes.len());
                prop_assert!(reply.dscp < 64);
            }
        }
    }
}
