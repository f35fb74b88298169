//! The protocol of ndt7, the speed test of M-Lab. ndt7 clients can use netrig's server.
//!
//! A test has one direction over one WebSocket (RFC 6455). The client requests `/ndt/v7/download` or `/ndt/v7/upload`
//! with the subprotocol `net.measurementlab.ndt.v7`. The sender then sends binary messages for ten seconds. Both ends
//! may send their measurements as JSON in text messages. The server ends the test.
//!
//! [`Upgrade`] reads the request, and [`ServerSession`] is the server's end of the WebSocket: its input is bytes and
//! the time, and its output is bytes and events. The payload of load messages does not pass through it. For sent
//! messages, it returns the head and the length; for received messages, it counts the bytes.
//!
//! The sources are version 0.11 of the specification (`ndt7-protocol.md` of github.com/m-lab/ndt-server) and the
//! behaviour of M-Lab's own server and clients.

pub mod frame;
mod handshake;
mod load;
mod measurement;
mod server;

pub use handshake::{Upgrade, UpgradeError, accept_key, check_origin};
pub use load::LoadMessage;
pub use measurement::{AppInfo, ConnectionInfo, Measurement, MeasurementOrigin, TcpInfo};
pub use server::{ServerError, ServerEvent, ServerSession};

use netrig_core::Duration;
use serde::{Deserialize, Serialize};

/// The subprotocol of the WebSocket.
pub const SUBPROTOCOL: &str = "net.measurementlab.ndt.v7";

/// Maximum length of a received message, bytes. The specification requires at least this value.
pub const LONGEST_MESSAGE: u64 = 1 << 24;

/// Duration of a test.
pub const RUNTIME: Duration = Duration::from_secs(10);

/// Time after which a test is aborted.
pub const LONGEST_RUNTIME: Duration = Duration::from_secs(13);

/// Interval between the measurements of an end. The specification allows at most ten per second.
pub const INTERVAL: Duration = Duration::from_millis(250);

/// The direction of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ndt7Test {
    /// From the server to the client.
    Download,
    /// From the client to the server.
    Upload,
}

impl Ndt7Test {
    /// The path of the request.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Download => "/ndt/v7/download",
            Self::Upload => "/ndt/v7/upload",
        }
    }

    /// The test that is requested by this path, if there is one.
    pub fn of_path(path: &str) -> Option<Self> {
        [Self::Download, Self::Upload].into_iter().find(|test| test.path() == path)
    }
}
