//! Chunks: runs that one task of an engine makes.

use netrig_runner::PlannedRun;
use serde::{Deserialize, Serialize};

/// Default work of a chunk, s. Engines need seconds to start a task, and a lost task costs its chunk.
pub const USUAL_CHUNK_S: f64 = 45.0;

/// Chunks for each slot, so that the last ones end at about the same time.
const CHUNKS_PER_SLOT: f64 = 8.0;

/// The most work of a chunk, s: thirty years.
const LONGEST_S: f64 = 1e9;

/// Runs that one task makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepChunk {
    /// Its number in the sweep, from 1.
    pub chunk: u32,
    /// Its runs.
    pub runs: Vec<RunRange>,
    /// The estimated work, s.
    pub work_s: f64,
}

/// One replication of consecutive points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRange {
    /// The replication, from 1.
    pub replication: u32,
    /// The index of the first point in the plan.
    pub first: usize,
    /// The index of the last point.
    pub last: usize,
}

/// The size of chunks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChunkSize {
    /// Work of a chunk, s; `None` for about [`USUAL_CHUNK_S`], or less if that gives fewer than eight chunks for each slot.
    pub work_s: Option<f64>,
    /// The slots of the engine, if known.
    pub slots: Option<u32>,
}

impl SweepChunk {
    /// The number of its runs.
    pub fn count(&self) -> usize {
        let of = |range: &RunRange| range.last.saturating_sub(range.first).saturating_add(1);
        self.runs.iter().map(of).fold(0, usize::saturating_add)
    }

    /// The runs, in order.
    pub fn planned(&self) -> impl Iterator<Item = PlannedRun> {
        let of = |range: &RunRange| {
            let replication = range.replication;
            (range.first..=range.last).map(move |point| PlannedRun { point, replication })
        };
        self.runs.iter().flat_map(of)
    }

    /// What cannot be in a chunk of an experiment with this number of points, as a sentence; `None` if the chunk is sound.
    pub(crate) fn fault(&self, points: usize) -> Option<String> {
        let number = self.chunk;
        if let Some(run) = self.runs.iter().find(|run| run.last >= points) {
            return Some(format!(
                "chunk {number} has point {}, and the experiment has {points}",
                run.last.saturating_add(1)
            ));
        }
        if self.runs.iter().any(|run| run.replication == 0 || run.first > run.last) {
            return Some(format!("chunk {number} has a range of runs that is none"));
        }
        (!(0.0..=LONGEST_S).contains(&self.work_s)).then(|| {
            format!("chunk {number} has {} s of work, and {LONGEST_S:.0e} s are the most", self.work_s)
        })
    }

    fn add(&mut self, run: PlannedRun, work_s: f64) {
        self.work_s += work_s;
        match self.runs.last_mut() {
            Some(range) if range.replication == run.replication && range.last + 1 == run.point => {
                range.last = run.point;
            }
            _ => self.runs.push(RunRange { replication: run.replication, first: run.point, last: run.point }),
        }
    }
}

impl ChunkSize {
    /// Work of a chunk for this work in all, s.
    fn work_s(self, total_s: f64) -> f64 {
        let share = |slots: u32| total_s / (CHUNKS_PER_SLOT * f64::from(slots.max(1)));
        self.work_s
            .unwrap_or_else(|| self.slots.map_or(USUAL_CHUNK_S, |slots| share(slots).min(USUAL_CHUNK_S)))
    }
}

/// Cuts runs into chunks of about equal work. `work_s` is the work of a run at a point, s. The chunks are numbered from `first`.
pub fn cut(
    runs: &[PlannedRun],
    work_s: impl Fn(usize) -> f64,
    size: ChunkSize,
    first: u32,
) -> Vec<SweepChunk> {
    let total_s: f64 = runs.iter().map(|run| work_s(run.point)).sum();
    let chunk_s = size.work_s(total_s);
    // Equal chunks, rather than full ones and a short one.
    let count = (total_s / chunk_s).ceil().clamp(1.0, runs.len().max(1) as f64);
    let share_s = total_s / count;
    let (mut chunks, mut done_s, mut filled) = (Vec::<SweepChunk>::new(), 0.0, None);
    for run in runs {
        // A run belongs to the chunk in which its middle lies.
        let cost_s = work_s(run.point);
        let place = if share_s > 0.0 { ((done_s + cost_s / 2.0) / share_s) as u64 } else { 0 };
        done_s += cost_s;
        if filled.replace(place) != Some(place) {
            let chunk = first.saturating_add(chunks.len() as u32);
            chunks.push(SweepChunk { chunk, runs: Vec::new(), work_s: 0.0 });
        }
        if let Some(last) = chunks.last_mut() {
            last.add(*run, cost_s);
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(points: usize, replications: u32) -> Vec<PlannedRun> {
        let of = |replication| (0..points).map(move |point| PlannedRun { point, replication });
        (1..=replications).flat_map(of).collect()
    }

    fn size(work_s: Option<f64>, slots: Option<u32>) -> ChunkSize {
        ChunkSize { work_s, slots }
    }

    #[test]
    fn chunks_have_each_run_once_and_about_equal_work() {
        let runs = runs(7, 3);
        let chunks = cut(&runs, |point| 1.0 + point as f64, size(Some(10.0), None), 4);
        let all: Vec<_> = chunks.iter().flat_map(SweepChunk::planned).collect();
        assert_eq!(all, runs);
        let numbers: Vec<_> = chunks.iter().map(|chunk| chunk.chunk).collect();
        assert_eq!(numbers, (4..13).collect::<Vec<_>>(), "84 s in chunks of at most 10 s are 9");
        assert!(chunks.iter().all(|chunk| (3.0..=14.0).contains(&chunk.work_s)), "{chunks:?}");
        let text = serde_json::to_string(&chunks[0]).unwrap();
        assert_eq!(text, r#"{"chunk":4,"runs":[{"replication":1,"first":0,"last":3}],"work_s":10.0}"#);
    }

    #[test]
    fn each_known_slot_gets_eight_chunks_if_the_work_is_little() {
        let runs = runs(1000, 1);
        let count = |size| cut(&runs, |_| 0.9, size, 1).len();
        assert_eq!(count(size(None, None)), 20, "900 s in 45 s");
        assert_eq!(count(size(None, Some(2))), 20, "16 are enough");
        assert_eq!(count(size(None, Some(10))), 80);
        assert_eq!(count(size(Some(2.0), Some(10))), 450, "what was asked is not changed");
    }

    #[test]
    fn a_run_that_is_longer_than_a_chunk_is_one() {
        let lengths = [100.0, 1.0, 1.0];
        let chunks = cut(&runs(3, 1), |point| lengths[point], size(Some(2.0), None), 1);
        assert_eq!(chunks.iter().map(|chunk| chunk.runs.len()).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(chunks.iter().flat_map(SweepChunk::planned).count(), 3);
        let free = cut(&runs(3, 2), |_| 0.0, size(None, None), 1);
        assert_eq!(free.len(), 1, "runs that take no time are one chunk");
        assert!(cut(&[], |_| 1.0, size(None, None), 1).is_empty());
    }
}
