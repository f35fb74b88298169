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
    pub calls: Vec<CallRow>,
    /// Their messages, ordered by time.
    pub messages: Vec<MessageRow>,
    /// Bytes of TCP streams with SIP that belong to no message.
    pub skipped_bytes: u64,
    /// Why the file was not read to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken_off: Option<String>,
}

/// A call.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CallRow {
    /// Call-ID of its messages.
    pub call_id: String,
    /// Method of the first request.
    pub method: String,
    /// User of From, or its host.
    pub from: String,
    /// User of To, or its host.
    pub to: String,
    /// Time of the first message, ns since 1970.
    pub begins_ns: u64,
    /// From the first message to the last, s.
    pub lasts_s: f64,
    /// Final status of the first request; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Number of its messages.
    pub messages: usize,
    /// Number of retransmitted messages.
    pub retransmissions: usize,
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
        let call = |call: &&TracedCall| CallRow {
            call_id: call.call_id.clone(),
            method: call.method.clone(),
            from: call.from.clone(),
            to: call.to.clone(),
            begins_ns: call.begins_ns,
            lasts_s: call.lasts.as_secs_f64(),
            status: call.status,
            messages: call.messages.len(),
            retransmissions: call.retransmissions,
        };
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
            calls: calls.iter().map(call).collect(),
            messages: messages.collect(),
            skipped_bytes: trace.skipped_bytes,
            broken_off: trace.broken_off.as_ref().map(|error| error.to_string()),
        }
    }
}
