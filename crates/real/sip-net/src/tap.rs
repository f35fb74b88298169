//! Taps: who takes note of each message that a load sends or receives.

use std::net::SocketAddr;
use std::path::PathBuf;

use netrig_core::Duration;
use netrig_sip::header::Transport;
use netrig_sip::load::{Record, Side};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A message that was sent or received.
#[derive(Clone, Copy, Debug)]
pub struct PassedMessage<'a> {
    /// ns since 1970.
    pub at_ns: u64,
    /// By this machine.
    pub is_sent: bool,
    /// The end on this machine.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// What carried it.
    pub transport: Transport,
    /// Its attempt is told by the Call-ID alone, and ends with [`MessageTap::call_ended`].
    pub is_of_script: bool,
    /// The whole message, as it is within TLS.
    pub bytes: &'a [u8],
}

/// The tap of one thread. It is called while the load goes on, and must neither wait nor fail.
pub trait MessageTap: Send {
    /// A message passes.
    fn message(&mut self, message: &PassedMessage<'_>);

    /// An attempt has ended.
    fn ended(&mut self, record: &Record);

    /// A call of a script has ended, whose messages have this Call-ID; why, if it failed. `lasted`: from its first step to its last.
    fn call_ended(&mut self, side: Side, call_id: &str, failure: Option<&str>, lasted: Duration);

    /// Hands on what it has collected; called at least once a second.
    fn hand_on(&mut self);
}

/// Gives each thread of a load a tap.
pub trait MessageTaps: Sync {
    /// The next one.
    fn tap(&self) -> Box<dyn MessageTap>;
}

/// Messages of a load that were kept, in two files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeptMessages {
    /// The message log.
    pub log: PathBuf,
    /// The capture.
    pub capture: PathBuf,
    /// Messages in each of them.
    pub messages: u64,
    /// Attempts that they belong to; absent if all messages are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u64>,
    /// Messages that were lost because they came faster than they could be written.
    pub dropped: u64,
    /// Messages that found no room: in memory while their attempt lasted, or on the disk.
    pub without_room: u64,
    /// Why writing ended before the load did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// Attempts of a load that were written down.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeptRecords {
    /// The file, a line of JSON for each.
    pub file: PathBuf,
    /// Lines in it.
    pub records: u64,
    /// Attempts that were lost because they came faster than they could be written.
    pub dropped: u64,
    /// Why writing ended before the load did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}
