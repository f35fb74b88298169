//! How long a packet takes, beyond how long it is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the times that packets take on the line are spread around the time of their bits.
///
/// Queueing theory speaks of servers, and a chain of them is solved by Kleinrock's independence assumption: every
/// server draws a packet's service time anew. Lines do not: a packet that is long on one is long on the next.
/// `exponential` makes the line such a server.
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
    /// As every line is that says nothing about it.
    pub(crate) fn is_constant(&self) -> bool {
        *self == Self::Constant
    }
}
