//! `netrig chunk`.

use std::os::unix::process::parent_id;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netrig_runner::{ProgressListener, provenance};
use netrig_sweep::{ChunkOutcome, ChunkRequest, ShardCheck, SweepFolder, make_chunk, not_made};

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

/// Variables by which engines number tasks, and what chunk 1 is.
const VARIABLES: [(&str, u32); 5] = [
    // Workers of HyperQueue run inside of jobs of Slurm.
    ("HQ_TASK_ID", 1),
    ("SLURM_ARRAY_TASK_ID", 1),
    ("JOB_COMPLETION_INDEX", 0),
    ("SGE_TASK_ID", 1),
    ("PBS_ARRAY_INDEX", 1),
];

/// The variable that has the number before the first chunk of an array.
const BASE: &str = "NETRIG_CHUNK_BASE";

/// The variable that has the number of chunks that each task of an array makes.
const COUNT: &str = "NETRIG_CHUNK_COUNT";

/// The variable that has the chunks of a job that counts its tasks from 0, separated by commas.
const LIST: &str = "NETRIG_CHUNKS";

/// Makes the runs of chunks, and publishes their shards.
pub fn chunk(arguments: &ChunkArguments) -> Result<ExitCode, Failure> {
    let folder = std::path::absolute(&arguments.folder).unwrap_or_else(|_| arguments.folder.clone());
    let folder = SweepFolder::open(&folder).map_err(failure)?;
    folder.check_build(&BUILD).map_err(failure)?;
    let request = ExperimentRequest::of_sweep(&folder)?;
    let mut chunks = numbers(arguments, &|name| std::env::var(name).ok())?;
    if chunks.len() > 1 && arguments.chunks.is_empty() {
        let check = ShardCheck::new(&folder, &request.experiment, repeating(&request)?);
        chunks = not_made(&folder, &check, &chunks).map_err(failure)?;
    }
    let cancel = until_published()?;
    end_with_parent(&cancel);
    let machine = provenance(&BUILD, &[]);
    let attempt = format!("{}-{:016x}", file_name(&machine.host), random_seed()?);
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
                if let Failure::Request(why) | Failure::Failed(why) | Failure::Tester(why) = &error {
                    let log = format!("{}: {why}\n", machine.host);
                    if let Err(error) = folder.add_failure(number, &attempt, &log) {
                        eprintln!("warning: {error}");
                    }
                    if failed.is_some() {
                        eprintln!("error: chunk {number}: {why}");
                    }
                }
                failed = failed.or(Some(error));
            }
        }
    }
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
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
    let place =
        shard.as_ref().map_or_else(|| "nothing to publish".to_owned(), |path| path.display().to_string());
    if *interrupted {
        format!(
            "chunk {number}: interrupted after {made} of {runs} runs, by a signal or because the process that started it ended; {place}"
        )
    } else {
        format!("chunk {number}: {runs} runs, {made} of them made now; {place}")
    }
}

/// The chunks: as typed, or as the engine's variable says.
fn numbers(
    arguments: &ChunkArguments,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<u32>, Failure> {
    if let Some(index) = arguments.index {
        return Ok(vec![index.saturating_add(1)]);
    }
    if !arguments.chunks.is_empty() {
        return Ok(arguments.chunks.clone());
    }
    let number = |name: &str, text: &str| {
        text.trim()
            .parse::<u32>()
            .map_err(|_| Failure::request(format!("{name} is {text:?}, and not a number")))
    };
    for (name, first) in VARIABLES {
        let Some(text) = variable(name).filter(|text| !text.is_empty() && text != "undefined") else {
            continue;
        };
        let task = number(name, &text)?;
        if let (0, Some(list)) = (first, variable(LIST)) {
            let chosen = list.split(',').nth(task as usize);
            let chosen =
                chosen.ok_or_else(|| Failure::request(format!("{LIST} has no entry {task}: {list}")))?;
            return Ok(vec![number(LIST, chosen)?]);
        }
        let base = variable(BASE).map_or(Ok(0), |text| number(BASE, &text))?;
        let count = variable(COUNT).map_or(Ok(1), |text| number(COUNT, &text))?.max(1);
        let first = task.saturating_add(1 - first).saturating_add(base);
        return Ok((first..=first.saturating_add(count - 1)).collect());
    }
    let names = VARIABLES.map(|(name, _)| name).join(", ");
    Err(Failure::request(format!("which chunk? Give its number, or let an engine set one of {names}")))
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
    use std::num::NonZeroUsize;
    use std::path::PathBuf;

    use super::*;

    fn chosen(typed: &[u32], index: Option<u32>, variables: &[(&str, &str)]) -> Result<Vec<u32>, String> {
        let arguments = ChunkArguments {
            folder: PathBuf::new(),
            chunks: typed.to_vec(),
            index,
            jobs: NonZeroUsize::MIN,
            scratch: None,
        };
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        numbers(&arguments, &variable).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn a_chunk_is_typed_or_named_by_the_engine() {
        assert_eq!(chosen(&[3, 5], None, &[("SLURM_ARRAY_TASK_ID", "9")]), Ok(vec![3, 5]));
        assert_eq!(chosen(&[], Some(0), &[]), Ok(vec![1]), "HTCondor counts from 0");
        assert_eq!(chosen(&[], None, &[("SLURM_ARRAY_TASK_ID", "9")]), Ok(vec![9]));
        let far = [("SLURM_ARRAY_TASK_ID", "9"), ("NETRIG_CHUNK_BASE", "1000")];
        assert_eq!(chosen(&[], None, &far), Ok(vec![1009]));
        let several =
            [("SLURM_ARRAY_TASK_ID", "4"), ("NETRIG_CHUNK_BASE", "1000"), ("NETRIG_CHUNK_COUNT", "3")];
        assert_eq!(chosen(&[], None, &several), Ok(vec![1004, 1005, 1006]));
        assert_eq!(chosen(&[], None, &[("HQ_TASK_ID", "7"), ("SLURM_ARRAY_TASK_ID", "2")]), Ok(vec![7]));
        let most = u32::MAX.to_string();
        assert_eq!(chosen(&[], None, &[("JOB_COMPLETION_INDEX", &most)]), Ok(vec![u32::MAX]));
        assert_eq!(chosen(&[], None, &[("JOB_COMPLETION_INDEX", "0")]), Ok(vec![1]));
        let some = [("JOB_COMPLETION_INDEX", "1"), ("NETRIG_CHUNKS", "4,8,15")];
        assert_eq!(chosen(&[], None, &some), Ok(vec![8]));
        assert!(chosen(&[], None, &[("JOB_COMPLETION_INDEX", "3"), ("NETRIG_CHUNKS", "4,8,15")]).is_err());
        // Grid Engine sets its variable to this word outside of arrays.
        assert_eq!(chosen(&[], None, &[("SGE_TASK_ID", "undefined"), ("PBS_ARRAY_INDEX", "2")]), Ok(vec![2]));
        assert!(chosen(&[], None, &[("SLURM_ARRAY_TASK_ID", "x")]).unwrap_err().contains("not a number"));
        assert!(chosen(&[], None, &[]).unwrap_err().contains("which chunk?"));
    }

    #[test]
    fn a_hosts_name_is_a_part_of_a_file_name() {
        assert_eq!(file_name("node1.lab"), "node1-lab");
        assert_eq!(file_name(""), "host");
    }
}
