//! Probes of a path by what its users do with it: transfers, calls and video.
//!
//! [`transfer`] measures TCP, and files by FTP; [`voice`] and [`video`] send RTP, as calls and video do, to a [`receiver`]
//! at the far end.

mod failure;
pub mod receiver;
mod media_stream;
pub mod transfer;
pub mod video;
pub mod voice;

pub use failure::ProbeFailure;
pub use media_stream::{Came, Delay, Stream};
