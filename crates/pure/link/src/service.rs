//! The distribution of the service times of a line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The distribution of service times. Its mean is the transmission time of the packet.
///
/// Queueing theory solves a chain of servers by Kleinrock's independence assumption: every server draws the service
/// time of a packet anew. Real lines do not: a long packet is long on every line. With `exponential`, the line draws
/// the service times of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// The service time is the transmission time of the packet.
    #[default]
    Constant,
    /// An exponential time whose mean is the transmission time, drawn for each packet that starts onto the line.
    Exponential,
}

impl Service {
    /// Whether it is the default.
    pub(crate) fn is_constant(&self) -> bool {
        *self == Self::Constant
    }
}
