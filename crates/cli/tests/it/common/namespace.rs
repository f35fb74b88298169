//! A network namespace for a test. It is removed with the process that keeps it open.

use std::fs::read_link;
use std::process::{Command, Output};
use std::time::Duration;

use super::Guarded;
use super::machine::{has, skipped};

/// A network namespace.
pub struct Namespace {
    holder: Guarded,
}

/// Whether this process is root and the machine has these programs. If not, a message is printed.
pub fn can(programs: &[&str]) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skipped("root, for network namespaces");
    }
    is_root && programs.iter().all(|program| has(program))
}

impl Namespace {
    /// A new namespace, with its loopback interface up.
    pub fn new() -> Self {
        // If the test is killed, the process ends after ten minutes.
        let holder = Command::new("unshare").args(["--net", "sleep", "600"]).spawn().expect("unshare starts");
        let namespace = Self { holder: Guarded(holder) };
        let of = |pid: &str| read_link(format!("/proc/{pid}/ns/net")).ok();
        for _ in 0..500 {
            if of(&namespace.pid()).is_some_and(|own| Some(own) != of("self")) {
                namespace.ip(&["link", "set", "lo", "up"]);
                return namespace;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no namespace came to be");
    }

    /// Two namespaces, joined by a veth pair. Both interfaces are called `eth`; the first has 10.0.0.1 and 2001:db8::1,
    /// the second 10.0.0.2 and 2001:db8::2.
    pub fn pair() -> (Self, Self) {
        let (near, far) = (Self::new(), Self::new());
        near.ip(&["link", "add", "eth", "type", "veth", "peer", "name", "eth", "netns", &far.pid()]);
        for (end, number) in [(&near, 1), (&far, 2)] {
            end.ip(&["address", "add", &format!("10.0.0.{number}/24"), "dev", "eth"]);
            end.ip(&["address", "add", &format!("2001:db8::{number}/64"), "dev", "eth", "nodad"]);
            end.ip(&["link", "set", "eth", "up"]);
        }
        (near, far)
    }

    fn pid(&self) -> String {
        self.holder.id().to_string()
    }

    /// A command that starts a program in the namespace.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args([&format!("--net=/proc/{}/ns/net", self.pid()), program]);
        command
    }

    /// Runs `ip` in the namespace.
    pub fn ip(&self, arguments: &[&str]) {
        let status = self.command("ip").args(arguments).status().expect("ip starts");
        assert!(status.success(), "ip {arguments:?}: {status}");
    }

    /// Number of packets that an interface of the namespace has sent.
    pub fn transmitted(&self, interface: &str) -> u64 {
        let table =
            std::fs::read_to_string(format!("/proc/{}/net/dev", self.pid())).expect("the kernel tells");
        let line =
            table.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'));
        // The tenth number is the count of sent packets. Before it are eight numbers about received packets and the
        // sent octets (proc_pid_net(5)).
        let packets = line.and_then(|line| line.split_ascii_whitespace().nth(9));
        packets.and_then(|number| number.parse().ok()).expect("it has the interface")
    }

    /// Runs netrig in the namespace until it ends.
    pub fn netrig(&self, arguments: &[&str]) -> Output {
        self.command(env!("CARGO_BIN_EXE_netrig")).args(arguments).output().expect("netrig starts")
    }
}
