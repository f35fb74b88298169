//! The states of a connection.

/// State of a connection (RFC 9293 section 3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpState {
    /// No connection: not yet opened, or over.
    Closed,
    /// Waits for a peer's SYN.
    Listen,
    /// Has sent its SYN.
    SynSent,
    /// Has sent and received a SYN; its own is not yet acknowledged.
    SynReceived,
    /// Open in both directions.
    Established,
    /// Has sent FIN, which is not yet acknowledged.
    FinWait1,
    /// Its FIN is acknowledged; the peer's is not yet received.
    FinWait2,
    /// Has received the peer's FIN; its own is not yet sent.
    CloseWait,
    /// Both sent FIN at once; its own is not yet acknowledged.
    Closing,
    /// Has received the peer's FIN first; its own is sent and not yet acknowledged.
    LastAck,
    /// Waits, to acknowledge a retransmitted FIN.
    TimeWait,
}

impl TcpState {
    /// Whether both SYNs were exchanged and the connection is not over.
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
