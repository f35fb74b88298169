//! Slurm's programs as scripts, for what a real controller does rarely: it is away, prints nothing, gives ids twice, and holds tasks.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::Lab;
use crate::common::text;

/// Writes `sbatch`, `squeue`, `scancel` and `scontrol` into a folder. `sbatch` makes the chunks at once, but for the one that `SKIP` names.
fn programs(lab: &Lab, sbatch: &str, squeue: &str) -> PathBuf {
    let folder = lab.path().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let calls = lab.path().join("calls");
    let count = format!("n=$(cat {0} 2>/dev/null || echo 0); n=$((n+1)); echo $n > {0}", calls.display());
    for (name, script) in [
        ("sbatch", sbatch.to_owned()),
        ("squeue", format!("{count}\n{squeue}")),
        ("scancel", format!("echo \"$@\" >> {}", lab.path().join("cancelled").display())),
        ("scontrol", "echo 'MaxArraySize            = 11'".to_owned()),
    ] {
        write(&folder.join(name), &script);
    }
    folder
}

fn write(path: &Path, script: &str) {
    std::fs::write(path, format!("#!/bin/bash\n{script}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn command(lab: &Lab, programs: &Path, options: &str) -> Command {
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
    command.args("run four.toml --store=all.db --out=all.csv --via=slurm --into=sweep".split(' '));
    command.args(options.split(' ').filter(|option| !option.is_empty()));
    command.env("PATH", path).current_dir(lab.path());
    command
}

fn run(lab: &Lab, programs: &Path, options: &str) -> Output {
    command(lab, programs, options).output().unwrap()
}

/// Makes the chunks of an array: `--array=1-3,5`, and the base and the count of chunks as the last arguments.
const MAKES: &str = r#"
for word; do case $word in
  --array=*) list=${word#--array=};;  *.sh) script=$word;; esac; done
base=${@: -2:1} count=${@: -1}
for range in ${list//,/ }; do for index in $(seq ${range%-*} ${range#*-}); do
  [ -n "$SKIP" ] && [ "$SKIP" = $((base+index)) ] && continue
  SLURM_ARRAY_TASK_ID=$index sh $script $base $count > /dev/null
done; done
echo 7"#;

#[test]
fn ids_that_come_twice_and_a_queue_that_prints_nothing_do_no_harm() {
    let lab = Lab::new();
    // Each job is number 7, and the queue has only jobs of others.
    let bin = programs(&lab, MAKES, "echo '7|other-0x1|1|R'");
    let output = run(&lab, &bin, "--chunk=1ms");
    assert!(output.status.success(), "{}", text(&output.stderr));
    lab.is_as_alone("all.db");
    let submitted = lab.path().join("sweep/slurm.sh");
    assert!(std::fs::read_to_string(submitted).unwrap().contains("\nexec /"));
}

#[test]
fn a_controller_that_is_away_is_asked_again() {
    let lab = Lab::new();
    let away = "[ $n -lt 4 ] && { echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1; }; true";
    let bin = programs(&lab, MAKES, away);
    let output = run(&lab, &bin, "--chunk=1h");
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("Unable to contact slurm controller").count(), 1, "{said}");
    lab.is_as_alone("all.db");
}

#[test]
fn a_refusal_is_shown_and_an_interrupt_ends_the_wait() {
    let lab = Lab::new();
    let bin = programs(&lab, "echo 'sbatch: error: invalid partition specified: x' >&2; exit 1", "true");
    let run = super::Running::start(&mut command(&lab, &bin, "-- --partition=x"));
    // It has asked twice.
    let calls = lab.path().join("calls");
    super::wait_for("a second call", || {
        std::fs::read_to_string(&calls)
            .is_ok_and(|text| text.trim().parse::<u32>().is_ok_and(|calls| calls > 1))
    });
    run.signal(rustix::process::Signal::INT);
    let output = run.output();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("invalid partition specified: x"), "{said}");
    // A submission that the interruption has ended may have been taken.
    let is_cut = said.contains("sbatch was ended by the interruption");
    assert_eq!(said.contains("slurm may have tasks of 1 chunk"), is_cut, "{said}");
}

#[test]
fn a_held_task_is_cancelled_and_made_by_the_same_command() {
    let lab = Lab::new();
    // The task of chunks 4 to 6 stays pending for ever, until it is cancelled.
    let cancelled = lab.path().join("cancelled").display().to_string();
    let folder = lab.path().join("sweep/job").display().to_string();
    let squeue = format!(r#"[ -e {cancelled} ] || echo "9|$(cat {folder})-0x3|4|PD""#);
    let bin = programs(&lab, &format!("SKIP=4\n{MAKES}"), &squeue);
    let dry = run(&lab, &bin, "--chunk=1ms --dry-run -- --partition=long");
    let said = text(&dry.stdout);
    assert!(said.contains("24 runs in") && said.contains("sbatch --parsable --job-name=netrig-"), "{said}");
    assert!(said.contains("--partition=long") && !lab.path().join("calls").exists(), "{said}");
    let held = super::Running::start(&mut command(&lab, &bin, "--chunk=1ms"));
    super::wait_for("the other chunks", || {
        lab.path().join("sweep/shards").exists() && lab.shards("sweep").len() > 2
    });
    // A second submitter is refused.
    let second = run(&lab, &bin, "");
    assert!(text(&second.stderr).contains("another netrig submits the sweep in"), "{}", text(&second.stderr));
    held.signal(rustix::process::Signal::KILL);
    drop(held);
    let ended = run(&lab, &bin, "--cancel");
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    assert_eq!(std::fs::read_to_string(&cancelled).unwrap(), "9\n");
    write(&bin.join("sbatch"), MAKES);
    let again = run(&lab, &bin, "");
    assert!(again.status.success(), "{}", text(&again.stderr));
    lab.is_as_alone("all.db");
}

#[test]
fn a_chunk_that_crashes_each_time_is_given_up_with_its_log() {
    let lab = Lab::new();
    // A scratch folder that is not there: the chunk fails and says why.
    let bin = programs(&lab, &format!("export TMPDIR=/nowhere\n{MAKES}"), "true");
    let output = run(&lab, &bin, "--chunk=1h --attempts=2");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("chunk 1 was tried 2 times") && said.contains("cannot create /nowhere/netrig-chunk-"),
        "{said}"
    );
    let state = lab.ok("sweep sweep");
    assert!(state.contains("chunk 1 failed:"), "{state}");
}

#[test]
fn an_interruption_ends_a_program_that_hangs_and_names_the_tasks_that_stay() {
    let lab = Lab::new();
    // The first chunks are made; then the queue does not answer.
    let hangs = "[ $n -lt 3 ] || { touch asked; exec sleep 600; }; echo \"9|$(cat sweep/job)-0x3|4|PD\"";
    let bin = programs(&lab, &format!("SKIP=4\n{MAKES}"), hangs);
    let run = super::Running::start(&mut command(&lab, &bin, "--chunk=1ms"));
    super::wait_for("a call that hangs", || lab.path().join("asked").exists());
    run.signal(rustix::process::Signal::INT);
    let output = run.output();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("slurm may have tasks of "), "{said}");
    assert!(
        said.contains("run the same command again to merge their runs, or with --cancel to end them"),
        "{said}"
    );
}

#[test]
fn a_submission_that_prints_nothing_is_an_attempt() {
    let lab = Lab::new();
    let submitted = lab.path().join("submitted");
    let bin = programs(&lab, &format!("echo x >> {}", submitted.display()), "true");
    let output = run(&lab, &bin, "--chunk=1h --attempts=2");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("sbatch printed \"\", where the number of a job was expected"), "{said}");
    assert!(said.contains("chunk 1 was tried 2 times"), "{said}");
    assert_eq!(std::fs::read_to_string(submitted).unwrap(), "x\nx\n");
}

#[test]
fn a_task_that_is_too_large_is_cancelled_when_a_smaller_one_follows() {
    let lab = Lab::new();
    // The first attempt fails. The second, which asks for twice the time, waits for ever. The third makes the chunk.
    let sbatch = format!(
        "s=$(cat submitted 2>/dev/null || echo 0); s=$((s+1)); echo $s > submitted\n\
         [ $s = 1 ] && export TMPDIR=/nowhere\n[ $s = 2 ] && {{ echo 8; exit; }}\n{MAKES}"
    );
    let squeue = "[ -e cancelled ] || [ \"$(cat submitted 2>/dev/null)\" != 2 ] || \
                  echo \"9|$(cat sweep/job)-0x1|1|PD|PartitionTimeLimit|8\"";
    let bin = programs(&lab, &sbatch, squeue);
    let output = run(&lab, &bin, "--chunk=1h --attempts=3");
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("PartitionTimeLimit"), "{said}");
    assert_eq!(std::fs::read_to_string(lab.path().join("cancelled")).unwrap(), "8_1\n");
    lab.is_as_alone("all.db");
}
