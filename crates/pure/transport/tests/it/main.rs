//! Tests of the crate by its public interface.

mod packets;
mod sctp;
mod tcp;
