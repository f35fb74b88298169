//! `netrig split`, `chunk`, `merge` and `sweep` by hand.

use std::process::Command;

use rustix::process::Signal;

use super::{Lab, Running, four_rates, processes_with, wait_for};
use crate::common::namespace::can;
use crate::common::text;

#[test]
fn chunks_that_are_made_by_hand_give_the_same_bytes() {
    let lab = Lab::new();
    let split = lab.ok("split four.toml --store=all.db --into=sweep --chunk=1ms");
    assert!(split.contains("24 runs are missing; 24 of them are in"), "{split}");
    let chunks = std::fs::read_to_string(lab.path().join("sweep/chunks.jsonl")).unwrap().lines().count();
    assert!(chunks > 4, "{chunks}");
    // Nothing but the folder is needed: the experiment, its files and the program are in it.
    std::fs::remove_file(lab.path().join("four.toml")).unwrap();
    for number in 1..=chunks {
        let made = Command::new(lab.path().join("sweep/netrig"))
            .args(["chunk", "sweep"])
            .env("SLURM_ARRAY_TASK_ID", number.to_string())
            .current_dir(lab.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", text(&made.stderr));
    }
    // Made twice, and merged twice.
    lab.ok("chunk sweep 2");
    std::fs::write(lab.path().join("four.toml"), four_rates()).unwrap();
    let merged = lab.ok("merge all.db sweep");
    assert!(merged.contains("24 runs added, 0 in place of failed ones"), "{merged}");
    let again = lab.ok("merge all.db sweep");
    assert!(again.contains(": 0 runs added"), "{again}");
    lab.is_as_alone("all.db");
    let state = lab.ok("sweep sweep --json");
    assert!(state.contains(&format!("\"done\": {chunks},")) && state.contains("\"missing\": 0,"), "{state}");
    let nothing = lab.ok("split four.toml --store=all.db --into=sweep");
    assert!(nothing.contains("0 runs are missing"), "{nothing}");
}

#[test]
fn a_chunk_that_is_killed_publishes_nothing_and_one_that_is_asked_to_end_what_it_has() {
    let lab = Lab::new();
    lab.ok("split four.toml --store=all.db --into=sweep --chunk=1h --set rate=4Mbit/s,400Mbit/s --replications=200");
    let chunk = || {
        let mut command = Command::new(lab.path().join("sweep/netrig"));
        command.args(["chunk", "sweep", "1", "--scratch=."]).current_dir(lab.path());
        Running::start(&mut command)
    };
    let scratch = || {
        let names = std::fs::read_dir(lab.path()).unwrap().flatten().map(|entry| entry.path());
        names.filter(|path| path.display().to_string().contains("netrig-chunk-")).collect::<Vec<_>>()
    };
    let killed = chunk();
    let is_running = || {
        scratch().iter().any(|path| path.join("shard.db-wal").metadata().is_ok_and(|log| log.len() > 100_000))
    };
    wait_for("a run of the chunk", is_running);
    killed.signal(Signal::KILL);
    drop(killed);
    assert!(lab.shards("sweep").is_empty(), "{:?}", lab.shards("sweep"));
    let left = scratch();
    // The next attempt on this machine removes what the killed one left.
    let asked = chunk();
    wait_for("a run of the chunk", || scratch().iter().any(|path| !left.contains(path)) && is_running());
    asked.signal(Signal::TERM);
    asked.signal(Signal::TERM);
    let output = asked.output();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("interrupted after"), "{}", text(&output.stdout));
    let parts = lab.names("sweep", "parts");
    assert!(parts.len() == 1 && lab.shards("sweep").is_empty(), "{parts:?}");
    assert!(scratch().is_empty(), "{:?}", scratch());
    let merged = lab.ok("merge all.db sweep");
    assert!(!merged.contains(" 0 runs added"), "{merged}");
}

#[test]
fn a_chunk_ends_with_the_process_that_started_it() {
    let lab = Lab::new();
    lab.ok("split four.toml --store=all.db --into=sweep --chunk=1h --set rate=400Mbit/s --replications=2000");
    let mark = lab.path().join("sweep").display().to_string();
    let line = format!("{mark}/netrig chunk {mark} 1 & wait");
    let shell = Running::start(Command::new("sh").args(["-c", &line]));
    let chunks = || {
        processes_with(&format!("chunk {mark} 1"))
            .into_iter()
            .filter(|(_, line)| !line.starts_with("sh "))
            .count()
    };
    wait_for("the chunk", || chunks() == 1);
    shell.signal(Signal::KILL);
    drop(shell);
    wait_for("the end of the chunk", || chunks() == 0);
}

#[test]
fn what_is_wrong_with_a_sweep_is_a_sentence() {
    let lab = Lab::new();
    lab.ok("split four.toml --store=all.db --into=sweep --chunk=1ms");
    std::fs::write(
        lab.path().join("no.db"),
        "no store, but a text that is as long as the head of one would be".repeat(9),
    )
    .unwrap();
    std::fs::write(lab.path().join("empty.db"), "").unwrap();
    for (line, said) in [
        ("chunk . 1", "is not the folder of a sweep (it has no sweep.json)"),
        (
            "chunk sweep",
            "which chunk? Give its number, or let an engine set one of HQ_TASK_ID, SLURM_ARRAY_TASK_ID",
        ),
        ("chunk sweep 0", "has no chunk 0"),
        ("split four.toml --store=all.db --into=sweep --seed=9", "belongs to another sweep"),
        (
            "split four.toml --store=all.db --into=other --on=netns",
            "a run on netns needs a machine for itself",
        ),
        (
            "run four.toml --via=pbs",
            "--via: there is no engine \"pbs\"; there are: slurm, hq, kubernetes, parallel",
        ),
        ("run four.toml --via=command", "--via: there is no engine \"command\""),
        (
            "run four.toml --via=parallel --into=a$b",
            "has `$`, which a shell on the way to the task would change",
        ),
        (
            "run four.toml --store=x.db --via=command\u{2003}no-such-program\u{2003}{}",
            "there is no program no-such-program in PATH",
        ),
        ("merge all.db all.db", "a store is not merged into itself"),
        ("merge all.db no.db", "is not a netrig store"),
        ("merge all.db none.db", "none.db: there is no such file"),
        (
            "merge all.db empty.db",
            "empty.db: it has no runs: it is empty, or its write-ahead log (-wal) is not beside it",
        ),
        ("chunk sweep 1 --jobs=0", "expected a whole number of at least 1"),
        ("chunk sweep one", "expected a whole number up to 4294967295"),
        ("run four.toml --via=parallel --jobs=2", "cannot be used with"),
        ("run four.toml --memory=0B", "it must be above zero"),
        ("sweep sweep --cancel", "no engine has this sweep"),
    ] {
        let refused = lab.netrig(line);
        assert!(!refused.status.success(), "{line}");
        assert!(text(&refused.stderr).contains(said), "{line}: {}", text(&refused.stderr));
    }
}

/// A shared folder without space costs the chunk that is published, and the same command makes it later.
#[test]
fn a_full_shared_folder_costs_a_chunk_and_leaves_no_half_shard() {
    if !can(&["unshare"]) {
        return;
    }
    let lab = Lab::new();
    lab.ok("split four.toml --store=all.db --into=sweep --chunk=1h");
    // The mount ends with the process that has this name space.
    let full = format!(
        "mount -t tmpfs -o size=4k tmpfs sweep/shards && {} chunk sweep 1; status=$?; ls -A sweep/shards; exit $status",
        env!("CARGO_BIN_EXE_netrig")
    );
    let refused =
        Command::new("unshare").args(["--mount", "sh", "-c", &full]).current_dir(lab.path()).output();
    let refused = refused.unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("No space left on device"), "{}", text(&refused.stderr));
    assert_eq!(text(&refused.stdout), "", "something is left of the shard");
    let state = lab.ok("sweep sweep");
    assert!(state.contains("No space left on device"), "the log tells why: {state}");
    lab.ok("chunk sweep 1");
    lab.ok("merge all.db sweep");
    lab.is_as_alone("all.db");
}

/// A folder's shards are checked before they are merged: another sweep's are refused, and one that was edited.
#[test]
fn shards_of_another_sweep_and_edited_ones_are_refused() {
    let lab = Lab::new();
    lab.ok("split four.toml --store=all.db --into=sweep --chunk=1h");
    lab.ok("split four.toml --store=all.db --into=other --chunk=1h --seed=9");
    lab.ok("chunk sweep 1");
    lab.ok("chunk other 1");
    let [mine, theirs] = ["sweep", "other"].map(|sweep| lab.shards(sweep)[0].clone());
    let at = |sweep: &str, name: &str| lab.path().join(sweep).join("shards").join(name);
    std::fs::copy(at("other", &theirs), at("sweep", &theirs)).unwrap();
    let edited = std::fs::read(at("sweep", &mine)).unwrap();
    let refused = lab.netrig("merge all.db sweep");
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("is not one of chunk 1"), "{}", text(&refused.stderr));
    assert!(text(&refused.stdout).contains("24 runs added"), "{}", text(&refused.stdout));
    std::fs::remove_file(at("sweep", &theirs)).unwrap();
    let mut bytes = edited;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(at("sweep", &mine), bytes).unwrap();
    let refused = lab.netrig("merge new.db sweep");
    assert!(
        text(&refused.stderr).contains("it was changed or cut after it was published"),
        "{}",
        text(&refused.stderr)
    );
    let state = lab.ok("sweep sweep");
    assert!(state.contains("it was changed or cut after it was published"), "{state}");
}

#[test]
fn an_attempt_that_cannot_begin_leaves_a_log() {
    let lab = Lab::new();
    lab.ok("split four.toml --store=all.db --into=sweep --chunk=1h");
    let file = lab.path().join("sweep/experiment.toml");
    std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + "# edited\n").unwrap();
    assert!(!lab.netrig("chunk sweep 1").status.success());
    let logs = lab.names("sweep", "logs");
    assert_eq!(logs.len(), 1, "{logs:?}");
    let log = std::fs::read_to_string(lab.path().join("sweep/logs").join(&logs[0])).unwrap();
    assert!(log.contains("was changed after the split"), "{log}");
}

/// The manifest for Kubernetes is one that its schema knows.
#[test]
fn the_manifest_for_kubernetes_is_valid() {
    let tools = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/kubernetes");
    if !tools.join("bin/kubernetes-validate").exists() {
        crate::common::machine::skipped("kubernetes-validate");
        return;
    }
    let lab = Lab::new();
    let line = "run four.toml --store=all.db --via=kubernetes --into=sweep --chunk=5ms --slots=3 --dry-run -- --image=lab/netrig:1 --claim=runs";
    let printed = lab.ok(line);
    let manifest = printed.split_once("kubectl create --filename=-\n").expect("the command").1;
    assert!(
        manifest.contains("\"completionMode\": \"Indexed\"") && manifest.contains("lab/netrig:1"),
        "{manifest}"
    );
    std::fs::write(lab.path().join("job.json"), manifest).unwrap();
    let checked = Command::new(tools.join("bin/kubernetes-validate"))
        .args(["--strict", "-k", "1.33", "job.json"])
        .env("PYTHONPATH", &tools)
        .current_dir(lab.path())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}{}", text(&checked.stdout), text(&checked.stderr));
}
