//! Short HTTP responses.

use std::io;
use std::net::TcpStream;
use std::time::Instant as StdInstant;

use netrig_host::http::message::HttpResponse;

use crate::admission::AdmissionRefusal;
use crate::talk::{PATIENCE, write_until};

/// The value of `Retry-After` for a refused client, s.
const RETRY_AFTER: &str = "30";

/// Refuses a request.
pub(super) fn turn_away(socket: &mut TcpStream, refusal: AdmissionRefusal) -> io::Result<()> {
    write_until(socket, &busy(refusal), StdInstant::now() + PATIENCE)
}

/// The response to a refused request.
pub(super) fn busy(why: impl std::fmt::Display) -> Vec<u8> {
    let response = HttpResponse::last(503, "Service Unavailable", &[("Retry-After", RETRY_AFTER)]);
    with_body(&response, format!("{why}\n").as_bytes())
}

/// Sends a response with a body.
pub(super) fn say(socket: &mut TcpStream, response: &HttpResponse, body: &[u8]) -> io::Result<()> {
    write_until(socket, &with_body(response, body), StdInstant::now() + PATIENCE)
}

fn with_body(response: &HttpResponse, body: &[u8]) -> Vec<u8> {
    let mut response = response.clone();
    for (name, value) in &mut response.fields {
        if name.eq_ignore_ascii_case("content-length") {
            *value = body.len().to_string();
        }
    }
    [response.to_string().as_bytes(), body].concat()
}
