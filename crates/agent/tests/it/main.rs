//! Tests of the crate by its public interface.

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
mod sctp;
mod sip_load;
mod sip_serve;
