//! Compares the settings of a host with the needs of a path. The input is the settings as they were read, and the
//! output is findings: this module does not read or change settings.
//!
//! The needs of a path follow from its rate and its round-trip time. Their product is the data in flight on a full
//! path, which is also the window that a connection needs (RFC 6349 section 3.3.1, RFC 7323 section 1.1). The data that
//! a host must buffer while its processor is busy follows from the rate alone. If these numbers are not known, the
//! verdict is *unknown*.

mod finding;
mod host;
mod interface;
mod memory;
mod options;
mod path;
mod sysctl;
#[cfg(test)]
mod tests;
mod text;

use std::net::IpAddr;

use netrig_core::{Duration, Rate};
use netrig_host::HostSettings;
use schemars::JsonSchema;
use serde::Serialize;

pub use self::finding::{SettingFinding, SettingVerdict};
pub use self::path::{RateFrom, TunedPath};
pub use self::sysctl::SYSCTLS;
use netrig_core::number::size;

/// The findings on a host.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Tuning {
    /// The version of the document.
    pub format: u32,
    /// The host at the far end of the path.
    pub host: Option<IpAddr>,
    /// The outgoing interface.
    pub interface: Option<String>,
    /// The round-trip time of the path, s.
    pub round_trip_s: Option<f64>,
    /// The rate of the path, bit/s.
    pub rate_bits_per_s: Option<u64>,
    /// The source of the rate.
    pub rate_from: Option<RateFrom>,
    /// The window that a connection needs: rate times round-trip time, bytes.
    pub window_bytes: Option<u64>,
    /// The findings on each setting.
    pub settings: Vec<SettingFinding>,
    /// Settings that could not be read.
    pub unread: Vec<String>,
    /// The result as a sentence.
    pub found: String,
}

impl Tuning {
    /// The version of the document.
    pub const FORMAT: u32 = 1;

    /// Compares the settings with the needs of a path. If the rate of the path is not known, the speed of the interface
    /// is used as an upper bound.
    pub fn of(read: &HostSettings, path: TunedPath) -> Self {
        let own = read.outlet.as_ref().and_then(|outlet| outlet.bits_per_s);
        let own = own.map(|bits_per_s| (Rate::from_bits_per_s(bits_per_s), RateFrom::Interface));
        let path = TunedPath { rate: path.rate.or(own), ..path };
        let mut settings = memory::findings(read, &path);
        settings.extend(options::findings(read, &path));
        settings.extend(interface::findings(read, &path));
        settings.extend(host::findings(read, &path));
        let found = found(&settings, &path);
        Self {
            format: Self::FORMAT,
            host: path.host,
            interface: read.outlet.as_ref().map(|outlet| outlet.interface.name.clone()),
            round_trip_s: path.round_trip.map(Duration::as_secs_f64),
            rate_bits_per_s: path.rate.map(|(rate, _)| rate.bits_per_s()),
            rate_from: path.rate.map(|(_, from)| from),
            window_bytes: path.window(),
            settings,
            unread: read.unread.clone(),
            found,
        }
    }
}

/// The result as a sentence.
fn found(settings: &[SettingFinding], path: &TunedPath) -> String {
    let names: Vec<_> =
        settings.iter().filter(|setting| setting.mend.is_some()).map(|one| one.name.as_str()).collect();
    let needs = match (path.window(), path.host) {
        (Some(window), Some(host)) => format!("the path to {host} needs a window of {}", size(window as f64)),
        (Some(window), None) => format!("such a path needs a window of {}", size(window as f64)),
        (None, _) => {
            "the window that the path needs is not known without its rate and its round-trip time".to_owned()
        }
    };
    match &names[..] {
        [] => format!("{needs}; no setting that could be judged needs a change"),
        [one] => format!("{needs}; to be mended: {one}"),
        [first @ .., last] => format!("{needs}; to be mended: {} and {last}", first.join(", ")),
    }
}
