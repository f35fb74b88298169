//! What several of these tests share.

pub mod far_ends;
pub mod sip_server;
pub mod stranger_table;
