//! Messages and records of one load.

use netrig_core::Duration;
use netrig_sip::load::{Record, Side};
use netrig_sip_net::tap::{KeptMessages, KeptRecords, MessageTap, MessageTaps, PassedMessage};

use super::{Keeper, RecordWriter};

/// Keeps the messages of a load, the records of its attempts, or both.
pub struct LoadEvidence {
    messages: Option<Keeper>,
    records: Option<RecordWriter>,
}

impl LoadEvidence {
    /// Combines a keeper of messages and a writer of records, either of which may be absent.
    pub fn new(messages: Option<Keeper>, records: Option<RecordWriter>) -> Self {
        Self { messages, records }
    }

    /// The receivers of a load's messages. `None` if neither messages nor records are kept.
    pub fn taps(&self) -> Option<&dyn MessageTaps> {
        (self.messages.is_some() || self.records.is_some()).then_some(self as &dyn MessageTaps)
    }

    /// Waits until everything is written.
    pub fn finish(self) -> (Option<KeptMessages>, Option<KeptRecords>) {
        (self.messages.map(Keeper::finish), self.records.map(RecordWriter::finish))
    }
}

impl MessageTaps for LoadEvidence {
    fn tap(&self) -> Box<dyn MessageTap> {
        match (&self.messages, &self.records) {
            (Some(messages), Some(records)) => Box::new(BothTaps([messages.tap(), records.tap()])),
            (None, Some(records)) => records.tap(),
            (Some(messages), None) => messages.tap(),
            (None, None) => Box::new(BothTaps([])),
        }
    }
}

/// A tap that passes each message to all of its taps.
struct BothTaps<const N: usize>([Box<dyn MessageTap>; N]);

impl<const N: usize> MessageTap for BothTaps<N> {
    fn message(&mut self, message: &PassedMessage<'_>) {
        self.0.iter_mut().for_each(|tap| tap.message(message));
    }

    fn ended(&mut self, record: &Record) {
        self.0.iter_mut().for_each(|tap| tap.ended(record));
    }

    fn call_ended(&mut self, side: Side, call_id: &str, failure: Option<&str>, lasted: Duration) {
        self.0.iter_mut().for_each(|tap| tap.call_ended(side, call_id, failure, lasted));
    }

    fn hand_on(&mut self) {
        self.0.iter_mut().for_each(|tap| tap.hand_on());
    }
}
