//! Records of a load: a line of JSON per attempt.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use netrig_core::{Duration, Instant};
use netrig_sip::index::Delay;
use netrig_sip::load::{Record, Side};
use netrig_sip_net::tap::{KeptRecords, MessageTap, MessageTaps, PassedMessage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::files::{KeepError, made};

/// A batch of at least this size is sent to the writer, bytes.
const FULL: usize = 64 << 10;

/// The largest number of batches that wait for the writer.
const MOST_WAITING: usize = 256;

/// An attempt of a load, as a line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordLine {
    /// Call-ID up to the `@`; for a callee its tag in To.
    pub call: String,
    /// `caller` or `callee`.
    pub side: String,
    /// Kind of attempt: `call`, `register` and so on, or `scenario`.
    pub what: String,
    /// Number of the user, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
    /// Scheduled start, s of the load's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begins_s: Option<f64>,
    /// Last final status of its first request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Reason of its failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Delays, µs; for a scenario `call`, its duration.
    pub delays_us: BTreeMap<String, f64>,
}

impl RecordLine {
    fn of(record: &Record) -> Self {
        let delays =
            Delay::ALL.iter().filter_map(|delay| Some((delay.name().to_owned(), micros(delay.of(record)?))));
        let begins = record.stamps.intended;
        Self {
            call: String::from_utf8_lossy(&record.token.digits()).into_owned(),
            side: side_name(record.side).to_owned(),
            what: record.what.name().to_owned(),
            user: (record.user != u32::MAX).then_some(record.user),
            begins_s: (begins != Instant::NEVER).then(|| begins.since(Instant::ZERO).as_secs_f64()),
            status: (record.status > 0).then_some(record.status),
            failure: record.failure.map(|failure| failure.to_string()),
            delays_us: delays.collect(),
        }
    }
}

fn side_name(side: Side) -> &'static str {
    if side == Side::Callee { "callee" } else { "caller" }
}

fn micros(span: Duration) -> f64 {
    span.as_nanos() as f64 / 1e3
}

/// Writes a line per attempt. If [`RecordWriter::finish`] is not called, the file ends after the last written batch.
pub struct RecordWriter {
    batches: SyncSender<(u64, Vec<u8>)>,
    dropped: Arc<AtomicU64>,
    file: PathBuf,
    writer: JoinHandle<(u64, Option<String>)>,
}

impl RecordWriter {
    /// Creates the file and starts the thread.
    ///
    /// # Errors
    /// If the file exists or cannot be created, or the thread cannot start.
    pub fn begin(path: &Path) -> Result<Self, KeepError> {
        let file = made(path)?;
        let (batches, waiting) = sync_channel(MOST_WAITING);
        let write = move || {
            let mut file: BufWriter<File> = file;
            let (mut written, mut fault) = (0, None);
            for (count, bytes) in waiting {
                let bytes: Vec<u8> = bytes;
                if fault.is_some() {
                    continue;
                }
                match file.write_all(&bytes).and_then(|()| file.flush()) {
                    Ok(()) => written += count,
                    Err(error) => fault = Some(format!("writing ended: {error}")),
                }
            }
            (written, fault)
        };
        let thread = std::thread::Builder::new().name("sip-records".into());
        let writer = thread.spawn(write).map_err(KeepError::NoThread)?;
        Ok(Self { batches, dropped: Arc::default(), file: path.to_owned(), writer })
    }

    /// Waits until all lines are written.
    ///
    /// # Panics
    /// If the writer's thread panicked.
    pub fn finish(self) -> KeptRecords {
        let Self { batches, dropped, file, writer } = self;
        drop(batches);
        let (records, fault) = writer.join().expect("the writer does not panic");
        KeptRecords { file, records, dropped: dropped.load(Ordering::Relaxed), fault }
    }
}

impl MessageTaps for RecordWriter {
    fn tap(&self) -> Box<dyn MessageTap> {
        let (batches, dropped) = (self.batches.clone(), Arc::clone(&self.dropped));
        Box::new(RecordTap { lines: Vec::new(), count: 0, batches, dropped })
    }
}

/// The tap of one thread, which collects lines of the file.
struct RecordTap {
    lines: Vec<u8>,
    count: u64,
    batches: SyncSender<(u64, Vec<u8>)>,
    dropped: Arc<AtomicU64>,
}

impl RecordTap {
    fn put(&mut self, line: &RecordLine) {
        // Writing to memory does not fail, and each value can be serialised.
        let _ = serde_json::to_writer(&mut self.lines, line);
        self.lines.push(b'\n');
        self.count += 1;
        if self.lines.len() >= FULL {
            self.hand_on();
        }
    }
}

impl MessageTap for RecordTap {
    fn message(&mut self, _: &PassedMessage<'_>) {}

    fn ended(&mut self, record: &Record) {
        self.put(&RecordLine::of(record));
    }

    fn call_ended(&mut self, side: Side, call_id: &str, failure: Option<&str>, lasted: Duration) {
        self.put(&RecordLine {
            call: call_id.split('@').next().unwrap_or_default().to_owned(),
            side: side_name(side).to_owned(),
            what: "scenario".to_owned(),
            user: None,
            begins_s: None,
            status: None,
            failure: failure.map(str::to_owned),
            delays_us: BTreeMap::from([("call".to_owned(), micros(lasted))]),
        });
    }

    fn hand_on(&mut self) {
        let (count, lines) = (std::mem::take(&mut self.count), std::mem::take(&mut self.lines));
        if count == 0 {
            return;
        }
        if let Err(TrySendError::Full((lost, _)) | TrySendError::Disconnected((lost, _))) =
            self.batches.try_send((count, lines))
        {
            self.dropped.fetch_add(lost, Ordering::Relaxed);
        }
    }
}

impl Drop for RecordTap {
    fn drop(&mut self) {
        // The load has ended, so the thread may wait for room in the channel.
        let _ = self.batches.send((self.count, std::mem::take(&mut self.lines)));
    }
}
