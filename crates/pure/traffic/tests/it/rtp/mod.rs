//! RTP from a hostile network, and the fuzz corpus.

mod any_packet;

use std::path::Path;

use netrig_traffic::Clip;
use proptest::prelude::*;

/// Every file of the fuzz corpus.
#[allow(clippy::disallowed_methods, reason = "the corpus is a folder of files")]
#[test]
fn every_packet_of_the_corpus_is_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/rtp_packet");
    let mut files = 0;
    for file in folder.read_dir().expect("the corpus is there") {
        let file = file.expect("the corpus can be read").path();
        any_packet::check(&std::fs::read(&file).expect("the corpus can be read"));
        files += 1;
    }
    assert!(files >= 10, "{files} files in {}", folder.display());
}

proptest! {
    /// Packets of the clip with bytes changed, cut off, swapped and repeated.
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
