//! Output of the machines: messages to be sent, and [`Record`]s of ended attempts.

use std::net::SocketAddr;

use netrig_core::PackedBytes;

use super::scan::Scan;
use super::template::{HoleValues, Template};
use crate::Method;
use crate::record::{Departure, Record, Token};

/// Start of the second line of a message that a load writes, for each transport.
const OVER_UDP: &[u8] = b"\nVia: SIP/2.0/UDP ";
const OVER_TCP: &[u8] = b"\nVia: SIP/2.0/TCP ";

/// Whether the topmost `Via` of a message names TCP. Requests and the responses to them go over that transport (RFC
/// 3261 section 18.2.2).
pub fn is_over_tcp(message: &[u8]) -> bool {
    Scan::of(message).via.is_some_and(names_tcp)
}

/// Whether a value of `Via` names TCP: `SIP/2.0/TCP`, with optional white space around each `/`, in any case.
pub(super) fn names_tcp(via: &[u8]) -> bool {
    let transport = via.splitn(3, |byte| *byte == b'/').nth(2).unwrap_or_default().trim_ascii_start();
    let end = transport.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b';');
    transport[..end.unwrap_or(transport.len())].eq_ignore_ascii_case(b"TCP")
}

/// Output of one or several method calls of a machine. If it is cleared and used again, it needs no new allocation.
#[derive(Clone, Debug, Default)]
pub struct LoadOutput {
    /// Messages to be sent, in this order.
    pub messages: Outbox,
    /// Records of ended attempts.
    pub records: Vec<Record>,
    /// Requests within dialogs that no scenario expects, each with the status of its response.
    pub unrequested: Vec<(&'static str, u16)>,
}

impl LoadOutput {
    /// Notes a request of the other side that no scenario expects.
    pub(super) fn unrequested(&mut self, method: &[u8], status: u16) {
        let name = Method::known(method).map_or("other", Method::as_str);
        self.unrequested.push((name, status));
    }
}

/// A message: destination, connection, bytes and, at the first transmission of some requests, the attempt and the
/// time stamp that its departure sets.
pub type DepartingMessage<'a> = (SocketAddr, MessageConnection, &'a [u8], Option<(Token, Departure)>);

/// Messages in one buffer, each with its destination.
#[derive(Clone, Debug, Default)]
pub struct Outbox(PackedBytes<OutboxEntry>);

/// Destination of a message.
#[derive(Clone, Copy, Debug)]
struct OutboxEntry {
    to: SocketAddr,
    way: MessageConnection,
    departure: Option<Departure>,
}

/// The connection that a message takes, if the transport has connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageConnection {
    /// A response: the connection of its request (RFC 3261 section 18.2.2).
    Back,
    /// A request: a connection of the user or of the attempt.
    Of {
        /// Number of the caller or of the registrant, depending on the owner of `attempt`.
        user: u32,
        /// The token of the attempt's record.
        attempt: Token,
    },
}

impl Outbox {
    /// Number of messages.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no messages.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Messages with their destinations.
    pub fn iter(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        self.0.iter().map(|(place, bytes)| (place.to, bytes))
    }

    /// Messages with their destinations and connections.
    pub fn along(&self) -> impl Iterator<Item = (SocketAddr, MessageConnection, &[u8])> {
        self.0.iter().map(|(place, bytes)| (place.to, place.way, bytes))
    }

    /// Messages with their destinations, connections and time stamps.
    pub fn departing(&self) -> impl Iterator<Item = DepartingMessage<'_>> {
        self.0.iter().map(|(place, bytes)| {
            let stamped = match place.way {
                MessageConnection::Of { attempt, .. } => {
                    place.departure.map(|departure| (attempt, departure))
                }
                MessageConnection::Back => None,
            };
            (place.to, place.way, bytes, stamped)
        })
    }

    /// Removes all messages.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Appends a message without a change.
    pub fn push(&mut self, to: SocketAddr, way: MessageConnection, message: &[u8]) {
        self.0.push(OutboxEntry { to, way, departure: None }, message);
    }

    pub(super) fn write(
        &mut self,
        to: SocketAddr,
        way: MessageConnection,
        template: &Template,
        values: &HoleValues<'_>,
    ) {
        let entry = OutboxEntry { to, way, departure: None };
        self.0.push_with(entry, |buffer| template.write(values, buffer));
    }

    /// Length of the last message, bytes.
    pub(super) fn last_len(&mut self) -> usize {
        self.0.last_mut().map_or(0, |(_, message)| message.len())
    }

    /// Makes the last message go over TCP: "If this causes a change in the transport protocol from the one indicated
    /// in the top Via, the value in the top Via MUST be changed" (RFC 3261 section 18.1.1).
    pub(super) fn send_over_tcp(&mut self) {
        let Some((_, message)) = self.0.last_mut() else { return };
        let via =
            memchr::memmem::find(message, OVER_UDP).filter(|at| Some(*at) == memchr::memchr(b'\n', message));
        if let Some(via) = via {
            message[via..via + OVER_TCP.len()].copy_from_slice(OVER_TCP);
        }
    }

    /// Marks the last message: its departure sets a time stamp of the attempt.
    pub(super) fn departs(&mut self, departure: Departure) {
        if let Some((place, _)) = self.0.last_mut() {
            place.departure = Some(departure);
        }
    }
}

/// The attempts that a lost connection affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionScope {
    /// All attempts.
    All,
    /// All attempts of a user.
    User(u32),
    /// One attempt.
    Attempt(Token),
}
