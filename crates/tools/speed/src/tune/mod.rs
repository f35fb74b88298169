//! What a terminal is set to, beside what the path to a server needs: readings in, findings out. It reads nothing and sets
//! nothing.
//!
//! What a path needs follows from two numbers: its rate and its round trip. Their product is what is underway when the path is
//! full, and so the window that a connection must have (RFC 6349 section 3.3.1, RFC 7323 section 1.1); what a host has to hold
//! back while its processor is busy with something else follows from the rate alone. What cannot be told without them is
//! *unknown*, never guessed.

mod finding;
mod host;
mod interface;
mod memory;
mod options;
mod path;
mod sysctl;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use netrig_core::{Duration, Rate};
use netrig_host::HostSettings;
use schemars::JsonSchema;
use serde::Serialize;

pub use self::finding::{SettingFinding, SettingVerdict};
pub use self::path::{RateFrom, TunedPath};
pub use self::sysctl::SYSCTLS;
use crate::quantities::size;

/// What was found of a terminal.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Tuning {
    /// The version of the document.
    pub format: u32,
    /// To whom the path leads.
    pub host: Option<IpAddr>,
    /// The interface by which packets leave.
    pub interface: Option<String>,
    /// The path's round trip, s.
    pub round_trip_s: Option<f64>,
    /// The path's rate, bit/s.
    pub rate_bits_per_s: Option<u64>,
    /// Where the rate comes from.
    pub rate_from: Option<RateFrom>,
    /// Their product: the window that a connection needs, bytes.
    pub window_bytes: Option<u64>,
    /// Each setting.
    pub settings: Vec<SettingFinding>,
    /// What could not be read.
    pub unread: Vec<String>,
    /// What was found, in a sentence.
    pub found: String,
}

impl Tuning {
    /// The version of the document.
    pub const FORMAT: u32 = 1;

    /// Of what was read, for what is known of a path: where nobody knows its rate, that of the interface is taken, which is the
    /// most that it can be.
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

/// What was found, in a sentence.
fn found(settings: &[SettingFinding], path: &TunedPath) -> String {
    let names: Vec<_> =
        settings.iter().filter(|setting| setting.mend.is_some()).map(|one| one.name.as_str()).collect();
    let needs = match (path.window(), path.host) {
        (Some(window), Some(host)) => format!("the path to {host} needs a window of {}", size(window as f64)),
        (Some(window), None) => format!("such a path needs a window of {}", size(window as f64)),
        (None, _) => {
            "the window that the path needs is not known: its rate and its round trip are".to_owned()
                + " needed"
        }
    };
    match &names[..] {
        [] => format!("{needs}; nothing that could be judged has to be mended"),
        [one] => format!("{needs}; to be mended: {one}"),
        [first @ .., last] => format!("{needs}; to be mended: {} and {last}", first.join(", ")),
    }
}
