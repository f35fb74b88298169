//! The testbed of network namespaces on this Linux host. Each node is a network namespace. Each end of a link
//! is a veth pair whose other end is in the namespace of the router.
//!
//! A [`Wiring`] is the plan of a testbed: interfaces, IPv4 and IPv6 addresses, neighbours and routes. It is
//! computed from a scenario without system calls. A [`Testbed`] is built from it with rtnetlink, ethtool's
//! netlink and `/proc/sys`. Every setting that the kernel may accept without effect is read back. A node's
//! namespace is bound as `ip netns` does it, so `ip netns exec netrig-…` and tshark work there.
//! [`Testbed::spawn`] starts a node's programs. A [`ReceiveRing`] returns every frame that the nodes send, in
//! order of arrival and with its time stamp. A [`FrameSender`] sends through one interface of the router. The
//! wiring contains the interface numbers.
//!
//! Two types use the testbed. The substrate [`Namespaces`] has an agent in each node and netrig's router,
//! which drives the links of `netrig-link` in real time. A [`Lab`] has links and programs, but no flows and
//! agents.
//!
//! All objects of a testbed end with the process that owns it. Each object is recorded in a journal before it
//! is made, and dropping a testbed removes all objects. If the owner was killed, [`left_behind`] finds and
//! removes the remains. It removes only objects that the journal names, never by a pattern of names, and never
//! objects of a living owner. Programs die with their owner (`PR_SET_PDEATHSIG`), and all their descendants
//! are marked by an environment variable.
//!
//! This crate never runs a command of the host, never changes the namespace in which it was started, and
//! never loads a kernel module. It needs root. [`missing_requirements`] and [`try_requirements`] list the
//! missing requirements, one sentence each.
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
