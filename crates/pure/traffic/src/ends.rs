//! The two applications of a flow.

use std::net::SocketAddr;

use netrig_core::{Instant, Seeds, Stream};

use crate::Application;

/// What the applications of a flow need to know of it.
#[derive(Clone, Debug)]
pub struct FlowContext {
    /// The flow's name, `web` or `web#3`: its random streams are named after it.
    pub name: String,
    /// The run's seeds.
    pub seeds: Seeds,
    /// Where the first end is, as far as that is known beforehand.
    pub client: SocketAddr,
    /// Where the second end listens.
    pub server: SocketAddr,
    /// When the flow starts.
    pub start: Instant,
    /// When it begins nothing new any more.
    pub stop: Instant,
    /// What the carrier's headers add to a datagram's payload, bytes.
    pub datagram_headers: u32,
    /// Streams of a connection, at least one: an application that wants more shares them among its own.
    pub streams: u16,
}

impl FlowContext {
    /// The flow's own random stream for one `purpose`.
    pub(crate) fn stream(&self, purpose: &str) -> Stream {
        self.seeds.stream(&format!("flow/{}/{purpose}", self.name))
    }
}

/// A flow's applications. Each lives where its end is: on another host, in another process.
pub struct Ends {
    /// At the flow's `from`.
    pub client: Box<dyn Application>,
    /// At the flow's `to`.
    pub server: Box<dyn Application>,
}
