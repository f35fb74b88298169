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
    /// Controls by this end's user and its interfaces, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<TimedControl>,
}

/// A path of an association.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SctpPath {
    /// Its name, for the run's time line.
    pub name: String,
    /// The address of the flow's first end.
    pub client: IpAddr,
    /// The address of its second end.
    pub server: IpAddr,
}

/// A control of associations at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedControl {
    /// Time since the start of the run, ns.
    pub at_ns: u64,
    /// The control.
    pub control: Control,
}

impl TimedControl {
    /// The time of the control.
    pub const fn at(&self) -> Instant {
        Instant::from_nanos(self.at_ns)
    }
}

impl SctpOptions {
    /// The paths with local and remote addresses of one side.
    pub(crate) fn paths_of(&self, side: FlowSide) -> Vec<PathAddresses> {
        let seen = |path: &SctpPath| match side {
            FlowSide::Client => PathAddresses { local: path.client, remote: path.server },
            FlowSide::Server => PathAddresses { local: path.server, remote: path.client },
        };
        self.paths.iter().map(seen).collect()
    }
}
