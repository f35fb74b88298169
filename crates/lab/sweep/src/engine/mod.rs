//! Engines: programs that start the tasks of a sweep somewhere.

mod choice;
mod command;
mod group;
mod hyperqueue;
mod kubernetes;
mod program;
mod slurm;

use std::collections::BTreeSet;
use std::time::Duration;

pub use choice::{ENGINES, EngineChoiceError, engine_of};
pub use command::{CommandEngine, TemplateError, changed_by_shells};
pub use hyperqueue::HyperQueue;
pub use kubernetes::Kubernetes;
pub use program::{ProgramError, is_there};
pub use slurm::{Slurm, SlurmOptionError};

use crate::{SweepError, SweepFolder};

/// An engine.
pub trait Engine {
    /// Its name in messages: `slurm`.
    fn name(&self) -> &str;

    /// The program that it needs on this machine; `None` if it needs none.
    fn program(&self) -> Option<&str>;

    /// Whether its tasks are processes of this one and end with it.
    fn is_local(&self) -> bool;

    /// Whether it reports which of its tasks run, and which wait.
    fn tells_running(&self) -> bool {
        true
    }

    /// Submits chunks. If it fails, the engine may have accepted some of them.
    ///
    /// # Errors
    /// If the engine does not answer, or refuses.
    fn submit(&mut self, sweep: &SweepFolder, chunks: &[u32], needs: &TaskNeeds) -> Result<(), EngineError>;

    /// The chunks of the sweep that the engine lists. A chunk that is not among them may be done, lost, or forgotten.
    ///
    /// # Errors
    /// If the engine does not answer: nothing is known then.
    fn tasks(&mut self, sweep: &SweepFolder) -> Result<EngineTasks, EngineError>;

    /// A chunk runs for far longer than expected. If its task has a slot of this process, another task may start beside it.
    fn release(&mut self, _chunk: u32) {}

    /// Where tasks leave what they print, in the folder of the sweep; `None` if they leave nothing there.
    fn outputs(&self) -> Option<&str> {
        None
    }

    /// Cancels all tasks of the sweep.
    ///
    /// # Errors
    /// If the engine does not answer, or tasks are left.
    fn cancel(&mut self, sweep: &SweepFolder) -> Result<(), EngineError>;

    /// The commands that [`Self::submit`] would run, as a user would type them.
    fn commands(&self, sweep: &SweepFolder, chunks: &[u32], needs: &TaskNeeds) -> Vec<String>;
}

/// Time to start a task and to publish its last shard, with room.
const START: Duration = Duration::from_secs(300);

/// The most chunks that are named in one argument of a program, or one annotation: Linux limits an argument to 128 KiB.
const MOST_NAMED: usize = 10_000;

/// The ratio of the longest time of a task to its estimated work: machines differ.
const SLOWER: f64 = 4.0;

/// The resources that a task asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskNeeds {
    /// Estimated work of the longest of the chunks, s.
    pub work_s: f64,
    /// Memory, bytes, with room.
    pub memory: u64,
    /// Number of times that time and memory are doubled: a task that was ended for one of them leaves no log.
    pub doublings: u32,
    /// Whether the chunks were tried before.
    pub is_retry: bool,
    /// The slots of the engine, if known.
    pub slots: Option<u32>,
}

impl TaskNeeds {
    /// The time within which a task with this number of chunks ends.
    pub fn time(&self, chunks: u32) -> Duration {
        let work = Duration::from_secs_f64(SLOWER * self.work_s.max(0.0)).saturating_mul(chunks);
        START.saturating_add(work).saturating_mul(1 << self.doublings)
    }

    /// The memory of a task, bytes.
    pub fn memory(&self) -> u64 {
        self.memory.saturating_mul(1 << self.doublings)
    }
}

/// The chunks that an engine has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineTasks {
    /// Chunks that wait for a slot. If the engine does not report which of its tasks run, all its chunks.
    pub waiting: BTreeSet<u32>,
    /// Chunks in progress.
    pub running: BTreeSet<u32>,
    /// Chunks whose task will never start, because it asks for more time or memory than there is.
    pub too_large: BTreeSet<u32>,
    /// Why tasks wait, in the engine's words, if that may never pass.
    pub reasons: BTreeSet<String>,
}

/// An engine failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A program of the engine failed or did not answer.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A program printed unexpected text.
    #[error("{program} printed {text:?}, where {expected} was expected")]
    Words {
        /// The program.
        program: String,
        /// What it printed.
        text: String,
        /// What was expected.
        expected: &'static str,
    },
    /// The folder of the sweep failed.
    #[error(transparent)]
    Folder(#[from] SweepError),
    /// The engine has no program here. The submission was written, and the user has to hand it over.
    #[error("{0}")]
    ByHand(String),
    /// Tasks are left after they were cancelled.
    #[error("tasks are still there after they were cancelled: {0}; cancel again later")]
    Left(String),
}

/// Numbers as ranges: `1,3-5`.
pub(crate) fn ranges(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let text = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

/// A command as a user would type it in a shell.
pub fn command_line(words: &[String]) -> String {
    let quoter = shlex::Quoter::new().allow_nul(true);
    let quoted = |word: &String| {
        // These need no quotes; shlex quotes some of them.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:%@+{}".contains(c);
        if !word.is_empty() && word.chars().all(is_plain) {
            word.clone()
        } else {
            // Only a NUL would be an error.
            quoter.quote(word).unwrap_or_default().into_owned()
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_are_a_range() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[7]), "7");
        assert_eq!(ranges(&[1, 2, 3, 5, 8, 9]), "1-3,5,8-9");
        assert_eq!(ranges(&[u32::MAX]), "4294967295");
    }

    #[test]
    fn a_command_is_quoted_where_a_shell_needs_it() {
        let words = ["sh", "-c", "echo 'a b'", "x=1", ""].map(str::to_owned);
        assert_eq!(command_line(&words), r#"sh -c "echo 'a b'" x=1 ''"#);
    }
}
