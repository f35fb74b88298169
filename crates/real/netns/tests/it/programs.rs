//! Tests of programs on nodes.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use netrig_netns::TestbedError;
use netrig_test_support::{has, skip_unless};

use super::common::{build, has_root, journals, lives, processes, residents};

/// A time limit that is reached only if a test fails.
const LONG: Duration = Duration::from_secs(60);

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(Stdio::piped());
    command
}

#[test]
fn a_program_lives_in_its_nodes_namespace_and_its_output_is_kept() {
    skip_unless!(has_root());
    let (_folder, journals) = journals();
    let mut testbed = build(&journals);
    let mut program = testbed.spawn(2, shell("readlink /proc/self/ns/net; exit 7")).unwrap();
    let status = program.wait(LONG).unwrap().unwrap();
    assert_eq!(status.code(), Some(7));
    let mut said = String::new();
    program.stdout().unwrap().read_to_string(&mut said).unwrap();
    let inside = testbed.in_node(2, || std::fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap();
    assert_eq!(said.trim(), inside.to_str().unwrap());
    assert_ne!(inside, std::fs::read_link("/proc/self/ns/net").unwrap());
    assert!(matches!(testbed.spawn(3, shell("true")), Err(TestbedError::NoNode(3))));
}

/// A node reaches itself over both IP versions, on addresses that are usable immediately.
#[test]
fn a_node_talks_to_itself_over_its_own_addresses() {
    skip_unless!(has_root());
    let (_folder, journals) = journals();
    let testbed = build(&journals);
    for address in ["127.0.0.1", "10.0.0.1", "10.0.0.5", "::1", "fd00::1", "fd00:0:0:1::1"] {
        let address: std::net::IpAddr = address.parse().unwrap();
        let heard = testbed.in_node(0, move || {
            let listener = std::net::TcpListener::bind((address, 0))?;
            let dialled = std::net::TcpStream::connect(listener.local_addr()?)?;
            listener.accept().map(|(_, from)| from == dialled.local_addr().unwrap())
        });
        assert!(heard.unwrap().unwrap(), "{address}");
    }
}

#[test]
fn one_that_cannot_be_started_is_told() {
    skip_unless!(has_root());
    let (_folder, journals) = journals();
    let mut testbed = build(&journals);
    let none = testbed.spawn(1, Command::new("/nonexistent/program")).err();
    assert!(none.unwrap().to_string().contains("cannot start `/nonexistent/program`"));
    // SIGTERM ends a program that handles it.
    use std::os::unix::process::ExitStatusExt as _;
    let mut sleep = Command::new("sleep");
    sleep.arg("1000");
    assert_eq!(testbed.spawn(1, sleep).unwrap().stop(LONG).unwrap().signal(), Some(15));
}

#[test]
fn one_that_does_not_want_to_end_is_killed_with_its_children() {
    skip_unless!(has_root());
    let (_folder, journals) = journals();
    let mut testbed = build(&journals);
    let mut program = testbed.spawn(0, shell("trap '' TERM; sleep 1000 & echo on; wait; wait")).unwrap();
    // When the shell has written its line, it has set its trap and started its child. During exec, a process has no
    // environment for a short time, so the test waits until both processes are found.
    program.stdout().unwrap().read_exact(&mut [0; 3]).unwrap();
    let mark = format!("NETRIG_TESTBED={}", testbed.id());
    let begun = std::time::Instant::now();
    while processes(&mark).len() != 2 && begun.elapsed() < LONG {
        std::thread::yield_now();
    }
    assert_eq!(processes(&mark).len(), 2);
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(program.stop(Duration::from_millis(50)).unwrap().signal(), Some(9));
    // The killed processes may not have ended yet.
    while !processes(&mark).is_empty() {
        std::thread::yield_now();
    }
}

/// A program that leaves its process group, its session and its parent, as daemons do, ends with the testbed. A program
/// whose handle outlives the testbed has been killed and can still be waited for.
#[test]
fn a_daemon_ends_with_the_testbed() {
    skip_unless!(has_root() && has("setsid"));
    let (_folder, journals) = journals();
    let mut testbed = build(&journals);
    let mut starter = testbed.spawn(0, shell("setsid sleep 1000 & exec sleep 0.1")).unwrap();
    starter.wait(LONG).unwrap().unwrap();
    let mut kept = testbed.spawn(1, shell("exec sleep 1000")).unwrap();
    let mark = format!("NETRIG_TESTBED={}", testbed.id());
    assert_eq!(processes(&mark).len(), 2);
    testbed.remove().unwrap();
    assert_eq!(processes(&mark), [0; 0]);
    assert!(kept.wait(LONG).unwrap().is_some());
}

/// A program that removes the testbed's mark and leaves its session is still in the namespace of a node, so it ends
/// with the node.
#[test]
fn one_that_hides_ends_with_its_node() {
    skip_unless!(has_root() && has("setsid"));
    let (_folder, journals) = journals();
    let mut testbed = build(&journals);
    let starter = shell("env -i setsid sh -c 'echo hidden; exec sleep 777' &");
    let mut starter = testbed.spawn(0, starter).unwrap();
    starter.stdout().unwrap().read_exact(&mut [0; 7]).unwrap();
    starter.wait(LONG).unwrap().unwrap();
    assert_eq!(processes(&format!("NETRIG_TESTBED={}", testbed.id())), [0; 0]);
    let hidden = residents(testbed.namespace(0).unwrap());
    let [hidden] = hidden[..] else { panic!("{hidden:?}") };
    testbed.remove().unwrap();
    assert!(!lives(hidden));
}

/// A user's shell in the namespace of a node does not prevent the removal of the node, and ends with it.
#[test]
fn a_persons_shell_ends_with_its_node() {
    skip_unless!(has_root() && has("ip"));
    let (_folder, journals) = journals();
    let testbed = build(&journals);
    let mut command = Command::new("ip");
    command.args(["netns", "exec", testbed.namespace(0).unwrap()]);
    command.args(["sh", "-c", "echo on; read line"]);
    let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    shell.stdout.as_mut().unwrap().read_exact(&mut [0; 3]).unwrap();
    testbed.remove().unwrap();
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(shell.wait().unwrap().signal(), Some(9));
}
