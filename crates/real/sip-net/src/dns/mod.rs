//! Where a SIP server is, by the DNS (RFC 3263): who asks, and who answers.
//!
//! * [`locate`] looks once; a thread of a load has a [`Finder`], which looks for many at a time. Both ask a table or a DNS server
//!   ([`NameSource`]), and nobody else: a stub resolver, which follows no referrals.
//! * A question goes to its server over UDP from one of several sockets with ports that the kernel has drawn, under a number drawn
//!   for it; what comes from elsewhere, under another number or to another question is counted and ignored (RFC 5452). It is
//!   sent again after a time, so often and no more (RFC 1035 section 4.2.1), and over TCP where the answer is too long.
//! * [`NameServer`] answers from a table over UDP and TCP, late and with losses if it is told to. The table is a [`LiveZone`], which may
//!   grow meanwhile and records the questions if it is asked to.
//! * [`message`] reads and writes what is sent: any bytes, by anybody.

mod asker;
mod cache;
mod connections;
mod finder;
mod live;
pub mod message;
mod server;
mod talk;

pub use asker::{Asking, DnsCounts};
pub use finder::{Finder, Found, LocateError, Location, Lookup, NameSource, Reach, locate};
pub use live::{LiveZone, RecordedQuestion};
pub use server::{NameServer, NameServerOrder, NameTally};
