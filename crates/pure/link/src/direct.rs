//! A link without a model: a cable.

use netrig_core::Size;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SettingsError;
use crate::error::ensure;

/// A cable between two nodes. It takes no time, has no queue, loses no packet and has no counters. It is for experiments whose
/// subject is a server and not a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DirectSettings {
    /// The kind of link.
    pub kind: DirectKind,
    /// The longest IP packet that the interfaces at its ends send, above zero. 1500 B if not given.
    #[serde(default = "ethernet")]
    pub mtu: Size,
}

/// The kind of a link without a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DirectKind {
    /// A cable.
    Direct,
}

/// The MTU of Ethernet.
fn ethernet() -> Size {
    Size::from_bytes(1500)
}

impl DirectSettings {
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        ensure(self.mtu != Size::default(), "mtu", "must be above zero")
    }
}
