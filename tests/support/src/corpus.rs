//! Replays the corpora of the fuzz targets as tests: each input, and random changes of inputs.

use std::path::Path;

use netrig_core::{Seeds, Stream};

/// The inputs of a target in `fuzz/corpus` with their names, in the order of the names.
pub fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let read = |file: std::fs::DirEntry| {
        let bytes = std::fs::read(file.path()).expect("the corpus can be read");
        (file.file_name().to_string_lossy().into_owned(), bytes)
    };
    let files = folder.read_dir().expect("the corpus is there");
    let mut inputs: Vec<_> = files.map(|file| read(file.expect("the corpus can be read"))).collect();
    inputs.sort();
    inputs
}

/// Checks each input of a corpus, and then `changed` inputs made from them. The corpus must have at least `least`
/// inputs.
pub fn replay(target: &str, least: usize, changed: usize, check: fn(&[u8])) {
    let inputs = corpus(target);
    assert!(inputs.len() >= least, "{target}: {} inputs", inputs.len());
    for (name, bytes) in &inputs {
        // If the check panics, the last line of the output names the input.
        println!("{name}");
        check(bytes);
    }
    let mut draws = Seeds::new(1).stream(target);
    for number in 0..changed {
        let bytes = change(&inputs, &mut draws);
        println!("change {number}: {}", bytes.escape_ascii());
        check(&bytes);
    }
}

/// An input with up to four changes: another byte, bytes removed, bytes repeated, or the end of another input.
fn change(inputs: &[(String, Vec<u8>)], draws: &mut Stream) -> Vec<u8> {
    let mut pick = |below: usize| draws.below(below.max(1) as u64) as usize;
    let mut bytes = inputs[pick(inputs.len())].1.clone();
    for _ in 0..=pick(4) {
        let (from, len) = (pick(bytes.len()), pick(16));
        let until = (from + len).min(bytes.len());
        match pick(4) {
            0 => bytes.iter_mut().skip(from).take(1).for_each(|byte| *byte = pick(256) as u8),
            1 => drop(bytes.drain(from..until)),
            2 => {
                let twice = bytes[from..until].to_vec();
                bytes.splice(from..from, twice);
            }
            _ => {
                let other = &inputs[pick(inputs.len())].1;
                bytes.truncate(from);
                bytes.extend(&other[pick(other.len())..]);
            }
        }
    }
    bytes
}
