//! SCTP (RFC 9260) with its wire format.

/// An SCTP packet.
#[derive(Clone, Debug)]
pub struct Packet {}

impl Packet {
    /// Whether a DATA chunk is in it.
    pub fn carries_data(&self) -> bool {
        false
    }
}
