//! Tests of the crate's public interface.

mod packets;
mod sctp;
mod tcp;
