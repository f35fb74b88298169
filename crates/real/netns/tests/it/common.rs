//! Shared helpers of the tests.

use std::os::unix::fs::MetadataExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use netrig_experiment::Experiment;
use netrig_netns::{Journals, Testbed, TestbedId, Wiring, missing_requirements};
use netrig_test_support::{ExperimentText, skipped};
use serde_json::Value;
use tempfile::TempDir;

/// An experiment with a client and a server that have a path over one link, and a path over a node between them. Some
/// link names are too long for an interface name of Linux.
pub fn three_nodes() -> String {
    ExperimentText::new("three-nodes", "1 s")
        .nodes("client middle server")
        .fifo("primary", "client server", ("10 Mbit/s", "1 ms", 50), "")
        .fifo("a-very-long-access-link", "client middle", ("10 Mbit/s", "1 ms", 50), r#"mtu = "1400 B""#)
        .fifo("a-very-long-access-line", "middle server", ("10 Mbit/s", "1 ms", 50), "")
        .table("transport.udp", r#"kind = "udp""#)
        .flow(
            "direct",
            "client server",
            r#"transport = "udp", paths = ["primary"],
            application = { kind = "cbr", size = "100 B", interval = "10 ms" }"#,
        )
        .flow(
            "round",
            "client server",
            r#"transport = "udp", paths = [["a-very-long-access-link", "a-very-long-access-line"]],
            application = { kind = "cbr", size = "100 B", interval = "10 ms" }"#,
        )
        .response("sent", "flow.direct", "goodput")
        .build()
}

/// The wiring of the first point of an experiment.
pub fn wiring(text: &str) -> Wiring {
    let experiment = Experiment::parse("test.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
    let scenario = experiment.plan().scenario(0).unwrap_or_else(|problems| panic!("{problems}"));
    Wiring::new(&scenario).unwrap()
}

/// A folder of journals for one test.
pub fn journals() -> (TempDir, Journals) {
    let folder = tempfile::tempdir().unwrap();
    let journals = Journals::at(folder.path());
    (folder, journals)
}

/// An identity that is unique across tests and processes, and that is not a prefix of another identity.
pub fn id() -> TestbedId {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    TestbedId::new(&format!("t{}x{n:03}", std::process::id())).unwrap()
}

pub fn build(journals: &Journals) -> Testbed {
    Testbed::build(journals, &id(), wiring(&three_nodes())).unwrap()
}

/// Whether a testbed can be made on this machine. If not, a message is printed.
pub fn has_root() -> bool {
    let has_root = missing_requirements().is_empty();
    if !has_root {
        skipped("root");
    }
    has_root
}

/// The output of a program.
pub fn says(program: &str, arguments: &[&str]) -> String {
    let out = Command::new(program).args(arguments).output().unwrap();
    assert!(out.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// The list that `ip -j` prints for a namespace.
pub fn ip(namespace: &str, arguments: &[&str]) -> Vec<Value> {
    let said = says("ip", &[&["-d", "-j", "-n", namespace], arguments].concat());
    serde_json::from_str(if said.trim().is_empty() { "[]" } else { &said }).unwrap()
}

/// Names of all bound namespaces that contain `part`.
pub fn namespaces(part: &str) -> Vec<String> {
    let Ok(folder) = std::fs::read_dir("/run/netns") else { return Vec::new() };
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(part)).collect()
}

/// IDs of processes with `part` in their environment or command line. Zombies are not included, because they have
/// neither.
pub fn processes(part: &str) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let has = |pid: &u32| {
        ["environ", "cmdline"].iter().any(|file| {
            let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).contains(part)
        })
    };
    numbers.filter(|pid| *pid != std::process::id()).filter(has).collect()
}

/// A namespace that netrig did not make. It is removed when this value is dropped.
pub struct Foreign(String);

impl Foreign {
    pub fn make(name: String) -> Self {
        says("ip", &["netns", "add", &name]);
        Self(name)
    }

    pub fn name(&self) -> &str {
        &self.0
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        says("ip", &["netns", "del", &self.0]);
    }
}

/// The processes in the namespace of this name, except this process.
pub fn residents(namespace: &str) -> Vec<i32> {
    let place = |path: String| std::fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    let Some(wanted) = place(format!("/run/netns/{namespace}")) else { return Vec::new() };
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let own = std::process::id() as i32;
    pids.filter(|pid| *pid != own && place(format!("/proc/{pid}/ns/net")) == Some(wanted)).collect()
}

/// Whether a process with this number exists and has not ended.
pub fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}
