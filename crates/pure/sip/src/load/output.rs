//! What machines hand out: messages to be sent, and [`Record`]s of what happened.

use std::net::SocketAddr;

use super::scan::Scan;
use super::template::{HoleValues, Template};
use crate::Method;
use crate::record::{Departure, Record, Token};

/// What follows the first line of a message as a load writes it, by its transport.
const OVER_UDP: &[u8] = b"\nVia: SIP/2.0/UDP ";
const OVER_TCP: &[u8] = b"\nVia: SIP/2.0/TCP ";

/// Whether a message goes over TCP: its topmost `Via` says so of a request and of the responses to it (RFC 3261 section 18.2.2).
pub fn is_over_tcp(message: &[u8]) -> bool {
    Scan::of(message).via.is_some_and(names_tcp)
}

/// Whether a value of `Via` names TCP: `SIP/2.0/TCP`, where each `/` may have white space around it and a transport has no case.
pub(super) fn names_tcp(via: &[u8]) -> bool {
    let transport = via.splitn(3, |byte| *byte == b'/').nth(2).unwrap_or_default().trim_ascii_start();
    let end = transport.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b';');
    transport[..end.unwrap_or(transport.len())].eq_ignore_ascii_case(b"TCP")
}

/// What is to be taken after each call of a machine, or after several. Cleared and used again, it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct LoadOutput {
    /// To be sent, in this order.
    pub messages: Outbox,
    /// What has come to its end.
    pub records: Vec<Record>,
    /// Requests within dialogs that no scenario waits for, each with the status of its answer.
    pub unrequested: Vec<(&'static str, u16)>,
}

impl LoadOutput {
    /// The other side has asked for something of its own.
    pub(super) fn unrequested(&mut self, method: &[u8], status: u16) {
        let name = Method::known(method).map_or("other", Method::as_str);
        self.unrequested.push((name, status));
    }
}

/// A message with where it goes, along what and, of what is sent for the first time, the attempt whose stamp says when that was.
pub type DepartingMessage<'a> = (SocketAddr, MessageConnection, &'a [u8], Option<(Token, Departure)>);

/// Messages one behind the other, each with where it goes.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    entries: Vec<OutboxEntry>,
}

/// Where a message is, and where it goes.
#[derive(Clone, Copy, Debug)]
struct OutboxEntry {
    end: usize,
    to: SocketAddr,
    way: MessageConnection,
    departure: Option<Departure>,
}

/// Along which connection a message goes, where it goes along one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageConnection {
    /// A response: along that on which its request has come (RFC 3261 section 18.2.2).
    Back,
    /// A request: along one of the user's, or of the attempt's.
    Of {
        /// Of callers, or of those who register, as the attempt's owner says.
        user: u32,
        /// The name that the record of what is done will have.
        attempt: Token,
    },
}

impl Outbox {
    /// How many there are.
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Each with where it goes.
    pub fn iter(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        self.along().map(|(to, _, bytes)| (to, bytes))
    }

    /// Each with where it goes, and along what.
    pub fn along(&self) -> impl Iterator<Item = (SocketAddr, MessageConnection, &[u8])> {
        let starts = std::iter::once(0).chain(self.entries.iter().map(|place| place.end));
        starts.zip(&self.entries).map(|(start, place)| (place.to, place.way, &self.bytes[start..place.end]))
    }

    /// Each with where it goes, along what and, of what is sent for the first time, the attempt whose stamp says when that was.
    pub fn departing(&self) -> impl Iterator<Item = DepartingMessage<'_>> {
        self.along().zip(&self.entries).map(|((to, way, bytes), place)| {
            let stamped = match way {
                MessageConnection::Of { attempt, .. } => {
                    place.departure.map(|departure| (attempt, departure))
                }
                MessageConnection::Back => None,
            };
            (to, way, bytes, stamped)
        })
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }

    /// Puts a message behind them, as it is.
    pub fn push(&mut self, to: SocketAddr, way: MessageConnection, message: &[u8]) {
        self.bytes.extend_from_slice(message);
        self.end(to, way);
    }

    pub(super) fn write(
        &mut self,
        to: SocketAddr,
        way: MessageConnection,
        template: &Template,
        values: &HoleValues<'_>,
    ) {
        template.write(values, &mut self.bytes);
        self.end(to, way);
    }

    fn end(&mut self, to: SocketAddr, way: MessageConnection) {
        self.entries.push(OutboxEntry { end: self.bytes.len(), to, way, departure: None });
    }

    /// How long the last message is, bytes.
    pub(super) fn last_len(&self) -> usize {
        let start = self.entries.len().checked_sub(2).map_or(0, |before| self.entries[before].end);
        self.bytes.len() - start
    }

    /// Has the last message go over TCP: "If this causes a change in the transport protocol from the one indicated in the top Via, the
    /// value in the top Via MUST be changed" (RFC 3261 section 18.1.1).
    pub(super) fn send_over_tcp(&mut self) {
        let start = self.bytes.len() - self.last_len();
        let message = &mut self.bytes[start..];
        let via =
            memchr::memmem::find(message, OVER_UDP).filter(|at| Some(*at) == memchr::memchr(b'\n', message));
        if let Some(via) = via {
            message[via..via + OVER_TCP.len()].copy_from_slice(OVER_TCP);
        }
    }

    /// A stamp says when the last message was sent.
    pub(super) fn departs(&mut self, departure: Departure) {
        if let Some(place) = self.entries.last_mut() {
            place.departure = Some(departure);
        }
    }
}

/// Whose connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionScope {
    /// That of all.
    All,
    /// A user's.
    User(u32),
    /// That of one attempt.
    Attempt(Token),
}
