//! What several of these tests share.

pub mod sip_server;
pub mod stranger_table;
