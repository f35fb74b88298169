//! The state of a sweep, from its folder.

use std::collections::{BTreeMap, BTreeSet};

use netrig_core::text::AlignedTable;
use schemars::JsonSchema;
use serde::Serialize;

use crate::check::CHANGED;
use crate::engine::{EngineTasks, ranges};
use crate::folder::{FailureLog, digest_of};
use crate::{ShardCheck, SweepChunk, SweepError, SweepFolder};

/// The state of a sweep.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct SweepState {
    /// The sweep.
    pub sweep: String,
    /// The experiment's name.
    pub experiment: String,
    /// The build.
    pub build: String,
    /// Chunks that were cut so far. The stopping rule may ask for more when these are done.
    pub chunks: usize,
    /// Chunks with a whole shard.
    pub done: usize,
    /// Chunks with a part of their runs.
    pub partial: usize,
    /// Chunks that the engine runs; absent if it was not asked, or did not answer.
    pub running: Option<usize>,
    /// Chunks that wait at the engine.
    pub waiting: Option<usize>,
    /// Chunks without a whole shard.
    pub missing: usize,
    /// Their numbers, as ranges: `3,7-9`.
    pub missing_chunks: String,
    /// The work in all shards, hours of one processor.
    pub used_h: f64,
    /// The estimated work of the chunks that are missing, hours of one processor.
    pub left_h: f64,
    /// Shards that cannot be read, with the reason.
    pub unreadable: BTreeMap<String, String>,
    /// The text of the last log of each chunk that failed and is missing.
    pub failed: BTreeMap<u32, String>,
}

impl SweepState {
    /// Reads the folder. `tasks` are those that the engine lists; `None` if it was not asked. Without `check`, for which one needs the build
    /// of the sweep, the contents of an intact shard are not known.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn read(
        folder: &SweepFolder,
        tasks: Option<&EngineTasks>,
        check: Option<&ShardCheck<'_>>,
    ) -> Result<Self, SweepError> {
        let (chunks, manifest) = (folder.chunks()?, folder.manifest());
        let (mut whole, mut parts) = (BTreeSet::new(), BTreeSet::new());
        let (mut unreadable, mut used_s) = (BTreeMap::new(), 0.0);
        // A shard has runs of earlier parts of its chunk: their time counts once. A run that was made twice took another time.
        let mut counted: BTreeMap<u32, BTreeSet<(String, u64)>> = BTreeMap::new();
        let numbered: BTreeMap<u32, &SweepChunk> = chunks.iter().map(|chunk| (chunk.chunk, chunk)).collect();
        for shard in folder.shards()? {
            let fault = match check {
                Some(check) => check.fault(&shard, numbered.get(&shard.chunk).copied()),
                None => match digest_of(&shard.path) {
                    Ok(digest) if digest == shard.digest => None,
                    _ => Some(CHANGED.to_owned()),
                },
            };
            let durations = shard.open().and_then(|store| store.durations()).map_err(|error| error.fault());
            match durations.and_then(|durations| fault.map_or(Ok(durations), Err)) {
                Ok(durations) => {
                    let counted = counted.entry(shard.chunk).or_default();
                    let new = durations
                        .into_iter()
                        .filter(|(run, took_s)| counted.insert((run.clone(), took_s.to_bits())));
                    used_s += new.map(|(_, took_s)| took_s).sum::<f64>();
                    if shard.is_whole {
                        whole.insert(shard.chunk)
                    } else {
                        parts.insert(shard.chunk)
                    };
                }
                Err(error) => {
                    let name = shard.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    unreadable.insert(name, error);
                }
            }
        }
        // Parts have some of the runs of a chunk.
        let left_s = |chunk: &SweepChunk| {
            let made: BTreeSet<&str> =
                counted.get(&chunk.chunk).into_iter().flatten().map(|(run, _)| run.as_str()).collect();
            let planned = chunk.count().max(1);
            chunk.work_s * planned.saturating_sub(made.len()) as f64 / planned as f64
        };
        let missing: Vec<_> = chunks.iter().filter(|chunk| !whole.contains(&chunk.chunk)).collect();
        let is_missing = |number| numbered.contains_key(&number) && !whole.contains(&number);
        // A task may name chunks that are done, and more than there are.
        let at_engine = |chunks: &BTreeSet<u32>| chunks.iter().filter(|chunk| is_missing(**chunk)).count();
        let failed = folder.failure_logs()?.into_iter().filter(|log| is_missing(log.chunk));
        let last: BTreeMap<u32, FailureLog> = failed.map(|log| (log.chunk, log)).collect();
        Ok(Self {
            sweep: manifest.sweep.clone(),
            experiment: manifest.experiment.clone(),
            build: manifest.build.clone(),
            chunks: chunks.len(),
            done: chunks.len() - missing.len(),
            partial: parts.difference(&whole).count(),
            running: tasks.map(|tasks| at_engine(&tasks.running)),
            waiting: tasks.map(|tasks| at_engine(&tasks.waiting)),
            missing: missing.len(),
            missing_chunks: ranges(&missing.iter().map(|chunk| chunk.chunk).collect::<Vec<_>>()),
            used_h: used_s / 3600.0,
            left_h: missing.iter().map(|chunk| left_s(chunk)).fold(0.0, |sum, left_s| sum + left_s) / 3600.0,
            unreadable,
            failed: last.into_iter().map(|(chunk, log)| (chunk, log.text())).collect(),
        })
    }

    /// The state as text.
    pub fn text(&self) -> String {
        let mut text = format!("sweep {} of {}, netrig {}\n\n", self.sweep, self.experiment, self.build);
        let mut table = AlignedTable::list("lrl");
        let count = |count: Option<usize>| count.map_or("unknown".to_owned(), |count| count.to_string());
        let rows = [
            ("chunks", self.chunks.to_string(), ""),
            ("done", self.done.to_string(), "a whole shard is there"),
            ("running", count(self.running), "as the engine says"),
            ("waiting", count(self.waiting), "as the engine says; at kubernetes also those that run"),
            ("missing", self.missing.to_string(), "no whole shard yet"),
            ("failed", self.failed.len().to_string(), "missing, and an attempt left a log"),
        ];
        for (name, value, note) in rows {
            table.row([name.to_owned(), value, note.to_owned()]);
        }
        table.write(&mut text);
        text += &format!("\n{:.2} core-hours used, about {:.2} left\n", self.used_h, self.left_h);
        if self.missing > 0 {
            text += &format!("\nmissing: {}\n", self.missing_chunks);
        }
        for (name, why) in &self.unreadable {
            text += &format!("\nshard {name}: {why}\n");
        }
        for (chunk, log) in &self.failed {
            text += &format!("\nchunk {chunk} failed:\n");
            for line in log.lines() {
                text += &format!("  {line}\n");
            }
        }
        text
    }
}
