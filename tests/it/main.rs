//! Tests that concern more than one crate.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "these tests read the source tree and start programs, and what cannot go on has failed"
)]

mod access_speed;
mod borders;
mod bundling;
mod captures;
mod chance;
mod code_points;
mod conditioning_theory;
mod definitions;
mod diffserv;
mod findings;
mod fuzz_targets;
mod head_of_line;
mod link_down;
mod media;
mod outage;
mod queueing_theory;
mod requirements;
mod sctp_theory;
mod sip_theory;
mod slow_reader;
mod tcp_theory;
mod test_names;
mod usrsctp;
mod whole_files;
mod wifi_theory;
mod witness;
