//! The Session Initiation Protocol (RFC 3261 and what belongs to it), without I/O.
//!
//! It has two layers:
//!
//! * **One message at a time, strictly.** Start from [`Message`]: what stands in a datagram, read strictly by
//!   [`Message::parse`], checked against the rules that no grammar can say by [`Message::violations`], and written by
//!   [`Message::to_bytes`]. What stands in a stream is cut into messages by [`Framer`]. Above that, each on its own:
//!   [`transaction`] repeats and answers on one hop, [`dialog`] is what two user agents agree on, [`digest`] proves who they
//!   are, [`sdp`] says what they send, [`location`] finds where a URI is. [`server`] has them together: start from
//!   [`server::Registrar`], [`server::Redirect`], [`server::StatelessProxy`], [`server::Proxy`] or
//!   [`server::AnsweringMachine`], which are driven alike. [`manual::ManualClient`] is a user agent client each of whose requests a
//!   person composes, looks at and sends; [`fault`] makes a message wrong on purpose.
//! * **Users and calls by the million.** Start from [`load::Plan`], all that a test's users do, and [`load::Part`], which does
//!   it: what comes is found by a scanner, what goes is written from templates, and a call takes less than 512 bytes. What became
//!   of each is a [`load::Record`]; an [`index::Tally`] counts them and makes delays, ratios and verdicts of them.
//!
//! [`settings`] is what experiment files say of either: [`settings::LoadSettings`] becomes a plan, [`settings::ServerSettings`]
//! a server.
//!
//! It never opens a socket, never asks a clock, never resolves a name and draws only from streams that it is given:
//! who drives it passes the time in, carries its messages and answers its questions.
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
mod status;
mod table;
pub mod torture;
pub mod transaction;
mod uri;
pub mod user_list;
mod wheel;

pub use error::{ParseError, Violation};
pub use framer::{Framed, Framer, FramingError};
pub use header::{Headers, Name};
pub use message::{Message, Request, Response};
pub use method::Method;
pub use status::{Class, Status};
pub use uri::{Host, Scheme, SipUri, Uri};
