//! A stream of bytes as messages (RFC 3261 sections 18.3 and 7.5, RFC 5626 section 3.5.1).

use bytes::{Bytes, BytesMut};

use crate::header::Headers;
use crate::message::head_length;
use crate::{Message, Name, ParseError};

/// What is not read: longer header fields than this are an attack, or no SIP.
pub(crate) const LONGEST_HEAD: usize = 64 * 1024;

/// Cuts what a connection delivers into messages.
#[derive(Debug)]
pub struct Framer {
    buffer: BytesMut,
    /// Up to here there is no end of the header fields.
    searched: usize,
    /// Of the message that waits for its body: a peer who sends byte by byte has its header fields read once.
    length: Option<usize>,
    longest: usize,
}

/// Why a stream cannot be read any further. Where the next message begins is not known: the connection must be closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// The header fields do not end.
    #[error("header fields of more than {LONGEST_HEAD} bytes")]
    HeadTooLong,
    /// A message is longer than is allowed.
    #[error("a message of {length} bytes, where {longest} are allowed")]
    TooLong {
        /// Of the message.
        length: usize,
        /// What is allowed.
        longest: usize,
    },
    /// There is no `Content-Length`, it is no number, or there are two that differ: RFC 3261 section 18.3 needs it in streams.
    #[error("no length of the body: {0}")]
    NoLength(ParseError),
}

/// What comes out of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Framed {
    /// A message as it stands there, not yet read.
    Message(Bytes),
    /// A keep-alive of two line ends, which is to be answered by one (RFC 5626 section 3.5.1).
    Ping,
}

impl Framer {
    /// Messages of more than `longest` bytes are refused.
    pub fn new(longest: usize) -> Self {
        Self { buffer: BytesMut::new(), searched: 0, length: None, longest }
    }

    /// More has come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes that wait for the rest of their message.
    pub fn waiting(&self) -> usize {
        self.buffer.len()
    }

    /// The next message, if it is here as a whole.
    ///
    /// # Errors
    /// The stream cannot be read any further.
    pub fn poll(&mut self) -> Result<Option<Framed>, FramingError> {
        const PING: &[u8] = b"\r\n\r\n";
        // No message begins with a line end. One alone answers a ping of ours, two are one, and fewer bytes may become one.
        while self.buffer.starts_with(b"\r") {
            if self.buffer.starts_with(PING) {
                let _ = self.buffer.split_to(PING.len());
                return Ok(Some(Framed::Ping));
            }
            if PING.starts_with(&self.buffer) {
                return Ok(None);
            }
            if !self.buffer.starts_with(b"\r\n") {
                break;
            }
            let _ = self.buffer.split_to(2);
        }
        let Some(length) = self.next_length()?.filter(|length| *length <= self.buffer.len()) else {
            return Ok(None);
        };
        (self.searched, self.length) = (0, None);
        Ok(Some(Framed::Message(self.buffer.split_to(length).freeze())))
    }

    /// How long the message at the start is, once its header fields are here.
    fn next_length(&mut self) -> Result<Option<usize>, FramingError> {
        if self.length.is_none() {
            let from = self.searched.saturating_sub(3);
            let end = head_length(&self.buffer[from..]).map(|length| from + length);
            // However the stream was cut: a head that has come as a whole is no longer than one that came in pieces.
            if end.unwrap_or(self.buffer.len()) > LONGEST_HEAD.min(self.longest) {
                return Err(FramingError::HeadTooLong);
            }
            let Some(end) = end else {
                self.searched = self.buffer.len();
                return Ok(None);
            };
            let body = content_length(&self.buffer[..end]).map_err(FramingError::NoLength)?;
            let length = end.saturating_add(body);
            if length > self.longest {
                return Err(FramingError::TooLong { length, longest: self.longest });
            }
            self.length = Some(length);
        }
        Ok(self.length)
    }
}

/// What the header fields say of the body. All else in them may be wrong: its message is refused, and the stream goes on.
fn content_length(head: &[u8]) -> Result<usize, ParseError> {
    const RULE: &str = "RFC 3261 section 18.3";
    let error = |expected: &'static str| ParseError { at: 0, expected, rule: RULE };
    let mut found = None;
    for line in unfolded(head).split(|byte| *byte == b'\n').skip(1) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let Ok(name) = std::str::from_utf8(&line[..colon]) else { continue };
        if Name::new(name.trim_end_matches([' ', '\t'])) == Name::ContentLength {
            let value = std::str::from_utf8(&line[colon + 1..]).map_err(|_| error("a number"))?;
            let mut headers = Headers::default();
            headers.push(Name::ContentLength, value.trim());
            let length = headers.number(&Name::ContentLength)?;
            // Of two that differ, a peer behind this one may take the other, and find another message here.
            if found.is_some_and(|found| Some(found) != length) {
                return Err(error("one Content-Length"));
            }
            found = length;
        }
    }
    found.and_then(|length| usize::try_from(length).ok()).ok_or_else(|| error("Content-Length"))
}

/// Each header field in one line: a line that begins with white space continues the one before it (RFC 3261 section 7.3.1).
fn unfolded(head: &[u8]) -> Vec<u8> {
    let is_fold = |at: usize| matches!(head.get(at + 1), Some(b' ' | b'\t'));
    head.iter()
        .enumerate()
        .map(|(at, byte)| if *byte == b'\n' && is_fold(at) { b' ' } else { *byte })
        .collect()
}

/// A message that came in a stream is read like one that came alone.
impl Framed {
    /// The message, if it is one.
    ///
    /// # Errors
    /// As [`Message::parse`].
    pub fn message(&self) -> Option<Result<Message, ParseError>> {
        match self {
            Self::Message(bytes) => Some(Message::parse(bytes)),
            Self::Ping => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: &[u8] = b"OPTIONS sip:a@b SIP/2.0\r\nl: 3\r\n\r\nabc";

    fn framed(framer: &mut Framer) -> Vec<Framed> {
        std::iter::from_fn(|| framer.poll().unwrap()).collect()
    }

    #[test]
    fn messages_come_out_whole_however_they_are_cut() {
        let stream = [OPTIONS, b"\r\n\r\n", OPTIONS, b"\r\n", OPTIONS].concat();
        let message = || Framed::Message(Bytes::from_static(OPTIONS));
        let expected = [message(), Framed::Ping, message(), message()];
        for piece in 1..stream.len() {
            let mut framer = Framer::new(1000);
            let mut found = Vec::new();
            for bytes in stream.chunks(piece) {
                framer.push(bytes);
                found.extend(framed(&mut framer));
            }
            assert_eq!(found, expected, "pieces of {piece}");
            assert_eq!(framer.waiting(), 0);
        }
    }

    #[test]
    fn a_stream_that_cannot_be_read_ends() {
        let poll = |bytes: &[u8]| {
            let mut framer = Framer::new(100);
            framer.push(bytes);
            framer.poll()
        };
        assert!(matches!(poll(b"OPTIONS sip:a@b SIP/2.0\r\nTo: x\r\n\r\n"), Err(FramingError::NoLength(_))));
        assert!(matches!(poll(b"A\r\nContent-Length: x\r\n\r\n"), Err(FramingError::NoLength(_))));
        assert_eq!(
            poll(b"A\r\nContent-Length: 4000000000\r\n\r\n"),
            Err(FramingError::TooLong { length: 4_000_000_033, longest: 100 })
        );
        assert!(matches!(poll(b"A\r\nl: 0\r\nContent-Length: 1\r\n\r\n"), Err(FramingError::NoLength(_))));
        assert_eq!(poll(&[b'x'; 101]), Err(FramingError::HeadTooLong));
        assert_eq!(poll(&[b'x'; 100]), Ok(None));
    }

    /// RFC 3261 section 7.3.1, for the one header field that a stream itself needs.
    #[test]
    fn a_folded_length_is_one() {
        for head in ["A\r\nContent-Length :\r\n 3\r\n\r\n", "A\r\nSubject: x\r\n l: 9\r\nl: 3\r\nl:3\r\n\r\n"]
        {
            let mut framer = Framer::new(1000);
            framer.push(format!("{head}abcmore").as_bytes());
            let message = framed(&mut framer);
            assert_eq!((message.len(), framer.waiting()), (1, 4), "{head:?}");
        }
    }

    #[test]
    fn a_long_head_ends_a_stream_however_it_is_cut() {
        let head = format!("A\r\nX: {}\r\nl: 0\r\n\r\n", "x".repeat(LONGEST_HEAD));
        for piece in [1000, head.len()] {
            let mut framer = Framer::new(usize::MAX);
            let found = head.as_bytes().chunks(piece).try_for_each(|bytes| {
                framer.push(bytes);
                framer.poll().map(|framed| assert_eq!(framed, None))
            });
            assert_eq!(found, Err(FramingError::HeadTooLong), "pieces of {piece}");
        }
    }
}
