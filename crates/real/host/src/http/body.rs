//! Finds the end of the body of an HTTP message. Counts the octets of the body, but does not keep them.

use super::message::{BodyFraming, HttpError};

/// Maximum octets of a chunk-size line.
const LONGEST_LINE: usize = 1024;

/// Maximum octets of the trailer fields.
const LONGEST_TRAILER: usize = 8 << 10;

/// A body that is being received.
#[derive(Clone, Debug)]
pub struct HttpBody {
    state: BodyState,
    /// Received octets of the body, without chunk framing.
    received: u64,
}

#[derive(Clone, Debug)]
enum BodyState {
    /// This number of octets is left.
    Left(u64),
    /// The body ends when the connection is closed.
    UntilClose,
    /// In a chunk-size line: the octets of the line that were received so far.
    Size { line: Vec<u8> },
    /// This number of octets of a chunk is left.
    Chunk(u64),
    /// In the line end after a chunk: whether the CR was received.
    ChunkEnd { cr: bool },
    /// In the trailer fields: the number of octets of the current line without its line end, and of all lines.
    Trailer { line: usize, all: usize },
    /// The body has ended.
    Done,
}

impl HttpBody {
    /// A body with this framing, before its first octet.
    pub const fn new(framing: BodyFraming) -> Self {
        let state = match framing {
            BodyFraming::Length(0) => BodyState::Done,
            BodyFraming::Length(length) => BodyState::Left(length),
            BodyFraming::Chunked => BodyState::Size { line: Vec::new() },
            BodyFraming::UntilClose => BodyState::UntilClose,
        };
        Self { state, received: 0 }
    }

    /// Received octets of the body.
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Whether the body is complete. Always false for a body that ends when the connection is closed.
    pub const fn is_done(&self) -> bool {
        matches!(self.state, BodyState::Done)
    }

    /// Whether the body is complete if the connection is closed now.
    pub const fn may_close(&self) -> bool {
        matches!(self.state, BodyState::Done | BodyState::UntilClose)
    }

    /// Processes octets. Octets after the end of the body are ignored.
    ///
    /// # Errors
    /// If a chunk is malformed.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<(), HttpError> {
        while let (Some((first, rest)), false) = (bytes.split_first(), self.is_done()) {
            match &mut self.state {
                BodyState::Done => {}
                BodyState::UntilClose => {
                    self.received += bytes.len() as u64;
                    return Ok(());
                }
                BodyState::Left(left) | BodyState::Chunk(left) => {
                    let some = (bytes.len() as u64).min(*left);
                    *left -= some;
                    self.received += some;
                    bytes = &bytes[some as usize..];
                    self.state = match self.state {
                        BodyState::Left(0) => BodyState::Done,
                        BodyState::Chunk(0) => BodyState::ChunkEnd { cr: false },
                        _ => return Ok(()),
                    };
                    continue;
                }
                BodyState::Size { line } if *first == b'\n' => {
                    self.state = match size(line)? {
                        0 => BodyState::Trailer { line: 0, all: 0 },
                        size => BodyState::Chunk(size),
                    };
                }
                BodyState::Size { line } if line.len() == LONGEST_LINE => {
                    return Err(HttpError::Chunk("the line with its length is too long"));
                }
                BodyState::Size { line } => line.push(*first),
                BodyState::ChunkEnd { .. } if *first == b'\n' => {
                    self.state = BodyState::Size { line: Vec::new() }
                }
                BodyState::ChunkEnd { cr } if *first == b'\r' && !*cr => *cr = true,
                BodyState::ChunkEnd { .. } => {
                    return Err(HttpError::Chunk("it is longer than its stated length"));
                }
                BodyState::Trailer { all, .. } if *all == LONGEST_TRAILER => {
                    return Err(HttpError::Chunk("the fields behind the last chunk are too long"));
                }
                BodyState::Trailer { line: 0, .. } if *first == b'\n' => self.state = BodyState::Done,
                BodyState::Trailer { line, all } => {
                    *all += 1;
                    *line = match *first {
                        b'\n' => 0,
                        b'\r' => *line,
                        _ => *line + 1,
                    };
                }
            }
            bytes = rest;
        }
        Ok(())
    }
}

/// The length in a chunk-size line: hexadecimal digits, optionally with an extension.
fn size(line: &[u8]) -> Result<u64, HttpError> {
    const WRONG: HttpError = HttpError::Chunk("its length is not a hexadecimal number of at most 15 digits");
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let text = std::str::from_utf8(digits).map_err(|_| WRONG)?;
    let is_number = (1..=15).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|_| is_number).ok_or(WRONG)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Processes a body in pieces of this length. Returns the number of received octets, and whether the body is
    /// complete.
    fn took(framing: BodyFraming, bytes: &[u8], piece: usize) -> Result<(u64, bool), HttpError> {
        let mut body = HttpBody::new(framing);
        bytes.chunks(piece.max(1)).try_for_each(|piece| body.take(piece))?;
        Ok((body.received(), body.is_done()))
    }

    #[test]
    fn a_body_in_chunks_ends_behind_the_empty_one() {
        let body =
            b"4\r\nWiki\r\n6;name=value\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nTrailer: x\r\n\r\nnext";
        for piece in 1..body.len() {
            assert_eq!(took(BodyFraming::Chunked, body, piece), Ok((24, true)), "{piece}");
        }
        let end = body.len() - b"next".len();
        assert_eq!(took(BodyFraming::Chunked, &body[..end - 1], 7), Ok((24, false)), "a line is missing");
    }

    #[test]
    fn what_is_no_chunk_is_told() {
        for wrong in
            ["x\r\n", "\r\n", "-1\r\n", "0x1\r\n", "1\r\nab\r\n", "1\r\na\r\r\n", "ffffffffffffffff\r\n"]
        {
            assert!(
                matches!(took(BodyFraming::Chunked, wrong.as_bytes(), 1), Err(HttpError::Chunk(_))),
                "{wrong:?}"
            );
        }
        let endless = "1".repeat(LONGEST_LINE + 1);
        assert!(took(BodyFraming::Chunked, endless.as_bytes(), 100).is_err());
        let trailer = format!("0\r\n{}", "a: b\r\n".repeat(LONGEST_TRAILER));
        assert!(took(BodyFraming::Chunked, trailer.as_bytes(), 100).is_err());
    }

    proptest! {
        #[test]
        fn a_body_of_known_length_ends_there(length in 0u64..300, sent in 0usize..400, piece in 1usize..50) {
            let (received, done) = took(BodyFraming::Length(length), &vec![7; sent], piece).unwrap();
            prop_assert_eq!(received, length.min(sent as u64));
            prop_assert_eq!(done, received == length);
            prop_assert_eq!(took(BodyFraming::UntilClose, &vec![7; sent], piece), Ok((sent as u64, false)));
        }

        #[test]
        fn chunks_are_counted_however_they_come(chunks in proptest::collection::vec(1usize..300, 0..10), piece in 1usize..200) {
            let mut bytes = Vec::new();
            for len in &chunks {
                bytes.extend(format!("{len:X}\r\n").bytes());
                bytes.extend(vec![b'\n'; *len]);
                bytes.extend(b"\r\n");
            }
            bytes.extend(b"0\r\n\r\n");
            let total = chunks.iter().sum::<usize>() as u64;
            prop_assert_eq!(took(BodyFraming::Chunked, &bytes, piece), Ok((total, true)));
        }

        /// The result does not depend on how the octets are split into pieces.
        #[test]
        fn any_bytes_mean_the_same_in_any_pieces(bytes in proptest::collection::vec(proptest::sample::select(b"01aF;\r\n x".to_vec()), 0..60), piece in 1usize..20) {
            prop_assert_eq!(took(BodyFraming::Chunked, &bytes, piece), took(BodyFraming::Chunked, &bytes, 1));
        }
    }
}
