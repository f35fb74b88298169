//! HTTP/1.1 (RFC 9110, RFC 9112) without sockets: parses and writes [heads](message), and finds the [ends of
//! bodies](body).

pub mod body;
pub mod message;
