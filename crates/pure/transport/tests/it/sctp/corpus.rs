//! The fuzz corpus, packet by packet.

use std::path::Path;

use super::any_packet;

#[allow(clippy::disallowed_methods, reason = "the corpus is a folder of files")]
#[test]
fn every_sctp_packet_of_the_corpus_is_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/sctp_packet");
    let mut replayed = 0;
    for file in folder.read_dir().expect("the corpus is there") {
        let file = file.expect("the corpus can be read").path();
        let bytes = std::fs::read(&file).expect("the corpus can be read");
        // The output of a failed test contains the file name.
        println!("{}", file.display());
        any_packet::check(&bytes);
        replayed += 1;
    }
    assert!(replayed >= 100, "{replayed} packets");
}
