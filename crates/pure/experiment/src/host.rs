//! What of a node as a host is varied: what its kernel is told, and what it has of its machine.

use std::collections::BTreeMap;

use netrig_core::{Fraction, Size};
use netrig_transport::tcp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A node as a host of a real machine: what differs from a host that has its processors to itself, and its kernel as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Host {
    /// The share of each of its processors that a load asks for beside all else that runs on it; of nothing, and yet a host
    /// whose processors are part of what is measured, if it is zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<Fraction>,
    /// The share of the time of its processors that all that runs on it may have, the load included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<Fraction>,
    /// The memory that all that runs on it may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// The longest IP packet that it sends; its TCP announces segments that leave room for the headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Size>,
    /// The longest segment that its TCP announces to take (RFC 9293 section 3.7.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mss: Option<Size>,
    /// The largest window that its TCP offers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Size>,
    /// What becomes of a packet that is too long for a part of its path.
    #[serde(skip_serializing_if = "Fragmentation::is_usual")]
    pub fragmentation: Fragmentation,
    /// Settings of its kernel's network by their whole names: `net.ipv4.tcp_rmem`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
}

impl Host {
    /// The first of its settings that only a real host has, by its name in the file.
    pub fn only_real(&self) -> Option<&'static str> {
        let settings = [
            ("load", self.load.is_some_and(|load| load.get() > 0.0)),
            ("quota", self.quota.is_some()),
            ("memory", self.memory.is_some()),
            ("fragmentation", !self.fragmentation.is_usual()),
            ("net", !self.sysctls.is_empty()),
        ];
        settings.into_iter().find_map(|(name, given)| given.then_some(name))
    }

    /// Whether it has less of its machine than it might: then what its processors do to what runs on it is part of what is
    /// measured.
    pub const fn is_constrained(&self) -> bool {
        self.load.is_some() || self.quota.is_some() || self.memory.is_some()
    }

    /// The receive buffer of TCP with these constants on this host: the largest window that it offers.
    pub fn receive_buffer(&self, config: &tcp::Config) -> Size {
        self.window.map_or(config.receive_buffer, |window| window.min(config.receive_buffer))
    }

    /// Whether it is like any other.
    pub(crate) fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// What becomes of a packet that a host sends and that is too long for a part of its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fragmentation {
    /// It may not be cut on its way, and the host cuts datagrams to what it has learned of the path (RFC 1191): what a kernel
    /// does by itself.
    #[default]
    PathMtu,
    /// It may be cut on its way: the host sets no DF, and learns nothing of paths. IPv4 only.
    Allowed,
    /// It may not be cut at all: a datagram that is longer than what is known of its path is not sent.
    Never,
}

impl Fragmentation {
    fn is_usual(&self) -> bool {
        *self == Self::PathMtu
    }
}
