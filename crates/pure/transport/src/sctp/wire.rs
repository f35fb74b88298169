//! Encoding and decoding of SCTP packets (RFC 9260 section 3), without the IP or UDP header.
//!
//! [`decode`] never panics, and the memory that it allocates is limited to a small multiple of its input. It is as
//! tolerant as the RFC requires. Unknown chunks, parameters and causes are kept, so that the association can act on the
//! highest bits of their types. The content of padding is ignored, and padding at the end may be missing.

use super::checksum::extend;
use super::packet::chunk::CHUNK_HEADER;
pub use super::packet::tlv::DecodeError;
use super::packet::tlv::{FieldReader, TlvItems, TlvWriter};
use super::packet::{COMMON_HEADER, Chunk, Chunks, Packet};

/// Checksum of packets.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Checksum {
    /// CRC32c (RFC 9260 section 6.8).
    #[default]
    Crc32c,
    /// Zero is sent and any value accepted, if a lower layer protects the packet (RFC 9653).
    Zero,
}

/// Decodes a packet, and verifies its CRC32c.
///
/// # Errors
/// If the bytes are not a well-formed packet, or the checksum is wrong.
pub fn decode(bytes: &[u8]) -> Result<Packet, DecodeError> {
    decode_with(bytes, Checksum::Crc32c)
}

/// Decodes a packet, and verifies the checksum as `checksum` requires.
///
/// # Errors
/// If the bytes are not a well-formed packet, or the checksum is wrong.
pub fn decode_with(bytes: &[u8], checksum: Checksum) -> Result<Packet, DecodeError> {
    if bytes.len() < (COMMON_HEADER + CHUNK_HEADER) as usize {
        return Err(DecodeError::TooShort(bytes.len()));
    }
    let mut reader = FieldReader::new(bytes, "common header");
    let (src_port, dst_port, verification_tag) = (reader.u16()?, reader.u16()?, reader.u32()?);
    let found = reader.u32()?.swap_bytes();
    if checksum == Checksum::Crc32c {
        let computed = crc_of_packet(bytes);
        if computed != found {
            return Err(DecodeError::Checksum { found, computed });
        }
    }
    let mut chunks = Chunks::new();
    for item in TlvItems::new(reader.rest()) {
        let (head, value) = item?;
        let [kind, flags] = head.to_be_bytes();
        let chunk = Chunk::decode(kind, flags, value)?;
        // RFC 9260 section 3.2: an unknown chunk may stop the processing of the packet.
        let stop = matches!(&chunk, Chunk::Unknown(unknown) if !unknown.action().skip);
        chunks.push(chunk);
        if stop {
            break;
        }
    }
    Ok(Packet { src_port, dst_port, verification_tag, chunks })
}

/// Encodes a packet with its CRC32c. Bulk data ([`netrig_core::Data::Fill`]) is written as zeros.
pub fn encode(packet: &Packet) -> Vec<u8> {
    encode_with(packet, Checksum::Crc32c)
}

/// Encodes a packet with the checksum that `checksum` requires.
pub fn encode_with(packet: &Packet, checksum: Checksum) -> Vec<u8> {
    let mut out = TlvWriter::with_capacity(packet.wire_len() as usize);
    out.u16(packet.src_port);
    out.u16(packet.dst_port);
    out.u32(packet.verification_tag);
    out.u32(0);
    packet.chunks.iter().for_each(|chunk| chunk.encode(&mut out));
    let mut bytes = out.into_bytes();
    if checksum == Checksum::Crc32c {
        let crc = crc_of_packet(&bytes);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

/// RFC 9260 section 6.8: the checksum of the packet, with zeros in the checksum field.
fn crc_of_packet(bytes: &[u8]) -> u32 {
    extend(extend(extend(0, &bytes[..8]), &[0; 4]), &bytes[12..])
}
