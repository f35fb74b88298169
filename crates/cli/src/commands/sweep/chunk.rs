//! `netrig chunk`.

use std::os::unix::process::parent_id;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netrig_core::number::counted;
use netrig_runner::{ProgressListener, provenance};
use netrig_sweep::{
    ChunkOutcome, ChunkRequest, ShardCheck, SweepFolder, chunks_of_task, make_chunk, not_made,
};

use super::arguments::ChunkArguments;
use super::{failure, largest_memory, repeating};
use crate::build::BUILD;
use crate::failure::{Failure, INTERRUPTED, print};
use crate::input::random_seed;
use crate::interruption::until_published;
use crate::progress::ProgressLine;
use crate::request::ExperimentRequest;

/// Time between two looks at the process that started this one.
const LOOK: Duration = Duration::from_millis(500);

/// Makes the runs of chunks, and publishes their shards.
pub fn chunk(arguments: &ChunkArguments) -> Result<ExitCode, Failure> {
    let folder = std::path::absolute(&arguments.folder).unwrap_or_else(|_| arguments.folder.clone());
    let folder = SweepFolder::open(&folder).map_err(failure)?;
    let numbers = numbers(arguments)?;
    let machine = provenance(&BUILD, &[]);
    let attempt = format!("{}-{:016x}", file_name(&machine.host), random_seed()?);
    let log = |number: u32, error: &Failure| {
        if let Failure::Request(why) | Failure::Failed(why) | Failure::Tester(why) = error
            && let Err(error) = folder.add_failure(number, &attempt, &format!("{}: {why}\n", machine.host))
        {
            eprintln!("warning: {error}");
        }
    };
    let prepared = prepare(arguments, &folder, &numbers);
    let (request, chunks) = prepared.inspect_err(|error| {
        // A task may name more chunks than there are.
        let known = folder.chunks().map_or(0, |chunks| chunks.len());
        numbers.iter().filter(|number| **number as usize <= known).for_each(|number| log(*number, error));
    })?;
    if chunks.is_empty() {
        print("nothing to do: the chunks of this task are published")?;
    }
    let cancel = until_published()?;
    end_with_parent(&cancel);
    let mut failed: Option<Failure> = None;
    for number in chunks {
        match make(arguments, (&folder, &request), number, &attempt, &machine, &cancel) {
            Ok(outcome) => {
                print(outcome_line(number, &outcome))?;
                if outcome.interrupted {
                    return Ok(ExitCode::from(INTERRUPTED));
                }
            }
            // The next chunks are made nevertheless.
            Err(error) => {
                log(number, &error);
                if let Failure::Request(why) | Failure::Failed(why) | Failure::Tester(why) = &error
                    && failed.is_some()
                {
                    eprintln!("error: chunk {number}: {why}");
                }
                failed = failed.or(Some(error));
            }
        }
    }
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// The experiment of the folder, and the chunks of the task that are to be made.
fn prepare(
    arguments: &ChunkArguments,
    folder: &SweepFolder,
    numbers: &[u32],
) -> Result<(ExperimentRequest, Vec<u32>), Failure> {
    folder.check_build(&BUILD).map_err(failure)?;
    let request = ExperimentRequest::of_sweep(folder)?;
    // An engine may start a task a second time. A chunk that is typed is made again.
    let chunks = if arguments.chunks.is_empty() {
        let check = ShardCheck::new(folder, &request.experiment, repeating(&request)?);
        not_made(folder, &check, numbers).map_err(failure)?
    } else {
        numbers.to_vec()
    };
    Ok((request, chunks))
}

fn make(
    arguments: &ChunkArguments,
    (folder, request): (&SweepFolder, &ExperimentRequest),
    number: u32,
    attempt: &str,
    machine: &netrig_store::Provenance,
    cancel: &AtomicBool,
) -> Result<ChunkOutcome, Failure> {
    let substrate = repeating(request)?;
    let scratch = arguments.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let order = ChunkRequest {
        folder,
        chunk: number,
        attempt,
        experiment: &request.experiment,
        substrate,
        provenance: machine,
        jobs: arguments.jobs,
        scratch: &scratch,
        memory: largest_memory,
        cancel,
    };
    let progress: &mut dyn ProgressListener = &mut ProgressLine::new();
    make_chunk(&order, progress).map_err(failure)
}

fn outcome_line(number: u32, outcome: &ChunkOutcome) -> String {
    let ChunkOutcome { runs, made, interrupted, shard } = outcome;
    let runs = counted(*runs, "run", "runs");
    let place =
        shard.as_ref().map_or_else(|| "nothing to publish".to_owned(), |path| path.display().to_string());
    if *interrupted {
        format!(
            "chunk {number}: interrupted after {made} of {runs}, by a signal or because the process that started it ended; {place}"
        )
    } else {
        format!("chunk {number}: {runs}, {made} of them made now; {place}")
    }
}

/// The chunks that are typed, or those of the engine's task.
fn numbers(arguments: &ChunkArguments) -> Result<Vec<u32>, Failure> {
    match arguments.index {
        Some(index) => Ok(vec![index.saturating_add(1)]),
        None if !arguments.chunks.is_empty() => Ok(arguments.chunks.clone()),
        None => chunks_of_task(&|name| std::env::var(name).ok()).map_err(Failure::request),
    }
}

/// Sets `cancel` when the process that started this one is gone: its result is not awaited then, and nothing may outlive a sweep.
fn end_with_parent(cancel: &Arc<AtomicBool>) {
    let parent = parent_id();
    // The process that started this one has ended already, as that of a daemon has.
    if parent <= 1 {
        return;
    }
    let cancel = Arc::clone(cancel);
    // It ends with the process.
    std::thread::spawn(move || {
        while parent_id() == parent {
            std::thread::sleep(LOOK);
        }
        cancel.store(true, Ordering::Relaxed);
    });
}

/// A host's name as a part of a file's name.
fn file_name(host: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    let name: String = host.chars().map(plain).take(32).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_name_is_a_part_of_a_file_name() {
        assert_eq!(file_name("node1.lab"), "node1-lab");
        assert_eq!(file_name(""), "host");
    }
}
