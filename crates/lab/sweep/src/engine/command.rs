//! Commands that the user names: GNU parallel, ssh, or any other program that starts a task somewhere.
//!
//! They are processes of this machine, each in a process group of its own, and end with this process.

use std::collections::{BTreeSet, VecDeque};
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use super::group;
use super::program::ProgramError;
use super::{Engine, EngineError, EngineTasks, TaskNeeds, command_line};
use crate::SweepFolder;

/// The placeholder for the command of a task in a template.
const TASK: &str = "{}";

/// Chunks of one call of GNU parallel: its command line has room for them.
const CHUNKS_PER_CALL: usize = 1000;

/// A command for each chunk, or one of GNU parallel for many.
#[derive(Debug)]
pub struct CommandEngine {
    form: CommandForm,
    waiting: VecDeque<WaitingCommand>,
    running: Vec<RunningCommand>,
}

/// The form of the command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CommandForm {
    /// The words of a template, one of which has `{}`, and the number of commands at the same time.
    Template(Vec<String>, u32),
    /// Options of GNU parallel.
    Parallel(Vec<String>),
}

/// A command that waits for a slot.
#[derive(Debug)]
struct WaitingCommand {
    chunks: Vec<u32>,
    /// The time within which a task ends.
    time: Duration,
}

/// A process with its chunks.
#[derive(Debug)]
struct RunningCommand {
    child: Child,
    chunks: Vec<u32>,
    /// Whether its slot is free for another command. It is not ended: it may wait in a queue.
    is_released: bool,
}

/// The number of hosts on which GNU parallel tries a task.
const HOSTS_TRIED: u32 = 3;

/// The file with what all commands print.
const OUTPUT: &str = "engine.out";

/// A template of a command is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It has no placeholder for the task.
    #[error("the template {0:?} has no {{}}, the placeholder for the command of a task: `ssh node1 {{}}`")]
    NoTask(String),
    /// It begins with the task, so nothing would start it elsewhere.
    #[error("the template {0:?} names no program")]
    NoProgram(String),
    /// A quotation mark has no partner.
    #[error("the template {0:?} has a quotation mark without a partner")]
    OpenQuote(String),
}

impl CommandEngine {
    /// A command for each chunk: words, quoted as in a shell, with `{}` for the task. At most `slots` commands run at the same time. A word
    /// `{}` becomes the words of the task. In a longer word, and behind `-c`, it becomes the task as a shell would read it.
    ///
    /// # Errors
    /// If the template has no `{}`, no program before it, or an open quotation.
    pub fn template(template: &str, options: &[String], slots: u32) -> Result<Self, TemplateError> {
        // As a separator, a shell knows only the spaces of ASCII.
        let plain = template.replace(|c: char| c.is_whitespace() && !c.is_ascii(), " ");
        let words = shlex::split(&plain).ok_or_else(|| TemplateError::OpenQuote(template.to_owned()))?;
        if !words.iter().any(|word| word.contains(TASK)) {
            return Err(TemplateError::NoTask(template.to_owned()));
        }
        if words.first().is_some_and(|word| word.contains(TASK)) {
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

    const fn chunks_per_call(&self) -> usize {
        match self.form {
            CommandForm::Template(..) => 1,
            CommandForm::Parallel(_) => CHUNKS_PER_CALL,
        }
    }

    /// The words of the command for these chunks. GNU parallel ends a task that takes longer than `time`.
    fn words(&self, sweep: &SweepFolder, chunks: &[u32], time: Duration) -> Vec<String> {
        let [executable, folder] =
            [sweep.executable(), sweep.path().to_owned()].map(|path| path.display().to_string());
        let numbers = chunks.iter().map(u32::to_string);
        match &self.form {
            CommandForm::Template(words, _) => {
                let task =
                    [executable, "chunk".to_owned(), folder].into_iter().chain(numbers).collect::<Vec<_>>();
                let in_shell = command_line(&task);
                let before = std::iter::once("").chain(words.iter().map(String::as_str));
                let of = |(word, before): (&String, &str)| {
                    if word == TASK && before != "-c" {
                        task.clone()
                    } else {
                        vec![word.replace(TASK, &in_shell)]
                    }
                };
                words.iter().zip(before).flat_map(of).collect()
            }
            CommandForm::Parallel(options) => {
                // The driver submits a failed task again; the other tasks continue.
                let limit = format!("--timeout={}", time.as_secs());
                let mut own =
                    ["parallel", "--will-cite", "--halt", "never", &limit].map(str::to_owned).to_vec();
                let is_ssh = |option: &String| {
                    ["-S", "--sshlogin", "--slf"].iter().any(|name| option.starts_with(name))
                };
                if options.iter().any(is_ssh) {
                    // A task that fails on a host is tried on others: a host without ssh would fail all tasks at once.
                    own.push(format!("--retries={HOSTS_TRIED}"));
                }
                let task = [executable, "chunk".to_owned(), folder, TASK.to_owned(), ":::".to_owned()];
                own.into_iter().chain(options.iter().cloned()).chain(task).chain(numbers).collect()
            }
        }
    }

    /// Removes commands that ended, and starts those that have a slot. If one cannot be started, its chunks are forgotten: the engine
    /// does not list them then, and the driver submits them again.
    fn step(&mut self, sweep: &SweepFolder) -> Result<(), ProgramError> {
        let mut failed = None;
        self.running.retain_mut(|command| match command.child.try_wait() {
            Ok(ended) => ended.is_none(),
            Err(error) => {
                failed = Some(error);
                true
            }
        });
        if let Some(source) = failed {
            return Err(ProgramError::Wait { program: self.name().to_owned(), source });
        }
        let slots = match self.form {
            CommandForm::Template(_, slots) => slots as usize,
            CommandForm::Parallel(_) => 1,
        };
        while self.running.iter().filter(|command| !command.is_released).count() < slots {
            let Some(WaitingCommand { chunks, time }) = self.waiting.pop_front() else { break };
            let words = self.words(sweep, &chunks, time);
            let child = start(sweep, &words)
                .map_err(|source| ProgramError::Start { program: words[0].clone(), source })?;
            self.running.push(RunningCommand { child, chunks, is_released: false });
        }
        Ok(())
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

    fn tells_running(&self) -> bool {
        matches!(self.form, CommandForm::Template(..))
    }

    fn submit(&mut self, sweep: &SweepFolder, chunks: &[u32], needs: &TaskNeeds) -> Result<(), EngineError> {
        let (before, time) = (self.waiting.len(), needs.time(1));
        let calls = chunks.chunks(self.chunks_per_call());
        self.waiting.extend(calls.map(|chunks| WaitingCommand { chunks: chunks.to_vec(), time }));
        let started = self.step(sweep);
        if started.is_err() {
            // The driver submits all of these again.
            self.waiting.truncate(before);
        }
        Ok(started?)
    }

    fn tasks(&mut self, sweep: &SweepFolder) -> Result<EngineTasks, EngineError> {
        match self.step(sweep) {
            // The next submission reports the reason.
            Ok(()) | Err(ProgramError::Start { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let started: BTreeSet<u32> =
            self.running.iter().flat_map(|command| command.chunks.iter().copied()).collect();
        let queued = self.waiting.iter().flat_map(|command| command.chunks.iter().copied());
        Ok(match self.form {
            CommandForm::Template(..) => {
                EngineTasks { waiting: queued.collect(), running: started, ..EngineTasks::default() }
            }
            // Only GNU parallel knows which chunks of a call run. It ends those that run for too long.
            CommandForm::Parallel(_) => {
                EngineTasks { waiting: queued.chain(started).collect(), ..EngineTasks::default() }
            }
        })
    }

    fn release(&mut self, chunk: u32) {
        for command in self.running.iter_mut().filter(|command| command.chunks.contains(&chunk)) {
            command.is_released = true;
        }
    }

    fn outputs(&self) -> Option<&str> {
        Some(OUTPUT)
    }

    fn cancel(&mut self, _: &SweepFolder) -> Result<(), EngineError> {
        self.end();
        Ok(())
    }

    fn commands(&self, sweep: &SweepFolder, chunks: &[u32], needs: &TaskNeeds) -> Vec<String> {
        let calls = chunks.chunks(self.chunks_per_call());
        calls.map(|chunks| command_line(&self.words(sweep, chunks, needs.time(1)))).collect()
    }
}

impl Drop for CommandEngine {
    fn drop(&mut self) {
        self.end();
    }
}

/// The first character of a path that a shell would change: commands such as GNU parallel and ssh pass their arguments to shells.
pub fn changed_by_shells(path: &Path) -> Option<char> {
    let is_plain = |c: &char| c.is_alphanumeric() || "-_=./,:@+%".contains(*c);
    path.display().to_string().chars().find(|c| !is_plain(c))
}

/// Starts the command of a task. What it prints goes to a file of the folder.
fn start(sweep: &SweepFolder, words: &[String]) -> io::Result<Child> {
    let log = OpenOptions::new().create(true).append(true).open(sweep.path().join(OUTPUT))?;
    group::start(words, log.try_clone()?, log)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::it::common::SweepLab;

    fn words(template: &str) -> Result<Vec<String>, TemplateError> {
        let lab = SweepLab::new("min = 1\nmax = 1");
        let engine = CommandEngine::template(template, &["-v".to_owned()], 1)?;
        let place = lab.folder.path().display().to_string();
        let words = engine.words(&lab.folder, &[7], Duration::ZERO);
        Ok(words.into_iter().map(|word| word.replace(&place, "DIR")).collect())
    }

    #[test]
    fn a_template_is_quoted_as_in_a_shell() {
        let task = ["DIR/netrig", "chunk", "DIR", "7"];
        let expected = |before: &[&str], after: &[&str]| {
            Ok([before, after].concat().iter().map(|word| (*word).to_owned()).collect())
        };
        assert_eq!(words("ssh node1 {}"), expected(&["ssh", "-v", "node1"], &task));
        assert_eq!(words("env 'A=b c' {}"), expected(&["env", "-v", "A=b c"], &task));
        assert_eq!(words("sh -c {}"), expected(&["sh", "-v", "-c"], &["DIR/netrig chunk DIR 7"]));
        assert_eq!(
            words("ssh node1 'cd /tmp && {}'"),
            expected(&["ssh", "-v", "node1"], &["cd /tmp && DIR/netrig chunk DIR 7"])
        );
        assert!(matches!(words("ssh 'node1 {}"), Err(TemplateError::OpenQuote(_))));
        assert!(matches!(words("ssh node1"), Err(TemplateError::NoTask(_))));
        assert!(matches!(words("{} -v"), Err(TemplateError::NoProgram(_))));
    }

    const NEEDS: TaskNeeds = TaskNeeds { work_s: 1.0, memory: 1, doublings: 0, is_retry: false, slots: None };

    #[test]
    fn a_command_that_hangs_does_not_keep_its_slot() {
        let lab = SweepLab::new("min = 1\nmax = 1");
        let mut engine = CommandEngine::template("sh -c 'sleep 600' {}", &[], 1).unwrap();
        engine.submit(&lab.folder, &[1, 2], &NEEDS).unwrap();
        let listed = |engine: &mut CommandEngine| {
            let tasks = engine.tasks(&lab.folder).unwrap();
            (tasks.running.len(), tasks.waiting.len())
        };
        assert_eq!(listed(&mut engine), (1, 1));
        engine.release(1);
        assert_eq!(listed(&mut engine), (2, 0));
    }

    #[test]
    fn gnu_parallel_ends_a_task_that_hangs() {
        let lab = SweepLab::new("min = 1\nmax = 1");
        let lines = CommandEngine::parallel(Vec::new(), Some(2)).commands(&lab.folder, &[1, 2], &NEEDS);
        assert!(lines[0].contains(" --timeout=304 --jobs=2 "), "{lines:?}");
        let far = CommandEngine::parallel(vec!["--sshloginfile=hosts".to_owned()], None);
        let lines = far.commands(&lab.folder, &[1, 2], &NEEDS);
        assert!(lines[0].contains(" --retries=3 --sshloginfile=hosts "), "{lines:?}");
    }

    #[test]
    fn a_command_that_cannot_be_started_is_refused_and_leaves_no_chunk_behind() {
        let lab = SweepLab::new("min = 1\nmax = 1");
        let mut engine = CommandEngine::template("sh -c {}", &[], 1).unwrap();
        // No folder for the file of its output.
        let place = lab.folder.path().join(OUTPUT);
        std::fs::create_dir(&place).unwrap();
        assert!(engine.submit(&lab.folder, &[1, 2], &NEEDS).is_err());
        assert_eq!(engine.tasks(&lab.folder).unwrap(), EngineTasks::default());
        std::fs::remove_dir(&place).unwrap();
        engine.submit(&lab.folder, &[1, 2], &NEEDS).unwrap();
        assert_eq!(engine.tasks(&lab.folder).unwrap().running.len(), 1);
    }
}
