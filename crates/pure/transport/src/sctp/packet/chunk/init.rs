//! INIT and INIT ACK (RFC 9260 sections 3.3.2 and 3.3.3).

use std::net::IpAddr;

use crate::Serial;
use crate::sctp::packet::tlv::{DecodeError, FieldReader, TlvWriter, padded};
use crate::sctp::packet::{Cause, Parameter};

/// The content of INIT and INIT ACK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// The verification tag that packets to the sender of this chunk must have; never zero.
    pub initiate_tag: u32,
    /// Advertised receiver window, bytes; at least 1500.
    pub a_rwnd: u32,
    /// Number of outbound streams that the sender requests; never zero.
    pub outbound_streams: u16,
    /// Number of inbound streams that the sender supports; never zero.
    pub inbound_streams: u16,
    /// TSN of the sender's first DATA chunk.
    pub initial_tsn: Serial,
    /// Addresses, cookie, and other parameters.
    pub parameters: Vec<Parameter>,
}

impl Init {
    /// The addresses that the sender lists.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Address(address) => Some(*address),
            _ => None,
        })
    }

    /// The state cookie. Only an INIT ACK has one.
    pub fn cookie(&self) -> Option<&[u8]> {
        self.parameters.iter().find_map(|parameter| match parameter {
            Parameter::Cookie(cookie) => Some(cookie.as_slice()),
            _ => None,
        })
    }

    /// The unknown parameters that the receiver must report, each encoded with its header. Only the first ones are
    /// returned whose reports fit both `room` bytes and [`Cause::MOST_RETURNED`]. Each report has an additional header
    /// of `header` bytes.
    pub(crate) fn unrecognized(&self, room: usize, header: usize) -> impl Iterator<Item = Vec<u8>> {
        let mut room = room.min(Cause::MOST_RETURNED);
        self.parameters
            .iter()
            .filter(|parameter| parameter.unknown_action().is_some_and(|action| action.report))
            .map(Parameter::to_bytes)
            .map_while(move |bytes| {
                room = room.checked_sub(header + bytes.len())?;
                Some(bytes)
            })
    }

    pub(crate) fn value_len(&self) -> u32 {
        let (last, others) = match self.parameters.split_last() {
            Some(split) => split,
            None => return 16,
        };
        16 + others.iter().map(|parameter| padded(parameter.len())).sum::<u32>() + last.len()
    }

    pub(super) fn encode(&self, out: &mut TlvWriter) {
        out.u32(self.initiate_tag);
        out.u32(self.a_rwnd);
        out.u16(self.outbound_streams);
        out.u16(self.inbound_streams);
        out.u32(self.initial_tsn.0);
        self.parameters.iter().for_each(|parameter| parameter.encode(out));
    }

    pub(super) fn decode(value: &[u8], chunk: &'static str) -> Result<Self, DecodeError> {
        let mut reader = FieldReader::new(value, chunk);
        Ok(Self {
            initiate_tag: reader.u32()?,
            a_rwnd: reader.u32()?,
            outbound_streams: reader.u16()?,
            inbound_streams: reader.u16()?,
            initial_tsn: Serial(reader.u32()?),
            parameters: Parameter::decode_all(reader.rest())?,
        })
    }
}
