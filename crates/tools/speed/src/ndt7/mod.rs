//! What ndt7 speaks, the measurement of M-Lab: its clients can use a server of ours.
//!
//! A test goes one way over one WebSocket (RFC 6455). The client asks by HTTP for `/ndt/v7/download` or `/ndt/v7/upload`
//! with the subprotocol `net.measurementlab.ndt.v7`; then whoever sends does so in binary messages for ten seconds, and both
//! may tell what they measured, as JSON in messages of text. The server ends the test.
//!
//! [`Upgrade`] reads the request, and [`ServerSession`] is the server's end of the WebSocket: bytes and the time in, bytes and
//! events out. What loads the path is not moved through it: it says what stands before a message and how long that is, and
//! counts what comes. [`ClientSession`] is the other end, request included.
//!
//! The source is version 0.11 of the specification (`ndt7-protocol.md` of github.com/m-lab/ndt-server), and what M-Lab's own
//! server and clients make of it.

mod client;
pub mod frame;
mod handshake;
mod load;
mod measurement;
mod server;

pub use client::{ClientError, ClientEvent, ClientSession};
pub use handshake::{Upgrade, UpgradeError, accept_key, check_origin};
pub use load::LoadMessage;
pub use measurement::{AppInfo, ConnectionInfo, Measurement, MeasurementOrigin, TcpInfo};
pub use server::{ServerError, ServerEvent, ServerSession};

use netrig_core::Duration;
use serde::{Deserialize, Serialize};

/// What the WebSocket carries.
pub const SUBPROTOCOL: &str = "net.measurementlab.ndt.v7";

/// Longest message that is read, bytes: no implementation may read less.
pub const LONGEST_MESSAGE: u64 = 1 << 24;

/// How long a test lasts.
pub const RUNTIME: Duration = Duration::from_secs(10);

/// When a test is cut off that did not end.
pub const LONGEST_RUNTIME: Duration = Duration::from_secs(13);

/// How often each end tells what it measured: at most ten times a second.
pub const INTERVAL: Duration = Duration::from_millis(250);

/// Which way a test goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ndt7Test {
    /// From the server.
    Download,
    /// To the server.
    Upload,
}

impl Ndt7Test {
    /// What a client asks for.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Download => "/ndt/v7/download",
            Self::Upload => "/ndt/v7/upload",
        }
    }

    /// The test of a path, if it is one.
    pub fn of_path(path: &str) -> Option<Self> {
        [Self::Download, Self::Upload].into_iter().find(|test| test.path() == path)
    }
}

#[cfg(test)]
mod session_tests;
