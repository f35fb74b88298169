//! Messages that are kept.

use std::path::PathBuf;

use clap::Args;
use netrig_core::Size;
use netrig_sip_tester::keep::{KeepOrder, KeepPolicy, Keeper, LoadEvidence, RecordWriter};

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

/// Begins to keep what is asked for of a load.
pub fn evidence(keep: &KeepArguments, records: &RecordArguments) -> Result<LoadEvidence, Failure> {
    let records =
        records.records.as_deref().map(RecordWriter::begin).transpose().map_err(Failure::request)?;
    Ok(LoadEvidence::new(keep.begin()?, records))
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
