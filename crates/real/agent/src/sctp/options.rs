//! What an end of associations is told.

use std::net::IpAddr;

use netrig_core::Instant;
use netrig_transport::Control;
use netrig_transport::sctp::{Config, PathAddresses};
use serde::{Deserialize, Serialize};

use crate::side::Side;

/// What an association of netrig's own SCTP is made with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SctpOptions {
    /// Every constant of the endpoint.
    pub config: Config,
    /// The paths, the primary first. At least one.
    pub paths: Vec<SctpPath>,
    /// What this end's user and its interfaces tell the associations, in the order of time.
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

/// Something that associations are told at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedControl {
    /// When, ns.
    pub at_ns: u64,
    /// What.
    pub control: Control,
}

impl TimedControl {
    /// When.
    pub const fn at(&self) -> Instant {
        Instant::from_nanos(self.at_ns)
    }
}

impl SctpOptions {
    /// The paths as one side sees them.
    pub(crate) fn paths_of(&self, side: Side) -> Vec<PathAddresses> {
        let seen = |path: &SctpPath| match side {
            Side::Client => PathAddresses { local: path.client, remote: path.server },
            Side::Server => PathAddresses { local: path.server, remote: path.client },
        };
        self.paths.iter().map(seen).collect()
    }
}
