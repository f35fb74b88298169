//! The Simple Two-Way Active Measurement Protocol: RFC 8762, with the class of service and padding extensions of RFC
//! 8972.
//!
//! These modules convert bytes to bytes. They have no socket and no clock.
//!
//! | module | what |
//! |---|---|
//! | [`timestamp`] | the two formats of timestamps, and the error estimate |
//! | [`packet`] | the base packets of senders and reflectors, with and without authentication |
//! | [`tlv`] | extensions: padding, class of service, integrity |
//! | [`reflect`] | which packets a reflector answers, and how |

pub mod packet;
pub mod reflect;
pub mod timestamp;
pub mod tlv;

pub use packet::{HmacKey, PacketError, ReflectedPacket, TestPacket};
pub use reflect::{Ingress, Reflector, Reply, Unanswered};
pub use timestamp::{ErrorEstimate, Format};

/// Default port of a reflector (RFC 8762 section 4.1).
pub const PORT: u16 = 862;
