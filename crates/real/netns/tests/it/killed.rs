//! Tests that kill the owner of a testbed and remove the remains.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use netrig_netns::{Journals, LeftBehind, Testbed, TestbedId, left_behind};
use netrig_test_support::{has, skip_unless};

use super::common::{
    Foreign, build, has_root, id, journals, lives, namespaces, processes, residents, three_nodes, wiring,
};

/// Environment variables with the folder of journals and the identity for the owner process.
const FOLDER: &str = "OWNER_JOURNALS";
const ID: &str = "OWNER_ID";

/// This is not a test, but the process that the tests start and kill. It builds a testbed with programs. One of the
/// programs becomes a daemon, and one removes its mark. The process then prints a line and waits until it is killed.
#[test]
#[ignore = "started by the tests that kill it"]
fn owner() {
    let (Ok(folder), Ok(id)) = (std::env::var(FOLDER), std::env::var(ID)) else { return };
    let id = TestbedId::new(&id).unwrap();
    let mut testbed = Testbed::build(&Journals::at(folder), &id, wiring(&three_nodes())).unwrap();
    let mut shell = Command::new("sh");
    let hides = "env -i setsid sh -c 'echo hidden; exec sleep 777'";
    shell.args(["-c", &format!("setsid sleep 1000 & {hides} & sleep 1000 & exec sleep 1000")]);
    shell.stdout(Stdio::piped());
    let mut shell = testbed.spawn(0, shell).unwrap();
    BufReader::new(shell.stdout().unwrap()).read_line(&mut String::new()).unwrap();
    let mut sleep = Command::new("sleep");
    sleep.arg("1000");
    let _sleep = testbed.spawn(2, sleep).unwrap();
    println!("\nbuilt {}", shell.id());
    loop {
        std::thread::park();
    }
}

fn start_owner(folder: &Path, id: &TestbedId) -> (Child, BufReader<ChildStdout>) {
    let mut owner = Command::new(std::env::current_exe().unwrap());
    owner.args(["--exact", "killed::owner", "--ignored", "--nocapture"]);
    owner.env(FOLDER, folder).env(ID, id.as_str());
    let mut owner = owner.stdout(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(owner.stdout.take().unwrap());
    (owner, out)
}

/// Waits until the owner has built its testbed. Returns the process ID of its first program.
fn built(out: &mut BufReader<ChildStdout>) -> u32 {
    loop {
        let mut line = String::new();
        assert!(out.read_line(&mut line).unwrap() > 0, "the owner has ended");
        if let Some(number) = line.strip_prefix("built ") {
            return number.trim().parse().unwrap();
        }
    }
}

/// Waits for the remains of a killed owner. If the owner was killed after a fork, its child holds the lock of the
/// journal until it calls exec or ends, so the remains may be found with a short delay.
fn left(journals: &Journals, journal: &Path) -> Vec<LeftBehind> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let left = left_behind(journals).unwrap();
        if !left.is_empty() || !journal.exists() || Instant::now() > deadline {
            return left;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Removes the remains and checks that nothing is left. Returns the number of processes that were in the nodes.
fn clean(journals: &Journals, folder: &Path, id: &TestbedId) -> usize {
    let mut ended = 0;
    let journal = folder.join(format!("{}.journal", id.as_str()));
    let left = left(journals, &journal);
    assert!(left.len() <= 1, "{left:?}");
    for left in left {
        assert_eq!(left.id(), id.as_str());
        let mut told = left.namespaces().unwrap();
        let mut found = namespaces(id.as_str());
        told.sort();
        found.sort();
        assert_eq!(told, found, "what is told is what is there");
        let inside: Vec<_> = found.iter().flat_map(|name| residents(name)).collect();
        left.remove().unwrap();
        assert!(!inside.iter().any(|pid| lives(*pid)), "{inside:?}");
        ended += inside.len();
    }
    assert_eq!(namespaces(id.as_str()), [""; 0]);
    assert_eq!(processes(&format!("NETRIG_TESTBED={}", id.as_str())), [0; 0]);
    assert!(!journal.exists());
    assert!(left_behind(journals).unwrap().is_empty());
    ended
}

#[test]
fn whenever_an_owner_is_killed_exactly_what_it_left_is_removed() {
    skip_unless!(has_root() && has("ip") && has("setsid"));
    let (folder, journals) = journals();
    let decoy = Foreign::make(format!("netrig-foreign{}", std::process::id()));
    let living = build(&journals);
    // The time that building takes determines when the owners are killed.
    let begun = Instant::now();
    let id_of_first = id();
    let (mut owner, mut out) = start_owner(folder.path(), &id_of_first);
    built(&mut out);
    let took = begun.elapsed();
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(clean(&journals, folder.path(), &id_of_first) > 0, "one that hides outlives its owner");

    for moment in 1..=10 {
        let id = id();
        let (mut owner, _out) = start_owner(folder.path(), &id);
        std::thread::sleep(took * moment / 10);
        owner.kill().unwrap();
        assert_eq!(owner.wait().unwrap().signal(), Some(9), "it ended before it was killed");
        clean(&journals, folder.path(), &id);
    }
    assert_eq!(namespaces(decoy.name()), [decoy.name()]);
    assert_eq!(namespaces(&format!("netrig-{}", living.id())).len(), 4);
}

/// Programs die with their owner without a removal by netrig, even a program that has left the process group of its
/// starter.
#[test]
fn a_program_dies_with_its_owner() {
    skip_unless!(has_root() && has("setsid"));
    let (folder, journals) = journals();
    let id = id();
    let (mut owner, mut out) = start_owner(folder.path(), &id);
    let program = built(&mut out);
    owner.kill().unwrap();
    owner.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while processes(&format!("NETRIG_TESTBED={}", id.as_str())).contains(&program) {
        assert!(Instant::now() < deadline, "it lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
    clean(&journals, folder.path(), &id);
}

/// If two processes remove the same remains at the same time, one of them removes them, and both succeed.
#[test]
fn what_one_removes_another_does_not_take() {
    skip_unless!(has_root() && has("setsid"));
    let (folder, journals) = journals();
    let id = id();
    let (mut owner, mut out) = start_owner(folder.path(), &id);
    built(&mut out);
    owner.kill().unwrap();
    owner.wait().unwrap();
    let held = left_behind(&journals).unwrap();
    assert_eq!(held.len(), 1);
    assert_eq!(held[0].namespaces().unwrap().len(), 4);
    assert_eq!(held[0].interfaces().unwrap().len(), 12);
    assert!(left_behind(&journals).unwrap().is_empty());
    drop(held);
    clean(&journals, folder.path(), &id);
}
