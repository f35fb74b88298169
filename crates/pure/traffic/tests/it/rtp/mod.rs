//! RTP packets from a hostile network, and the fuzz corpus.

mod any_packet;

use netrig_test_support::corpus::replay;
use netrig_traffic::Clip;
use proptest::prelude::*;

#[test]
fn every_packet_of_the_corpus_is_survived() {
    replay("rtp_packet", 10, 0, any_packet::check);
}

proptest! {
    /// Packets of the clip, with changed, truncated, swapped and repeated bytes.
    #[test]
    fn damaged_packets_are_survived(
        places in proptest::collection::vec(0..90_usize, 1..12),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let clip = Clip::moving();
        let mut bytes = Vec::new();
        for place in places {
            let packet = &clip.packets()[place % clip.packets().len()];
            bytes.extend((packet.len() as u16).to_be_bytes());
            bytes.extend(packet);
        }
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        any_packet::check(&bytes);
    }
}
