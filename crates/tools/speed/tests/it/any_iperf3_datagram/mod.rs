//! What holds for any datagrams that come to a stream of iperf3's: the property that `fuzz/` searches a counterexample of, and
//! that the test `corpora` replays.

use netrig_core::Duration;
use netrig_speed::iperf3::datagram::{CounterWidth, DatagramHeader, LEAST, is_reply, reply};

/// The bytes are words that open a stream, their answer, or datagrams one behind the other, and are read as they are written.
pub fn check(bytes: &[u8]) {
    if let Some(answer) = reply(bytes) {
        assert!(is_reply(&answer) || is_reply(bytes), "what is answered opens a stream somewhere");
    }
    for counter in [CounterWidth::Bits32, CounterWidth::Bits64] {
        for datagram in bytes.chunks(LEAST + 1) {
            let Some(header) = DatagramHeader::read(counter, datagram) else {
                assert!(datagram.len() < counter.header_len());
                continue;
            };
            // Seconds have 32 bits, which more microseconds than a second has may carry over.
            if header.sent < Duration::from_secs(1 << 32) {
                let mut again = [0; LEAST];
                assert!(header.write(counter, &mut again));
                assert_eq!(DatagramHeader::read(counter, &again), Some(header));
            }
        }
    }
}
