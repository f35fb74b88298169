//! Received bytes of the control connection that have not been read yet.

use super::error::SessionError;

/// Received bytes that may be an incomplete message.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    read: usize,
}

impl Inbox {
    /// Appends received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.read);
        self.read = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Reads the next byte, if one has arrived.
    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.read)?;
        self.read += 1;
        Some(byte)
    }

    /// Reads the next `N` bytes, if all of them have arrived.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = *self.bytes.get(self.read..)?.first_chunk()?;
        self.read += N;
        Some(bytes)
    }

    /// Reads the next JSON text, which has a length prefix, if all of it has arrived.
    pub fn json(&mut self, longest: u32) -> Result<Option<Vec<u8>>, SessionError> {
        let rest = &self.bytes[self.read..];
        let Some(length) = rest.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)) else {
            return Ok(None);
        };
        if !(1..=longest).contains(&length) {
            return Err(SessionError::Length { length, longest });
        }
        let Some(json) = rest[4..].get(..length as usize) else { return Ok(None) };
        let json = json.to_vec();
        self.read += 4 + json.len();
        Ok(Some(json))
    }

    /// Discards all bytes.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Adds the length prefix to a JSON text, which is far shorter than 4 GiB.
pub(super) fn framed(json: &[u8]) -> Vec<u8> {
    let length = u32::try_from(json.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), json].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_read_once_it_is_whole() {
        let mut inbox = Inbox::default();
        inbox.push(&[9]);
        assert_eq!(inbox.byte(), Some(9));
        let bytes = framed(b"{}");
        for byte in &bytes[..5] {
            inbox.push(&[*byte]);
            assert_eq!(inbox.json(2).unwrap(), None);
        }
        inbox.push(b"}\x01\x02\x03");
        assert_eq!(inbox.json(2).unwrap(), Some(b"{}".to_vec()));
        assert_eq!(inbox.array::<4>(), None);
        assert_eq!(inbox.array::<3>(), Some([1, 2, 3]));
        assert_eq!(inbox.byte(), None);
    }

    #[test]
    fn a_length_alone_takes_no_memory() {
        let mut inbox = Inbox::default();
        inbox.push(&[0, 0, 0, 3]);
        assert!(matches!(inbox.json(2), Err(SessionError::Length { length: 3, longest: 2 })));
        inbox.clear();
        inbox.push(&[0; 4]);
        assert!(matches!(inbox.json(2), Err(SessionError::Length { length: 0, longest: 2 })));
    }
}
