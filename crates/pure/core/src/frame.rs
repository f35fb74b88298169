//! Packets as captures keep them: bytes at an interface.

use crate::Instant;

/// The direction in which a frame passes the interface of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heading {
    /// From the link to the node.
    Inbound,
    /// From the node to the link.
    Outbound,
}

/// A packet at the interface of a node, as the bytes that a capture keeps.
///
/// It holds bytes, not structures, so a reader cannot tell a frame of a kernel's socket from one that a model wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Time at which the frame passes the interface.
    pub at: Instant,
    /// The node, by its index in the scenario.
    pub node: u32,
    /// The link of the interface, by its index in the scenario.
    pub link: u32,
    /// Direction at the interface.
    pub heading: Heading,
    /// The kept bytes, from the first byte of the IP header.
    pub bytes: &'a [u8],
    /// Length of the whole packet, bytes. It exceeds the length of `bytes` if the capture is truncated.
    pub original_len: u32,
}
