//! The property of the fuzzer for its committed corpus, with any compiler.
#![allow(clippy::disallowed_methods, reason = "a test reads its inputs from the tree")]

use std::path::Path;

use crate::any_message;

#[test]
fn whatever_arrives_as_a_message_is_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/sip_message");
    let mut inputs = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        any_message::check(&bytes);
        inputs += 1;
    }
    assert!(inputs >= 10);
}
