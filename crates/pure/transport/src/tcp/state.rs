//! The states of a connection.

/// State of a connection (RFC 9293 section 3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpState {
    /// No connection: not yet opened, or over.
    Closed,
    /// Waits for the SYN of a peer.
    Listen,
    /// Has sent its SYN.
    SynSent,
    /// Has sent and received a SYN. Its own SYN is not yet acknowledged.
    SynReceived,
    /// Open in both directions.
    Established,
    /// Has sent FIN, which is not yet acknowledged.
    FinWait1,
    /// Its FIN is acknowledged. The peer's FIN has not arrived.
    FinWait2,
    /// Has received the peer's FIN. Its own FIN is not yet sent.
    CloseWait,
    /// Both ends sent FIN at the same time. Its own FIN is not yet acknowledged.
    Closing,
    /// Has received the peer's FIN and then sent its own, which is not yet acknowledged.
    LastAck,
    /// Waits in order to acknowledge a retransmitted FIN.
    TimeWait,
}

impl TcpState {
    /// Whether both SYNs are acknowledged and the connection has not ended.
    pub const fn is_synchronised(self) -> bool {
        !matches!(self, Self::Closed | Self::Listen | Self::SynSent | Self::SynReceived)
    }

    /// Whether data and FIN may be sent or retransmitted.
    pub(crate) const fn may_transmit(self) -> bool {
        matches!(self, Self::Established | Self::CloseWait | Self::FinWait1 | Self::Closing | Self::LastAck)
    }

    /// Whether the peer may still send data.
    pub(crate) const fn may_receive(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }
}
