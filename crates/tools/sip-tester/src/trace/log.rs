//! The message log: a text file with every message, its time, its direction and its addresses.
//!
//! The file begins with [`LOG_HEADING`]. Each entry is a line with the time, the direction, the transport, both addresses and the length
//! in bytes; the message itself, unchanged; and an empty line. The length makes the log readable by a program whatever a body contains.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::SocketAddr;

use bytes::Bytes;
use netrig_core::named;
use netrig_sip::header::Transport;

/// First line of a log.
pub const LOG_HEADING: &str = "# netrig SIP message log, version 1\n";

/// A SIP message with its time, sender and receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedMessage {
    /// Capture time, ns since 1970.
    pub at_ns: u64,
    /// The sender.
    pub from: SocketAddr,
    /// The receiver.
    pub to: SocketAddr,
    /// The transport.
    pub transport: Transport,
    /// The whole message as on the wire.
    pub bytes: Bytes,
}

/// Why a log cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// An entry does not begin as expected.
    #[error(
        "line {line}: expected a time in seconds, \"sent\" or \"received\", a transport, two addresses with \"->\" between them, and a \
         length such as \"412 B\""
    )]
    Heading {
        /// Line in the file, from 1.
        line: usize,
    },
    /// The file ends within a message.
    #[error("line {line}: the message has {found} of its {length} bytes")]
    Short {
        /// Line of the entry's heading.
        line: usize,
        /// The number of bytes in the file.
        found: usize,
        /// The length in the heading, bytes.
        length: usize,
    },
}

named! {
    /// Whether the program that wrote the log sent or received a message.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LogDirection {
        /// The program sent the message.
        Sent = "sent",
        /// The program received the message.
        Received = "received",
    }
}

/// Writes one entry.
///
/// # Errors
/// The errors of `out`.
pub fn write_entry(out: &mut impl Write, direction: LogDirection, message: &TracedMessage) -> io::Result<()> {
    let TracedMessage { at_ns, from, to, transport, bytes } = message;
    let mut heading = String::new();
    let (seconds, nanos) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
    let name = transport.name();
    // Writing to a string does not fail.
    let _ = writeln!(
        heading,
        "{seconds}.{nanos:09} {} {name} {from} -> {to} {} B",
        direction.name(),
        bytes.len()
    );
    out.write_all(heading.as_bytes())?;
    out.write_all(bytes)?;
    out.write_all(b"\n\n")
}

/// All complete entries of a log. If the log is truncated, for example because the disk was full, also the error at its
/// end.
///
/// # Errors
/// If an entry within the file does not begin as expected.
pub(super) fn read(file: &[u8]) -> Result<(Vec<TracedMessage>, Option<LogError>), LogError> {
    let mut messages = Vec::new();
    let mut at = LOG_HEADING.len();
    let line_of = |at: usize| 1 + file[..at].iter().filter(|byte| **byte == b'\n').count();
    while at < file.len() {
        let begins = at;
        let end = file[at..].iter().position(|byte| *byte == b'\n').map_or(file.len(), |length| at + length);
        let text = std::str::from_utf8(&file[at..end]).ok();
        let Some((message, length)) = text.and_then(heading) else {
            let wrong = LogError::Heading { line: line_of(begins) };
            return if end == file.len() { Ok((messages, Some(wrong))) } else { Err(wrong) };
        };
        let body = file.get(end + 1..).unwrap_or_default();
        let Some(bytes) = body.get(..length) else {
            let short = LogError::Short { line: line_of(begins), found: body.len(), length };
            return Ok((messages, Some(short)));
        };
        messages.push(TracedMessage { bytes: Bytes::copy_from_slice(bytes), ..message });
        at = end + 1 + length + body[length..].iter().take(2).take_while(|byte| **byte == b'\n').count();
    }
    Ok((messages, None))
}

/// The first line of an entry, and the length of its message.
fn heading(line: &str) -> Option<(TracedMessage, usize)> {
    let mut words = line.split(' ');
    let (seconds, nanos) = words.next()?.split_once('.')?;
    let nanos = Some(nanos).filter(|nanos| nanos.len() == 9)?.parse::<u64>().ok()?;
    let at_ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    let direction = words.next()?;
    if ![LogDirection::Sent, LogDirection::Received].iter().any(|known| known.name() == direction) {
        return None;
    }
    let name = words.next()?;
    let transport = Transport::ALL.into_iter().find(|known| known.name() == name)?;
    let from: SocketAddr = words.next()?.parse().ok()?;
    if words.next()? != "->" {
        return None;
    }
    let to: SocketAddr = words.next()?.parse().ok()?;
    let length = words.next()?.parse().ok()?;
    (words.next()? == "B" && words.next().is_none())
        .then_some((TracedMessage { at_ns, from, to, transport, bytes: Bytes::new() }, length))
}
