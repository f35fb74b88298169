//! HTTP/1.1 (RFC 9110, RFC 9112): [heads](message) and the [ends of bodies](body), bytes in, bytes out.

pub mod body;
pub mod message;
