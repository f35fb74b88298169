//! The testbed of network namespaces on this one Linux host: nodes as network namespaces, each end of each link a veth
//! pair whose other end is in the namespace of the router.
//!
//! A [`Wiring`] is worked out from a scenario, without a kernel: interfaces, addresses of both versions of IP, neighbours
//! and routes. A [`Testbed`] is built from it by rtnetlink, ethtool's netlink and `/proc/sys`, and everything that the
//! kernel might take and not do is read back. A node's namespace is bound as `ip netns` does it, so
//! `ip netns exec netrig-…` and tshark work there. [`Testbed::spawn`] starts a node's programs; a [`ReceiveRing`] has
//! every frame that they send, in the order and with the moment of its arrival, and an [`FrameSender`] is the way out of one of
//! the router's interfaces, which stand in the wiring with their numbers.
//!
//! On top of these stand the substrate [`Namespaces`] — an agent in each node, and netrig's router, which drives the links
//! of `netrig-link` in real time — and [`Lab`], the same without flows and agents.
//!
//! Nothing outlives its owner. What is made is journalled first; dropping a testbed removes it all, and what a killed
//! owner left, [`left_behind`] finds and removes: exactly what its journal names, never what a name looks like, never
//! what a living owner has. Programs die with their owner (`PR_SET_PDEATHSIG`), and what they started carries a mark.
//!
//! It never runs a command of the host's, touches the namespace that it was started
//! in, or loads a module. It needs root: [`missing_requirements`] and [`try_requirements`] say in a sentence each what is missing.
//!
//! Start from [`Namespaces`] or, to build on, from [`Testbed`].
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "namespaces, processes and their journal are the machine's"
)]

mod build;
mod capabilities;
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

pub use capabilities::{OFFLOADS, missing_requirements, try_requirements};
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
