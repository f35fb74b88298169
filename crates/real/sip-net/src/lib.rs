//! SIP over real sockets: the servers of `netrig-sip` on a network, and loads of its users for other servers.
//!
//! * [`server`]: a server with several sockets over UDP, TCP and TLS, and one loop between them and any
//!   [`Server`](netrig_sip::server::Server).
//! * [`load`]: threads that drive many users and measure their attempts. Each thread has its own sockets.
//! * [`dns`]: look-ups of a server in a table or the DNS, and a DNS server.
//! * [`Line`]: one socket for one user agent that a person controls.
//! * [`UserAgentEnd`]: the sockets of one user agent that can also be called.
//! * [`answers`]: a check of whether a SIP element answers at an address.
//! * [`FlowTester`]: the interface to the tester that SIP flows of an experiment need. A crate that depends on this one
//!   implements it.
//! * Common parts: [`ListeningPoint`], a transport with an address; [`SipStream`], a connection that carries messages
//!   over TCP or [TLS](netrig_host::tls); and a UDP socket that shares its address with no other socket.
#![deny(unsafe_code)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "sockets of SIP need the clocks, sockets and threads of the kernel"
)]

mod answers;
mod byte_stream;
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
mod user_file;

pub use answers::answers;
pub use byte_stream::{flush_bytes, read_bytes};
pub use call::Line;
pub use datagrams::{DatagramBatch, DatagramSocket};
pub use end::{ArrivalPath, ArrivedBytes, EndAddress, EndedConnection, LineTls, UserAgentEnd, wait_for_ends};
pub use flow_tester::{FlowTester, MessageKeeper, RuleReport, ScenarioCalls, ScenarioRecord, TesterFault};
pub use keep_order::{KeepOrder, KeepPolicy, ParseKeepPolicyError};
pub use netrig_sip::header::Transport;
pub use point::{ListeningPoint, PointError, source_towards};
pub use stream::{Bounds, SipStream, StreamError, Turn, server_name};
pub use user_file::{UsersError, listed_users, users_of_server};

// The tests of the public interface, in one test binary with the unit tests.
#[cfg(test)]
extern crate self as netrig_sip_net;
#[cfg(test)]
#[path = "../tests/it/main.rs"]
mod it;
