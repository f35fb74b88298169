//! The two ends of a flow.

use serde::{Deserialize, Serialize};

/// Which end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowSide {
    /// The flow's `from`: opens connections or sends datagrams.
    Client,
    /// The flow's `to`: listens.
    Server,
}

impl FlowSide {
    /// Both sides.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];
}
