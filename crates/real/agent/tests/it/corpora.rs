//! What is worth keeping of what the parsers were ever given, and random changes to it: STAMP packets, frames of control
//! connections, what FTP servers say, what comes from and to servers of the DNS and of HTTP, and what ICMP says of packets.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a corpus is a folder of files, and a server a socket and a thread"
)]

use std::path::Path;

use netrig_core::{Seeds, Stream};

use crate::any_control_frame;
use crate::any_dns_answer;
use crate::any_ftp_reply;
use crate::any_http;
use crate::any_icmp_error;
use crate::any_stamp_packet;

/// The inputs of a target of `fuzz/`, by name.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(target);
    let read = |file: std::fs::DirEntry| {
        let bytes = std::fs::read(file.path()).expect("the corpus can be read");
        (file.file_name().to_string_lossy().into_owned(), bytes)
    };
    let files = folder.read_dir().expect("the corpus is there");
    let mut inputs: Vec<_> = files.map(|file| read(file.expect("the corpus can be read"))).collect();
    inputs.sort();
    inputs
}

/// Each input of a corpus of at least so many, and then `changed` others that were made of them.
fn replay(target: &str, least: usize, changed: usize, check: fn(&[u8])) {
    let inputs = corpus(target);
    assert!(inputs.len() >= least, "{target}: {} inputs", inputs.len());
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
fn stamp_packets_are_survived() {
    replay("stamp_packet", 20, 2000, any_stamp_packet::check);
}

#[test]
fn control_frames_are_survived() {
    replay("control_frame", 20, 2000, any_control_frame::check);
}

#[test]
fn dns_answers_are_survived() {
    replay("dns_answer", 20, 20_000, any_dns_answer::check);
}

#[test]
fn messages_about_packets_are_survived() {
    replay("icmp_error", 20, 2000, any_icmp_error::check);
}

#[test]
fn http_is_survived() {
    replay("http_head", 20, 20_000, any_http::check);
}

#[test]
fn ftp_replies_are_survived() {
    replay("ftp_reply", 20, 200, any_ftp_reply::check);
    // Words that a server says that means well: what it does not get as far as is not tried.
    for (name, bytes) in corpus("ftp_reply").iter().filter(|(name, _)| name.contains("load")) {
        assert_eq!(any_ftp_reply::sessions(bytes), 1, "{name}");
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
        any_stamp_packet::check(&bytes);
        any_control_frame::check(&bytes);
        any_dns_answer::check(&bytes);
        any_icmp_error::check(&bytes);
        any_http::check(&bytes);
    }
}
