//! Drives a sweep: submits chunks, merges shards as they arrive, and submits missing chunks again, until no run is missing.
//!
//! A chunk is done when a whole shard of it was merged, or when the store has all its runs. The answers of an engine only decide
//! when a chunk is submitted again. A submission that was not needed costs time, and no result.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netrig_core::number::counted;
use netrig_experiment::{Experiment, Substrate};
use netrig_runner::{EarlierRuns, PlannedRun, missing};
use netrig_store::{MergeError, MergeOutcome, RunDifference, Store, StoreError};

use crate::check::repeats;
use crate::engine::{Engine, EngineError, ProgramError, TaskNeeds};
use crate::{ChunkSize, Shard, ShardCheck, SweepChunk, SweepError, SweepFolder, cut};

/// The shortest and the longest interval of polls of the folder and the engine.
const SHORTEST_POLL: Duration = Duration::from_millis(500);
const LONGEST_POLL: Duration = Duration::from_secs(10);

/// The longest interval if tasks are processes of this machine: a free slot is filled at a poll.
const LONGEST_LOCAL_POLL: Duration = Duration::from_secs(1);

/// If the engine does not list a chunk and its shard has not arrived, the first attempt is lost after this time, and each further one
/// after twice as much: a network file system may list a new file late, and a queue may show a task late, or none of them for a while.
const UNLISTED: Duration = Duration::from_secs(5);

/// A chunk that runs for more than this times its estimated work, and longer than `OVERDUE_LEAST`, is submitted a second time: its node
/// may be dead without the engine's knowledge.
const OVERDUE: f64 = 10.0;
const OVERDUE_LEAST: Duration = Duration::from_secs(600);

/// The memory of a task: what runs took, times this, and more, bytes.
const MEMORY_SHARE: f64 = 1.5;
const MEMORY_ROOM: u64 = 128 << 20;

/// The most doublings of the time and the memory of a task.
const MOST_DOUBLINGS: u32 = 4;

/// If the engine has no task of the sweep and refuses chunks for this time, the sweep ends. A restart of the controller takes
/// less.
const REFUSALS: Duration = Duration::from_secs(120);

/// If the engine has answered, and then does not answer for this time, the sweep ends.
const SILENCE: Duration = Duration::from_hours(1);

/// The number of reads after which an unreadable shard is refused: a network file system may show a part of it at first.
const READS: u32 = 3;

/// A sweep to drive.
#[derive(Clone, Copy)]
pub struct DriveRequest<'a> {
    /// Its folder.
    pub folder: &'a SweepFolder,
    /// The experiment, with what the manifest sets.
    pub experiment: &'a Experiment,
    /// The substrate.
    pub substrate: &'a dyn Substrate,
    /// Work of a run at a point, s, as measured.
    pub work_s: &'a dyn Fn(usize) -> f64,
    /// The size of chunks.
    pub size: ChunkSize,
    /// The largest memory of this process, in which runs were tried, bytes. Tasks get as much, with room, until shards tell what
    /// their runs took.
    pub memory: u64,
    /// The most attempts for a chunk.
    pub attempts: u32,
    /// Set by another thread to stop.
    pub cancel: &'a AtomicBool,
}

/// The time of a driver, which a test can set.
pub trait SweepClock {
    /// Time since some start.
    fn now(&self) -> Duration;

    /// Waits.
    fn pause(&mut self, time: Duration);
}

/// What a driver reports.
#[derive(Clone, Debug, PartialEq)]
pub enum DriveEvent {
    /// Chunks were submitted: their number, and how many of them were tried before.
    Submitted(usize, usize),
    /// A shard was merged.
    Merged(Shard, MergeOutcome),
    /// A shard cannot be used, and its runs are repeated: the reason.
    BadShard(PathBuf, String),
    /// The engine does not answer, or refused: the reason. It is asked again.
    EngineAway(String),
    /// The folder cannot be read or written: the reason. This is tried again.
    FolderAway(String),
    /// A submission that the user has to hand over: what to do.
    ByHand(String),
    /// A chunk failed, and is tried again: the last line of its log.
    Failed(u32, String),
    /// A chunk runs for far longer than expected, and is submitted a second time.
    Overdue(u32),
    /// Tasks wait for a reason that may never pass, in the engine's words.
    Waits(String),
    /// Nothing happened.
    Tick,
}

/// The progress of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SweepProgress {
    /// Chunks so far, in all rounds.
    pub chunks: usize,
    /// Chunks that are done.
    pub done: usize,
    /// Chunks that the engine runs.
    pub running: usize,
    /// Chunks that wait at the engine.
    pub waiting: usize,
    /// Estimated work of the chunks that are not done, s.
    pub left_s: f64,
}

/// Receives events.
pub trait DriveListener {
    /// An event, and the progress.
    fn event(&mut self, event: &DriveEvent, progress: &SweepProgress);
}

/// How a drive ended.
#[derive(Clone, Debug, PartialEq)]
pub enum DriveOutcome {
    /// The store has all runs that the stopping rule asks for.
    Complete,
    /// It was cancelled. The engine may have tasks of so many chunks, which continue on other machines.
    Interrupted(usize),
    /// Chunks failed as often as allowed: each with the text of its last log.
    GaveUp(BTreeMap<u32, String>),
    /// The engine answers, has no task of the sweep, and takes none: the reason.
    Refused(String),
    /// The engine has not answered for a long time: the reason.
    NoAnswer(String),
    /// Two valid runs of one identity have different results. The shard was not merged.
    Different(PathBuf, Vec<RunDifference>),
}

/// Why a shard was not merged.
enum MergeFault {
    /// The store failed. The shard may be whole.
    Store(StoreError),
    /// The shard cannot be used: a sentence.
    Shard(String),
}

/// Why a sweep cannot continue.
enum DriveFault {
    /// The engine has none of the open chunks, and there is no attempt left.
    Spent,
    /// The engine takes no chunk: the reason.
    Refused(String),
    /// The engine does not answer: the reason.
    NoAnswer(String),
}

/// The state of a chunk.
struct ChunkState {
    chunk: SweepChunk,
    is_done: bool,
    attempts: u32,
    /// Since when the engine does not list it; `None` if it lists it, or was not asked since the chunk was submitted.
    unlisted: Option<Duration>,
    /// The time at which the engine first listed its current run.
    running: Option<Duration>,
    /// Whether a submission of it failed: the engine may have taken it all the same, which its list shows.
    is_unconfirmed: bool,
    /// Whether the program of that submission did not end: the list may show the chunk late.
    is_unanswered: bool,
    /// The most doublings of its needs: with more, the engine has no machine for it.
    most_doublings: u32,
    /// Whether its last attempt runs for far longer than expected.
    is_stuck: bool,
    /// Whether an attempt has left a log since the chunk was last submitted.
    has_failed: bool,
}

struct Driver<'a> {
    request: &'a DriveRequest<'a>,
    engine: &'a mut dyn Engine,
    store: &'a mut Store,
    clock: &'a mut dyn SweepClock,
    listener: &'a mut dyn DriveListener,
    chunks: BTreeMap<u32, ChunkState>,
    /// Shards that were merged or refused for good.
    settled: BTreeSet<PathBuf>,
    /// The number of failed reads of each shard.
    unread: BTreeMap<PathBuf, u32>,
    progress: SweepProgress,
    /// The largest memory that a shard tells, bytes.
    memory: Option<u64>,
    /// The text of the last log of each chunk that failed.
    failures: BTreeMap<u32, String>,
    /// The logs that were read.
    read_logs: BTreeSet<PathBuf>,
    /// Whether anything happened since the last pause.
    is_busy: bool,
    /// The most doublings of the needs of a task. An engine without such a machine refuses them.
    doublings: u32,
    /// The start of the time in which the engine refuses chunks and has none.
    refused: Option<Duration>,
    /// The number of refusals since the last submission that was taken.
    refusals: u32,
    /// The time of the engine's last list of tasks, or of the start; and whether it has listed any.
    answered: Duration,
    has_answered: bool,
    /// Since when the folder cannot be read or written.
    unreadable: Option<Duration>,
    /// Why tasks wait, as far as it was reported.
    reasons: BTreeSet<String>,
    check: ShardCheck<'a>,
}

/// Drives a sweep to its end. The caller has the lock of the folder.
///
/// # Errors
/// If the folder or the store fails.
pub fn drive(
    request: &DriveRequest<'_>,
    engine: &mut dyn Engine,
    store: &mut Store,
    clock: &mut dyn SweepClock,
    listener: &mut dyn DriveListener,
) -> Result<DriveOutcome, SweepError> {
    let mut driver = Driver {
        refusals: 0,
        answered: Duration::ZERO,
        has_answered: false,
        unreadable: None,
        request,
        engine,
        store,
        clock,
        listener,
        chunks: BTreeMap::new(),
        settled: BTreeSet::new(),
        unread: BTreeMap::new(),
        progress: SweepProgress::default(),
        memory: None,
        failures: BTreeMap::new(),
        read_logs: BTreeSet::new(),
        is_busy: false,
        doublings: MOST_DOUBLINGS,
        refused: None,
        reasons: BTreeSet::new(),
        check: ShardCheck::new(request.folder, request.experiment, request.substrate),
    };
    driver.run()
}

/// The memory that a task is given, bytes, where runs took `memory`.
fn with_room(memory: u64) -> u64 {
    ((memory as f64 * MEMORY_SHARE) as u64).saturating_add(MEMORY_ROOM)
}

/// The first submission of [`drive`], as commands that a user would type.
///
/// # Errors
/// If the folder or the store cannot be read.
pub fn dry_run(
    request: &DriveRequest<'_>,
    engine: &dyn Engine,
    store: &Store,
) -> Result<Vec<String>, SweepError> {
    let DriveRequest { folder, experiment, substrate, work_s, size, memory, .. } = *request;
    let check = ShardCheck::new(folder, experiment, substrate);
    let (all, shards) = (folder.sound_chunks(experiment)?, folder.shards()?);
    let memory = with_room(shards.iter().filter_map(Shard::memory).max().unwrap_or(memory));
    // The driver would merge these shards first.
    let made = |chunk: &&SweepChunk| {
        shards.iter().any(|shard| shard.chunk == chunk.chunk && check.is_final(shard, chunk))
    };
    let (done, open): (Vec<&SweepChunk>, Vec<&SweepChunk>) = all.iter().partition(made);
    let made: BTreeSet<PlannedRun> = done.iter().flat_map(|chunk| chunk.planned()).collect();
    let mut runs = missing(experiment, substrate, &folder.manifest().build, EarlierRuns::TriedAgain, store)?;
    runs.retain(|run| !made.contains(run));
    let wanted: BTreeSet<PlannedRun> = runs.iter().copied().collect();
    let is_due = |chunk: &&SweepChunk| chunk.planned().any(|run| wanted.contains(&run));
    let mut chunks: Vec<SweepChunk> = open.into_iter().filter(is_due).cloned().collect();
    if chunks.is_empty() {
        chunks = cut(&runs, work_s, size, all.len() as u32 + 1);
    }
    let longest_s = chunks.iter().map(|chunk| chunk.work_s).fold(0.0, f64::max);
    let total_s: f64 = chunks.iter().map(|chunk| chunk.work_s).sum();
    let numbers: Vec<u32> = chunks.iter().map(|chunk| chunk.chunk).collect();
    let count: usize = chunks.iter().map(|chunk| chunk.count()).sum();
    let mut lines = vec![format!(
        "{} in {} of at most {longest_s:.1} s, {:.2} core-hours of work",
        counted(count as u64, "run", "runs"),
        counted(chunks.len() as u64, "chunk", "chunks"),
        total_s / 3600.0
    )];
    if !numbers.is_empty() {
        let needs = TaskNeeds { work_s: longest_s, memory, doublings: 0, is_retry: false, slots: size.slots };
        lines.extend(engine.commands(folder, &numbers, &needs));
    }
    Ok(lines)
}

impl Driver<'_> {
    fn run(&mut self) -> Result<DriveOutcome, SweepError> {
        self.find_chunks()?;
        self.answered = self.clock.now();
        let mut poll = SHORTEST_POLL;
        loop {
            self.is_busy = false;
            match self.turn() {
                Ok(Some(ended)) => return Ok(ended),
                Ok(None) => self.unreadable = None,
                // The server of a network file system may be away for a while.
                Err(error @ SweepError::Io { .. }) => {
                    let now = self.clock.now();
                    if now - *self.unreadable.get_or_insert(now) > REFUSALS {
                        return Err(error);
                    }
                    self.tell(&DriveEvent::FolderAway(error.to_string()));
                }
                Err(error) => return Err(error),
            }
            poll = if self.is_busy { SHORTEST_POLL } else { (poll * 3 / 2).min(self.longest_poll()) };
            self.clock.pause(poll);
        }
    }

    /// Merges what has come, and submits what is missing. Returns the end of the sweep if it has come.
    fn turn(&mut self) -> Result<Option<DriveOutcome>, SweepError> {
        if let Some(ended) = self.merge_shards()? {
            return Ok(Some(ended));
        }
        if self.request.cancel.load(Ordering::Relaxed) {
            let open = self.chunks.values().filter(|state| !state.is_done);
            let submitted = open.filter(|state| state.attempts > 0).count();
            return Ok(Some(DriveOutcome::Interrupted(submitted)));
        }
        if self.chunks.values().all(|state| state.is_done) && !self.next_round()? {
            self.tell(&DriveEvent::Tick);
            self.request.folder.remove_unfinished();
            return Ok(Some(DriveOutcome::Complete));
        }
        let spent = self.report_failures()?;
        // While the engine does not answer, a chunk may wait there, and nothing is given up.
        let ended = match self.submit_lost() {
            Some(DriveFault::Spent) => spent.map(DriveOutcome::GaveUp),
            Some(DriveFault::Refused(why)) => Some(DriveOutcome::Refused(why)),
            Some(DriveFault::NoAnswer(why)) => Some(DriveOutcome::NoAnswer(why)),
            None => None,
        };
        if ended.is_none() {
            self.tell(&DriveEvent::Tick);
        }
        Ok(ended)
    }

    /// A quarter of the work of the longest open chunk, so that the end of a sweep is noticed early.
    fn longest_poll(&self) -> Duration {
        let open = self.chunks.values().filter(|state| !state.is_done);
        let longest_s = open.map(|state| state.chunk.work_s).fold(0.0, f64::max);
        let limit = if self.engine.is_local() { LONGEST_LOCAL_POLL } else { LONGEST_POLL };
        Duration::from_secs_f64(longest_s / 4.0).clamp(SHORTEST_POLL, limit)
    }

    /// Finds the chunks of an earlier submitter, and which of them are done.
    fn find_chunks(&mut self) -> Result<(), SweepError> {
        for chunk in self.request.folder.sound_chunks(self.request.experiment)? {
            self.chunks.insert(chunk.chunk, ChunkState::new(chunk));
        }
        // Those of an earlier submitter are no news, and not why this one fails.
        self.read_failures()?;
        self.failures.clear();
        if let Some(ended) = self.merge_shards()? {
            // It is found again, and returned, by the loop.
            drop(ended);
        }
        let wanted: BTreeSet<PlannedRun> = self.missing(EarlierRuns::TriedAgain)?.into_iter().collect();
        for state in self.chunks.values_mut() {
            // A whole shard with failed runs is no result of this sweep yet: they are tried again.
            state.is_done = !state.chunk.planned().any(|run| wanted.contains(&run));
        }
        self.count();
        Ok(())
    }

    fn missing(&self, earlier: EarlierRuns) -> Result<Vec<PlannedRun>, SweepError> {
        let DriveRequest { folder, experiment, substrate, .. } = self.request;
        Ok(missing(experiment, *substrate, &folder.manifest().build, earlier, self.store)?)
    }

    /// Cuts the runs that the stopping rule asks for next into chunks; returns whether there are any. In a folder without chunks, runs
    /// that failed before are tried again. Later, a failed run is a result.
    fn next_round(&mut self) -> Result<bool, SweepError> {
        let earlier = if self.chunks.is_empty() { EarlierRuns::TriedAgain } else { EarlierRuns::Stands };
        let runs = self.missing(earlier)?;
        if runs.is_empty() {
            return Ok(false);
        }
        let first = self.chunks.last_key_value().map_or(1, |(last, _)| last + 1);
        let chunks = cut(&runs, self.request.work_s, self.request.size, first);
        self.request.folder.add_chunks(&chunks)?;
        for chunk in chunks {
            self.chunks.insert(chunk.chunk, ChunkState::new(chunk));
        }
        self.count();
        Ok(true)
    }

    /// Merges the shards that have arrived. Returns the end of the sweep if one differs from what the store has.
    fn merge_shards(&mut self) -> Result<Option<DriveOutcome>, SweepError> {
        self.request.folder.refresh();
        for shard in self.request.folder.shards()? {
            if self.request.cancel.load(Ordering::Relaxed) {
                break;
            }
            if self.settled.contains(&shard.path) {
                continue;
            }
            match self.merge(&shard) {
                Ok(outcome) if outcome.different.is_empty() => {
                    self.settled.insert(shard.path.clone());
                    if let Some(state) = self.chunks.get_mut(&shard.chunk) {
                        if shard.is_whole && !state.is_done {
                            state.is_done = true;
                            self.progress.done += 1;
                            self.progress.left_s = (self.progress.left_s - state.chunk.work_s).max(0.0);
                        }
                        // The chunk is still alive.
                        state.unlisted = state.unlisted.map(|_| self.clock.now());
                    }
                    self.tell(&DriveEvent::Merged(shard, outcome));
                }
                Ok(outcome) => return Ok(Some(DriveOutcome::Different(shard.path, outcome.different))),
                Err(MergeFault::Store(error)) => return Err(error.into()),
                Err(MergeFault::Shard(why)) => {
                    let reads = self.unread.entry(shard.path.clone()).or_default();
                    *reads += 1;
                    if *reads >= READS {
                        self.settled.insert(shard.path.clone());
                        self.tell(&DriveEvent::BadShard(shard.path, why));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Merges a shard of this sweep.
    fn merge(&mut self, shard: &Shard) -> Result<MergeOutcome, MergeFault> {
        let substrate = self.request.substrate;
        let chunk = self.chunks.get(&shard.chunk).map(|state| &state.chunk);
        if let Some(fault) = self.check.fault(shard, chunk) {
            return Err(MergeFault::Shard(fault));
        }
        let opened = shard.open().map_err(|error| MergeFault::Shard(error.fault()))?;
        let outcome = self.store.merge(&opened, repeats(substrate)).map_err(|error| match error {
            MergeError::Here(error) => MergeFault::Store(error),
            MergeError::There(error) => MergeFault::Shard(error.fault()),
        })?;
        self.memory = self.memory.max(shard.memory());
        Ok(outcome)
    }

    /// Reads the new logs; returns their chunks.
    fn read_failures(&mut self) -> Result<BTreeSet<u32>, SweepError> {
        let mut failed = BTreeSet::new();
        for log in self.request.folder.failure_logs()? {
            if !self.read_logs.contains(&log.path) {
                self.failures.insert(log.chunk, log.text());
                failed.insert(log.chunk);
                self.read_logs.insert(log.path);
            }
        }
        Ok(failed)
    }

    /// Reports new logs of failed attempts. Returns the chunks that failed as often as allowed, if nothing else is left to wait for.
    fn report_failures(&mut self) -> Result<Option<BTreeMap<u32, String>>, SweepError> {
        let mut failed = self.read_failures()?;
        failed.retain(|number| self.chunks.get(number).is_some_and(|state| !state.is_done));
        for number in failed {
            if let Some(state) = self.chunks.get_mut(&number) {
                state.has_failed = true;
            }
            let text = self.failures.get(&number).and_then(|text| text.lines().last()).unwrap_or_default();
            self.tell(&DriveEvent::Failed(number, text.to_owned()));
        }
        let open: Vec<&ChunkState> = self.chunks.values().filter(|state| !state.is_done).collect();
        if open.is_empty() || !open.iter().all(|state| self.is_spent(state)) {
            return Ok(None);
        }
        let outputs = self
            .engine
            .outputs()
            .map_or_else(String::new, |name| format!("{name} in the sweep's folder, and "));
        let none = format!("no attempt left a log: see {outputs}the engine's own records of its tasks");
        let text = |state: &ChunkState| {
            if state.is_stuck {
                return "the engine reports that it still runs, far longer than expected".to_owned();
            }
            match self.failures.get(&state.chunk.chunk) {
                Some(log) if state.has_failed => log.clone(),
                Some(log) => format!("the last attempt left no log; an earlier one: {log}"),
                None => none.clone(),
            }
        };
        Ok(Some(open.into_iter().map(|state| (state.chunk.chunk, text(state))).collect()))
    }

    /// Whether the engine does not have a chunk, for longer than lists may be late.
    fn is_lost(&self, state: &ChunkState) -> bool {
        !state.is_done
            && state.running.is_none()
            && ((state.attempts == 0 && !state.is_unanswered)
                || state.unlisted.is_some_and(|since| {
                    state.has_failed || self.clock.now().saturating_sub(since) > state.patience()
                }))
    }

    /// Whether a chunk is lost or stuck, and no attempt is left.
    fn is_spent(&self, state: &ChunkState) -> bool {
        state.attempts >= self.request.attempts && (self.is_lost(state) || state.is_stuck)
    }

    /// Asks the engine for its tasks, and submits the chunks that it does not have.
    fn submit_lost(&mut self) -> Option<DriveFault> {
        let tasks = match self.engine.tasks(self.request.folder) {
            Ok(tasks) => tasks,
            Err(error) => {
                // Its tasks are not known: none of them is late yet.
                self.chunks.values_mut().for_each(|state| state.unlisted = None);
                self.refused = None;
                let why = error.to_string();
                self.tell(&DriveEvent::EngineAway(why.clone()));
                let limit = if self.has_answered { SILENCE } else { REFUSALS };
                let is_too_long = self.clock.now().saturating_sub(self.answered) > limit;
                return is_too_long.then_some(DriveFault::NoAnswer(why));
            }
        };
        let now = self.clock.now();
        (self.answered, self.has_answered) = (now, true);
        (self.progress.running, self.progress.waiting) = (0, 0);
        let mut overdue = Vec::new();
        for (number, state) in &mut self.chunks {
            if state.is_done {
                continue;
            }
            let runs = tasks.running.contains(number);
            let waits = !runs && tasks.waiting.contains(number);
            self.progress.running += usize::from(runs);
            self.progress.waiting += usize::from(waits);
            if runs || waits {
                state.unlisted = None;
                // If it ran before, this task is not that of the submission that failed.
                let is_new = state.running.is_none();
                state.attempts += u32::from(std::mem::take(&mut state.is_unconfirmed) && is_new);
                // An earlier submitter submitted it.
                state.attempts = state.attempts.max(1);
            } else if state.attempts > 0 || state.is_unanswered {
                state.unlisted.get_or_insert(now);
            }
            if tasks.too_large.contains(number) {
                // No machine has what that attempt asks for.
                let asked = state.attempts.saturating_sub(1).min(state.most_doublings);
                state.most_doublings = asked.saturating_sub(1);
            }
            // While another attempt waits, a third is not needed. When it starts, it has its time.
            let begins = state.running.filter(|_| !tasks.waiting.contains(number)).unwrap_or(now);
            state.running = runs.then_some(begins);
            let limit = OVERDUE_LEAST.max(Duration::from_secs_f64(OVERDUE * state.chunk.work_s.max(0.0)));
            let is_late = state.running.is_some_and(|since| now - since > limit);
            state.is_stuck = is_late && state.attempts >= self.request.attempts;
            if is_late {
                self.engine.release(*number);
            }
            if is_late && !state.is_stuck {
                overdue.push(*number);
            }
        }
        let is_due = |state: &&ChunkState| self.is_lost(state) && state.attempts < self.request.attempts;
        let lost = self.chunks.values().filter(is_due).map(|state| state.chunk.chunk);
        let due: BTreeSet<u32> = lost.chain(overdue).collect();
        for reason in tasks.reasons {
            if self.reasons.insert(reason.clone()) {
                self.tell(&DriveEvent::Waits(reason));
            }
        }
        // Chunks that were tried equally often ask for the same time and memory.
        let mut groups: BTreeMap<(bool, u32), Vec<u32>> = BTreeMap::new();
        for number in due {
            let Some(state) = self.chunks.get(&number) else { continue };
            let needs = (state.attempts > 0, state.attempts.min(state.most_doublings));
            groups.entry(needs).or_default().push(number);
        }
        let mut refusal = None;
        for ((is_retry, doublings), due) in &groups {
            if let Err(why) = self.submit(due, *doublings, *is_retry) {
                refusal.get_or_insert(why);
            }
        }
        if let Some(why) = refusal
            && self.progress.running + self.progress.waiting == 0
        {
            let since = *self.refused.get_or_insert(now);
            return (now - since > REFUSALS).then_some(DriveFault::Refused(why));
        }
        // Until the patience with an unanswered submission ends, nothing is submitted, and nothing is known.
        if self.progress.running + self.progress.waiting > 0 || !groups.is_empty() {
            self.refused = None;
        }
        let mut open = self.chunks.values().filter(|state| !state.is_done);
        open.all(|state| self.is_spent(state)).then_some(DriveFault::Spent)
    }

    /// Submits chunks with the same needs. The error is the reason of a refusal.
    fn submit(&mut self, due: &[u32], doublings: u32, is_retry: bool) -> Result<(), String> {
        let states = due.iter().filter_map(|number| self.chunks.get(number));
        let longest_s = states.map(|state| state.chunk.work_s).fold(0.0, f64::max);
        // A task that was ended for its time or memory leaves no log: each attempt gets twice as much.
        let doublings = doublings.min(self.doublings);
        let DriveRequest { memory, size, .. } = *self.request;
        let memory = with_room(self.memory.unwrap_or(memory));
        let needs = TaskNeeds { work_s: longest_s, memory, doublings, is_retry, slots: size.slots };
        let submitted = match self.engine.submit(self.request.folder, due, &needs) {
            Err(EngineError::ByHand(what)) => {
                self.tell(&DriveEvent::ByHand(what));
                Ok(())
            }
            submitted => submitted,
        };
        let mut overdue = Vec::new();
        for number in due {
            let Some(state) = self.chunks.get_mut(number) else { continue };
            (state.unlisted, state.has_failed) = (None, false);
            if submitted.is_ok() && state.running.is_some() {
                state.running = Some(self.clock.now());
                overdue.push(*number);
            }
            // A refusal is no attempt. A program that succeeds with an unexpected answer has probably submitted.
            // One that was killed by an interruption may have.
            let is_taken = matches!(
                submitted,
                Ok(())
                    | Err(EngineError::Words { .. } | EngineError::Program(ProgramError::Interrupted { .. }))
            );
            state.attempts += u32::from(is_taken);
            state.is_unconfirmed = !is_taken;
            state.is_unanswered = matches!(submitted, Err(EngineError::Program(ProgramError::Silent { .. })));
        }
        for number in overdue {
            self.tell(&DriveEvent::Overdue(number));
        }
        match submitted {
            Ok(()) => {
                (self.doublings, self.refusals) = (MOST_DOUBLINGS, 0);
                self.tell(&DriveEvent::Submitted(due.len(), if is_retry { due.len() } else { 0 }));
                Ok(())
            }
            Err(error) => {
                // A first refusal may have another reason than the needs.
                self.refusals += 1;
                if self.refusals > 1 {
                    self.doublings = doublings.saturating_sub(1);
                }
                let why = error.to_string();
                self.tell(&DriveEvent::EngineAway(why.clone()));
                Err(why)
            }
        }
    }

    fn tell(&mut self, event: &DriveEvent) {
        self.is_busy |=
            !matches!(event, DriveEvent::Tick | DriveEvent::EngineAway(_) | DriveEvent::FolderAway(_));
        if *event == DriveEvent::Tick {
            self.count();
        }
        self.listener.event(event, &self.progress);
    }

    /// Counts the chunks. Between two counts, [`Self::merge_shards`] keeps them up to date: there may be as many shards as chunks.
    fn count(&mut self) {
        let open = self.chunks.values().filter(|state| !state.is_done);
        self.progress.left_s =
            open.clone().map(|state| state.chunk.work_s).fold(0.0, |sum, work_s| sum + work_s);
        self.progress.chunks = self.chunks.len();
        self.progress.done = self.chunks.len() - open.count();
    }
}

impl ChunkState {
    /// The time after which an attempt that the engine does not list is lost.
    fn patience(&self) -> Duration {
        UNLISTED.saturating_mul(1 << self.attempts.saturating_sub(1).min(MOST_DOUBLINGS))
    }

    const fn new(chunk: SweepChunk) -> Self {
        Self {
            chunk,
            is_done: false,
            attempts: 0,
            unlisted: None,
            running: None,
            is_unconfirmed: false,
            is_unanswered: false,
            most_doublings: MOST_DOUBLINGS,
            is_stuck: false,
            has_failed: false,
        }
    }
}
