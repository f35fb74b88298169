//! A link that is a cable and nothing more.

use netrig_core::Size;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SettingsError;
use crate::error::ensure;

/// A cable straight between two nodes: it takes no time, has no queue, loses nothing, and nothing is counted of it. For
/// experiments whose subject is a server and not a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DirectSettings {
    /// What it is.
    pub kind: DirectKind,
    /// The longest IP packet that the interfaces at its ends send, above zero; 1500 B if not given.
    #[serde(default = "ethernet")]
    pub mtu: Size,
}

/// The word for such a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DirectKind {
    /// A cable.
    Direct,
}

/// What Ethernet carries.
fn ethernet() -> Size {
    Size::from_bytes(1500)
}

impl DirectSettings {
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        ensure(self.mtu != Size::default(), "mtu", "must be above zero")
    }
}
