//! Quantities that only agents measure.

netrig_core::quantities! {
    /// Duplicate datagrams.
    DATAGRAMS_DUPLICATED = "datagrams_duplicated", "packets", Count;
    /// Datagrams that arrived after one that was sent later (RFC 4737 section 3.3).
    DATAGRAMS_REORDERED = "datagrams_reordered", "packets", Count;
    /// Datagrams that were dropped because the receive buffer of the socket was full.
    SOCKET_DROPPED = "socket_dropped", "packets", Count;
    /// Recent minimum of TCP's round-trip time.
    MIN_RTT = "min_rtt", "s", Gauge;
    /// TCP's pacing rate.
    PACING_RATE = "pacing_rate", "B/s", Gauge;
    /// The rate at which data was last delivered, by TCP's own estimate.
    DELIVERY_RATE = "delivery_rate", "B/s", Gauge;
    /// Subflows over which a connection of Multipath TCP can send.
    SUBFLOWS = "subflows", "subflows", Gauge;
}

#[cfg(test)]
mod tests {
    use netrig_core::quantity;

    use super::*;

    #[test]
    fn names_are_unique_among_all() {
        for own in ALL {
            assert!(quantity::ALL.iter().all(|other| other.name != own.name), "{}", own.name);
        }
    }
}
