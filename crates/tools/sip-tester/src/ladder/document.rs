//! Calls and messages of a trace as a JSON document.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Ladder, TracedCall};
use crate::trace::SipTrace;

/// The document of `netrig sip show --json`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TraceDocument {
    /// Version of the document.
    pub format: u32,
    /// The selected calls, in the order of their starts.
    pub calls: Vec<TracedCall>,
    /// Their messages, ordered by time.
    pub messages: Vec<MessageRow>,
    /// Bytes of TCP streams with SIP that belong to no message.
    pub skipped_bytes: u64,
    /// Why the file was not read to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken_off: Option<String>,
}

/// A message.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MessageRow {
    /// Number of the message, from 1.
    pub number: usize,
    /// Time, ns since 1970.
    pub at_ns: u64,
    /// Address and port of the sender.
    pub from: String,
    /// Address and port of the receiver.
    pub to: String,
    /// `UDP`, `TCP` or `TLS`.
    pub transport: &'static str,
    /// Method, or status and reason.
    pub label: String,
    /// Number of its transaction, from 1.
    pub transaction: usize,
    /// Whether the same message was sent before between these addresses.
    pub is_retransmission: bool,
    /// The whole message. Invalid UTF-8 is replaced.
    pub text: String,
}

impl TraceDocument {
    /// The version of the document that this version of netrig writes.
    pub const FORMAT: u32 = 1;

    /// The document of some calls of a trace.
    pub fn of(trace: &SipTrace, calls: &[&TracedCall], ladder: &Ladder) -> Self {
        let messages = ladder.rows.iter().map(|row| {
            let message = &trace.messages[row.message];
            MessageRow {
                number: row.number,
                at_ns: row.at_ns,
                from: message.from.to_string(),
                to: message.to.to_string(),
                transport: message.transport.name(),
                label: row.label.clone(),
                transaction: row.transaction,
                is_retransmission: row.is_retransmission,
                text: String::from_utf8_lossy(&message.bytes).into_owned(),
            }
        });
        Self {
            format: Self::FORMAT,
            calls: calls.iter().copied().cloned().collect(),
            messages: messages.collect(),
            skipped_bytes: trace.skipped_bytes,
            broken_off: trace.broken_off.as_ref().map(|error| error.to_string()),
        }
    }
}
