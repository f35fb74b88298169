//! SIP over real sockets. Start from [`SipStream`], a connection that carries SIP messages.

mod stream;
#[cfg(test)]
mod stream_tests;
pub mod tls;

pub use stream::{Bounds, SipStream, StreamError, Turn, server_name};
