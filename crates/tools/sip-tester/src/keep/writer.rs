//! The keeper's thread: decides which messages to keep, and writes them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::Receiver;

use netrig_core::Duration;
use netrig_sip_net::tap::KeptMessages;

use super::batch::{AttemptKey, Batch, EndedAttempt, MessageEvent, TapEvent};
use super::files::KeepFiles;
use netrig_sip_net::KeepPolicy;

/// Most memory for messages that wait for the end of their attempt, bytes.
const MOST_PENDING: usize = 256 << 20;

/// Memory of a message besides its bytes.
const OVERHEAD: usize = 160;

/// Ended attempts that are remembered, so that late messages are treated like earlier ones.
const MOST_KNOWN: usize = 1 << 16;

/// A message in memory.
type Pending = (MessageEvent, Box<[u8]>);

pub(super) struct Writer {
    policy: KeepPolicy,
    files: KeepFiles,
    /// Messages of open attempts.
    open: BTreeMap<AttemptKey, Vec<Pending>>,
    /// Attempts in the order of their starts, ended ones included.
    order: VecDeque<AttemptKey>,
    pending_bytes: usize,
    /// Ended attempts, and whether they are kept.
    known: BTreeMap<AttemptKey, bool>,
    known_order: VecDeque<AttemptKey>,
    /// The slowest attempts so far, in ascending order.
    slowest: BTreeMap<(Duration, AttemptKey), Vec<Pending>>,
    /// Kept attempts.
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

    /// Takes all batches until every sender is gone.
    pub fn run(mut self, waiting: &Receiver<Batch>) -> KeptMessages {
        for batch in waiting {
            for (event, bytes) in batch.iter() {
                match event {
                    TapEvent::Message(message) => self.message(*message, bytes),
                    TapEvent::Ended(ended) => self.ended(*ended),
                }
            }
            // Readers of the files see all decisions so far.
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
        // Ended attempts are removed once they are the majority.
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
                // Its later messages are not waited for.
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
