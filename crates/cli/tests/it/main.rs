//! Tests of the program, started by its command line.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "these tests start programs and read what they write, and what cannot go on has failed"
)]

mod applications;
mod attribution;
mod captures;
mod common;
mod direct;
mod edges;
mod events;
mod hosts;
mod pages;
mod probe_media;
mod probe_namespaces;
mod probe_path;
mod probe_way;
mod probe_web;
mod probes;
mod program;
mod programs;
mod sctp_testbed;
mod server_memory;
mod sip_accuracy;
mod sip_call;
mod sip_capacity;
mod sip_compare;
mod sip_conform;
mod sip_conform_names;
mod sip_differential;
mod sip_documents;
mod sip_environment;
mod sip_experiment;
mod sip_faults;
mod sip_kamailio;
mod sip_keep;
mod sip_load;
mod sip_media;
mod sip_metrics;
mod sip_names;
mod sip_namespaces;
mod sip_own_messages;
mod sip_peers;
mod sip_runs;
mod sip_scenario;
mod sip_screen;
mod sip_serve;
mod sip_show;
mod sip_study;
mod sip_verdicts;
mod slow_reader;
mod speed_causes;
mod speed_path;
mod speed_serve;
mod speed_truth;
mod speed_tune;
mod sweeps;
mod testbed;
