//! The traffic on the loopback interface, as tshark reads it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::Guarded;
use super::far_end::interrupt;

/// Time limit for the start of the capture.
const PATIENCE: Duration = Duration::from_secs(120);

/// A tshark process that captures on the loopback interface. It ends with the test.
pub struct Capture {
    child: Guarded,
    file: PathBuf,
}

impl Capture {
    /// Captures the packets of these ports. If capturing is not permitted, prints a message and returns `None`.
    pub fn start(folder: &Path, ports: &[&str]) -> Option<Self> {
        let file = folder.join("capture.pcapng");
        // The file of an earlier capture must not be taken for that of this one.
        let _ = std::fs::remove_file(&file);
        let filter: Vec<String> = ports.iter().map(|port| format!("port {port}")).collect();
        let mut command = Command::new("tshark");
        command.args(["-q", "-i", "lo", "-B", "64", "-f", &filter.join(" or "), "-w"]).arg(&file);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let until = Instant::now() + PATIENCE;
        // tshark writes the header of the file when it starts to capture.
        while std::fs::metadata(&file).map_or(0, |file| file.len()) == 0 {
            if child.try_wait().expect("it is a child").is_some() || Instant::now() > until {
                eprintln!("skipped: needs the right to capture");
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Self { child: Guarded(child), file })
    }

    pub fn end(mut self) -> PathBuf {
        interrupt(&self.child, Signal::INT);
        self.child.wait().expect("it ends");
        self.file.clone()
    }
}

/// The number of packets of a capture that match a filter of tshark.
pub fn found(file: &Path, port: &str, filter: &str) -> usize {
    fields(file, port, filter, "frame.number").lines().count()
}

/// The number of calls with at least one matching message.
pub fn found_calls(file: &Path, port: &str, filter: &str) -> usize {
    fields(file, port, filter, "sip.Call-ID").lines().collect::<BTreeSet<_>>().len()
}

/// A field of the matching packets, one per line.
fn fields(file: &Path, port: &str, filter: &str, field: &str) -> String {
    let decoded = [format!("udp.port=={port},sip"), format!("tcp.port=={port},sip")];
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-Y", filter, "-T", "fields", "-e", field]);
    let output = command.args(["-d", &decoded[0], "-d", &decoded[1]]).output().expect("tshark starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
