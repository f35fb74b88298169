//! Data that the user has sent and the peer has not yet acknowledged.

use std::collections::VecDeque;
use std::sync::Arc;

use netrig_core::Data;

/// One piece of the stream. It begins at the end of the preceding piece and ends at `end`.
#[derive(Clone, Debug)]
struct StreamPiece {
    end: u64,
    /// `None` for data without content.
    bytes: Option<Arc<[u8]>>,
}

/// The unacknowledged part of the stream, indexed by offset. Bulk data of any length is a single piece.
#[derive(Clone, Debug)]
pub(crate) struct SendBuffer {
    pieces: VecDeque<StreamPiece>,
    /// Offsets of the ends of messages. `None` if message boundaries are not kept.
    borders: Option<VecDeque<u64>>,
    start: u64,
    end: u64,
}

impl SendBuffer {
    /// An empty stream. The first byte will have the offset `start`. If `borders` is true, it records the ends of
    /// messages.
    pub fn new(start: u64, borders: bool) -> Self {
        Self { pieces: VecDeque::new(), borders: borders.then(VecDeque::new), start, end: start }
    }

    /// The offset after the last byte.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Number of bytes in the buffer.
    pub fn held(&self) -> u64 {
        self.end - self.start
    }

    /// Appends to the stream.
    pub fn push(&mut self, data: Data) {
        if data.size() == 0 {
            return;
        }
        self.end += data.size();
        let end = self.end;
        match (data, self.pieces.back_mut()) {
            (Data::Fill(_), Some(last)) if last.bytes.is_none() => last.end = end,
            (Data::Fill(_), _) => self.pieces.push_back(StreamPiece { end, bytes: None }),
            (Data::Bytes(bytes), _) => self.pieces.push_back(StreamPiece { end, bytes: Some(bytes) }),
        }
        if let Some(borders) = &mut self.borders {
            borders.push_back(end);
        }
    }

    /// End of the message that contains the byte at `offset`, or the end of the stream if message boundaries are not
    /// kept.
    pub fn message_end(&self, offset: u64) -> u64 {
        let Some(borders) = &self.borders else { return self.end };
        borders.get(borders.partition_point(|border| *border <= offset)).copied().unwrap_or(self.end)
    }

    /// Drops everything before `offset`.
    pub fn release(&mut self, offset: u64) {
        self.start = offset.clamp(self.start, self.end);
        while self.pieces.front().is_some_and(|piece| piece.end <= offset) {
            self.pieces.pop_front();
        }
        if let Some(borders) = &mut self.borders {
            while borders.front().is_some_and(|border| *border <= offset) {
                borders.pop_front();
            }
        }
    }

    /// The data from `start` to `end`, which must be in the buffer. If the range has both bytes and data without
    /// content, the latter becomes zeros.
    pub fn read(&self, start: u64, end: u64) -> Data {
        if let Some(StreamPiece { end: piece_end, bytes: None }) = self.pieces.front()
            && end <= *piece_end
        {
            return Data::Fill(end - start);
        }
        let first = self.pieces.partition_point(|piece| piece.end <= start);
        match self.pieces.get(first) {
            Some(StreamPiece { end: piece_end, bytes: None }) if end <= *piece_end => Data::Fill(end - start),
            Some(StreamPiece { end: piece_end, bytes: Some(bytes) })
                if end == *piece_end && end - start == bytes.len() as u64 =>
            {
                Data::Bytes(bytes.clone())
            }
            _ => Data::Bytes(self.copy(first, start, end)),
        }
    }

    /// Copies `start..end` from the pieces, beginning with the piece at index `first`.
    fn copy(&self, first: usize, start: u64, end: u64) -> Arc<[u8]> {
        let mut copy = Vec::with_capacity((end - start) as usize);
        let mut at = start;
        for piece in self.pieces.iter().skip(first) {
            if at == end {
                break;
            }
            let until = end.min(piece.end);
            match &piece.bytes {
                None => copy.resize((until - start) as usize, 0),
                Some(bytes) => {
                    let piece_start = piece.end - bytes.len() as u64;
                    copy.extend_from_slice(
                        &bytes[(at - piece_start) as usize..(until - piece_start) as usize],
                    );
                }
            }
            at = until;
        }
        copy.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_data_is_one_piece() {
        let mut buffer = SendBuffer::new(1, false);
        (0..1000).for_each(|_| buffer.push(Data::Fill(1_000_000)));
        assert_eq!(buffer.pieces.len(), 1);
        assert_eq!(buffer.read(1_000, 2_460), Data::Fill(1460));
        buffer.release(999_000_001);
        assert_eq!((buffer.held(), buffer.end()), (1_000_000, 1_000_000_001));
    }

    #[test]
    fn pieces_are_joined_and_cut() {
        let mut buffer = SendBuffer::new(1, false);
        buffer.push(Data::Bytes(Arc::from(*b"abc")));
        buffer.push(Data::Fill(2));
        buffer.push(Data::Bytes(Arc::from(*b"xyz")));
        assert_eq!(buffer.read(1, 4), Data::Bytes(Arc::from(*b"abc")));
        assert_eq!(buffer.read(2, 8), Data::Bytes(Arc::from(*b"bc\0\0xy")));
        assert_eq!(buffer.read(4, 6), Data::Fill(2));
        buffer.release(7);
        assert_eq!(buffer.read(7, 9), Data::Bytes(Arc::from(*b"yz")));
    }

    #[test]
    fn messages_end_where_they_were_given() {
        let mut buffer = SendBuffer::new(1, true);
        buffer.push(Data::Fill(10));
        buffer.push(Data::Fill(5));
        assert_eq!([buffer.message_end(1), buffer.message_end(10), buffer.message_end(11)], [11, 11, 16]);
    }
}
