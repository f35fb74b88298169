//! Short HTTP responses.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::net::TcpStream;
use std::time::Instant as StdInstant;

use netrig_host::InterruptibleStream;
use netrig_host::http::message::HttpResponse;

use crate::admission::AdmissionRefusal;
use crate::control::PATIENCE;

/// Time after which a refused client may try again, s.
const RETRY_AFTER: u32 = 30;

/// Answers a request with a refusal.
pub(super) fn turn_away(socket: &TcpStream, refusal: AdmissionRefusal) -> io::Result<()> {
    send(socket, &busy(refusal))
}

/// The response to a refused request.
pub(super) fn busy(why: impl Display) -> Vec<u8> {
    HttpResponse::busy(RETRY_AFTER, why)
}

/// Sends a message over a connection in non-blocking mode. Waits for a slow peer for at most [`PATIENCE`].
pub(super) fn send(socket: &TcpStream, message: &[u8]) -> io::Result<()> {
    InterruptibleStream::until(socket, StdInstant::now() + PATIENCE).write_all(message)
}
