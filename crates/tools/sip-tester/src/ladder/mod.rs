//! Calls of a trace, and the ladder diagram of a call: one column per address, one row per message.

mod difference;
mod document;
mod list;
mod mask;
mod svg;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use netrig_core::Duration;
use netrig_sip::load::Scan;
use netrig_sip::load::scan::Start;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

pub use self::difference::{DifferenceLine, difference};
pub use self::document::{MessageRow, TraceDocument};
pub use self::list::calls_text;
pub use self::mask::TraceMask;
pub use self::text::LadderTimes;
use crate::trace::{SipTrace, TracedMessage};

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "CallRow")]
pub struct TracedCall {
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
    #[serde(rename = "lasts_s", serialize_with = "write_seconds")]
    #[schemars(with = "f64")]
    pub lasts: Duration,
    /// Final status of the first request; absent if there was none.
    // If the request was forked or challenged, it is the final status of its last transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Number of its messages.
    // The field has their indices in `SipTrace::messages`.
    #[serde(serialize_with = "write_count")]
    #[schemars(with = "usize")]
    pub messages: Vec<usize>,
    /// Number of retransmitted messages.
    pub retransmissions: usize,
}

fn write_seconds<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(span.as_secs_f64())
}

fn write_count<S: Serializer>(all: &[usize], serializer: S) -> Result<S::Ok, S::Error> {
    all.len().serialize(serializer)
}

/// A selection of calls. An empty filter selects all.
#[derive(Clone, Debug, Default)]
pub struct CallFilter {
    /// Numbers of calls, from 1. If it is not empty, the other fields are ignored.
    pub numbers: Vec<usize>,
    /// Substrings of Call-IDs. The Call-ID of a call must contain at least one of them.
    pub call_ids: Vec<String>,
    /// Substring of the user of From or To.
    pub user: Option<String>,
    /// Status of any response.
    pub status: Option<u16>,
    /// Substring of any message, case-insensitive.
    pub text: Option<String>,
}

/// Why a selected call or message was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotInTrace {
    /// No call has this number.
    #[error("there is no call {number}: the file has calls 1 to {calls}")]
    Call {
        /// The number.
        number: usize,
        /// Calls of the trace.
        calls: usize,
    },
    /// No call fits the filter.
    #[error("none of the {calls} calls is as asked for; without a filter all are listed")]
    AnyCall {
        /// Calls of the trace.
        calls: usize,
    },
    /// No message has this number.
    #[error("there is no message {number} in this ladder, which has 1 to {last}")]
    Message {
        /// The number.
        number: usize,
        /// The last number of the ladder.
        last: usize,
    },
}

/// A ladder diagram.
#[derive(Clone, Debug, PartialEq)]
pub struct Ladder {
    /// Addresses in the order of appearance.
    pub columns: Vec<String>,
    /// The messages, ordered by time.
    pub rows: Vec<LadderRow>,
    /// Number of rows hidden by their method.
    pub hidden: usize,
}

/// A message in a ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct LadderRow {
    /// Number of the message in the ladder, from 1. Hidden messages are numbered as well.
    pub number: usize,
    /// Time, ns since 1970.
    pub at_ns: u64,
    /// Column of the sender.
    pub from: usize,
    /// Column of the receiver.
    pub to: usize,
    /// Method, or status and reason.
    pub label: String,
    /// `CSeq` method of a response.
    pub answers: Option<String>,
    /// Media type of the body, without its parameters.
    pub body: Option<String>,
    /// Number of the transaction in its ladder, from 1.
    pub transaction: usize,
    /// Whether the same message was sent before between these addresses.
    pub is_retransmission: bool,
    /// Whether it is a response with a status of 300 or above.
    pub is_failure: bool,
    /// Index in [`SipTrace::messages`].
    pub message: usize,
}

/// Sender, receiver and bytes of a message. A second message with the same values is a retransmission.
type Passage<'a> = (SocketAddr, SocketAddr, &'a [u8]);

/// The parts of a message that a ladder needs.
struct Outline<'a> {
    call_id: String,
    scan: Scan<'a>,
}

impl<'a> Outline<'a> {
    fn of(message: &'a TracedMessage) -> Option<Self> {
        let scan = Scan::of(&message.bytes);
        let call_id = scan.call_id.map(text)?;
        scan.start.is_some().then_some(Self { call_id, scan })
    }

    fn method(&self) -> Option<String> {
        match self.scan.start {
            Some(Start::Request { method, .. }) => Some(text(method)),
            _ => None,
        }
    }

    /// Branch and method: the transaction of a request or response (RFC 3261 section 17.2.3). The ACK of a failure belongs to
    /// its INVITE.
    fn transaction(&self) -> (String, String) {
        let branch = self.scan.branch.map(text).unwrap_or_default();
        let method = self.scan.cseq.map(|cseq| text(cseq.method)).unwrap_or_default();
        let method = if method == "ACK" { "INVITE".to_owned() } else { method };
        (branch, method)
    }
}

/// All calls of a trace, in the order of their starts. Messages without a Call-ID belong to no call.
pub fn calls(trace: &SipTrace) -> Vec<TracedCall> {
    let mut by_id: BTreeMap<String, TracedCall> = BTreeMap::new();
    let mut seen: BTreeMap<String, BTreeSet<Passage<'_>>> = BTreeMap::new();
    for (place, message) in trace.messages.iter().enumerate() {
        let Some(outline) = Outline::of(message) else { continue };
        let call = by_id.entry(outline.call_id.clone()).or_insert_with(|| TracedCall {
            call_id: outline.call_id.clone(),
            method: outline.method().unwrap_or_else(|| outline.transaction().1),
            from: outline.scan.from.map(user).unwrap_or_default(),
            to: outline.scan.to.map(user).unwrap_or_default(),
            begins_ns: message.at_ns,
            lasts: Duration::ZERO,
            status: None,
            messages: Vec::new(),
            retransmissions: 0,
        });
        call.messages.push(place);
        call.lasts = Duration::from_nanos(message.at_ns.saturating_sub(call.begins_ns));
        let is_new = seen.entry(outline.call_id.clone()).or_default().insert((
            message.from,
            message.to,
            &message.bytes,
        ));
        call.retransmissions += usize::from(!is_new);
        let is_of_first = outline.transaction().1 == call.method;
        if let Some(status) = outline.scan.status().filter(|status| *status >= 200 && is_of_first) {
            // The status of a challenge is replaced by a later final status.
            call.status = Some(status);
        }
    }
    let mut calls: Vec<_> = by_id.into_values().collect();
    calls.sort_by_key(|call| call.begins_ns);
    calls
}

impl CallFilter {
    /// Whether the filter selects a call.
    pub fn fits(&self, call: &TracedCall, trace: &SipTrace) -> bool {
        let messages = || call.messages.iter().map(|place| &trace.messages[*place]);
        let has_status =
            |status: u16| messages().any(|message| Scan::of(&message.bytes).status() == Some(status));
        let has_text = |wanted: &str| {
            let wanted = wanted.to_ascii_lowercase();
            messages()
                .any(|message| String::from_utf8_lossy(&message.bytes).to_ascii_lowercase().contains(&wanted))
        };
        (self.call_ids.is_empty() || self.call_ids.iter().any(|part| call.call_id.contains(part.as_str())))
            && self
                .user
                .as_ref()
                .is_none_or(|part| [&call.from, &call.to].iter().any(|user| user.contains(part.as_str())))
            && self.status.is_none_or(has_status)
            && self.text.as_deref().is_none_or(has_text)
    }

    /// The calls of a trace that the filter selects.
    ///
    /// # Errors
    /// If no call has one of the numbers, or no call fits the filter.
    pub fn choose<'a>(
        &self,
        trace: &SipTrace,
        all: &'a [TracedCall],
    ) -> Result<Vec<&'a TracedCall>, NotInTrace> {
        let calls = all.len();
        if !self.numbers.is_empty() {
            let by_number = |number: &usize| {
                let call = number.checked_sub(1).and_then(|place| all.get(place));
                call.ok_or(NotInTrace::Call { number: *number, calls })
            };
            return self.numbers.iter().map(by_number).collect();
        }
        let chosen: Vec<_> = all.iter().filter(|call| self.fits(call, trace)).collect();
        if chosen.is_empty() { Err(NotInTrace::AnyCall { calls }) } else { Ok(chosen) }
    }
}

impl Ladder {
    /// The message with this number.
    ///
    /// # Errors
    /// If the ladder has no message with this number.
    pub fn message<'a>(&self, trace: &'a SipTrace, number: usize) -> Result<&'a [u8], NotInTrace> {
        let row = self.rows.iter().find(|row| row.number == number);
        let last = self.rows.last().map_or(0, |row| row.number);
        row.map(|row| &*trace.messages[row.message].bytes).ok_or(NotInTrace::Message { number, last })
    }

    /// The ladder of some calls, without the transactions of `hidden` methods.
    pub fn of(trace: &SipTrace, calls: &[&TracedCall], hidden: &[String]) -> Self {
        let mut places: Vec<usize> = calls.iter().flat_map(|call| call.messages.iter().copied()).collect();
        places.sort_unstable();
        let mut ladder = Self { columns: Vec::new(), rows: Vec::new(), hidden: 0 };
        let mut columns: Vec<SocketAddr> = Vec::new();
        let mut transactions = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for (place, number) in places.into_iter().zip(1..) {
            let message = &trace.messages[place];
            let Some(outline) = Outline::of(message) else { continue };
            let is_retransmission = !seen.insert((message.from, message.to, &message.bytes));
            let known = transactions.len();
            let transaction =
                *transactions.entry((outline.call_id.clone(), outline.transaction())).or_insert(known + 1);
            let method = outline.scan.cseq.map(|cseq| text(cseq.method)).unwrap_or_default();
            if hidden.contains(&method) {
                ladder.hidden += 1;
                continue;
            }
            let mut column = |address: SocketAddr| {
                columns.iter().position(|known| *known == address).unwrap_or_else(|| {
                    columns.push(address);
                    columns.len() - 1
                })
            };
            let (from, to) = (column(message.from), column(message.to));
            let status = outline.scan.status();
            let label = outline.method().unwrap_or_else(|| status_line(&message.bytes));
            ladder.rows.push(LadderRow {
                number,
                at_ns: message.at_ns,
                from,
                to,
                label,
                answers: status.map(|_| method),
                body: body_type(&message.bytes, &outline.scan),
                transaction,
                is_retransmission,
                is_failure: status.is_some_and(|status| status >= 300),
                message: place,
            });
        }
        ladder.columns = columns.iter().map(SocketAddr::to_string).collect();
        ladder
    }
}

/// Status and reason of a response.
fn status_line(bytes: &[u8]) -> String {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    text(line.trim_ascii_end()).split_once(' ').map(|(_, rest)| rest.to_owned()).unwrap_or_default()
}

/// Media type of the body, if there is one.
fn body_type(message: &[u8], scan: &Scan<'_>) -> Option<String> {
    if scan.body.is_empty() {
        return None;
    }
    let lines = message.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let fields = lines.skip(1).take_while(|line| !line.is_empty()).map(text);
    let mut kinds = fields.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_kind = ["content-type", "c"].iter().any(|known| name.trim().eq_ignore_ascii_case(known));
        is_kind.then(|| value.split(';').next().unwrap_or_default().trim().to_owned())
    });
    Some(kinds.next().filter(|kind| !kind.is_empty()).unwrap_or_else(|| "body".to_owned()))
}

/// User part of a name-addr or addr-spec; the host if it has none.
fn user(value: &[u8]) -> String {
    let value = text(value);
    let uri =
        value.split_once('<').map_or(value.as_str(), |(_, rest)| rest.split('>').next().unwrap_or_default());
    let uri = uri.split(';').next().unwrap_or_default().trim();
    let bare = uri.split_once(':').map_or(uri, |(_, rest)| rest);
    bare.split_once('@').map_or(bare, |(user, _)| user).to_owned()
}

/// A message as text that is safe in a terminal: invalid UTF-8 and control characters other than tabs and line ends are
/// replaced by U+FFFD.
pub fn printable(bytes: &[u8]) -> String {
    let is_shown = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\r' | '\t');
    String::from_utf8_lossy(bytes)
        .chars()
        .map(|letter| if is_shown(letter) { letter } else { '\u{FFFD}' })
        .collect()
}

/// A part of a line as printable text, with spaces for tabs and line ends.
fn text(bytes: &[u8]) -> String {
    printable(bytes).replace(['\r', '\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use netrig_sip::header::Transport;

    use super::*;

    const CALLER: &str = "192.0.2.1:5060";
    const PROXY: &str = "192.0.2.9:5060";
    const CALLEE: &str = "192.0.2.3:5060";

    fn message(at_ms: u64, from: &str, to: &str, text: &str) -> TracedMessage {
        TracedMessage {
            at_ns: 1_700_000_000_000_000_000 + at_ms * 1_000_000,
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            transport: Transport::Udp,
            bytes: Bytes::from(text.replace('\n', "\r\n")),
        }
    }

    fn with(start: &str, branch: &str, cseq: &str, call_id: &str) -> String {
        format!(
            "{start}\nVia: SIP/2.0/UDP h;branch={branch}\nFrom: \"Alice\" <sip:alice@a.example>;tag=1\nTo: <sip:bob@b.example>\n\
             Call-ID: {call_id}\nCSeq: {cseq}\nContent-Length: 0\n\n"
        )
    }

    /// The trace of a refused call through a proxy. In between is an OPTIONS of another call.
    fn trace() -> SipTrace {
        let invite = |branch: &str| {
            with("INVITE sip:bob@b.example SIP/2.0", branch, "1 INVITE", "one").replace(
                "Content-Length: 0\n\n",
                "Content-Type: application/sdp;x=1\nContent-Length: 5\n\nv=0\n",
            )
        };
        let answer =
            |status: &str, branch: &str| with(&format!("SIP/2.0 {status}"), branch, "1 INVITE", "one");
        let messages = vec![
            message(0, CALLER, PROXY, &invite("z9hG4bKa")),
            message(1, PROXY, CALLER, &answer("100 Trying", "z9hG4bKa")),
            message(2, PROXY, CALLEE, &invite("z9hG4bKb")),
            message(502, PROXY, CALLEE, &invite("z9hG4bKb")),
            message(510, CALLEE, PROXY, &with("OPTIONS sip:p SIP/2.0", "z9hG4bKo", "7 OPTIONS", "two")),
            message(520, CALLEE, PROXY, &answer("486 Busy Here", "z9hG4bKb")),
            message(521, PROXY, CALLEE, &with("ACK sip:bob@b.example SIP/2.0", "z9hG4bKb", "1 ACK", "one")),
            message(522, PROXY, CALLER, &answer("486 Busy Here", "z9hG4bKa")),
        ];
        SipTrace { messages, ..SipTrace::default() }
    }

    #[test]
    fn calls_are_found_with_what_became_of_them() {
        let trace = trace();
        let found = calls(&trace);
        assert_eq!(found.len(), 2);
        let one = &found[0];
        assert_eq!((one.call_id.as_str(), one.method.as_str(), one.status), ("one", "INVITE", Some(486)));
        assert_eq!((one.from.as_str(), one.to.as_str()), ("alice", "bob"));
        assert_eq!((one.messages.len(), one.retransmissions), (7, 1));
        assert_eq!(one.lasts, Duration::from_millis(522));
        assert_eq!((found[1].method.as_str(), found[1].status), ("OPTIONS", None));
        let fitting = |filter: CallFilter| {
            found
                .iter()
                .filter(|call| filter.fits(call, &trace))
                .map(|call| call.call_id.as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(fitting(CallFilter::default()), ["one", "two"]);
        assert_eq!(fitting(CallFilter { status: Some(486), ..CallFilter::default() }), ["one"]);
        assert_eq!(fitting(CallFilter { user: Some("ali".into()), ..CallFilter::default() }), ["one", "two"]);
        assert_eq!(fitting(CallFilter { text: Some("busy HERE".into()), ..CallFilter::default() }), ["one"]);
        assert_eq!(fitting(CallFilter { call_ids: vec!["w".into()], ..CallFilter::default() }), ["two"]);
    }

    #[test]
    fn a_ladder_has_a_column_for_each_address_and_marks_what_repeats() {
        let trace = trace();
        let found = calls(&trace);
        let ladder = Ladder::of(&trace, &[&found[0]], &[]);
        assert_eq!(ladder.columns, [CALLER, PROXY, CALLEE]);
        let rows: Vec<_> = ladder
            .rows
            .iter()
            .map(|row| (row.from, row.to, row.label.as_str(), row.transaction, row.is_retransmission))
            .collect();
        assert_eq!(
            rows,
            [
                (0, 1, "INVITE", 1, false),
                (1, 0, "100 Trying", 1, false),
                (1, 2, "INVITE", 2, false),
                (1, 2, "INVITE", 2, true),
                (2, 1, "486 Busy Here", 2, false),
                (1, 2, "ACK", 2, false),
                (1, 0, "486 Busy Here", 1, false),
            ]
        );
        assert_eq!(ladder.rows[0].body.as_deref(), Some("application/sdp"));
        assert_eq!(ladder.rows[4].answers.as_deref(), Some("INVITE"));
        assert!(ladder.rows[4].is_failure && !ladder.rows[1].is_failure);
        let both: Vec<_> = found.iter().collect();
        let hidden = Ladder::of(&trace, &both, &["OPTIONS".to_owned()]);
        assert_eq!((hidden.rows.len(), hidden.hidden), (7, 1));
        assert_eq!(hidden.rows.last().map(|row| row.number), Some(8), "what is hidden keeps its number");
    }

    #[test]
    fn a_ladder_fits_a_terminal() {
        let trace = trace();
        let found = calls(&trace);
        let ladder = Ladder::of(&trace, &[&found[0]], &[]);
        for times in [LadderTimes::SinceFirst, LadderTimes::SincePrevious, LadderTimes::Absolute] {
            for width in [60, 80, 120] {
                let text = ladder.to_text(width, times);
                assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            }
        }
        let text = ladder.to_text(80, LadderTimes::SinceFirst);
        assert!(text.contains("486 Busy") && text.contains("INVITE SDP #2 again"), "{text}");
        println!("{text}");
    }

    #[test]
    fn a_picture_is_well_formed_and_escaped() {
        let mut trace = trace();
        let text = String::from_utf8(trace.messages[1].bytes.to_vec()).unwrap().replace("Trying", "<&\u{1}>");
        trace.messages[1].bytes = text.into();
        let found = calls(&trace);
        let svg = Ladder::of(&trace, &[&found[0]], &[]).to_svg("call <one>", LadderTimes::SinceFirst);
        assert!(svg.starts_with("<svg xmlns") && svg.trim_end().ends_with("</svg>"), "{svg}");
        assert!(
            svg.contains("100 &lt;&amp;\u{FFFD}&gt;") && svg.contains("<title>call &lt;one&gt;</title>"),
            "{svg}"
        );
        assert_eq!(svg.matches("class=\"tip").count(), 7);
    }
}
