//! Traffic models: arrival processes, size distributions, applications that use them, and the quality of received
//! media.
//!
//! An application does not depend on a transport. It requests `Open` and `Send`, and the substrate performs them with a
//! modelled TCP or a kernel's socket. The same seed therefore offers the same traffic on every substrate. An
//! application does no I/O, reads no clock, and draws only from random streams named after its flow.
//!
//! Start from [`Application`] (the contract), [`Settings`] (the part of an experiment file about an application) and
//! [`Settings::ends`] (the two applications of a flow, one for each end).
#![forbid(unsafe_code)]

mod application;
mod application_settings;
mod bulk;
mod clip;
mod datagrams;
mod distribution;
mod ends;
mod file;
mod ftp;
mod imix;
mod inbox;
mod media;
mod media_sink;
mod pattern;
mod ping;
mod reads;
pub mod rtp;
mod segments;
mod settings;
mod sip;
mod trace;
mod video;
mod voice;
mod web;

pub use application::{AppAction, AppEvent, Application, ConnId, react};
pub use application_settings::{ApplicationSettings, PacedDatagrams, SettingsError};
pub use bulk::Bulk;
pub use clip::{Clip, ClipError, Picture};
pub use datagrams::{Cbr, OnOff, Poisson};
pub use distribution::SizeDistribution;
pub use ends::{Ends, FlowContext, FlowSide, UDP_IPV4_HEADERS};
pub use file::File;
pub use ftp::{Ftp, FtpDirection};
pub use imix::{Genome, Imix};
pub use media::{CallQuality, MediaArrival, VideoQuality};
pub use ping::Ping;
pub use reads::{ReadSchedule, ReadSteps, Reads};
pub use segments::Segments;
pub use settings::Settings;
pub use trace::{Trace, TraceError, TracedDatagram};
pub use video::{ClipName, Video};
pub use voice::{Playout, Talk, Voice, VoiceCodec};
pub use web::{Web, WebExchange};

// The tests of the public interface are part of the unit-test binary.
#[cfg(test)]
extern crate self as netrig_traffic;
#[cfg(test)]
#[path = "../tests/it/main.rs"]
mod it;
