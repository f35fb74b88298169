//! What several of these tests share.

pub mod sip_server;
