//! Counts of a server.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use netrig_core::counts;
use netrig_host::Reasons;
use netrig_sip::{Message, Method};
use serde::Serialize;

counts! {
    /// Messages and connections of a server's sockets.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct Tally {
        /// Messages received.
        pub received: Messages,
        /// Messages sent.
        pub sent: Messages,
        /// Messages that could not be sent, or whose connection failed before they were sent, by the reason.
        pub unsent: Reasons,
        /// Received datagrams and messages that could not be parsed, by the reason.
        pub unreadable: Reasons,
        /// Keep-alives received (RFC 5626 section 3.5.1).
        pub keep_alives: u64,
        /// Datagrams dropped because the receive buffer of the socket, or the queue to another thread, was full.
        pub socket_drops: u64,
        /// Connections.
        pub connections: ConnectionTally,
    }
}

/// Messages by their kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Messages {
    /// Requests by their method; unknown methods count as `other`.
    pub requests: BTreeMap<&'static str, u64>,
    /// Responses by their class, `1xx` to `6xx`.
    pub responses: BTreeMap<&'static str, u64>,
}

counts! {
    /// Connections and their ends.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct ConnectionTally {
        /// Connections that peers opened.
        pub accepted: u64,
        /// Connections of peers that got no slot because a limit was reached.
        pub refused: u64,
        /// Connections that the server opened.
        pub opened: u64,
        /// Connections that the peer did not close, by the reason of their end.
        pub broken: Reasons,
    }
}

impl AddAssign<&Self> for Messages {
    fn add_assign(&mut self, other: &Self) {
        for (own, other) in [(&mut self.requests, &other.requests), (&mut self.responses, &other.responses)] {
            other.iter().for_each(|(name, count)| *own.entry(name).or_default() += count);
        }
    }
}

impl Messages {
    /// Counts a message.
    pub fn count(&mut self, message: &Message) {
        match message {
            Message::Request(request) => self.count_request(&request.method),
            Message::Response(response) => self.count_response(response.status.code()),
        }
    }

    /// Counts a request.
    pub fn count_request(&mut self, method: &Method) {
        // Invented methods do not add entries.
        *self.requests.entry(method.known_name().unwrap_or("other")).or_default() += 1;
    }

    /// Counts a response.
    pub fn count_response(&mut self, code: u16) {
        const CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "6xx"];
        *self.responses.entry(CLASSES[usize::from(code / 100).clamp(1, 6) - 1]).or_default() += 1;
    }

    /// Number of all requests and responses.
    pub fn total(&self) -> u64 {
        self.requests.values().chain(self.responses.values()).sum()
    }
}
