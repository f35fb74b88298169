//! TCP streams of a capture as SIP messages.

use std::collections::BTreeMap;

use bytes::Bytes;
use netrig_sip::{Framed, Framer};

use super::packet::CapturedSegment;

/// Longest message in a stream, bytes.
const LONGEST: usize = 16 << 20;

/// The largest number of bytes that are stored after a gap in a stream. If there are more, the missing bytes count as
/// lost.
const MOST_AHEAD: usize = 1 << 20;

/// One direction of a TCP connection.
#[derive(Debug)]
pub struct CapturedStream {
    /// Sequence number of the next byte; `None` before the first captured segment.
    next: Option<u32>,
    /// Segments after a gap, by their distance from the stream's first sequence number, with their capture times.
    ahead: BTreeMap<u64, (u64, Vec<u8>)>,
    /// Distance of `next` from the first sequence number.
    read: u64,
    framer: Framer,
    /// Whether the next start of a message has to be found, because the capture began within a message or bytes are
    /// missing.
    is_lost: bool,
    /// Bytes that the capture lacks or that are not SIP.
    pub skipped: u64,
}

impl Default for CapturedStream {
    fn default() -> Self {
        Self {
            next: None,
            ahead: BTreeMap::new(),
            read: 0,
            framer: Framer::new(LONGEST),
            is_lost: true,
            skipped: 0,
        }
    }
}

/// A message, and the capture time of the segment that completes it, ns since 1970.
pub type Completed = (u64, Bytes);

impl CapturedStream {
    /// The messages that a segment completes.
    pub fn push(&mut self, at_ns: u64, segment: &CapturedSegment) -> Vec<Completed> {
        if segment.is_syn {
            *self = Self {
                next: Some(segment.sequence.wrapping_add(1)),
                is_lost: false,
                skipped: self.skipped,
                ..Self::default()
            };
            return Vec::new();
        }
        let next = *self.next.get_or_insert(segment.sequence);
        // Sequence numbers are compared modulo 2^32: within half of the space, a negative distance is old data (RFC
        // 9293 section 3.4).
        let apart = i64::from(segment.sequence.wrapping_sub(next).cast_signed());
        let Some(place) = self.read.checked_add_signed(apart) else { return Vec::new() };
        if !segment.data.is_empty() {
            let longer = self.ahead.get(&place).is_none_or(|(_, known)| known.len() < segment.data.len());
            if longer {
                self.ahead.insert(place, (at_ns, segment.data.clone()));
            }
        }
        let waiting: usize = self.ahead.values().map(|(_, data)| data.len()).sum();
        self.take(segment.ends || waiting > MOST_AHEAD)
    }

    /// Ends the stream: returns the remaining messages, including those after gaps.
    pub fn finish(&mut self) -> Vec<Completed> {
        self.take(true)
    }

    /// The complete messages. If `gives_up` is set, missing bytes count as lost, and messages after gaps are returned
    /// as well.
    fn take(&mut self, gives_up: bool) -> Vec<Completed> {
        let mut found = Vec::new();
        while let Some(entry) = self.ahead.first_entry() {
            let gap = entry.key().saturating_sub(self.read);
            if gap > 0 && !gives_up {
                break;
            }
            let (place, (at_ns, data)) = entry.remove_entry();
            if gap > 0 {
                self.lose(gap);
            }
            // The first `known` bytes were already read.
            let known = usize::try_from(self.read - place).unwrap_or(usize::MAX);
            let new = data.get(known..).unwrap_or_default();
            self.advance(new.len() as u64);
            let mut messages = Vec::new();
            self.read_messages(new, &mut messages);
            found.extend(messages.into_iter().map(|message| (at_ns, message)));
        }
        found
    }

    fn advance(&mut self, by: u64) {
        self.read += by;
        // Sequence numbers wrap around.
        self.next = self.next.map(|next| next.wrapping_add(by as u32));
    }

    /// Skips a gap of this number of bytes.
    fn lose(&mut self, bytes: u64) {
        self.skipped += bytes + self.framer.waiting() as u64;
        self.advance(bytes);
        (self.framer, self.is_lost) = (Framer::new(LONGEST), true);
    }

    fn read_messages(&mut self, mut bytes: &[u8], found: &mut Vec<Bytes>) {
        while !bytes.is_empty() {
            if self.is_lost {
                let Some(begins) = beginning(bytes) else {
                    self.skipped += bytes.len() as u64;
                    return;
                };
                self.skipped += begins as u64;
                (self.is_lost, bytes) = (false, &bytes[begins..]);
            }
            self.framer.push(bytes);
            bytes = &[];
            loop {
                match self.framer.poll() {
                    Ok(Some(Framed::Message(message))) => found.push(message),
                    Ok(Some(Framed::Ping)) => {}
                    Ok(None) => break,
                    Err(_) => {
                        self.skipped += self.framer.waiting() as u64;
                        (self.framer, self.is_lost) = (Framer::new(LONGEST), true);
                        break;
                    }
                }
            }
        }
    }
}

/// The offset of the first start line (RFC 3261 section 7), where a message begins. A preceding body need not end with
/// a line end.
fn beginning(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if let Some(within) = start_within(line) {
            return Some(at + within);
        }
        at += line.len();
    }
    None
}

/// The offset of a start line within a line that may begin with the end of a body.
fn start_within(line: &[u8]) -> Option<usize> {
    const STATUS: &[u8] = b"SIP/2.0 ";
    let status = line.windows(STATUS.len()).position(|window| window == STATUS);
    if let Some(at) = status.filter(|at| line[at + STATUS.len()..].first().is_some_and(u8::is_ascii_digit)) {
        return Some(at);
    }
    let word = line.iter().position(|byte| *byte == b' ')?;
    let method = line[..word].iter().rev().take_while(|byte| byte.is_ascii_uppercase()).count();
    Some(word - method).filter(|at| is_start_line(&line[*at..]))
}

/// Whether a line has the form of a start line.
pub(super) fn is_start_line(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let method = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    let is_method = !method.is_empty() && method.iter().all(u8::is_ascii_uppercase);
    line.starts_with(b"SIP/2.0 ") || (is_method && line.ends_with(b" SIP/2.0"))
}
