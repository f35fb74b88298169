//! The testbed of network namespaces on this Linux host. Each node is a network namespace. Each end of a link
//! is a veth pair whose other end is in the namespace of the router.
//!
//! A [`Wiring`] is computed from a scenario without a kernel: interfaces, addresses of both versions of IP,
//! neighbours and routes. A [`Testbed`] is built from it by rtnetlink, ethtool's netlink and `/proc/sys`.
//! Every setting that the kernel may accept without effect is read back. A node's namespace is bound as by
//! `ip netns`, so `ip netns exec netrig-…` and tshark work there. [`Testbed::spawn`] starts a node's
//! programs. A [`ReceiveRing`] returns every frame that they send, in order of arrival and with its time
//! stamp. A [`FrameSender`] sends through one interface of the router; the wiring has the interface numbers.
//!
//! Two users build on it: the substrate [`Namespaces`], with an agent in each node and netrig's router, which
//! drives the links of `netrig-link` in real time; and [`Lab`], without flows and agents.
//!
//! Nothing outlives its owner. Everything is journalled before it is made, and dropping a testbed removes it
//! all. [`left_behind`] finds and removes the remains of a killed owner: only what its journal names, never
//! by a pattern of names, and never from a living owner. Programs die with their owner (`PR_SET_PDEATHSIG`),
//! and the processes that they start carry a mark.
//!
//! This crate never runs a command of the host, never touches the namespace in which it was started, and
//! never loads a module. It needs root: [`missing_requirements`] and [`try_requirements`] list what is
//! missing, one sentence each.
//!
//! Start from [`Namespaces`], or from [`Testbed`] to build on it.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "namespaces, processes and their journal are the machine's"
)]

mod build;
mod capabilities;
mod checkup;
mod conductor;
mod counters;
mod error;
mod ftp;
mod hop_limits;
mod host;
mod interfaces;
mod intrusion;
mod journal;
mod keeping;
mod keeping_text;
mod kernel_tcp;
mod lab;
mod multipath;
mod namespace;
mod netlink;
mod orders;
mod port;
mod process;
mod processors;
mod program;
mod provenance;
mod ready;
mod receive_buffer;
mod removal;
mod ring;
mod router;
mod sip;
mod substrate;
mod sys;
mod sysctl;
mod testbed;
mod watch;
mod wiring;

pub use capabilities::{missing_requirements, try_requirements};
pub use checkup::{remove_left_behind, testbed_findings};
pub use error::{MissingRequirement, TestbedError};
pub use journal::Journals;
pub use keeping::{KeepRequest, KeptFlow, KeptFlows};
pub use lab::{Lab, LabError, LabReport};
pub use process::Process;
pub use removal::{LeftBehind, left_behind};
pub use ring::{FrameSender, ReceiveRing, ReceivedFrame, RingCounters};
pub use substrate::Namespaces;
pub use testbed::{Testbed, TestbedId};
pub use wiring::{LinkEnd, LinkWiring, NodeRoute, NodeWiring, Wiring, WiringError};
