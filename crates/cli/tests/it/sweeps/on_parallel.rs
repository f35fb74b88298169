//! Commands as engines: GNU parallel, and ssh to two machines.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use netrig_test_support::skip_unless;

use super::{Lab, Running, processes_with, wait_for};
use crate::common::machine::has;
use crate::common::namespace::{Namespace, can};
use crate::common::{text, words};

#[test]
fn gnu_parallel_gives_the_same_bytes() {
    skip_unless!(has("parallel"));
    let lab = Lab::new();
    lab.ok("run four.toml --store=all.db --out=all.csv --via=parallel --into=sweep --chunk=5ms --slots=2");
    assert!(lab.shards("sweep").len() > 1, "{:?}", lab.shards("sweep"));
    lab.is_as_alone("all.db");
}

#[test]
fn a_submitter_that_is_killed_leaves_no_process() {
    skip_unless!(has("parallel"));
    let lab = Lab::new();
    let mark = lab.path().join("sweep").display().to_string();
    let submit = || {
        let line = "run four.toml --store=all.db --out=all.csv --via=parallel --into=sweep --set rate=400Mbit/s --replications=500 --chunk=1h";
        let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
        Running::start(command.args(line.split(' ')).current_dir(lab.path()))
    };
    let chunks = || processes_with(&format!("chunk {mark}")).len();
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::KILL] {
        let submitter = submit();
        wait_for("a chunk", || chunks() > 0);
        submitter.signal(signal);
        wait_for("the end of the chunks", || chunks() == 0);
    }
}

#[test]
fn ssh_to_two_machines_gives_the_same_bytes() {
    skip_unless!(can(&["/usr/sbin/sshd", "ssh", "parallel"]));
    let lab = Lab::new();
    let (near, far) = Namespace::pair();
    let keys = tempfile::tempdir().unwrap();
    for name in ["host", "user"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(keys.path().join(name))
            .status()
            .unwrap();
        assert!(made.success());
    }
    let at = |name: &str| keys.path().join(name).display().to_string();
    std::fs::copy(at("user.pub"), at("authorized")).unwrap();
    // sshd wants this folder, and does not make it.
    std::fs::create_dir_all("/run/sshd").unwrap();
    let servers: Vec<_> = [(&near, "10.0.0.1"), (&far, "10.0.0.2")]
        .into_iter()
        .map(|(namespace, address)| {
            let config = at(&format!("sshd-{address}"));
            let text = format!(
                "Port 2222\nListenAddress {address}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\n\
                 PidFile none\nPermitRootLogin yes\n",
                at("host"),
                at("authorized")
            );
            std::fs::write(&config, text).unwrap();
            Running::start(namespace.command("/usr/sbin/sshd").args(["-D", "-e", "-f", &config]))
        })
        .collect();
    let ssh = lab.path().join("ssh");
    let script = format!(
        "#!/bin/sh\nexec ssh -F none -p 2222 -i {} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \"$@\"\n",
        at("user")
    );
    std::fs::write(&ssh, script).unwrap();
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ready = |address: &str| {
        let output = near.command(&ssh.display().to_string()).args([address, "true"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    for address in ["10.0.0.1", "10.0.0.2"] {
        wait_for("the server", || ready(address));
    }
    let hosts = lab.path().join("hosts");
    std::fs::write(&hosts, format!("1/{0} 10.0.0.1\n1/{0} 10.0.0.2\n", ssh.display())).unwrap();
    let line = format!(
        "run four.toml --store=all.db --out=all.csv --via=parallel --into=sweep --chunk=5ms -- --sshloginfile {}",
        hosts.display()
    );
    let output = near
        .command(env!("CARGO_BIN_EXE_netrig"))
        .args(line.split(' '))
        .current_dir(lab.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    lab.is_as_alone("all.db");
    // And by a template, to one of them.
    let output = near
        .command(env!("CARGO_BIN_EXE_netrig"))
        .args(words("run four.toml --store=one.db --out=one.csv --into=one --chunk=5ms --slots=2"))
        .arg(format!("--via=command {} 10.0.0.2 {{}}", ssh.display()))
        .current_dir(lab.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    lab.is_as_alone("one.db");
    drop(servers);
}
