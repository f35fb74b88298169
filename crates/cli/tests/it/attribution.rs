//! Packet loss or delay caused by this machine, and not by the network of the experiment, makes a run invalid; the
//! reason names where it happened. The tests need root on Linux; otherwise each test prints that it was skipped.
#![cfg(target_os = "linux")]

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use netrig_test_support::{ExperimentText, skip_unless};

use crate::common::carried_out::{carry_out, run};
use crate::common::machine::{can, folder};
use crate::common::path_lab::DiscardingSink;
use crate::common::{netrig, text};

/// Two hosts with a router between them. A flow sends datagrams of `size` over this IP version. `scripts` are shell
/// scripts for the first host and the router; an empty one is not run.
fn experiment(ip: u8, size: &str, scripts: [&str; 2]) -> String {
    let [at_a, at_r] = scripts.map(|script| match script {
        "" => String::new(),
        script => format!("application = {{ kind = \"program\", command = [\"sh\", \"-c\", {script:?}] }}"),
    });
    ExperimentText::new("attribution", "2 s")
        .with(&format!("ip = {ip}"))
        .table("replications", "count = 1")
        .table("node.a", &at_a)
        .table("node.R", &at_r)
        .nodes("b")
        .fifo("access", "a R", ("100 Mbit/s", "0 s", 1000), "")
        .fifo("line", "R b", ("100 Mbit/s", "5 ms", 1000), "")
        .table("transport.udp", r#"kind = "udp""#)
        .flow(
            "load",
            "a b",
            &format!(
                r#"transport = "udp", application = {{ kind = "cbr", size = "{size}", rate = "4 Mbit/s" }}"#
            ),
        )
        .response("loss", "flow.load", "datagram_loss")
        .build()
}

/// Why the run is invalid (empty if it is valid), and the number of packets dropped on its links.
fn verdict(experiment: &str) -> (String, u64) {
    let outcome = carry_out(&run(experiment, 0), &mut DiscardingSink, &AtomicBool::new(false));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    (outcome.invalid.unwrap_or_default(), outcome.balance.dropped)
}

/// Datagrams that are fragmented and reassembled do not count as lost.
#[test]
fn what_no_kernel_loses_is_nobodys_fault() {
    skip_unless!(can(&[]));
    for (ip, size) in [(4, "500 B"), (4, "4 KB"), (6, "500 B"), (6, "4 KB")] {
        let (invalid, _) = verdict(&experiment(ip, size, ["", ""]));
        for lost in ["did not forward", "did not reach"] {
            assert!(!invalid.contains(lost), "{size} by IPv{ip}: {invalid}");
        }
    }
}

#[test]
fn what_a_router_of_the_experiment_loses_in_its_kernel_is_told() {
    skip_unless!(can(&[]));
    let switches = "while :; do sleep 0.4; echo 0 > /proc/sys/net/ipv4/ip_forward; sleep 0.1; \
                    echo 1 > /proc/sys/net/ipv4/ip_forward; done";
    let (invalid, dropped) = verdict(&experiment(4, "500 B", ["", switches]));
    assert_eq!(dropped, 0, "no link drops any");
    assert!(
        invalid.contains("node `R` did not forward ")
            && invalid.contains(" packets that links delivered to it"),
        "{invalid}"
    );
}

/// If the MTU of a node's interface is raised above that of its link, the node sends frames that the link does not
/// carry. They are lost before the link.
#[test]
fn what_does_not_reach_its_link_is_told() {
    skip_unless!(can(&[]));
    // With the raised MTU, datagrams are not fragmented any more, and no link carries frames of their length.
    let raises = "sleep 0.5; ip link set dev access mtu 9000; sleep 0.7; \
                  ip link set dev access mtu 1500; sleep 100";
    for ip in [4, 6] {
        let (invalid, _) = verdict(&experiment(ip, "4 KB", [raises, ""]));
        let told = "datagrams that node `a` sent did not reach its link";
        assert!(invalid.contains(told), "IPv{ip}: {invalid}");
    }
}

/// Without root, the message names a remedy and not only "permission denied".
#[test]
fn without_root_is_said_what_needs_it_and_what_does_not() {
    skip_unless!(can(&[]));
    let folder = folder("plain", &experiment(4, "500 B", ["", ""]));
    let path = folder.path();
    // The file is copied by another process: if a child of this one inherited the file open for writing, the file could
    // not be executed.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_netrig")).arg(path.join("netrig")).status();
    assert!(copied.expect("cp starts").success(), "the program can be copied");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(path, open).expect("it is ours");
    for words in [&["lab", "plain.toml"][..], &["run", "plain.toml", "--on", "netns"]] {
        let mut command = Command::new(path.join("netrig"));
        command.args(words).current_dir(path).uid(65534).gid(65534);
        let ended = command.output().expect("netrig starts");
        // Line breaks are replaced by spaces.
        let told = text(&ended.stderr) + &text(&ended.stdout);
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            told.contains("run it as root") && told.contains("`--on sim` needs none of it"),
            "{words:?}: {told}"
        );
    }
}

#[test]
fn a_lab_is_not_built_for_a_node_that_is_not_there() {
    skip_unless!(can(&[]));
    let folder = folder("plain", &experiment(4, "500 B", ["", ""]));
    let ended = netrig(folder.path(), &["lab", "plain.toml", "--node", "nope", "--", "true"]);
    let told = text(&ended.stderr);
    assert!(told.contains("there is no node `nope`; there are: a, R, b"), "{told}");
    assert!(!told.contains("links took"), "it was never built: {told}");
}
