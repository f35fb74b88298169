//! Messages that are kept.

use std::path::PathBuf;

use clap::Args;
use netrig_core::{Duration, Size};
use netrig_sip::load::{Record, Side};
use netrig_sip_net::tap::{KeptMessages, KeptRecords, MessageTap, MessageTaps, PassedMessage};
use netrig_sip_tester::counted;
use netrig_sip_tester::keep::{KeepOrder, KeepPolicy, Keeper, RecordWriter};

use crate::failure::Failure;

/// Which messages are kept, and where.
#[derive(Debug, Args)]
#[command(next_help_heading = "Messages")]
pub struct KeepArguments {
    /// Keep messages: `all`, those of attempts that `failed`, of the `slowest:100` to get a final response, or a `sample:1%` of the attempts
    #[arg(long, value_name = "WHICH")]
    pub keep: Option<KeepPolicy>,
    /// Where: FILE.log, for `netrig sip show` and editors, and FILE.pcapng, for Wireshark
    #[arg(long, value_name = "FILE", default_value = "sip-messages", requires = "keep")]
    pub keep_to: PathBuf,
    /// The most that both files may take on the disk; what would exceed it is dropped and counted
    #[arg(long, value_name = "SIZE", default_value = "4 GB", requires = "keep")]
    pub keep_most: Size,
}

/// Attempts that are written down.
#[derive(Debug, Args)]
#[command(next_help_heading = "Messages")]
pub struct RecordArguments {
    /// Write a line of JSON for each attempt: its Call-ID, what it was, its status, why it failed, and its delays
    #[arg(long, value_name = "FILE.jsonl")]
    pub records: Option<PathBuf>,
}

/// What of a load is kept.
pub struct Keeping {
    messages: Option<Keeper>,
    records: Option<RecordWriter>,
}

impl Keeping {
    /// Begins to keep what is asked for.
    pub fn begin(keep: &KeepArguments, records: &RecordArguments) -> Result<Self, Failure> {
        let records =
            records.records.as_deref().map(RecordWriter::begin).transpose().map_err(Failure::request)?;
        Ok(Self { messages: keep.begin()?, records })
    }

    /// The receivers of a load's messages. `None` if neither messages nor records are kept.
    pub fn taps(&self) -> Option<&dyn MessageTaps> {
        (self.messages.is_some() || self.records.is_some()).then_some(self as &dyn MessageTaps)
    }

    /// Waits until all is written.
    pub fn finish(self) -> (Option<KeptMessages>, Option<KeptRecords>) {
        (self.messages.map(Keeper::finish), self.records.map(RecordWriter::finish))
    }
}

impl MessageTaps for Keeping {
    fn tap(&self) -> Box<dyn MessageTap> {
        match (&self.messages, &self.records) {
            (Some(messages), Some(records)) => Box::new(BothTaps([messages.tap(), records.tap()])),
            (None, Some(records)) => records.tap(),
            (Some(messages), None) => messages.tap(),
            (None, None) => Box::new(BothTaps([])),
        }
    }
}

/// Taps that all see the same.
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

/// The attempts that were written down, in a line, and in others what was not.
pub fn written(records: &KeptRecords) -> Vec<String> {
    let KeptRecords { file, records, dropped, fault } = records;
    let mut lines =
        vec![format!("records: {} in {}", counted(*records, "attempt", "attempts"), file.display())];
    if *dropped > 0 {
        let attempts = counted(*dropped, "attempt", "attempts");
        lines.push(format!("not written: {attempts} that came faster than they could be written"));
    }
    lines.extend(fault.as_ref().map(|fault| format!("not written: {fault}")));
    lines
}

impl KeepArguments {
    /// Begins to keep what a server sends and receives, which knows calls by their Call-IDs only.
    pub fn begin_at_server(&self) -> Result<Option<Keeper>, Failure> {
        match self.keep {
            Some(policy @ (KeepPolicy::Failed | KeepPolicy::Slowest(_))) => Err(Failure::request(format!(
                "--keep {policy}: a server does not judge attempts: expected `all` or `sample:1%`"
            ))),
            _ => self.begin(),
        }
    }

    /// Begins to keep what is asked for.
    pub fn begin(&self) -> Result<Option<Keeper>, Failure> {
        let Some(policy) = self.keep else { return Ok(None) };
        let order = KeepOrder { policy, to: self.keep_to.clone(), most_bytes: self.keep_most.bytes() };
        Keeper::begin(&order).map(Some).map_err(Failure::request)
    }
}
