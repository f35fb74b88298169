//! Properties that hold for any bytes that arrive as media. `fuzz/` searches for a counterexample, and the test of the
//! corpus replays its inputs.

use bytes::Bytes;
use netrig_core::{Duration, Instant};
use netrig_sip_tester::media::{MediaCodec, MediaSession, read_rtcp, write_rtcp};

/// The bytes are a sequence of datagrams, each after one byte. The lower seven bits of that byte are the length; the
/// highest bit is 0 for RTP and 1 for RTCP. Parsed RTCP packets can be written and parsed again. A session accepts all
/// datagrams, and its result has only finite numbers.
pub fn check(bytes: &[u8]) {
    let payloads = vec![Bytes::from(MediaCodec::Pcmu.silence())];
    let mut session = MediaSession::new(MediaCodec::Pcmu, payloads, 1 << 32, 0, Instant::ZERO);
    let mut now = Instant::ZERO;
    let mut rest = bytes;
    while let [head, behind @ ..] = rest {
        let length = usize::from(head & 0x7F).min(behind.len());
        let (datagram, left) = behind.split_at(length);
        rest = left;
        now += Duration::from_millis(7);
        while session.poll_packet(now).is_some() {}
        if head & 0x80 == 0 {
            session.receive_packet(now, datagram);
        } else {
            session.receive_report(now, datagram);
            if let Ok(packets) = read_rtcp(datagram) {
                // Packets of other types are not written.
                let again = read_rtcp(&write_rtcp(&packets)).expect("it was written");
                assert!(again.len() <= packets.len());
            }
        }
    }
    let last = session.end(now);
    assert!(read_rtcp(&last).is_ok_and(|packets| packets.len() == 3));
    let result = session.result();
    assert!(result.received <= result.expected && result.jitter_s.is_finite(), "{result:?}");
    assert!(result.quality.is_none_or(|quality| quality.opinion.is_finite() && quality.missing <= 1.0));
}
