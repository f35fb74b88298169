//! A stream of bytes as messages (RFC 3261 sections 18.3 and 7.5, RFC 5626 section 3.5.1).

use bytes::{Bytes, BytesMut};

use crate::header::Headers;
use crate::message::head_length;
use crate::{Message, Name, ParseError};

/// What is not read: longer header fields than this are an attack, or no SIP.
const LONGEST_HEAD: usize = 64 * 1024;

/// Cuts what a connection delivers into messages.
#[derive(Debug)]
pub struct Framer {
    buffer: BytesMut,
    /// Up to here there is no end of the header fields.
    searched: usize,
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
    /// There is no `Content-Length`, or it is no number: RFC 3261 section 18.3 needs it in streams.
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
        Self { buffer: BytesMut::new(), searched: 0, longest }
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
        let from = self.searched.saturating_sub(3);
        let Some(end) = head_length(&self.buffer[from..]).map(|length| from + length) else {
            self.searched = self.buffer.len();
            let too_long = self.buffer.len() > LONGEST_HEAD.min(self.longest);
            return if too_long { Err(FramingError::HeadTooLong) } else { Ok(None) };
        };
        let length = end.saturating_add(content_length(&self.buffer[..end]).map_err(FramingError::NoLength)?);
        if length > self.longest {
            return Err(FramingError::TooLong { length, longest: self.longest });
        }
        if self.buffer.len() < length {
            self.searched = end - 1;
            return Ok(None);
        }
        self.searched = 0;
        Ok(Some(Framed::Message(self.buffer.split_to(length).freeze())))
    }
}

/// What the header fields say of the body.
fn content_length(head: &[u8]) -> Result<usize, ParseError> {
    const RULE: &str = "RFC 3261 section 18.3";
    let error = |expected: &'static str| ParseError { at: 0, expected, rule: RULE };
    for line in head.split(|byte| *byte == b'\n').skip(1) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let Ok(name) = std::str::from_utf8(&line[..colon]) else { continue };
        if Name::new(name.trim_end_matches([' ', '\t'])) == Name::ContentLength {
            let value = std::str::from_utf8(&line[colon + 1..]).map_err(|_| error("a number"))?;
            let mut headers = Headers::default();
            headers.push(Name::ContentLength, value.trim());
            let length = headers.number(&Name::ContentLength)?.unwrap_or(0);
            return usize::try_from(length).map_err(|_| error("a number"));
        }
    }
    Err(error("Content-Length"))
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
        assert_eq!(poll(&[b'x'; 101]), Err(FramingError::HeadTooLong));
        assert_eq!(poll(&[b'x'; 100]), Ok(None));
    }
}
