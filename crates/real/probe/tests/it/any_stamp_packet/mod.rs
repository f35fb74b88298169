//! A property that must hold for any bytes that arrive as a STAMP packet. `fuzz/` searches for counterexamples, and the
//! test `corpora` replays the corpus.

use netrig_core::Prefix;
use netrig_probe::stamp::reflect::ReflectorSessions;
use netrig_probe::stamp::{
    ErrorEstimate, Format, HmacKey, Ingress, ReflectedPacket, Reflector, TestPacket, packet, tlv,
};

/// A time in 2026, ns since 1970.
const NOW: u64 = 1_790_000_000_000_000_000;

/// The bytes are accepted or rejected without a panic in both modes. If a reflector answers, the answer has the same
/// length, no reflector answers it, and a sender can parse it.
pub fn check(bytes: &[u8]) {
    let key = HmacKey::new(&[7; 32]).expect("32 octets are enough");
    for key in [None, Some(key)] {
        let _ = (TestPacket::decode(bytes, key.as_ref()), ReflectedPacket::decode(bytes, key.as_ref()));
        reflect(bytes, key.as_ref());
        // The HMAC is corrected, so that the code after the check is tested too.
        if let Some(key) = &key
            && bytes.len() >= packet::BASE_AUTHENTICATED
        {
            let mut sealed = bytes.to_vec();
            let tag = key.tag(&[&sealed[..packet::BASE_AUTHENTICATED - packet::HMAC]]);
            sealed[packet::BASE_AUTHENTICATED - packet::HMAC..packet::BASE_AUTHENTICATED]
                .copy_from_slice(&tag);
            reflect(&sealed, Some(key));
        }
    }
}

fn reflect(bytes: &[u8], key: Option<&HmacKey>) {
    let reflector = |sessions| Reflector {
        key: key.cloned(),
        allowed: Prefix::LOOPBACK.to_vec(),
        dscps: Some(vec![0, 46]),
        port: 862,
        sessions,
    };
    let from = |port: u16| Ingress {
        from: ([127, 0, 0, 1], port).into(),
        received: NOW - 1,
        ttl: 64,
        class: 0b1011_1001,
    };
    for (sessions, format) in [(None, Format::Ntp), (Some(ReflectorSessions::default()), Format::Ptp)] {
        let error = ErrorEstimate::new(false, format, 1_000_000);
        let Ok(reply) = reflector(sessions).reflect(bytes, &from(5000), NOW, error) else { continue };
        assert_eq!(reply.bytes.len(), bytes.len(), "packet for packet, and no more");
        assert!(reply.dscp < 64);
        assert!(
            reflector(None).reflect(&reply.bytes, &from(5001), NOW, error).is_err(),
            "a reflection is not answered"
        );
        let told =
            ReflectedPacket::decode(&reply.bytes, key).expect("a sender understands what a reflector says");
        let sent = TestPacket::decode(bytes, key).expect("it was answered");
        assert_eq!(told.sender, sent);
        let base = packet::base(key).min(bytes.len());
        assert_eq!(tlv::parse(&reply.bytes[base..]).count(), tlv::parse(&bytes[base..]).count());
    }
}
