//! The keeper's thread: decides which messages to keep, and writes them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::Receiver;

use netrig_core::Duration;
use netrig_sip_net::tap::KeptMessages;

use super::batch::{AttemptKey, Batch, EndedAttempt, MessageEvent, TapEvent};
use super::files::KeepFiles;
use netrig_sip_net::KeepPolicy;

/// The largest memory for messages whose attempt has not ended, bytes.
const MOST_PENDING: usize = 256 << 20;

/// Estimated memory of a message in addition to its bytes, bytes.
const OVERHEAD: usize = 160;

/// The largest number of ended attempts whose decision is stored, so that their late messages are treated like the
/// earlier ones.
const MOST_KNOWN: usize = 1 << 16;

/// A message in memory.
type Pending = (MessageEvent, Box<[u8]>);

pub(super) struct Writer {
    policy: KeepPolicy,
    files: KeepFiles,
    /// Messages of open attempts.
    open: BTreeMap<AttemptKey, Vec<Pending>>,
    /// Attempts in the order of their starts, including some that have ended.
    order: VecDeque<AttemptKey>,
    pending_bytes: usize,
    /// Attempts that are decided, and whether they are kept.
    known: BTreeMap<AttemptKey, bool>,
    known_order: VecDeque<AttemptKey>,
    /// The slowest attempts so far, in ascending order.
    slowest: BTreeMap<(Duration, AttemptKey), Vec<Pending>>,
    /// Number of kept attempts.
    attempts: u64,
    without_room: u64,
}

impl Writer {
    pub fn new(policy: KeepPolicy, files: KeepFiles) -> Self {
        Self {
            policy,
            files,
            open: BTreeMap::new(),
            order: VecDeque::new(),
            pending_bytes: 0,
            known: BTreeMap::new(),
            known_order: VecDeque::new(),
            slowest: BTreeMap::new(),
            attempts: 0,
            without_room: 0,
        }
    }

    /// Writes the messages of all batches until every sender is dropped.
    pub fn run(mut self, waiting: &Receiver<Batch>) -> KeptMessages {
        for batch in waiting {
            for (event, bytes) in batch.iter() {
                match event {
                    TapEvent::Message(message) => self.message(*message, bytes),
                    TapEvent::Ended(ended) => self.ended(*ended),
                }
            }
            // A reader of the files sees all messages of the batch.
            self.files.flush();
        }
        self.finish()
    }

    fn message(&mut self, message: MessageEvent, bytes: &[u8]) {
        match (self.policy, message.attempt) {
            (KeepPolicy::All, _) => self.write(&message, bytes),
            (KeepPolicy::Sample(share), Some(attempt)) => {
                if attempt.is_sampled(share.get()) {
                    if !self.known.contains_key(&attempt) {
                        self.attempts += 1;
                        self.know(attempt, true);
                    }
                    self.write(&message, bytes);
                }
            }
            (KeepPolicy::Failed | KeepPolicy::Slowest(_), Some(attempt)) => match self.known.get(&attempt) {
                Some(true) => self.write(&message, bytes),
                Some(false) => {}
                None => self.wait(attempt, message, bytes),
            },
            (_, None) => {}
        }
    }

    /// Keeps a message in memory until its attempt ends.
    fn wait(&mut self, attempt: AttemptKey, message: MessageEvent, bytes: &[u8]) {
        let taken = bytes.len() + OVERHEAD;
        while self.pending_bytes + taken > MOST_PENDING {
            let Some(oldest) = self.order.pop_front() else {
                self.without_room += 1;
                return;
            };
            if let Some(lost) = self.open.remove(&oldest) {
                self.without_room += lost.len() as u64;
                self.pending_bytes -= size_of(&lost);
                self.know(oldest, false);
            }
        }
        self.pending_bytes += taken;
        let order = &mut self.order;
        let pending = self.open.entry(attempt).or_insert_with(|| {
            order.push_back(attempt);
            Vec::new()
        });
        pending.push((message, bytes.into()));
        // Ended attempts are removed if they are the majority.
        if self.order.len() > 2 * self.open.len() + 1024 {
            let open = &self.open;
            self.order.retain(|attempt| open.contains_key(attempt));
        }
    }

    fn ended(&mut self, ended: EndedAttempt) {
        let EndedAttempt { attempt, has_failed, answered_in } = ended;
        let pending = self.open.remove(&attempt).unwrap_or_default();
        self.pending_bytes -= size_of(&pending);
        match self.policy {
            KeepPolicy::Failed => {
                self.know(attempt, has_failed);
                if has_failed {
                    self.attempts += 1;
                    self.write_all(&pending);
                }
            }
            KeepPolicy::Slowest(count) => {
                // Later messages of the attempt are not kept.
                self.know(attempt, false);
                self.pending_bytes += size_of(&pending);
                self.slowest.insert((answered_in, attempt), pending);
                if self.slowest.len() > count as usize
                    && let Some((_, dropped)) = self.slowest.pop_first()
                {
                    self.pending_bytes -= size_of(&dropped);
                }
            }
            KeepPolicy::All | KeepPolicy::Sample(_) => {}
        }
    }

    fn know(&mut self, attempt: AttemptKey, is_kept: bool) {
        if self.known.insert(attempt, is_kept).is_none() {
            self.known_order.push_back(attempt);
        }
        if self.known_order.len() > MOST_KNOWN
            && let Some(oldest) = self.known_order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    fn write_all(&mut self, pending: &[Pending]) {
        pending.iter().for_each(|(message, bytes)| self.write(message, bytes));
    }

    fn write(&mut self, message: &MessageEvent, bytes: &[u8]) {
        self.without_room += u64::from(!self.files.write(message, bytes));
    }

    fn finish(mut self) -> KeptMessages {
        self.attempts += self.slowest.len() as u64;
        let mut rest: Vec<Pending> = std::mem::take(&mut self.slowest).into_values().flatten().collect();
        rest.sort_by_key(|(message, _)| message.at_ns);
        self.write_all(&rest);
        let attempts = self.policy.needs_attempts().then_some(self.attempts);
        KeptMessages { attempts, without_room: self.without_room, ..self.files.finish() }
    }
}

fn size_of(pending: &[Pending]) -> usize {
    pending.iter().map(|(_, bytes)| bytes.len() + OVERHEAD).sum()
}
