//! Tests of the crate by its public interface.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "these tests open sockets, start programs and read files, and what cannot go on has failed"
)]

mod any_control_frame;
mod any_dns_answer;
mod any_ftp_reply;
mod any_http;
mod any_icmp_error;
mod any_stamp_packet;
mod common;
mod control;
mod corpora;
mod loopback;
mod probe_ftp;
mod probe_media;
mod probe_strangers;
mod sctp;
mod sip_load;
mod sip_serve;
mod sip_strangers;
