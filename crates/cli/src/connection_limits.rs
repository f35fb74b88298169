//! Limits of connections that servers have in common.

use std::num::NonZeroUsize;

use clap::Args;
use netrig_host::SlotLimits;

/// How many connections a server takes from where.
#[derive(Clone, Copy, Debug, Args)]
pub struct ConnectionLimits {
    /// Connections from one address (of IPv6 from a /64); loopback addresses have a limit only if it is given
    #[arg(long, help_heading = "Limits", value_name = "N")]
    pub connections_per_address: Option<NonZeroUsize>,
    /// Connections from one /24 of IPv4 or /48 of IPv6; loopback addresses have a limit only if it is given
    #[arg(long, help_heading = "Limits", value_name = "N")]
    pub connections_per_group: Option<NonZeroUsize>,
}

impl ConnectionLimits {
    /// The limits of a server with what was typed.
    pub fn of(&self, limits: SlotLimits) -> SlotLimits {
        let get = |count: Option<NonZeroUsize>| count.map(NonZeroUsize::get);
        limits.set(get(self.connections_per_address), get(self.connections_per_group))
    }
}
