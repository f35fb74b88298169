//! Tests of the crate by its public interface.

mod rtp;
