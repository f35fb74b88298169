//! The two applications of a flow.

use std::net::SocketAddr;

use netrig_core::{Instant, Seeds, Stream};
use serde::{Deserialize, Serialize};

use crate::Application;

/// Length of the UDP and IPv4 headers (RFC 768, RFC 791), bytes. A `rate` counts IP packets, headers included.
pub const UDP_IPV4_HEADERS: u32 = 28;

/// Properties of a flow that its applications need.
#[derive(Clone, Debug)]
pub struct FlowContext {
    /// The flow's name, `web` or `web#3`. Its random streams are named after it.
    pub name: String,
    /// The run's seeds.
    pub seeds: Seeds,
    /// Address of the first end. Parts that are not known in advance are unspecified.
    pub client: SocketAddr,
    /// Listening address of the second end.
    pub server: SocketAddr,
    /// Start of the flow.
    pub start: Instant,
    /// Time from which the flow starts nothing new.
    pub stop: Instant,
    /// Length of the headers that the carrier adds to a datagram, bytes.
    pub datagram_headers: u32,
    /// Number of streams of a connection, at least one. An application with more streams maps them onto these.
    pub streams: u16,
}

impl FlowContext {
    /// The flow's random stream for one `purpose`.
    pub(crate) fn stream(&self, purpose: &str) -> Stream {
        self.seeds.stream(&format!("flow/{}/{purpose}", self.name))
    }
}

#[cfg(test)]
impl FlowContext {
    /// A flow that starts at 0 and does not stop.
    pub(crate) fn of_test(name: &str, seed: u64) -> Self {
        Self {
            name: name.to_owned(),
            seeds: Seeds::new(seed),
            client: ([10, 0, 0, 1], 49_152).into(),
            server: ([10, 0, 0, 2], 5001).into(),
            start: Instant::ZERO,
            stop: Instant::NEVER,
            datagram_headers: UDP_IPV4_HEADERS,
            streams: 1,
        }
    }
}

/// One end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowSide {
    /// The flow's `from`: opens connections or sends datagrams.
    Client,
    /// The flow's `to`: listens.
    Server,
}

impl FlowSide {
    /// Both sides.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// The random stream of this end of flow `name` for one `purpose`.
    pub fn stream(self, seeds: &Seeds, name: &str, purpose: &str) -> Stream {
        let side = if self == Self::Client { "client" } else { "server" };
        seeds.stream(&format!("flow/{name}/{side}/{purpose}"))
    }
}

/// The two applications of a flow. Each runs at its own end: on another host, in another process.
pub struct Ends {
    /// Application at the flow's `from`.
    pub client: Box<dyn Application>,
    /// Application at the flow's `to`.
    pub server: Box<dyn Application>,
}
