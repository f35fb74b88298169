//! Arguments for kept messages and recorded attempts.

use std::path::PathBuf;

use clap::Args;
use netrig_core::Size;
use netrig_core::setting::AboveZero;
use netrig_sip_tester::keep::{KeepOrder, KeepPolicy, Keeper, LoadEvidence, RecordWriter};

use crate::failure::Failure;
use crate::typed::value_as;

/// The messages that are kept, and their files.
#[derive(Debug, Args)]
#[command(next_help_heading = "Messages")]
pub struct KeepArguments {
    /// Keep messages: `all`, or those of attempts that `failed`, of the `slowest:100` attempts by final response, or of
    /// a `sample:1%` of the attempts
    #[arg(long, value_name = "WHICH")]
    pub keep: Option<KeepPolicy>,
    /// The files: FILE.log for `netrig sip show` and editors, and FILE.pcapng for Wireshark
    #[arg(long, value_name = "FILE", default_value = "sip-messages", requires = "keep")]
    pub keep_to: PathBuf,
    /// The largest size of both files together; further messages are dropped and counted
    #[arg(long, value_name = "SIZE", default_value = "4 GB", requires = "keep", value_parser = value_as::<AboveZero, Size>)]
    pub keep_most: Size,
}

/// The record of attempts.
#[derive(Debug, Args)]
#[command(next_help_heading = "Messages")]
pub struct RecordArguments {
    /// Write a line of JSON for each attempt: Call-ID, kind, status, failure, delays
    #[arg(long, value_name = "FILE.jsonl")]
    pub records: Option<PathBuf>,
}

/// Starts to keep the messages and records of a load.
pub fn evidence(keep: &KeepArguments, records: &RecordArguments) -> Result<LoadEvidence, Failure> {
    let records =
        records.records.as_deref().map(RecordWriter::begin).transpose().map_err(Failure::request)?;
    Ok(LoadEvidence::new(keep.begin()?, records))
}

impl KeepArguments {
    /// Starts to keep the messages of a server. A server has no attempts, so messages can be selected by their Call-ID
    /// only.
    pub fn begin_at_server(&self) -> Result<Option<Keeper>, Failure> {
        match self.keep {
            Some(policy @ (KeepPolicy::Failed | KeepPolicy::Slowest(_))) => Err(Failure::request(format!(
                "--keep {policy}: a server does not judge attempts: expected `all` or `sample:1%`"
            ))),
            _ => self.begin(),
        }
    }

    /// Starts to keep messages; `None` without `--keep`.
    pub fn begin(&self) -> Result<Option<Keeper>, Failure> {
        let Some(policy) = self.keep else { return Ok(None) };
        let order = KeepOrder { policy, to: self.keep_to.clone(), most_bytes: self.keep_most.bytes() };
        Keeper::begin(&order).map(Some).map_err(Failure::request)
    }
}
