//! A real Slurm of four nodes: chunks that are lost, made twice, and on nodes and under a controller that die.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::cluster::{Cluster, kill};
use super::{RUNS, Running, four_rates, wait_for};
use crate::common::{open_folder, text};

/// Longer runs than those of the other tests: there is time to kill what makes them.
fn experiment() -> String {
    four_rates().replace("3 s", "30 s")
}

fn sweep(is_ordinary: bool) {
    if !Cluster::can() || (is_ordinary && !rustix::process::geteuid().is_root()) {
        return;
    }
    let cluster = Cluster::start(4, is_ordinary);
    let (folder, program) = open_folder();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("four.toml"), experiment()).unwrap();
    let program = program.display().to_string();
    let netrig = |line: &str| {
        let mut command = cluster.command(&program);
        command.args(line.split(' ')).current_dir(folder.path());
        command
    };
    let alone = netrig("run four.toml --store=alone.db --out=alone.csv --json").output().unwrap();
    assert!(alone.status.success(), "{}", text(&alone.stderr));
    let submit = || {
        Running::start(&mut netrig(
            "run four.toml --store=all.db --out=all.csv --json --via=slurm --into=sweep --chunk=1ms",
        ))
    };
    let shards = || files(&path("sweep/shards"));
    let running = || {
        let list = cluster.slurm("squeue", &["-h", "-r", "-t", "R", "-o", "%i %N"]);
        let tasks = list.lines().filter_map(|line| line.split_once(' '));
        tasks.map(|(id, node)| (id.to_owned(), node.to_owned())).collect::<Vec<_>>()
    };
    let submitter = submit();
    // A task is killed before it publishes: the engine calls it failed, and does not make it again.
    wait_for("a running task", || !running().is_empty());
    let mark = format!("{}/netrig chunk", path("sweep").display());
    wait_for("a task to kill before it has published all of its chunks", || {
        let Some((pid, chunks)) =
            super::processes_with(&mark).first().and_then(|(pid, _)| Some((*pid, chunks_of(*pid)?)))
        else {
            return false;
        };
        kill(pid);
        wait_for("its end", || chunks_of(pid).is_none());
        let published: BTreeSet<u32> =
            shards().iter().filter_map(|name| name.split('.').next()?.parse().ok()).collect();
        chunks.into_iter().any(|chunk| !published.contains(&chunk))
    });
    // A node dies with its task.
    wait_for("a node to kill", || {
        running().first().is_some_and(|(_, node)| {
            cluster.kill_node(node);
            true
        })
    });
    // The controller crashes and comes back, and the submitter is killed and started again.
    wait_for("the first shards", || shards().len() > 2);
    cluster.kill_controller();
    submitter.signal(rustix::process::Signal::KILL);
    drop(submitter);
    cluster.start_controller();
    wait_for("the controller", || cluster.slurm("sinfo", &["-h", "-o", "%D"]).trim().parse::<u32>().is_ok());
    // A chunk that was made is made a second time.
    let made = shards().first().unwrap().split('.').next().unwrap().to_owned();
    let twice = netrig(&format!("chunk sweep {made}")).output().unwrap();
    assert!(twice.status.success(), "{}", text(&twice.stderr));
    let swept = submit();
    let is_over = AtomicBool::new(false);
    let swept = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                cluster.resume_drained();
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        let ended =
            std::panic::catch_unwind(AssertUnwindSafe(|| swept.output_within_minutes(|| cluster.state())));
        is_over.store(true, Ordering::Relaxed);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    assert!(swept.status.success(), "{}", text(&swept.stderr));
    assert_eq!(text(&swept.stdout), text(&alone.stdout), "the documents differ");
    let read = |name: &str| std::fs::read(path(name)).unwrap();
    assert_eq!(read("alone.csv"), read("all.csv"));
    let list = netrig("list --store=all.db").output().unwrap();
    assert!(text(&list.stdout).contains(&format!("{RUNS} runs")), "{}", text(&list.stdout));
    let doubled = shards().iter().filter(|name| name.split('.').next() == Some(&made)).count();
    assert!(doubled >= 2, "{:?}", shards());
    // Nothing is left in the queue, and the state is told.
    let state = netrig("sweep sweep --json").output().unwrap();
    assert!(text(&state.stdout).contains("\"missing\": 0,"), "{}", text(&state.stdout));
    // A task of the dead node may stay in the queue as long as Slurm waits for that node: it is named then.
    let cancelled = netrig("sweep sweep --cancel").output().unwrap();
    let said = text(&cancelled.stderr);
    assert!(
        cancelled.status.success() || said.contains("tasks are still there after they were cancelled: job "),
        "{said}"
    );
}

/// The chunks of the task that a process makes; `None` if there is no such process any more.
fn chunks_of(pid: i32) -> Option<Vec<u32>> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let variables = environment
        .split(|byte| *byte == 0)
        .filter_map(|pair| std::str::from_utf8(pair).ok()?.split_once('='));
    let variables: BTreeMap<&str, &str> = variables.collect();
    netrig_sweep::chunks_of_task(&|name| variables.get(name).map(|value| (*value).to_owned())).ok()
}

fn files(folder: &Path) -> Vec<String> {
    let list = std::fs::read_dir(folder).into_iter().flatten().flatten();
    list.filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".db"))
        .collect()
}

#[test]
fn a_sweep_on_slurm_as_root_has_the_bytes_of_one_process() {
    if rustix::process::geteuid().is_root() {
        sweep(false);
    } else {
        crate::common::machine::skipped("root");
    }
}

#[test]
fn a_sweep_on_slurm_as_an_ordinary_user_has_the_bytes_of_one_process() {
    sweep(true);
}
