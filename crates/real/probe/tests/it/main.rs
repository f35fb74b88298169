//! Tests of the public interface of the crate.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "these tests open sockets, start programs and read files, and what cannot go on has failed"
)]

mod any_ftp_reply;
mod any_http;
mod any_icmp_error;
mod any_stamp_packet;
mod corpora;
mod far_ends;
mod probe_ftp;
mod probe_media;
mod probe_strangers;
