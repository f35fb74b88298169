//! Location of SIP servers by the DNS (RFC 3263), and a DNS server.
//!
//! * [`locate`] makes one look-up. Each thread of a load has a [`Finder`], which makes many look-ups at the same time.
//!   Both use a table or one DNS server ([`NameSource`]). They are stub resolvers and follow no referrals.
//! * A query leaves over UDP from one of several sockets with random ports and has a random ID. Datagrams from another
//!   sender, or with another ID or question, are counted and ignored (RFC 5452). A query is retransmitted a limited
//!   number of times (RFC 1035 section 4.2.1), and repeated over TCP if the response is truncated.
//! * [`NameServer`] answers from a zone over UDP and TCP, with a configured delay and loss. Its zone is a [`LiveZone`],
//!   to which records can be added while the server runs, and which can record the queries.
//! * [`message`] reads and writes DNS messages. Its functions may be called with any bytes from any sender.

mod asker;
mod cache;
mod connections;
mod finder;
mod live;
pub mod message;
mod server;
mod tcp_query;

pub use asker::{Asking, DnsCounts};
pub use finder::{Finder, Found, LocateError, Location, NameSource, Reach, locate};
pub use live::{LiveZone, RecordedQuestion};
pub use server::{NameServer, NameServerOrder, NameTally};
