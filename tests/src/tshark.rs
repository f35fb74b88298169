//! Captures are read by tshark, which is independent of netrig.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test against a program starts it and writes what it reads"
)]

use std::process::Command;

/// The requested fields of each packet, as tshark prints them. A field may have several values. TCP sequence numbers
/// are absolute.
///
/// # Panics
/// If tshark cannot read the capture, which makes the test fail.
pub fn dissect(capture: &[u8], filter: &str, fields: &[&str]) -> Vec<Vec<Vec<String>>> {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("a folder for the test: {error}"));
    let file = folder.path().join("test.pcapng");
    std::fs::write(&file, capture).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut command = Command::new("tshark");
    command.args(["-n", "-Y", filter, "-T", "fields", "-E", "separator=|", "-E", "aggregator=;"]);
    // tshark runs without user settings, and with checksum verification. It is off by default, because often the
    // network card computes the checksums.
    for preference in [
        "ip.check_checksum:TRUE",
        "tcp.check_checksum:TRUE",
        "udp.check_checksum:TRUE",
        "sctp.checksum:CRC 32c",
        "sctp.tsn_analysis:TRUE",
        "tcp.analyze_sequence_numbers:TRUE",
        "tcp.relative_sequence_numbers:FALSE",
    ] {
        command.args(["-o", preference]);
    }
    for field in fields {
        command.args(["-e", field]);
    }
    let out = command.env("HOME", folder.path()).arg("-r").arg(&file).output();
    let out = out.unwrap_or_else(|error| panic!("tshark does not start: {error}"));
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let values =
        |field: &str| field.split(';').filter(|value| !value.is_empty()).map(str::to_owned).collect();
    let text = String::from_utf8_lossy(&out.stdout);
    text.lines().map(|line| line.split('|').map(values).collect()).collect()
}
