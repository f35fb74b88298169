//! Framing: a stream of bytes is split into messages (RFC 3261 sections 18.3 and 7.5, RFC 5626 section 3.5.1).

use bytes::{Bytes, BytesMut};

use crate::header::Headers;
use crate::message::head_length;
use crate::{Message, Name, ParseError};

/// Largest head of a message (start line and header fields), bytes. A longer head is an attack, or not SIP.
pub(crate) const LONGEST_HEAD: usize = 64 * 1024;

/// Splits the bytes of a connection into messages.
#[derive(Debug)]
pub struct Framer {
    buffer: BytesMut,
    /// Number of bytes at the start of the buffer that were searched and do not contain the end of the header fields.
    searched: usize,
    /// Length of the incomplete message, once its header fields are complete: they are read only once.
    length: Option<usize>,
    longest: usize,
}

/// A stream cannot be read further. The start of the next message is unknown, so the connection must be closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// The header fields have no end within the limit.
    #[error("the header fields are longer than {LONGEST_HEAD} bytes")]
    HeadTooLong,
    /// A message exceeds the limit.
    #[error("a message of {length} bytes is longer than the limit of {longest}")]
    TooLong {
        /// Length of the message, bytes.
        length: usize,
        /// The limit, bytes.
        longest: usize,
    },
    /// `Content-Length` is missing, is not a number, or occurs twice with different values. RFC 3261 section 18.3
    /// requires it in streams.
    #[error("the length of the body is unknown: {0}")]
    NoLength(ParseError),
}

/// An item of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Framed {
    /// A complete message, not parsed.
    Message(Bytes),
    /// A keep-alive of two line ends. The reply is one line end (RFC 5626 section 3.5.1).
    Ping,
}

impl Framer {
    /// A framer that refuses messages of more than `longest` bytes.
    pub fn new(longest: usize) -> Self {
        Self { buffer: BytesMut::new(), searched: 0, length: None, longest }
    }

    /// Appends received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Number of received bytes that [`Framer::poll`] has not returned.
    pub fn waiting(&self) -> usize {
        self.buffer.len()
    }

    /// The next item, if it is complete.
    ///
    /// # Errors
    /// The stream cannot be read any further.
    pub fn poll(&mut self) -> Result<Option<Framed>, FramingError> {
        const PING: &[u8] = b"\r\n\r\n";
        // No message begins with a line end. One line end is a pong, two are a ping, and fewer bytes may become a ping.
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

    /// Length of the message at the start, once its header fields are complete.
    fn next_length(&mut self) -> Result<Option<usize>, FramingError> {
        if self.length.is_none() {
            let from = self.searched.saturating_sub(3);
            let end = head_length(&self.buffer[from..]).map(|length| from + length);
            // The limit is the same whether the head arrives in one piece or in several.
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

/// The `Content-Length` of the header fields. If another field is wrong, only the message is refused and the stream continues.
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
            // If two values differ, the next element may use the other value and find a different message in the
            // stream.
            if found.is_some_and(|found| Some(found) != length) {
                return Err(error("one Content-Length"));
            }
            found = length;
        }
    }
    found.and_then(|length| usize::try_from(length).ok()).ok_or_else(|| error("Content-Length"))
}

/// Joins folded lines: a line that begins with white space continues the line before it (RFC 3261 section 7.3.1).
fn unfolded(head: &[u8]) -> Vec<u8> {
    let is_fold = |at: usize| matches!(head.get(at + 1), Some(b' ' | b'\t'));
    head.iter()
        .enumerate()
        .map(|(at, byte)| if *byte == b'\n' && is_fold(at) { b' ' } else { *byte })
        .collect()
}

/// A message of a stream is parsed like a datagram.
impl Framed {
    /// The parsed message; `None` for a ping.
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
