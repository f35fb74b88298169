//! Media of calls: RTP and RTCP (RFC 3550), and the quality of each call.
//!
//! [`MediaSession`] is one end of one call without sockets; [`MediaEngine`] provides the sockets.

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
