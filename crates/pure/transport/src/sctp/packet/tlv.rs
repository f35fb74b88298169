//! Items with type, length and value: the format of chunks, parameters and error causes (RFC 9260 section 3.2).

/// `len` rounded up to a multiple of four: the length of an item including its padding (RFC 9260 section 3.2).
pub(crate) const fn padded(len: u32) -> u32 {
    len.next_multiple_of(4)
}

/// The action for an unknown chunk or parameter. The two highest bits of its type select it (RFC 9260 sections 3.2 and
/// 3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownAction {
    /// Whether to continue with the next item. Otherwise the rest of the packet (for a chunk) or of the chunk (for a
    /// parameter) is discarded.
    pub skip: bool,
    /// Whether to report the item to the sender of the packet.
    pub report: bool,
}

impl UnknownAction {
    /// The action for an unknown chunk type.
    pub const fn of_chunk(kind: u8) -> Self {
        Self { skip: kind & 0x80 != 0, report: kind & 0x40 != 0 }
    }

    /// The action for an unknown parameter type.
    pub const fn of_parameter(kind: u16) -> Self {
        Self { skip: kind & 0x8000 != 0, report: kind & 0x4000 != 0 }
    }
}

/// Reason why bytes are not an SCTP packet. The RFC allows the receiver to discard such packets silently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Shorter than the common header and one chunk header.
    #[error("{0} bytes are too few for a packet with a chunk")]
    TooShort(usize),
    /// The packet was corrupted, or the sender does not compute the checksum.
    #[error("the checksum is {found:#010x} where the bytes have {computed:#010x}")]
    Checksum {
        /// The checksum in the packet.
        found: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// The length of a chunk, parameter or cause is less than its header length, or more than the number of remaining
    /// bytes.
    #[error("length {length} of an item with {left} bytes left")]
    Length {
        /// The length field.
        length: u16,
        /// Number of remaining bytes.
        left: usize,
    },
    /// A chunk is too short for its fixed fields, or a mandatory part is missing.
    #[error("malformed {chunk} chunk")]
    Chunk {
        /// Name of the chunk.
        chunk: &'static str,
    },
    /// The length of a parameter is invalid for its type.
    #[error("malformed parameter of type {kind}")]
    Parameter {
        /// Type of the parameter.
        kind: u16,
    },
}

/// Writes big-endian fields, and items with type, length and padding.
#[derive(Debug, Default)]
pub(crate) struct TlvWriter {
    bytes: Vec<u8>,
}

impl TlvWriter {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn zeros(&mut self, n: usize) {
        self.bytes.resize(self.bytes.len() + n, 0);
    }

    /// Writes an item: `head` (type, or type and flags), length, value, and padding with zeros. The length includes the
    /// header and the value, but not the padding (RFC 9260 section 3.2). If an item contains other items, the padding
    /// of the last of them belongs to the outer item.
    pub(crate) fn item(&mut self, head: u16, value: impl FnOnce(&mut Self)) {
        self.pad();
        let start = self.bytes.len();
        self.u16(head);
        self.u16(0);
        value(self);
        // The sender limits chunks to the MTU, so the length fits 16 bits.
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        self.bytes[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Pads with zeros to a multiple of four bytes, counted from the start of the packet.
    fn pad(&mut self) {
        self.zeros(self.bytes.len().next_multiple_of(4) - self.bytes.len());
    }

    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.pad();
        self.bytes
    }
}

/// Reads big-endian fields of one chunk or cause.
pub(crate) struct FieldReader<'a> {
    left: &'a [u8],
    /// Name of the item that is read, for the error.
    of: &'static str,
}

impl<'a> FieldReader<'a> {
    pub(crate) const fn new(bytes: &'a [u8], of: &'static str) -> Self {
        Self { left: bytes, of }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (front, left) = self.left.split_first_chunk().ok_or(DecodeError::Chunk { chunk: self.of })?;
        self.left = left;
        Ok(*front)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.left
    }
}

/// Iterates over items with a 16-bit head and a 16-bit length: chunks, parameters, causes.
pub(crate) struct TlvItems<'a> {
    left: &'a [u8],
}

impl<'a> TlvItems<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }
}

impl<'a> Iterator for TlvItems<'a> {
    /// The head, and the value without header and padding.
    type Item = Result<(u16, &'a [u8]), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let left = self.left;
        if left.is_empty() {
            return None;
        }
        // The iteration ends after an error.
        self.left = &[];
        let Some((header, _)) = left.split_first_chunk::<4>() else {
            return Some(Err(DecodeError::Length { length: 0, left: left.len() }));
        };
        let head = u16::from_be_bytes([header[0], header[1]]);
        let length = u16::from_be_bytes([header[2], header[3]]);
        let Some(value) = left.get(4..usize::from(length)) else {
            return Some(Err(DecodeError::Length { length, left: left.len() }));
        };
        // The padding of the last item may be missing.
        self.left = left.get(padded(u32::from(length)) as usize..).unwrap_or(&[]);
        Some(Ok((head, value)))
    }
}
