//! Packets as a capture sees them: bytes at an interface.

use crate::Instant;

/// Which way a frame passes the interface of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heading {
    /// From the link to the node.
    Inbound,
    /// From the node to the link.
    Outbound,
}

/// A packet at the interface of a node, as the bytes that a capture keeps.
///
/// Bytes and not structures, so that a frame of a kernel's socket and one that a model writes are the same to
/// whoever reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// When it passes.
    pub at: Instant,
    /// The node, by its place in the scenario.
    pub node: u32,
    /// The link that the interface leads to, by its place in the scenario.
    pub link: u32,
    /// Which way.
    pub heading: Heading,
    /// From the first byte of the IP header on.
    pub bytes: &'a [u8],
    /// Length of the packet, bytes: more than there are `bytes` if not all were kept.
    pub original_len: u32,
}
