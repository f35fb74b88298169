//! Taps, which get each message that a load sends or receives.

use std::net::SocketAddr;
use std::path::PathBuf;

use netrig_core::number::counted;
use netrig_core::{Duration, Instant};
use netrig_host::{Clock, RealtimeOffset};
use netrig_sip::header::Transport;
use netrig_sip::load::{Record, Side};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A message that was sent or received.
#[derive(Clone, Copy, Debug)]
pub struct PassedMessage<'a> {
    /// Time, ns since 1970.
    pub at_ns: u64,
    /// Whether this machine sent it.
    pub is_sent: bool,
    /// The address of this machine.
    pub local: SocketAddr,
    /// The address of the peer.
    pub peer: SocketAddr,
    /// The transport.
    pub transport: Transport,
    /// Whether only the Call-ID identifies the attempt of this message. The end of such an attempt is reported by
    /// [`MessageTap::call_ended`].
    pub is_of_script: bool,
    /// The whole message, in plain text even over TLS.
    pub bytes: &'a [u8],
}

/// The tap of one thread. Because it is called during the load, it must not block or fail.
pub trait MessageTap: Send {
    /// Called for each message.
    fn message(&mut self, message: &PassedMessage<'_>);

    /// Called at the end of an attempt.
    fn ended(&mut self, record: &Record);

    /// Called at the end of a scripted call with this Call-ID. `failure` is the reason if the call failed. `lasted` is
    /// the time from its first step to its last.
    fn call_ended(&mut self, side: Side, call_id: &str, failure: Option<&str>, lasted: Duration);

    /// Passes on the collected messages. Called at least once a second.
    fn hand_on(&mut self);
}

/// A tap, and the clock of the load or server that calls it.
pub struct StampedTap {
    /// The tap.
    pub tap: Box<dyn MessageTap>,
    clock: Clock,
    offset: RealtimeOffset,
    is_of_script: bool,
}

impl StampedTap {
    /// A tap for messages whose times are read from `clock`. `is_of_script`: see [`PassedMessage::is_of_script`].
    pub fn new(tap: Box<dyn MessageTap>, clock: Clock, is_of_script: bool) -> Self {
        Self { tap, clock, offset: RealtimeOffset::measure(), is_of_script }
    }

    /// Passes on a message that was sent or received at this time. The local address is before the peer's.
    pub fn message(
        &mut self,
        (at, transport): (Instant, Transport),
        is_sent: bool,
        [local, peer]: [SocketAddr; 2],
        bytes: &[u8],
    ) {
        let at_ns = self.offset.realtime(self.clock.epoch_nanos() + at.as_nanos());
        let is_of_script = self.is_of_script;
        self.tap.message(&PassedMessage { at_ns, is_sent, local, peer, transport, is_of_script, bytes });
    }
}

/// Makes a tap for each thread of a load.
pub trait MessageTaps: Sync {
    /// A new tap.
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
    /// Number of attempts to which they belong; absent if all messages are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u64>,
    /// Messages that were dropped because they arrived faster than they could be written.
    pub dropped: u64,
    /// Messages for which there was no room, in memory during their attempt or on the disk.
    pub without_room: u64,
    /// Why writing ended before the load did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

impl KeptMessages {
    /// A line about the kept messages, and a line for each reason of lost messages.
    pub fn lines(&self) -> Vec<String> {
        let attempts =
            self.attempts.map(|attempts| format!(" of {}", counted(attempts, "attempt", "attempts")));
        let (log, capture) = (self.log.display(), self.capture.display());
        let messages = format!(
            "kept: {}{} in {log} and {capture}; netrig sip show {log}",
            counted(self.messages, "message", "messages"),
            attempts.unwrap_or_default()
        );
        [messages].into_iter().chain(self.losses()).collect()
    }

    /// A line for each reason why messages were not kept, with their number.
    pub fn losses(&self) -> Vec<String> {
        let lost = [
            (self.dropped, "arrived faster than they could be written"),
            (self.without_room, "had no room in memory or on the disk"),
        ];
        let lost = lost.into_iter().filter(|(count, _)| *count > 0);
        let lost = lost
            .map(|(count, why)| format!("not kept: {} that {why}", counted(count, "message", "messages")));
        lost.chain(self.fault.clone().map(|fault| format!("not kept: {fault}"))).collect()
    }
}

/// Attempts of a load that were written down.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeptRecords {
    /// The file, with a line of JSON for each attempt.
    pub file: PathBuf,
    /// Lines in it.
    pub records: u64,
    /// Attempts that were lost because they ended faster than they could be written.
    pub dropped: u64,
    /// Why writing ended before the load did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

impl KeptRecords {
    /// A line about the recorded attempts, and further lines about lost attempts.
    pub fn lines(&self) -> Vec<String> {
        let Self { file, records, dropped, fault } = self;
        let mut lines =
            vec![format!("records: {} in {}", counted(*records, "attempt", "attempts"), file.display())];
        if *dropped > 0 {
            let attempts = counted(*dropped, "attempt", "attempts");
            lines.push(format!("not written: {attempts} that ended faster than they could be written"));
        }
        lines.extend(fault.as_ref().map(|fault| format!("not written: {fault}")));
        lines
    }
}
