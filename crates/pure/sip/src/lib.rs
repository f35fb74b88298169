//! The Session Initiation Protocol (RFC 3261 and its extensions), without I/O.
//!
//! The crate has two layers:
//!
//! * **One message at a time, strictly.** Start from [`Message`]. [`Message::parse`] reads a datagram strictly,
//!   [`Message::violations`] checks the rules that no grammar expresses, and [`Message::to_bytes`] writes the message.
//!   [`Framer`] splits a stream into messages. The modules above a message are independent of each other. [`transaction`]
//!   retransmits and answers on one hop. [`dialog`] is the state that two user agents share. [`digest`] authenticates users,
//!   [`sdp`] describes media, and [`location`] finds the server of a URI. [`server`] combines them: start from
//!   [`server::Registrar`], [`server::Redirect`], [`server::StatelessProxy`], [`server::Proxy`] or
//!   [`server::AnsweringMachine`], which have one interface. [`manual::ManualClient`] is a user agent client for requests that a
//!   person composes, inspects and sends. [`fault`] makes a message wrong on purpose.
//! * **Millions of users and calls.** Start from [`load::Plan`], the activities of all users of a test, and [`load::Part`],
//!   which carries them out. A scanner reads incoming messages, templates write outgoing ones, and a call takes less than 512
//!   bytes. The result of each attempt is a [`load::Record`]. An [`index::Tally`] counts records and computes delays, ratios
//!   and verdicts.
//!
//! [`settings`] describes loads and servers in experiment files: a [`settings::LoadSettings`] becomes a plan, and a
//! [`settings::ServerSettings`] becomes a server.
//!
//! The crate never opens a socket, reads a clock or resolves a name, and draws only from the random streams that it is given.
//! The caller passes in the time, carries the messages and answers the queries.
#![forbid(unsafe_code)]

mod deadline;
pub mod dialog;
pub mod digest;
mod digits;
mod error;
pub mod fault;
mod framer;
mod grammar;
pub mod header;
mod host;
pub mod index;
pub mod load;
pub mod location;
pub mod manual;
pub mod message;
mod method;
pub mod multipart;
pub mod partitioning;
mod record;
pub mod sdp;
pub mod server;
pub mod settings;
mod slab;
mod slab_index;
mod status;

pub mod torture;
pub mod transaction;
mod uri;
pub mod user_list;
mod wheel;

pub use error::{ParseError, Violation};
pub use framer::{Framed, Framer, FramingError};
pub use header::{Headers, Name};
pub use host::Host;
pub use message::{Message, Request, Response};
pub use method::Method;
pub use status::{Class, Status};
pub use uri::{Scheme, SipUri, Uri};
