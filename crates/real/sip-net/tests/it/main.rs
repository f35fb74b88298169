//! Tests of the public interface of the crate.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "these tests open sockets, start programs and read files, and what cannot go on has failed"
)]

mod any_dns_answer;
mod corpora;
mod line;
mod sip_load;
mod sip_serve;
mod sip_server;
mod sip_strangers;
