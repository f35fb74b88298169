//! Starts the program by its command line.

pub mod capture;
pub mod carried_out;
pub mod far_end;
pub mod free_port;
pub mod kamailio;
pub mod machine;
pub mod namespace;
pub mod path_lab;
pub mod sip_peer;
pub mod sip_server;
pub mod speed_lab;
pub mod spoilt;
pub mod terminal;

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use netrig_test_support::ExperimentText;
use serde_json::Value;

/// Runs netrig in a folder until it ends.
pub fn netrig(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_netrig"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("netrig starts")
}

/// A process that ends with the test.
pub struct Guarded(pub Child);

impl Deref for Guarded {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Errors are ignored: the process may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The maximum resident memory of a process, bytes (proc(5): `VmHWM`).
pub fn most_memory(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.expect("it is told") * 1024
}

/// A folder that all users can enter, with a copy of netrig that all can execute: the folder of the build may be closed
/// to others.
pub fn open_folder() -> (tempfile::TempDir, PathBuf) {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::Builder::new().prefix("netrig-open-").tempdir_in("/tmp").unwrap();
    let program = folder.path().join("netrig-program");
    std::fs::copy(env!("CARGO_BIN_EXE_netrig"), &program).unwrap();
    for (path, mode) in [(folder.path(), 0o777), (program.as_path(), 0o755)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    (folder, program)
}

/// Writes a file that only its owner can read, as required for keys.
pub fn write_secret(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, text).expect("the folder can be written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
}

/// Connects to `to` from the address `from` of this host.
pub fn connect_from(address: &str, to: &str) -> std::io::Result<std::net::TcpStream> {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let [from, to]: [std::net::SocketAddr; 2] =
        [format!("{address}:0"), to.to_owned()].map(|text| text.parse().expect("an address"));
    let made = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&made, &from)?;
    connect(&made, &to)?;
    Ok(made.into())
}

/// The words of a command line, separated by single spaces.
pub fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// Output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The JSON document that a command printed.
pub fn as_json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", text(&output.stdout), text(&output.stderr)))
}

/// The identities of the runs in the store of a folder. There must be one.
pub fn run_ids(folder: &Path) -> Vec<String> {
    let list = text(&netrig(folder, &["list"]).stdout);
    let is_id = |word: &&str| word.len() == 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let firsts = list.lines().filter_map(|line| line.split_whitespace().next());
    let ids: Vec<_> = firsts.filter(is_id).map(str::to_owned).collect();
    assert!(!ids.is_empty(), "no run: {list}");
    ids
}

/// The time lines of all runs in the store of a folder, as `netrig show` prints them.
pub fn time_lines(folder: &Path) -> String {
    run_ids(folder).iter().map(|id| text(&netrig(folder, &["show", "run", id]).stdout)).collect()
}

/// The experiment `small`: a transfer over a line that loses packets, at two rates.
pub fn small() -> ExperimentText {
    ExperimentText::new("small", "2 s")
        .table("factors", r#"rate = ["1 Mbit/s", "2 Mbit/s"]"#)
        .table("replications", "count = 3")
        .nodes("a b")
        .fifo(
            "line",
            "a b",
            ("${rate}", "10 ms", 50),
            r#"loss = { kind = "bernoulli", probability = "1 %" }"#,
        )
        .table("transport.tcp", r#"kind = "tcp""#)
        .flow("transfer", "a b", r#"transport = "tcp", application = { kind = "bulk" }"#)
        .response("goodput", "flow.transfer", "goodput")
}

/// An experiment with a tester and a server, a line of 100 Mbit/s with this delay between them, and a flow `users` with
/// these entries.
pub fn sip_users(name: &str, duration: &str, delay: &str, flow: &str) -> ExperimentText {
    ExperimentText::new(name, duration)
        .table("replications", "count = 1")
        .nodes("tester server")
        .fifo("line", "tester server", ("100 Mbit/s", delay, 1000), "")
        .flow("users", "tester server", flow)
}
