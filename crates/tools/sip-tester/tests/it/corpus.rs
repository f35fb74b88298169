//! The corpus: inputs that were read as a trace, kept for the tests.
#![allow(clippy::disallowed_methods, reason = "a corpus is a folder of files")]

use std::path::Path;

use crate::it::{any_media, any_scenario, any_trace};

#[test]
fn traces_are_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/sip_trace");
    let mut inputs = 0;
    for file in folder.read_dir().expect("the corpus is there") {
        let path = file.expect("the corpus can be read").path();
        println!("{}", path.display());
        let bytes = std::fs::read(path).expect("the corpus can be read");
        any_trace::check(&bytes);
        // Also cut at any place, as in a capture that is being written.
        (0..bytes.len()).step_by(7).for_each(|end| any_trace::check(&bytes[..end]));
        inputs += 1;
    }
    assert!(inputs >= 20, "{inputs} inputs");
}

#[test]
fn scenarios_are_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/sip_scenario");
    let mut inputs = 0;
    for file in folder.read_dir().expect("the corpus is there") {
        let path = file.expect("the corpus can be read").path();
        println!("{}", path.display());
        let bytes = std::fs::read(path).expect("the corpus can be read");
        any_scenario::check(&bytes);
        // Also cut at any place.
        (0..bytes.len()).step_by(13).for_each(|end| any_scenario::check(&bytes[..end]));
        inputs += 1;
    }
    assert!(inputs >= 20, "{inputs} inputs");
}

#[test]
fn media_are_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/media_packet");
    let mut inputs = 0;
    for file in folder.read_dir().expect("the corpus is there") {
        let bytes =
            std::fs::read(file.expect("the corpus can be read").path()).expect("the corpus can be read");
        any_media::check(&bytes);
        // Also cut at any place.
        (0..bytes.len()).step_by(7).for_each(|end| any_media::check(&bytes[..end]));
        inputs += 1;
    }
    assert!(inputs >= 4, "{inputs} inputs");
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_media_or_none(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..600)) {
        any_media::check(&bytes);
    }

    #[test]
    fn any_bytes_are_a_trace_or_an_error(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
        any_trace::check(&bytes);
    }
}
