//! Commands that the user names: GNU parallel, ssh, or any other program that starts a task somewhere.
//!
//! They are processes of this machine, each in a process group of its own, and end with this process.

use std::collections::{BTreeSet, VecDeque};
use std::fs::OpenOptions;
use std::io;
use std::process::Child;

use super::group;
use super::program::ProgramError;
use super::{Engine, EngineError, EngineTasks, TaskNeeds, typed};
use crate::SweepFolder;

/// The placeholder for the command of a task in a template.
const TASK: &str = "{}";

/// Chunks of one call of GNU parallel: its command line has room for them.
const CHUNKS_PER_CALL: usize = 1000;

/// A command for each chunk, or one of GNU parallel for many.
#[derive(Debug)]
pub struct CommandEngine {
    form: CommandForm,
    /// Chunks that wait for a process, each list for one.
    waiting: VecDeque<Vec<u32>>,
    running: Vec<RunningCommand>,
}

/// The form of the command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CommandForm {
    /// The words of a template, one of which is `{}`, and the number of commands at the same time.
    Template(Vec<String>, u32),
    /// Options of GNU parallel.
    Parallel(Vec<String>),
}

/// A process with its chunks.
#[derive(Debug)]
struct RunningCommand {
    child: Child,
    chunks: Vec<u32>,
}

/// A template of a command is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It has no placeholder for the task.
    #[error("the template {0:?} has no {{}}, the placeholder for the command of a task: `ssh node1 {{}}`")]
    NoTask(String),
    /// It begins with the task, so nothing would start it elsewhere.
    #[error("the template {0:?} names no program")]
    NoProgram(String),
}

impl CommandEngine {
    /// A command for each chunk: words that spaces separate, with `{}` for the task. At most `slots` run at the same time.
    ///
    /// # Errors
    /// If the template has no `{}`, or no program before it.
    pub fn template(template: &str, options: &[String], slots: u32) -> Result<Self, TemplateError> {
        let words: Vec<String> = template.split_whitespace().map(str::to_owned).collect();
        if !words.iter().any(|word| word == TASK) {
            return Err(TemplateError::NoTask(template.to_owned()));
        }
        if words.first().is_some_and(|word| word == TASK) {
            return Err(TemplateError::NoProgram(template.to_owned()));
        }
        // Options follow the program.
        let words = words[..1].iter().chain(options).chain(&words[1..]).cloned().collect();
        Ok(Self::new(CommandForm::Template(words, slots.max(1))))
    }

    /// GNU parallel, with options that are passed to it, and jobs at the same time if `slots` says how many.
    pub fn parallel(options: Vec<String>, slots: Option<u32>) -> Self {
        let jobs = slots.map(|slots| format!("--jobs={slots}"));
        Self::new(CommandForm::Parallel(jobs.into_iter().chain(options).collect()))
    }

    const fn new(form: CommandForm) -> Self {
        Self { form, waiting: VecDeque::new(), running: Vec::new() }
    }

    /// The words of the command for these chunks.
    fn words(&self, sweep: &SweepFolder, chunks: &[u32]) -> Vec<String> {
        let [executable, folder] =
            [sweep.executable(), sweep.path().to_owned()].map(|path| path.display().to_string());
        let numbers = chunks.iter().map(u32::to_string);
        match &self.form {
            CommandForm::Template(words, _) => {
                let task =
                    [executable, "chunk".to_owned(), folder].into_iter().chain(numbers).collect::<Vec<_>>();
                let of = |word: &String| if word == TASK { task.clone() } else { vec![word.clone()] };
                words.iter().flat_map(of).collect()
            }
            CommandForm::Parallel(options) => {
                // The driver submits a failed task again; the other tasks continue.
                let own = ["parallel", "--will-cite", "--halt", "never"].map(str::to_owned);
                let task = [executable, "chunk".to_owned(), folder, TASK.to_owned(), ":::".to_owned()];
                own.into_iter().chain(options.iter().cloned()).chain(task).chain(numbers).collect()
            }
        }
    }

    /// Starts commands that have a slot, and removes those that ended.
    fn step(&mut self, sweep: &SweepFolder) -> Result<(), EngineError> {
        let mut failed = None;
        self.running.retain_mut(|command| match command.child.try_wait() {
            Ok(ended) => ended.is_none(),
            Err(error) => {
                failed = Some(error);
                true
            }
        });
        let slots = match self.form {
            CommandForm::Template(_, slots) => slots as usize,
            CommandForm::Parallel(_) => 1,
        };
        while self.running.len() < slots {
            let Some(chunks) = self.waiting.pop_front() else { break };
            let words = self.words(sweep, &chunks);
            let child = start(sweep, &words).map_err(|source| {
                EngineError::Program(ProgramError::Start { program: words[0].clone(), source })
            })?;
            self.running.push(RunningCommand { child, chunks });
        }
        failed.map_or(Ok(()), |source| {
            Err(EngineError::Program(ProgramError::Wait { program: self.name().to_owned(), source }))
        })
    }

    /// Ends all processes, with those that they started.
    fn end(&mut self) {
        self.waiting.clear();
        group::end(self.running.iter_mut().map(|command| &mut command.child));
        self.running.clear();
    }
}

impl Engine for CommandEngine {
    fn name(&self) -> &str {
        match &self.form {
            CommandForm::Template(words, _) => &words[0],
            CommandForm::Parallel(_) => "parallel",
        }
    }

    fn program(&self) -> Option<&str> {
        Some(self.name())
    }

    fn is_local(&self) -> bool {
        true
    }

    fn submit(&mut self, sweep: &SweepFolder, chunks: &[u32], _: &TaskNeeds) -> Result<(), EngineError> {
        let each = if matches!(self.form, CommandForm::Template(..)) { 1 } else { CHUNKS_PER_CALL };
        self.waiting.extend(chunks.chunks(each).map(<[u32]>::to_vec));
        self.step(sweep)
    }

    fn tasks(&mut self, sweep: &SweepFolder) -> Result<EngineTasks, EngineError> {
        self.step(sweep)?;
        let started: BTreeSet<u32> =
            self.running.iter().flat_map(|command| command.chunks.iter().copied()).collect();
        let queued = self.waiting.iter().flatten().copied();
        Ok(match self.form {
            CommandForm::Template(..) => {
                EngineTasks { waiting: queued.collect(), running: started, ..EngineTasks::default() }
            }
            // Which chunks of a call run, only GNU parallel knows: none is taken for one that runs too long.
            CommandForm::Parallel(_) => {
                EngineTasks { waiting: queued.chain(started).collect(), ..EngineTasks::default() }
            }
        })
    }

    fn cancel(&mut self, _: &SweepFolder) -> Result<(), EngineError> {
        self.end();
        Ok(())
    }

    fn commands(&self, sweep: &SweepFolder, chunks: &[u32], _: &TaskNeeds) -> Vec<String> {
        let each = if matches!(self.form, CommandForm::Template(..)) { 1 } else { CHUNKS_PER_CALL };
        chunks.chunks(each).map(|chunks| typed(&self.words(sweep, chunks))).collect()
    }
}

impl Drop for CommandEngine {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts the command of a task. What it prints goes to a file of the folder.
fn start(sweep: &SweepFolder, words: &[String]) -> io::Result<Child> {
    let log = OpenOptions::new().create(true).append(true).open(sweep.path().join("engine.out"))?;
    group::start(words, log.try_clone()?, log)
}
