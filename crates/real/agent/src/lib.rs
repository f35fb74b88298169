//! The agent of a node of a real substrate: real sockets, driven by the applications of `netrig-traffic`.
//!
//! An agent receives ends of flows ([`RunOrder`]), opens their sockets, and carries out what each end's
//! [`Application`](netrig_traffic::Application) decides: datagrams by an absolute schedule, TCP and MPTCP connections,
//! SCTP associations. TCP is the kernel's; SCTP is netrig's own endpoint, whose packets the kernel carries.
//! The agent reports the samples that every substrate reports, and how precisely it followed its order ([`EndReport`]).
//!
//! * **The application decides.** It gets each of its deadlines with the time that the deadline was due, even if the machine
//!   was late, so the same seed offers the same traffic as in virtual time.
//! * **Settings are read back.** A socket option or sysctl that did not take effect is an error before the run starts.
//! * **The tester is measured too.** A source with wrong gaps, a full socket buffer, a stepped wall clock: each is a fault
//!   of the run, as a sentence.
//!
//! The agent never decides what to send or when, never touches links or namespaces, and sends only to addresses that its
//! orders name.
//!
//! Start from [`PreparedRun`] (a run in this process) or [`Agent`] (the same over a stream, by the control protocol).
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
