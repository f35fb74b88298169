//! STAMP packets worth keeping: whole and cut ones, of both modes, with extensions of every kind.
#![allow(clippy::disallowed_methods, reason = "the corpus is a folder of files")]

mod any_stamp_packet;

use std::path::Path;

#[test]
fn every_packet_of_the_corpus_is_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/stamp_packet");
    let mut replayed = 0;
    for file in folder.read_dir().expect("the corpus is there") {
        let file = file.expect("the corpus can be read").path();
        let bytes = std::fs::read(&file).expect("the corpus can be read");
        // Its name stands in what is printed if it is not survived.
        println!("{}", file.display());
        any_stamp_packet::check(&bytes);
        replayed += 1;
    }
    assert!(replayed >= 20, "{replayed} packets");
}

proptest::proptest! {
    #[test]
    fn any_packet_is_survived(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
        any_stamp_packet::check(&bytes);
    }
}
