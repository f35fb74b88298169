//! SIP over real sockets: the servers of `netrig-sip` where others can reach them, and loads of its users for the servers of
//! others.
//!
//! * [`server`]: who answers. Several sockets over UDP, TCP and TLS, and one loop between them and any
//!   [`Server`](netrig_sip::server::Server).
//! * [`load`]: who asks. Threads with sockets of their own, which drive many users and measure what becomes of them.
//! * [`dns`]: where a server is, by a table or the DNS, and who answers such questions.
//! * [`Line`]: one socket for one user agent in the hands of a person.
//! * [`UserAgentEnd`]: the sockets of one user agent that is called, too.
//! * [`answers`]: whether somebody is there.
//! * [`FlowTester`]: what flows of an experiment need of a tester, which a crate that is built on this one brings.
//! * What both stand on: [`ListeningPoint`], a transport with an address; [`SipStream`], a connection that carries messages over
//!   TCP or [TLS](netrig_host::tls); and a UDP socket, which is bound to its address alone.
#![deny(unsafe_code)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "sockets of SIP need the clocks, sockets and threads of the kernel"
)]

mod answers;
mod call;
mod datagrams;
pub mod dns;
mod end;
mod flow_tester;
mod keep_order;
mod ledger;
pub mod load;
mod point;
mod send_batch;
pub mod server;
mod stream;
#[cfg(test)]
mod stream_tests;
pub mod tap;

pub use answers::answers;
pub use call::{Line, LineTls};
pub use datagrams::{DatagramBatch, DatagramSocket};
pub use end::{ArrivalPath, ArrivedBytes, EndAddress, EndedConnection, UserAgentEnd, wait_for_ends};
pub use flow_tester::{FlowTester, MessageKeeper, RuleReport, ScenarioCalls, ScenarioRecord, TesterFault};
pub use keep_order::{KeepOrder, KeepPolicy, ParseKeepPolicyError};
pub use netrig_sip::header::Transport;
pub use point::{ListeningPoint, PointError, source_towards};
pub use stream::{Bounds, SipStream, StreamError, Turn, server_name};
