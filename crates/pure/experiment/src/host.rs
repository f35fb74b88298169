//! Settings of a node as a host: its kernel's settings and its share of the machine.

use std::collections::BTreeMap;

use netrig_core::{Fraction, Size};
use netrig_transport::tcp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The host settings of a node on a real machine. By default, a host has processors of its own and default kernel
/// settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Host {
    /// The share of each of its processors that an artificial load requests, in competition with everything else on the
    /// node. Zero means no load, but the processors are still part of the measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<Fraction>,
    /// The share of processor time that everything on the node may use, the load included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<Fraction>,
    /// The memory that everything on the node may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// The longest IP packet that it sends. Its TCP announces segments that leave room for the headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Size>,
    /// The longest segment that its TCP announces to accept (RFC 9293 section 3.7.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mss: Option<Size>,
    /// The largest window that its TCP offers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Size>,
    /// Treatment of a packet that is longer than a part of its path allows.
    #[serde(skip_serializing_if = "Fragmentation::is_usual")]
    pub fragmentation: Fragmentation,
    /// Network settings of its kernel by their full names: `net.ipv4.tcp_rmem`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
}

impl Host {
    /// The name in the file of the first setting that only a real host supports; `None` without such a setting.
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

    /// Whether the node has only a part of the machine's resources. Then the effect of its processors is part of the
    /// measurement.
    pub const fn is_constrained(&self) -> bool {
        self.load.is_some() || self.quota.is_some() || self.memory.is_some()
    }

    /// The receive buffer of a TCP connection with these constants on this host, which is the largest window that it
    /// offers.
    pub fn receive_buffer(&self, config: &tcp::Config) -> Size {
        self.window.map_or(config.receive_buffer, |window| window.min(config.receive_buffer))
    }

    /// Whether all settings have their defaults.
    pub(crate) fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// How a host treats a packet that is longer than a part of its path allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fragmentation {
    /// Packets must not be fragmented on their way. The host fits datagrams to the path MTU that it has learned
    /// (RFC 1191), as a kernel does by default.
    #[default]
    PathMtu,
    /// Packets may be fragmented on their way: the host does not set DF and learns no path MTU. IPv4 only.
    Allowed,
    /// Packets are never fragmented: a datagram that is longer than the known path MTU is not sent.
    Never,
}

impl Fragmentation {
    fn is_usual(&self) -> bool {
        *self == Self::PathMtu
    }
}
