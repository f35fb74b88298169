//! What runs inside a node of a real substrate: real sockets, driven by the applications of `netrig-traffic`.
//!
//! An agent is told ends of flows ([`RunOrder`]), opens their sockets, and carries out what each end's
//! [`Application`](netrig_traffic::Application) decides: datagrams by an absolute schedule, connections of TCP and MPTCP,
//! associations of SCTP. TCP is the kernel's; SCTP is netrig's own endpoint, whose packets the kernel carries.
//! It reports the samples that every substrate reports, and how well it kept to what was asked ([`EndReport`]).
//!
//! * **The application decides.** It is told each of its deadlines with the time that it was due, however late the machine
//!   was, so the same seed offers the same traffic as in virtual time.
//! * **What was set is read back.** A socket option or sysctl that did not take is an error before the run begins.
//! * **The tester is measured too.** A source whose gaps are not what was asked, a socket that had no room, a wall clock
//!   that was stepped: each is a fault of the run, in words.
//!
//! It never decides what to send or when, never touches links or namespaces, and never sends to an address that its orders do
//! not name.
//!
//! Start from [`PreparedRun`] (a run in this process) or [`Agent`] (the same over a stream, by the control protocol).
#![deny(unsafe_code)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an agent is where netrig meets the kernel: clocks, sockets, threads and the kernel's settings"
)]

mod agent;
pub mod control;
mod end;
mod error;
mod event_loop;
mod file_transfer;
mod meter;
mod order;
mod roster;
mod rtp;
mod run;
mod sctp;
mod side;
mod sip_flow;
mod tcp;
mod udp;

pub use agent::Agent;
pub use end::{EndRemark, EndReport};
pub use error::{AgentError, MOST_TRANSFERS};
pub use event_loop::Progress;
pub use file_transfer::SERVED_FILE;
pub use meter::Samples;
pub use order::{CarrierOptions, EndOrder, NamesOrder, RunOrder};
pub use run::PreparedRun;
pub use sctp::{SctpOptions, SctpPath, SctpReport, TimedControl};
pub use side::Side;
pub use udp::{SocketPassage, UdpReport};
