//! Media beside signalling: RTP and RTCP (RFC 3550) of calls, and how good each call was.
//!
//! [`MediaSession`] is one end of one call without sockets; [`MediaEngine`] gives sessions their sockets.

#![allow(clippy::disallowed_methods, reason = "media are sent in real time")]

mod codec;
mod engine;
mod report;
mod rtcp;
mod session;

pub use self::codec::{MediaCodec, ParseMediaCodecError};
pub use self::engine::{MediaEngine, MediaOrder, MediaSource, MediaSourceError};
pub(crate) use self::report::sending_faults;
pub use self::report::{MediaReport, MediaShare};
pub use self::rtcp::{ReceptionBlock, RtcpError, RtcpPacket, SenderInfo, read_rtcp, write_rtcp};
pub use self::session::{MediaResult, MediaSession};
