//! The folder of a sweep: the files that a chunk needs, and the published shards.
//!
//! | file | contents |
//! |---|---|
//! | `sweep.json` | the manifest |
//! | `experiment.toml` | the experiment, with the contents of the files that it names |
//! | `netrig` | the executable |
//! | `job` | the name of the jobs at an engine |
//! | `engine.json` | the engine of the last submitter |
//! | `chunks.jsonl` | chunk K on line K; who has the lock writes it anew |
//! | `shards/K.ATTEMPT.DIGEST.db` | a store with all runs of chunk K; the digest is that of the file |
//! | `parts/K.ATTEMPT.DIGEST.db` | a store with some of them |
//! | `logs/K.ATTEMPT.log` | why an attempt at chunk K failed |
//!
//! ATTEMPT is a name that no other attempt has. In the name of a shard, the largest memory of its process follows: `node1-5d3a-40MiB`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use netrig_core::text::hex;
use netrig_experiment::Experiment;
use netrig_store::{Store, StoreError};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{SweepChunk, SweepError};

/// Follows the memory of an attempt in the name of its shard, MiB.
const MEMORY_UNIT: &str = "MiB";

/// The file that a folder has until it is complete.
const UNFINISHED: &str = ".unfinished";

/// The end of the name of a shard or a log that is being written.
const NEW: &str = ".new";

/// The file that a submitter locks.
const SUBMITTER: &str = "submitter.lock";

/// The form of the folder.
const FORM: u32 = 1;

/// Time that a node waits for a chunk that the list does not have yet: network file systems show a new list late.
const LIST_DELAY: Duration = Duration::from_secs(15);
const LIST_STEP: Duration = Duration::from_millis(500);

/// The values that determine the runs of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepManifest {
    /// The form of the folder, 1.
    pub form: u32,
    /// The sweep: the first 12 hexadecimal digits of the SHA-256 of the experiment's text and of the fields below.
    pub sweep: String,
    /// The experiment's name.
    pub experiment: String,
    /// Version and commit of netrig.
    pub build: String,
    /// The substrate.
    pub substrate: String,
    /// Levels that differ from the file's: `down_for=10s,20s`.
    pub set: Vec<String>,
    /// Replications of each point; absent for the file's rule.
    pub replications: Option<u32>,
    /// Seed of the first replication; absent for the file's.
    pub seed: Option<u64>,
    /// Memory limit of a run, bytes.
    pub memory: u64,
    /// Whether the time series and the notes of runs are kept.
    pub traced: bool,
}

/// The folder of a sweep.
#[derive(Clone, Debug)]
pub struct SweepFolder {
    path: PathBuf,
    manifest: SweepManifest,
    job: String,
}

/// A shard that was published.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    /// The chunk.
    pub chunk: u32,
    /// Whether it has all runs of the chunk.
    pub is_whole: bool,
    /// The first digits of the SHA-256 of the published file, in hexadecimal.
    pub digest: String,
    /// Its file.
    pub path: PathBuf,
}

impl Shard {
    /// Opens it. A shard is not changed after it was published, so it needs no lock of the file system.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(&self) -> Result<Store, StoreError> {
        Store::open_sealed(&self.path)
    }

    /// The largest memory of the process that made it, bytes, if its name has it.
    pub fn memory(&self) -> Option<u64> {
        let name = self.path.file_name()?.to_str()?;
        let mebibytes = name.split('.').nth(1)?.rsplit_once('-')?.1.strip_suffix(MEMORY_UNIT)?;
        mebibytes.parse::<u64>().ok()?.checked_mul(1 << 20)
    }
}

/// The log of an attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailureLog {
    /// The chunk.
    pub chunk: u32,
    /// Time of the last change.
    pub changed: SystemTime,
    /// The file.
    pub path: PathBuf,
}

impl FailureLog {
    /// Its text; empty if it has vanished.
    pub fn text(&self) -> String {
        fs::read_to_string(&self.path).unwrap_or_default().trim().to_owned()
    }
}

/// The engine that a sweep was last submitted to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineRecord {
    /// Its name, or `command` with the template.
    pub via: String,
    /// Options that are passed to it.
    pub options: Vec<String>,
    /// The slots that were stated.
    pub slots: Option<u32>,
}

/// The right to submit a sweep. It ends when it is dropped, and with its process.
#[derive(Debug)]
pub struct SubmitterLock {
    _file: File,
}

impl SweepManifest {
    /// The manifest, with the digest of the sweep for this text of the experiment.
    #[must_use]
    pub fn named(mut self, text: &str) -> Self {
        self.form = FORM;
        self.sweep = String::new();
        let fields = serde_json::to_string(&self).expect("strings and numbers always have a JSON form");
        let mut hash = Sha256::new();
        for part in [text, &fields] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        self.sweep = hex(&hash.finalize()[..6]);
        self
    }
}

impl SweepFolder {
    /// Creates the folder, or opens it if it belongs to the same sweep. `put_executable` writes netrig at the path that it is given.
    ///
    /// # Errors
    /// [`SweepError::OtherSweep`], [`SweepError::Occupied`], or if a file cannot be written.
    pub fn create(
        path: &Path,
        manifest: SweepManifest,
        text: &str,
        put_executable: impl FnOnce(&Path) -> std::io::Result<()>,
    ) -> Result<Self, SweepError> {
        let manifest = manifest.named(text);
        let folder = Self { path: path.to_owned(), job: job(path, &manifest), manifest };
        if let Some(found) = folder.found()? {
            return Ok(found);
        }
        let unfinished = path.join(UNFINISHED);
        let is_own = |file: &PathBuf| file.ends_with(SUBMITTER);
        if !files(path).unwrap_or_default().iter().all(is_own) && !unfinished.exists() {
            // Another process may have completed it since the first look.
            return folder.found()?.ok_or_else(|| SweepError::Occupied(path.to_owned()));
        }
        fs::create_dir_all(path).map_err(SweepError::io("create", path))?;
        // Another process that creates it writes its own name of the jobs.
        let _lock = folder.lock()?;
        if let Some(found) = folder.found()? {
            return Ok(found);
        }
        File::create(&unfinished).map_err(SweepError::io("write", &unfinished))?;
        for part in [folder.shards_path(), folder.parts_path(), folder.logs_path()] {
            fs::create_dir_all(&part).map_err(SweepError::io("create", &part))?;
        }
        folder.write("experiment.toml", text.as_bytes())?;
        let executable = folder.executable();
        let new = folder.path.join(format!(".netrig.{}", std::process::id()));
        put_executable(&new).and_then(|()| fs::rename(&new, &executable)).map_err(|error| {
            // It may not exist.
            let _ = fs::remove_file(&new);
            SweepError::io("write", &executable)(error)
        })?;
        folder.write("job", folder.job.as_bytes())?;
        // The manifest comes last: a folder that has one is complete.
        let manifest = serde_json::to_string_pretty(&folder.manifest);
        let manifest = manifest.expect("strings and numbers always have a JSON form") + "\n";
        folder.write("sweep.json", manifest.as_bytes())?;
        // It marks a folder that is not complete, and this one is.
        let _ = fs::remove_file(unfinished);
        Ok(folder)
    }

    /// The folder at this path if it is complete; `None` if it is not.
    fn found(&self) -> Result<Option<Self>, SweepError> {
        match Self::open(&self.path) {
            Ok(found) if found.manifest == self.manifest => Ok(Some(found)),
            Ok(found) => Err(SweepError::OtherSweep {
                path: self.path.clone(),
                theirs: found.manifest.sweep,
                ours: self.manifest.sweep.clone(),
            }),
            Err(_) if !self.manifest_path().exists() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the folder of a sweep.
    ///
    /// # Errors
    /// [`SweepError::NotASweep`], or if its manifest cannot be read.
    pub fn open(path: &Path) -> Result<Self, SweepError> {
        let not = |why: String| SweepError::NotASweep { path: path.to_owned(), why };
        let manifest = path.join("sweep.json");
        let text = match fs::read_to_string(&manifest) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Err(not("it has no sweep.json".to_owned()));
            }
            Err(error) => return Err(SweepError::io("read", &manifest)(error)),
        };
        let form = serde_json::from_str::<serde_json::Value>(&text).ok().and_then(|all| all["form"].as_u64());
        if form.is_some_and(|form| form > u64::from(FORM)) {
            return Err(not("a newer netrig made it".to_owned()));
        }
        let manifest = serde_json::from_str(&text).map_err(|error| not(format!("sweep.json: {error}")))?;
        let job = path.join("job");
        let job = fs::read_to_string(&job).map_err(SweepError::io("read", &job))?;
        Ok(Self { path: path.to_owned(), manifest, job })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name of its jobs at an engine, which no other folder has: of the same sweep there may be several.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// The values that determine the runs.
    pub const fn manifest(&self) -> &SweepManifest {
        &self.manifest
    }

    /// The executable for the nodes.
    pub fn executable(&self) -> PathBuf {
        self.path.join("netrig")
    }

    /// The folder of the logs.
    pub fn logs_path(&self) -> PathBuf {
        self.path.join("logs")
    }

    fn shards_path(&self) -> PathBuf {
        self.path.join("shards")
    }

    fn parts_path(&self) -> PathBuf {
        self.path.join("parts")
    }

    fn manifest_path(&self) -> PathBuf {
        self.path.join("sweep.json")
    }

    fn chunks_path(&self) -> PathBuf {
        self.path.join("chunks.jsonl")
    }

    /// Refuses a folder of another build.
    ///
    /// # Errors
    /// [`SweepError::OtherBuild`].
    pub fn check_build(&self, build: &str) -> Result<(), SweepError> {
        if self.manifest.build == build {
            return Ok(());
        }
        let (path, theirs) = (self.path.clone(), self.manifest.build.clone());
        Err(SweepError::OtherBuild { path, theirs, ours: build.to_owned() })
    }

    /// The text of the experiment.
    ///
    /// # Errors
    /// If the file cannot be read, or is not the one of the manifest.
    pub fn experiment_text(&self) -> Result<String, SweepError> {
        let path = self.path.join("experiment.toml");
        let text = fs::read_to_string(&path).map_err(SweepError::io("read", &path))?;
        if self.manifest.clone().named(&text).sweep == self.manifest.sweep {
            return Ok(text);
        }
        let why = "experiment.toml or sweep.json was changed after the split".to_owned();
        Err(SweepError::NotASweep { path: self.path.clone(), why })
    }

    /// Locks the sweep for its submitter.
    ///
    /// # Errors
    /// [`SweepError::Busy`] if another process has the lock.
    pub fn lock(&self) -> Result<SubmitterLock, SweepError> {
        let path = self.path.join(SUBMITTER);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(SweepError::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(SubmitterLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(SweepError::Busy(self.path.clone())),
            // A file system without locks: a second submitter costs time, but changes no result.
            Err(TryLockError::Error(error)) if has_no_locks(&error) => Ok(SubmitterLock { _file: file }),
            Err(TryLockError::Error(error)) => Err(SweepError::io("lock", &path)(error)),
        }
    }

    /// Notes the engine that the sweep is submitted to.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn note_engine(&self, engine: &EngineRecord) -> Result<(), SweepError> {
        let text = serde_json::to_string(engine).expect("strings and numbers always have a JSON form");
        self.write("engine.json", text.as_bytes())
    }

    /// The engine that the sweep was last submitted to.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn engine(&self) -> Result<Option<EngineRecord>, SweepError> {
        let path = self.path.join("engine.json");
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| SweepError::NotASweep {
                path: self.path.clone(),
                why: format!("engine.json: {error}"),
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(SweepError::io("read", &path)(error)),
        }
    }

    /// All chunks, in order.
    ///
    /// # Errors
    /// If the list cannot be read or is damaged.
    pub fn chunks(&self) -> Result<Vec<SweepChunk>, SweepError> {
        (1..).zip(self.chunk_list()?.lines()).map(|(number, line)| self.read_chunk(number, line)).collect()
    }

    /// All chunks, in order, with points that the experiment has.
    ///
    /// # Errors
    /// As [`Self::chunks`], and if a chunk has other points.
    pub(crate) fn sound_chunks(&self, experiment: &Experiment) -> Result<Vec<SweepChunk>, SweepError> {
        let (chunks, points) = (self.chunks()?, experiment.plan().len());
        match chunks.iter().find_map(|chunk| chunk.fault(points)) {
            Some(why) => Err(SweepError::NotASweep { path: self.path.clone(), why }),
            None => Ok(chunks),
        }
    }

    /// One chunk. If the list does not have it, waits for a while: on a network file system the list may be an old one.
    ///
    /// # Errors
    /// [`SweepError::NoChunk`], or as [`Self::chunks`].
    pub fn chunk(&self, number: u32) -> Result<SweepChunk, SweepError> {
        let mut waited = Duration::ZERO;
        loop {
            let list = self.chunk_list()?;
            let place = number.checked_sub(1);
            if let Some(line) = place.and_then(|place| list.lines().nth(place as usize)) {
                return self.read_chunk(number, line);
            }
            if number == 0 || waited >= LIST_DELAY {
                let known = list.lines().count();
                return Err(SweepError::NoChunk { path: self.path.clone(), chunk: number, known });
            }
            std::thread::sleep(LIST_STEP);
            waited += LIST_STEP;
        }
    }

    /// The complete lines of the list of chunks.
    fn chunk_list(&self) -> Result<String, SweepError> {
        let path = self.chunks_path();
        match fs::read_to_string(&path) {
            Ok(mut text) => {
                // Where a rename is not atomic, a part of the list may be seen.
                text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
                Ok(text)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(SweepError::io("read", &path)(error)),
        }
    }

    /// The chunk of a line. Chunk K is on line K.
    fn read_chunk(&self, number: u32, line: &str) -> Result<SweepChunk, SweepError> {
        let wrong = |why: String| SweepError::NotASweep {
            path: self.path.clone(),
            why: format!("chunks.jsonl, line {number}: {why}"),
        };
        let chunk: SweepChunk = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        if chunk.chunk == number { Ok(chunk) } else { Err(wrong(format!("it has chunk {}", chunk.chunk))) }
    }

    /// Adds chunks to the list. The caller has the lock.
    ///
    /// # Errors
    /// [`SweepError::Busy`] if another submitter has added chunks meanwhile, or if the list cannot be written.
    pub fn add_chunks(&self, chunks: &[SweepChunk]) -> Result<(), SweepError> {
        let mut all = self.chunks()?;
        let next = all.last().map_or(1, |last| last.chunk + 1);
        if chunks.first().is_some_and(|first| first.chunk != next) {
            // Where locks do not work, each of two submitters would give a number to other runs.
            return Err(SweepError::Busy(self.path.clone()));
        }
        all.extend_from_slice(chunks);
        let mut text = String::new();
        for chunk in &all {
            text += &serde_json::to_string(chunk).expect("numbers always have a JSON form");
            text.push('\n');
        }
        // A whole file in the place of the old one: a killed submitter leaves no half line.
        self.write("chunks.jsonl", text.as_bytes())
    }

    /// Makes a network file system read the list of shards anew: it keeps an old one for up to a minute, but not beyond a change of its
    /// own client.
    pub fn refresh(&self) {
        let look = self.shards_path().join(format!(".look.{}", std::process::id()));
        // Without the right to write, the list is as late as the file system makes it.
        if File::create(&look).is_ok() {
            let _ = fs::remove_file(&look);
        }
    }

    /// The files of the folder itself.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>, SweepError> {
        files(&self.path)
    }

    /// The shards that are published, by chunk. Files of other names are left out.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn shards(&self) -> Result<Vec<Shard>, SweepError> {
        let whole = files(&self.shards_path())?.into_iter().filter_map(|path| shard(path, true));
        let mut shards: Vec<_> = whole.chain(self.parts()?).collect();
        shards.sort();
        Ok(shards)
    }

    /// The shards with some of the runs of their chunks.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn parts(&self) -> Result<Vec<Shard>, SweepError> {
        Ok(files(&self.parts_path())?.into_iter().filter_map(|path| shard(path, false)).collect())
    }

    /// The logs of failed attempts, by chunk and time.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn failure_logs(&self) -> Result<Vec<FailureLog>, SweepError> {
        let log = |path: PathBuf| {
            let name = path.file_name()?.to_str()?;
            let chunk = name.strip_suffix(".log")?.split('.').next()?.parse().ok()?;
            let changed = fs::metadata(&path).and_then(|file| file.modified()).unwrap_or(UNIX_EPOCH);
            Some(FailureLog { chunk, changed, path })
        };
        let mut logs: Vec<_> = files(&self.logs_path())?.into_iter().filter_map(log).collect();
        logs.sort();
        Ok(logs)
    }

    /// Publishes a closed store as the shard of a chunk: copied beside its place, synchronised, and renamed. `memory` is the largest one
    /// of the process that made it, bytes.
    ///
    /// # Errors
    /// If the shard cannot be written. Nothing is left of it then.
    pub fn publish(
        &self,
        chunk: u32,
        attempt: &str,
        is_whole: bool,
        store: &Path,
        memory: u64,
    ) -> Result<PathBuf, SweepError> {
        let folder = if is_whole { self.shards_path() } else { self.parts_path() };
        let digest = digest_of(store).map_err(SweepError::io("read", store))?;
        let (attempt, memory) = (attempt.replace('.', "-"), memory.div_ceil(1 << 20));
        let place = folder.join(format!("{chunk}.{attempt}-{memory}{MEMORY_UNIT}.{digest}.db"));
        let new = folder.join(format!(".{chunk}.{attempt}{NEW}"));
        let copied = fs::copy(store, &new)
            .and_then(|_| File::open(&new)?.sync_all())
            .and_then(|()| fs::rename(&new, &place));
        copied.map_err(|error| {
            // It may not exist.
            let _ = fs::remove_file(&new);
            SweepError::io("write", &place)(error)
        })?;
        Ok(place)
    }

    /// Removes what attempts that were killed have written in part. No other attempt is needed: the sweep is complete.
    pub(crate) fn remove_unfinished(&self) {
        for folder in [self.shards_path(), self.parts_path(), self.logs_path()] {
            for path in files(&folder).unwrap_or_default() {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if name.starts_with('.') && name.ends_with(NEW) {
                    // Another process may have removed it.
                    let _ = fs::remove_file(path);
                }
            }
        }
    }

    /// Keeps the reason why an attempt failed.
    ///
    /// # Errors
    /// If the log cannot be written.
    pub fn add_failure(&self, chunk: u32, attempt: &str, text: &str) -> Result<(), SweepError> {
        let path = self.logs_path().join(format!("{chunk}.{attempt}.log"));
        let new = self.logs_path().join(format!(".{chunk}.{attempt}{NEW}"));
        // A log that appears is complete.
        fs::write(&new, text).and_then(|()| fs::rename(&new, &path)).map_err(SweepError::io("write", &path))
    }

    /// Writes a file whole.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), SweepError> {
        let place = self.path.join(name);
        let new = self.path.join(format!(".{name}.{}", std::process::id()));
        let written = File::create(&new)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&new, &place));
        written.map_err(|error| {
            let _ = fs::remove_file(&new);
            SweepError::io("write", &place)(error)
        })
    }
}

/// A name for the jobs of a new folder.
fn job(path: &Path, manifest: &SweepManifest) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let created = format!("{} {} {}", path.display(), std::process::id(), now.as_nanos());
    format!("netrig-{}-{}", manifest.sweep, hex(&Sha256::digest(created)[..3]))
}

/// Whether the file system has no locks: it knows none, or the lock service of an NFS server does not run (ENOLCK).
pub(crate) fn has_no_locks(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::Unsupported || error.raw_os_error() == Some(Errno::NOLCK.raw_os_error())
}

/// The files of a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>, SweepError> {
    let list = || fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>();
    list().map_err(SweepError::io("list", folder))
}

fn shard(path: PathBuf, is_whole: bool) -> Option<Shard> {
    let mut words = path.file_name()?.to_str()?.strip_suffix(".db")?.split('.');
    let (chunk, attempt, digest) = (words.next()?.parse().ok()?, words.next()?, words.next()?.to_owned());
    if attempt.is_empty() || words.next().is_some() {
        return None;
    }
    Some(Shard { chunk, is_whole, digest, path })
}

/// The first 16 hexadecimal digits of a file's SHA-256.
pub(crate) fn digest_of(path: &Path) -> std::io::Result<String> {
    let (mut file, mut hash, mut piece) = (File::open(path)?, Sha256::new(), vec![0; 64 << 10]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hex(&hash.finalize()[..8])),
            read => hash.update(&piece[..read]),
        }
    }
}
