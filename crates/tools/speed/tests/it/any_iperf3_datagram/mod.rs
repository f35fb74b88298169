//! A property that must hold for any datagrams that arrive at a UDP stream of iperf3. `fuzz/` searches for
//! counterexamples, and the test `corpora` replays the corpus.

use netrig_core::Duration;
use netrig_speed::iperf3::datagram::{CounterWidth, DatagramHeader, LEAST, is_reply, reply};

/// The bytes are parsed as a datagram that opens a stream, as its answer, and as a sequence of data datagrams. A parsed
/// header can be encoded and gives the same value again.
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
            // The seconds have 32 bits. They can overflow if the field of microseconds exceeds one second.
            if header.sent < Duration::from_secs(1 << 32) {
                let mut again = [0; LEAST];
                assert!(header.write(counter, &mut again));
                assert_eq!(DatagramHeader::read(counter, &again), Some(header));
            }
        }
    }
}
