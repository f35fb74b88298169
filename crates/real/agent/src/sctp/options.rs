//! Configuration of an end with SCTP associations.

use std::net::IpAddr;

use netrig_core::Instant;
use netrig_traffic::FlowSide;
use netrig_transport::Control;
use netrig_transport::sctp::{Config, PathAddresses};
use serde::{Deserialize, Serialize};

/// Parameters of associations of netrig's own SCTP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SctpOptions {
    /// Every constant of the endpoint.
    pub config: Config,
    /// The paths, the primary first. At least one.
    pub paths: Vec<SctpPath>,
    /// Scheduled events on this host that change the associations, such as a new primary path, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<TimedControl>,
}

/// A path of an association.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SctpPath {
    /// The path's name in the time line of the run.
    pub name: String,
    /// The address of the flow's client on this path.
    pub client: IpAddr,
    /// The address of the flow's server on this path.
    pub server: IpAddr,
}

/// An event on this host that changes all associations of an end at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedControl {
    /// Time since the start of the run, ns.
    pub at_ns: u64,
    /// The event.
    pub control: Control,
}

impl TimedControl {
    /// The time of the event, since the start of the run.
    pub const fn at(&self) -> Instant {
        Instant::from_nanos(self.at_ns)
    }
}

impl SctpOptions {
    /// The local and remote address of each path, as seen from one side.
    pub(crate) fn paths_of(&self, side: FlowSide) -> Vec<PathAddresses> {
        let seen = |path: &SctpPath| match side {
            FlowSide::Client => PathAddresses { local: path.client, remote: path.server },
            FlowSide::Server => PathAddresses { local: path.server, remote: path.client },
        };
        self.paths.iter().map(seen).collect()
    }
}
