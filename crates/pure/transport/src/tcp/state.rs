//! The states of a connection (RFC 9293 section 3.3.2).

/// Where a connection stands between opening and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpState {
    /// There is no connection: not yet, or not any more.
    Closed,
    /// Waits for a peer's SYN.
    Listen,
    /// Has sent its SYN.
    SynSent,
    /// Has sent and received SYN, and waits for its own to be acknowledged.
    SynReceived,
    /// Open both ways.
    Established,
    /// Has sent FIN, which is not yet acknowledged.
    FinWait1,
    /// Its FIN is acknowledged; the peer's has not come.
    FinWait2,
    /// The peer's FIN came; its own is not yet sent.
    CloseWait,
    /// Both sent FIN at once; its own is not yet acknowledged.
    Closing,
    /// The peer's FIN came first; its own is sent and not yet acknowledged.
    LastAck,
    /// Waits so that the last acknowledgement reaches the peer.
    TimeWait,
}

impl TcpState {
    /// Whether both SYNs were exchanged and the connection still lives.
    pub const fn is_synchronised(self) -> bool {
        !matches!(self, Self::Closed | Self::Listen | Self::SynSent | Self::SynReceived)
    }

    /// Whether data and FIN may be sent, or sent again.
    pub(crate) const fn may_transmit(self) -> bool {
        matches!(self, Self::Established | Self::CloseWait | Self::FinWait1 | Self::Closing | Self::LastAck)
    }

    /// Whether the peer may still send data.
    pub(crate) const fn may_receive(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }
}
