//! Connection limits of servers.

use std::num::NonZeroUsize;

use clap::Args;
use netrig_host::SlotLimits;

/// Limits on the number of connections that a server accepts.
#[derive(Clone, Copy, Debug, Args)]
pub struct ConnectionLimits {
    /// Connections from one address (for IPv6: from one /64); loopback addresses have no limit by default
    #[arg(long, help_heading = "Limits", value_name = "N")]
    pub connections_per_address: Option<NonZeroUsize>,
    /// Connections from one /24 of IPv4 or /48 of IPv6; loopback addresses have no limit by default
    #[arg(long, help_heading = "Limits", value_name = "N")]
    pub connections_per_group: Option<NonZeroUsize>,
}

impl ConnectionLimits {
    /// The limits of a server, changed by the command line.
    pub fn of(&self, limits: SlotLimits) -> SlotLimits {
        let get = |count: Option<NonZeroUsize>| count.map(NonZeroUsize::get);
        limits.set(get(self.connections_per_address), get(self.connections_per_group))
    }
}
