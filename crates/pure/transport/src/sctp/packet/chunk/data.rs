//! DATA (RFC 9260 section 3.3.1).

use netrig_core::StreamId;

use crate::Serial;
use crate::sctp::packet::tlv::{DecodeError, FieldReader, TlvWriter};

/// Length of the header of a DATA chunk, bytes.
pub const DATA_HEADER: u32 = 16;

/// A user message, or a fragment of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// Transmission sequence number.
    pub tsn: Serial,
    /// Stream.
    pub stream: StreamId,
    /// Stream sequence number. It is ignored if `unordered` is true.
    pub ssn: u16,
    /// Payload protocol identifier, chosen by the user.
    pub ppid: u32,
    /// The U bit: the message is delivered without regard to order.
    pub unordered: bool,
    /// The B bit: this is the first fragment of a message.
    pub beginning: bool,
    /// The E bit: this is the last fragment of a message.
    pub ending: bool,
    /// The I bit: the receiver should not delay its SACK (RFC 9260 section 6.2, RFC 7053).
    pub immediate: bool,
    /// The user's bytes.
    pub data: netrig_core::Data,
}

impl Data {
    pub(super) fn value_len(&self) -> u32 {
        // The sender limits chunks to the path's MTU, so the length fits 16 bits.
        DATA_HEADER - 4 + self.data.size() as u32
    }

    pub(super) const fn flags(&self) -> u8 {
        (self.immediate as u8) << 3
            | (self.unordered as u8) << 2
            | (self.beginning as u8) << 1
            | self.ending as u8
    }

    pub(super) fn encode(&self, out: &mut TlvWriter) {
        out.u32(self.tsn.0);
        out.u16(self.stream.0);
        out.u16(self.ssn);
        out.u32(self.ppid);
        match &self.data {
            netrig_core::Data::Fill(len) => out.zeros(*len as usize),
            netrig_core::Data::Bytes(bytes) => out.bytes(bytes),
        }
    }

    pub(super) fn decode(flags: u8, value: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = FieldReader::new(value, "DATA");
        Ok(Self {
            tsn: Serial(reader.u32()?),
            stream: StreamId(reader.u16()?),
            ssn: reader.u16()?,
            ppid: reader.u32()?,
            immediate: flags & 8 != 0,
            unordered: flags & 4 != 0,
            beginning: flags & 2 != 0,
            ending: flags & 1 != 0,
            data: netrig_core::Data::Bytes(reader.rest().into()),
        })
    }
}
