//! `netrig run --via`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use netrig_core::number::counted;
use netrig_store::Store;
use netrig_sweep::engine::{Engine, changed_by_shells, engine_of, is_there};
use netrig_sweep::{
    DriveEvent, DriveListener, DriveOutcome, DriveRequest, EngineRecord, SweepClock, SweepError, SweepFolder,
    SweepManifest, SweepProgress, drive, dry_run,
};

use super::arguments::SizeArguments;
use super::merge::tell_differences;
use super::split::{folder, manifest, size, work};
use super::{failure, largest_memory, repeating};
use crate::arguments::Run;
use crate::failure::{FAILED, Failure, print};
use crate::progress::words;
use crate::request::ExperimentRequest;

/// Time between two looks at an interruption.
const STEP: Duration = Duration::from_millis(50);

/// The end of the runs on an engine.
pub enum ViaEnd {
    /// The store has all runs.
    Complete,
    /// It was interrupted, and the tasks of other machines go on.
    Interrupted,
    /// There is nothing more to say.
    Over(ExitCode),
}

/// Makes the missing runs of a request on an engine.
pub fn carry_via(
    via: &str,
    arguments: &Run,
    request: &ExperimentRequest,
    store: &mut Store,
    cancel: &Arc<AtomicBool>,
) -> Result<ViaEnd, Failure> {
    let chosen = &arguments.via;
    let substrate = repeating(request)?;
    let record =
        EngineRecord { via: via.to_owned(), options: chosen.options.clone(), slots: chosen.size.slots };
    let mut engine = engine(&record, Arc::clone(cancel))?;
    let manifest = manifest(request, substrate, arguments.traces);
    let place = chosen.into.clone().unwrap_or_else(|| beside(request, arguments, &manifest));
    if engine.is_local() {
        check_path(&place)?;
    }
    if let Some(program) = engine.program().filter(|program| !is_there(program)) {
        return Err(Failure::request(format!("--via {via}: there is no program {program} in PATH")));
    }
    if chosen.cancel {
        cancel_tasks(&mut *engine, &SweepFolder::open(&place).map_err(failure)?)?;
        return Ok(ViaEnd::Over(ExitCode::SUCCESS));
    }
    let sweep = folder(request, manifest, &place)?;
    let lock = sweep.lock().map_err(failure)?;
    let work = work(request, substrate, store, cancel)?;
    if !engine.is_local() && sweep.shards().map_err(failure)?.iter().all(|shard| shard.memory().is_none()) {
        work.try_longest(&request.experiment, substrate, cancel);
    }
    let slots = chosen.size.slots.or_else(|| engine.is_local().then(processors));
    let order = DriveRequest {
        folder: &sweep,
        experiment: &request.experiment,
        substrate,
        work_s: &|point| work.work_s(point),
        size: size(SizeArguments { slots, ..chosen.size }),
        memory: largest_memory(),
        attempts: chosen.attempts,
        cancel,
    };
    if chosen.dry_run {
        for line in dry_run(&order, &*engine, store).map_err(failure)? {
            print(line)?;
        }
        return Ok(ViaEnd::Over(ExitCode::SUCCESS));
    }
    sweep.note_engine(&record).map_err(failure)?;
    let mut line = SweepLine::new(engine.tells_running());
    let ended = drive(&order, &mut *engine, store, &mut RealClock(Instant::now(), cancel), &mut line);
    let at_engine = line.at_engine;
    drop((line, lock));
    let is_known = matches!(ended, Ok(DriveOutcome::Complete | DriveOutcome::Interrupted(_)));
    if !is_known && at_engine > 0 && !engine.is_local() {
        say_tasks(&*engine, at_engine);
    }
    match ended.map_err(failure)? {
        DriveOutcome::Complete => Ok(ViaEnd::Complete),
        DriveOutcome::Interrupted(submitted) => {
            if submitted > 0 && !engine.is_local() {
                say_tasks(&*engine, submitted);
            }
            Ok(ViaEnd::Interrupted)
        }
        DriveOutcome::GaveUp(chunks) => {
            for (chunk, log) in &chunks {
                eprintln!(
                    "error: chunk {chunk} was tried {}: {log}",
                    counted(chosen.attempts.into(), "time", "times")
                );
            }
            eprintln!(
                "the runs of the other chunks are in the store; `netrig sweep {}` shows the rest",
                place.display()
            );
            Ok(ViaEnd::Over(ExitCode::from(FAILED)))
        }
        DriveOutcome::Refused(why) => Err(Failure::failed(format!(
            "{} has no task of this sweep and takes none: {why}; check the options behind `--`, and run the same command again",
            engine.name()
        ))),
        DriveOutcome::NoAnswer(why) => Err(Failure::failed(format!(
            "{} does not answer: {why}; run the same command again when it does",
            engine.name()
        ))),
        DriveOutcome::Different(shard, different) => {
            tell_differences(&shard, &different);
            Ok(ViaEnd::Over(ExitCode::from(FAILED)))
        }
    }
}

/// Says that an engine may have tasks of this number of chunks.
fn say_tasks(engine: &dyn Engine, count: usize) {
    eprintln!(
        "{} may have tasks of {}, which continue; run the same command again to merge their runs, or with --cancel to end them",
        engine.name(),
        chunks(count)
    );
}

/// The engine of a record.
pub fn engine(record: &EngineRecord, interrupted: Arc<AtomicBool>) -> Result<Box<dyn Engine>, Failure> {
    engine_of(record, processors(), interrupted).map_err(|error| Failure::request(format!("--via: {error}")))
}

/// The folder of a sweep beside the store. A sweep of other runs has another one.
fn beside(request: &ExperimentRequest, arguments: &Run, manifest: &SweepManifest) -> PathBuf {
    let digest = manifest.clone().named(request.experiment.text()).sweep;
    arguments.place.store.with_file_name(format!("{}-{digest}.sweep", request.stem))
}

/// Cancels the tasks that an engine has of a sweep.
pub fn cancel_tasks(engine: &mut dyn Engine, sweep: &SweepFolder) -> Result<(), Failure> {
    let place = sweep.path().display();
    if engine.is_local() {
        // They are processes of the submitter, which holds the lock.
        return match sweep.lock() {
            Ok(_) => print(format!("no netrig submits the sweep in {place}: it has no tasks")),
            Err(SweepError::Busy(_)) => Err(Failure::request(format!(
                "the tasks of the sweep in {place} are processes of the netrig that submits it: end that one, with Ctrl-C"
            ))),
            Err(error) => Err(failure(error)),
        };
    }
    // It would submit them again.
    let _lock = sweep.lock().map_err(failure)?;
    engine.cancel(sweep).map_err(Failure::failed)?;
    print(format!("{} has no tasks of this sweep any more; its shards stay in {place}", engine.name()))
}

/// Refuses a path that a shell on the way to a task would change.
fn check_path(place: &Path) -> Result<(), Failure> {
    let place = std::path::absolute(place).unwrap_or_else(|_| place.to_owned());
    match changed_by_shells(&place) {
        None => Ok(()),
        Some(other) => Err(Failure::request(format!(
            "the path {} has `{other}`, which a shell on the way to the task would change: name another folder with --into",
            place.display()
        ))),
    }
}

fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

fn chunks(count: usize) -> String {
    counted(count as u64, "chunk", "chunks")
}

/// Real time. A pause ends when the flag is set.
struct RealClock<'a>(Instant, &'a AtomicBool);

impl SweepClock for RealClock<'_> {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn pause(&mut self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time && !self.1.load(Ordering::Relaxed) {
            std::thread::sleep(STEP.min(time));
        }
    }
}

/// A progress line on stderr if that is a terminal, and a line for each event that matters.
struct SweepLine {
    bar: ProgressBar,
    start: Instant,
    /// Work that was left at the start, s.
    work_s: Option<f64>,
    /// The last reason why the engine or the folder was away: it is printed once.
    away: Option<String>,
    /// The number of chunks that the engine had when it last answered.
    at_engine: usize,
    /// Whether the engine reports which of its tasks run.
    tells_running: bool,
}

impl SweepLine {
    fn new(tells_running: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(4));
        if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {pos}/{len} chunks {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar, start: Instant::now(), work_s: None, away: None, at_engine: 0, tells_running }
    }

    fn say(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }

    /// The time left, from the work that was done since the start.
    fn left(&mut self, left_s: f64) -> Option<Duration> {
        // A new round adds work.
        let first = self.work_s.unwrap_or(0.0).max(left_s);
        self.work_s = Some(first);
        let done = first - left_s;
        (done > 0.0).then(|| self.start.elapsed().mul_f64(left_s / done))
    }
}

impl DriveListener for SweepLine {
    fn event(&mut self, event: &DriveEvent, progress: &SweepProgress) {
        match event {
            DriveEvent::Submitted(count, 0) => self.say(&format!("{} submitted", chunks(*count))),
            DriveEvent::Submitted(count, again) => {
                self.say(&format!("{} submitted, {again} again", chunks(*count)));
            }
            DriveEvent::BadShard(shard, why) => self.say(&format!("warning: {}: {why}", shard.display())),
            DriveEvent::EngineAway(why) if self.away.as_ref() != Some(why) => {
                self.say(&format!("warning: {why}; the engine is asked again"));
                self.away = Some(why.clone());
            }
            DriveEvent::FolderAway(why) if self.away.as_ref() != Some(why) => {
                self.say(&format!("warning: {why}; this is tried again"));
                self.away = Some(why.clone());
            }
            DriveEvent::Waits(reason) => {
                self.say(&format!(
                    "warning: tasks wait, and the engine's reason is {reason}: it may never pass by itself"
                ));
            }
            DriveEvent::ByHand(what) => self.say(what),
            DriveEvent::Failed(chunk, why) => self.say(&format!("chunk {chunk} failed: {why}")),
            DriveEvent::Overdue(chunk) => {
                self.say(&format!(
                    "chunk {chunk} takes far longer than expected, and is submitted a second time"
                ));
            }
            DriveEvent::Merged(..)
            | DriveEvent::EngineAway(_)
            | DriveEvent::FolderAway(_)
            | DriveEvent::Tick => {}
        }
        if matches!(event, DriveEvent::Submitted(..)) {
            self.away = None;
        }
        self.at_engine = progress.running + progress.waiting;
        self.bar.set_length(progress.chunks as u64);
        self.bar.set_position(progress.done as u64);
        let left =
            self.left(progress.left_s).map(|left| format!(", {} left", words(left))).unwrap_or_default();
        let at_engine = if self.tells_running {
            format!("{} running, {} waiting", progress.running, progress.waiting)
        } else {
            format!("{} at the engine", progress.waiting)
        };
        self.bar.set_message(at_engine + &left);
    }
}

impl Drop for SweepLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
