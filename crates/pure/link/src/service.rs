//! The distribution of the service times of a line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The distribution of service times around the time of a packet's bits.
///
/// Queueing theory solves a chain of servers by Kleinrock's independence assumption: every server draws the service time of a
/// packet anew. Real lines do not: a long packet is long on every line. `exponential` makes the line such a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// A packet takes the time of its bits.
    #[default]
    Constant,
    /// An exponential time whose mean is the time of its bits, drawn for each packet that starts onto the line.
    Exponential,
}

impl Service {
    /// Whether it is the default.
    pub(crate) fn is_constant(&self) -> bool {
        *self == Self::Constant
    }
}
