//! Probes over a path of netrig's own router. The test needs root on Linux; otherwise it prints that it was skipped.
#![cfg(target_os = "linux")]

use serde_json::Value;

use crate::common::as_json;
use crate::common::far_end::FarEnd;
use crate::common::path_lab::{PathLab, near_to_far};

/// A path with a delay of 50 ms in each direction and an MTU below that of Ethernet.
fn path() -> String {
    near_to_far("path")
        .nodes("near far")
        .fifo("line", "near far", ("20 Mbit/s", "25 ms", 200), r#"mtu = "1400 B""#)
        .build()
}

/// With send buffers of 16 KB, the kernel fills a twentieth of the path. The probe names the buffer as the cause and
/// not the path. With the kernel's defaults it names neither the buffer nor the processor. The packet size is read from the kernel.
#[test]
fn a_send_buffer_that_is_too_small_for_the_path_is_blamed() {
    let Some(lab) = PathLab::build_if_possible("path", &path()) else { return };
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "0123456789abcdef").expect("it can be written");
    let key = file.path().to_str().expect("a plain path").to_owned();
    let netrig = env!("CARGO_BIN_EXE_netrig");
    let far_end = FarEnd::start_by(lab.inside("far", netrig), &["--listen", "10.0.0.2", "--key", &key]);
    let transfer = || -> Value {
        let mut command = lab.inside("near", netrig);
        command.args(["probe", "transfer", &far_end.probes[0], "--key", &key, "--bytes", "1MB", "--json"]);
        let output = command.output().expect("netrig starts");
        let told = as_json(&output);
        let code = if told["valid"] == true { 0 } else { 3 };
        assert_eq!(output.status.code(), Some(code), "{told}");
        told
    };
    let blames = |told: &Value, limit: &str| told["faults"].to_string().contains(limit);
    let buffer = "the transfer is limited by the send buffer of this host";
    let roomy = transfer();
    assert!(!blames(&roomy, buffer) && !blames(&roomy, "the processor of this host"), "{roomy}");
    // 40 B of IPv4 and TCP headers, and 12 B of TCP time stamps.
    assert_eq!((&roomy["path_mtu_bytes"], &roomy["segment_bytes"]), (&1400.into(), &1348.into()));
    lab.run("near", "sysctl", &["-qw", "net.ipv4.tcp_wmem=4096 16384 16384"]);
    let told = transfer();
    assert!(blames(&told, buffer) && told["valid"] == false, "{told}");
    drop(far_end);
    lab.close();
}
