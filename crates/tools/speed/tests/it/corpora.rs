//! What is worth keeping of what the parsers of others' protocols were ever given, and random changes to it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a corpus is a folder of files")]

use std::path::Path;

use netrig_core::{Seeds, Stream};

use crate::any_iperf3;
use crate::any_iperf3_datagram;
use crate::any_speed_control;
use crate::any_websocket;

/// The inputs of a target of `fuzz/`, by name.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(target);
    let read = |file: std::fs::DirEntry| {
        (file.file_name().to_string_lossy().into_owned(), std::fs::read(file.path()).unwrap())
    };
    let mut inputs: Vec<_> = folder.read_dir().unwrap().map(|file| read(file.unwrap())).collect();
    inputs.sort();
    inputs
}

/// Each input of a corpus, and then so many others that were made of them.
fn replay(target: &str, changed: usize, check: fn(&[u8])) {
    let inputs = corpus(target);
    assert!(inputs.len() >= 20, "{target}: {} inputs", inputs.len());
    for (name, bytes) in &inputs {
        // It stands in what is printed if it is not survived.
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

/// An input with up to four changes: another byte, bytes less, bytes twice, or the end of another input.
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

#[test]
fn what_iperf3_says_is_survived() {
    replay("iperf3_control", 5000, any_iperf3::check);
    // Inputs that mean well get to the end: what they do not get as far as is not tried.
    for (name, bytes) in corpus("iperf3_control").iter().filter(|(name, _)| name.starts_with("whole")) {
        assert_eq!(any_iperf3::ends(bytes), 1, "{name}");
    }
}

#[test]
fn datagrams_of_iperf3_are_survived() {
    replay("iperf3_datagram", 5000, any_iperf3_datagram::check);
}

#[test]
fn what_a_client_of_ours_may_say_is_survived() {
    replay("speed_control", 5000, any_speed_control::check);
    for (name, bytes) in corpus("speed_control").iter().filter(|(name, _)| name.starts_with("said")) {
        assert!(any_speed_control::said(bytes) > 0, "{name}");
    }
}

#[test]
fn websockets_are_survived() {
    replay("websocket", 5000, any_websocket::check);
    for (name, bytes) in corpus("websocket").iter().filter(|(name, _)| name.starts_with("frames")) {
        assert!(any_websocket::frames(bytes) > 0, "{name}");
    }
}

proptest::proptest! {
    #[test]
    fn a_meter_survives_any_bytes(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
        any_iperf3::check(&bytes);
        any_iperf3_datagram::check(&bytes);
        any_websocket::check(&bytes);
        any_speed_control::check(&bytes);
    }
}
