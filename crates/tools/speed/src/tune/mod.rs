//! What a terminal is set to, beside what the path to a server needs: readings in, findings out. It reads nothing and sets
//! nothing.
//!
//! What a path needs follows from two numbers: its rate and its round trip. Their product is what is underway when the path is
//! full, and so the window that a connection must have (RFC 6349 section 3.3.1, RFC 7323 section 1.1); what a host has to hold
//! back while its processor is busy with something else follows from the rate alone. What cannot be told without them is
//! *unknown*, never guessed.

mod host;
mod interface;
mod memory;
mod options;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use netrig_core::{Duration, Rate};
use netrig_host::HostSettings;
use schemars::JsonSchema;
use serde::Serialize;

use crate::quantities::size;

/// The settings that are looked at, by the kernel's names.
pub const SYSCTLS: [&str; 18] = [
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_adv_win_scale",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_congestion_control",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.rmem_default",
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.netfilter.nf_conntrack_count",
    "net.netfilter.nf_conntrack_max",
];

/// How long a processor that handles packets may be away with something else: some ticks of a kernel of 250 or more in a second.
const AWAY: f64 = 0.01;

/// From this rate on a processor of today has to be helped: fewer, longer packets, and more than one processor.
const FAST: f64 = 500e6;

/// Where a rate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RateFrom {
    /// Whoever asks has said it.
    Told,
    /// It was measured to the server.
    Measured,
    /// The interface's own speed, which the path does not exceed.
    Interface,
}

/// What is known of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Path {
    /// To whom.
    pub host: Option<IpAddr>,
    /// How long a packet and its answer take while nothing else is underway.
    pub round_trip: Option<Duration>,
    /// What it carries, and how that is known.
    pub rate: Option<(Rate, RateFrom)>,
}

impl Path {
    fn bits_per_s(&self) -> Option<f64> {
        self.rate.map(|(rate, _)| rate.bits_per_s() as f64)
    }

    /// Whether it is so fast that a processor has to be helped; of an interface alone nobody knows.
    fn is_fast(&self) -> Option<bool> {
        let fast = self.bits_per_s()? >= FAST;
        (!fast || self.is_known()).then_some(fast)
    }

    /// Whether its rate is more than a bound.
    const fn is_known(&self) -> bool {
        matches!(self.rate, Some((_, RateFrom::Told | RateFrom::Measured)))
    }

    /// Bytes that are underway when it is full: its rate times its round trip.
    pub fn window(&self) -> Option<u64> {
        let (rate, round_trip) = (self.bits_per_s()?, self.round_trip?);
        Some((rate * round_trip.as_secs_f64() / 8.0).ceil() as u64)
    }

    /// Bytes that come while a processor is away.
    fn meanwhile(&self) -> Option<u64> {
        self.bits_per_s().map(|rate| (rate * AWAY / 8.0).ceil() as u64)
    }
}

/// Whether a setting is what a path needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is.
    Fits,
    /// It is less.
    TooSmall,
    /// It is something else.
    Unfit,
    /// It cannot be told: the setting cannot be read, or the path is not known well enough.
    Unknown,
}

/// A setting, and what is to be said of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// What it is called.
    pub name: String,
    /// What it is; nothing if it cannot be read.
    pub now: Option<String>,
    /// What this path needs; nothing if that cannot be told.
    pub needs: Option<String>,
    /// Whether it is so.
    pub verdict: Verdict,
    /// Why, in a sentence.
    pub why: String,
    /// The command that mends it, if anything is to be mended.
    pub mend: Option<String>,
}

impl Finding {
    fn new(name: impl Into<String>, now: Option<impl Into<String>>, why: impl Into<String>) -> Self {
        let now = now.map(Into::into);
        Self { name: name.into(), now, needs: None, verdict: Verdict::Unknown, why: why.into(), mend: None }
    }

    fn fits(self) -> Self {
        Self { verdict: Verdict::Fits, ..self }
    }

    fn needs(self, needs: impl Into<String>) -> Self {
        Self { needs: Some(needs.into()), ..self }
    }

    /// It is to be mended by this command.
    fn mended(self, verdict: Verdict, by: impl Into<String>) -> Self {
        Self { verdict, mend: Some(by.into()), ..self }
    }

    /// The same where the path's rate decides: of a path that may be slower than that nothing can be told.
    fn lacks(self, path: &Path, verdict: Verdict, by: impl Into<String>) -> Self {
        if path.is_known() {
            return self.mended(verdict, by);
        }
        let needs = self.needs.map(|needs| format!("{needs}, if the path is as fast as the interface"));
        Self { needs, ..self }
    }
}

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
    pub settings: Vec<Finding>,
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
    pub fn of(read: &HostSettings, path: Path) -> Self {
        let own = read.outlet.as_ref().and_then(|outlet| outlet.bits_per_s);
        let own = own.map(|bits_per_s| (Rate::from_bits_per_s(bits_per_s), RateFrom::Interface));
        let path = Path { rate: path.rate.or(own), ..path };
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
fn found(settings: &[Finding], path: &Path) -> String {
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

/// A setting of the kernel that is a number.
fn number(read: &HostSettings, name: &str) -> Option<u64> {
    read.sysctls.get(name)?.parse().ok()
}

/// One that is three numbers: the least, the usual and the most.
fn three(read: &HostSettings, name: &str) -> Option<[u64; 3]> {
    let mut words = read.sysctls.get(name)?.split_whitespace().map(str::parse);
    let mut next = || words.next()?.ok();
    Some([next()?, next()?, next()?])
}

/// The command that sets a setting of the kernel.
fn sysctl(name: &str, value: impl std::fmt::Display) -> String {
    let value = value.to_string();
    if value.contains(' ') {
        format!("sysctl -w {name}=\"{value}\"")
    } else {
        format!("sysctl -w {name}={value}")
    }
}
