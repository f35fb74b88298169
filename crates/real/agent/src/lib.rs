//! The agent of a node of a real substrate: real sockets, driven by the applications of `netrig-traffic`.
//!
//! A flow has two ends, the client and the server. An agent runs the ends of flows on its node. It gets an order
//! ([`RunOrder`]) that lists these ends. It opens the sockets of each end and executes the actions of the end's
//! [`Application`](netrig_traffic::Application): it sends datagrams on an absolute schedule, and opens TCP and MPTCP
//! connections and SCTP associations. TCP is the kernel's. SCTP is netrig's own implementation; the kernel only sends
//! and receives its packets. The agent reports the samples that every substrate reports, and how precisely it followed
//! its order ([`EndReport`]).
//!
//! * **The application decides.** When a timer of the application expires, the agent passes the scheduled time to it,
//!   even if the machine was late. The same seed therefore offers the same traffic as in virtual time.
//! * **Settings are read back.** A socket option or sysctl that did not take effect is an error before the run starts.
//! * **The tester is measured too.** Wrong gaps of a source, a full socket buffer or a stepped wall clock is reported
//!   as a fault of the run, in one sentence.
//!
//! The agent never decides what to send or when, never changes links or namespaces, and sends only to addresses that
//! its orders name.
//!
//! Start from [`PreparedRun`] (a run in this process) or [`Agent`] (a run that a controller commands over a stream).
#![deny(unsafe_code)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an agent is where netrig meets the kernel: clocks, sockets, threads and the kernel's settings"
)]

mod agent;
mod carrier;
pub mod control;
mod end;
mod error;
mod event_loop;
mod faults;
mod file_transfer;
mod order;
mod report;
mod roster;
mod rtp;
mod run;
mod sctp;
mod sip_flow;
mod tcp;
mod udp;

pub use agent::Agent;
pub use carrier::Samples;
pub use error::{AgentError, AgentResult, MOST_TRANSFERS};
pub use event_loop::Progress;
pub use file_transfer::SERVED_FILE;
pub use order::{CarrierOptions, EndOrder, NamesOrder, RunOrder};
pub use report::{EndRemark, EndReport, SctpReport, SocketPassage, UdpReport};
pub use run::PreparedRun;
pub use sctp::{SctpOptions, SctpPath, TimedControl};

// The tests of the public interface, in one test binary with the unit tests.
#[cfg(test)]
extern crate self as netrig_agent;
#[cfg(test)]
#[path = "../tests/it/main.rs"]
mod it;
