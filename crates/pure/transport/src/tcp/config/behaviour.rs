//! Values of a TCP endpoint's constants: named behaviours, and counts that may be unbounded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! behaviour {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $($(#[$variant_meta])* $variant,)+ }
    };
}

behaviour! {
    /// How losses are detected and repaired. `sack` and `rack` fall back to `newreno` if SACK was not negotiated.
    pub enum Recovery {
        /// By the retransmission timer only.
        None,
        /// Fast retransmit and fast recovery, ended by the first new acknowledgement (RFC 2581 section 3.2), once in a
        /// window of data.
        Reno,
        /// Fast recovery that lasts until all outstanding data is acknowledged (RFC 6582).
        Newreno,
        /// Selective acknowledgements (RFC 6675).
        Sack,
        /// Time-based detection with selective acknowledgements (RFC 8985).
        Rack,
    }
}

behaviour! {
    /// When NewReno restarts the retransmission timer during recovery (RFC 6582 section 4).
    pub enum NewrenoTimer {
        /// At the first partial acknowledgement only: with many losses a time-out ends the recovery.
        Impatient,
        /// At every partial acknowledgement.
        SlowButSteady,
    }
}

behaviour! {
    /// What each of the first two duplicate acknowledgements allows beyond the congestion window.
    pub enum LimitedTransmit {
        /// Nothing.
        Off,
        /// A new segment (RFC 3042).
        NewData,
        /// A segment: new or, after a time-out, retransmitted.
        AnyData,
    }
}

behaviour! {
    /// Use of Explicit Congestion Notification (RFC 3168).
    pub enum EcnMode {
        /// Never.
        Off,
        /// If the peer requests it.
        Accept,
        /// Requested at every opening.
        Request,
    }
}

behaviour! {
    /// Unit of the congestion window.
    pub enum WindowCounts {
        /// Bytes of data.
        Bytes,
        /// Packets, full or not.
        Packets,
    }
}

behaviour! {
    /// How congestion avoidance adds one segment per round trip.
    pub enum Avoidance {
        /// A segment for every window's worth of bytes acknowledged (RFC 5681 section 3.1, RFC 3465).
        ByteCounting,
        /// SMSS²/cwnd for each acknowledgement, independent of its bytes (RFC 5681 equation 3): slower if
        /// acknowledgements are delayed.
        PerAck,
    }
}

behaviour! {
    /// The quantity from which the window after a loss is computed.
    pub enum SsthreshFrom {
        /// The outstanding data (RFC 5681 equation 4).
        FlightSize,
        /// The congestion window, or the send window limit if that is smaller.
        Cwnd,
    }
}

behaviour! {
    /// How often ssthresh is reduced while the retransmission timer backs off.
    pub enum BackoffSsthresh {
        /// At the first time-out; then it is kept until an acknowledgement is received (RFC 5681 section 3.1).
        Once,
        /// As `once`, but not if the time-out ends a fast recovery, which has reduced it already.
        OncePerLoss,
        /// At every time-out. After a long outage slow start ends at two segments.
        Every,
    }
}

behaviour! {
    /// Whether the window grows if the application does not fill it.
    pub enum Growth {
        /// With every acknowledgement.
        Always,
        /// Only if the congestion window limited the sender (in slow start: if more than half of it was used).
        WhenLimited,
    }
}

behaviour! {
    /// Change of the window after the sender was idle for a retransmission time-out or longer.
    pub enum IdleRestart {
        /// None.
        None,
        /// It is reset to the initial window (RFC 5681 section 4.1).
        InitialWindow,
        /// It is halved for every time-out of idleness, down to the initial window (RFC 2861 section 3.2).
        Decay,
    }
}

behaviour! {
    /// How slow start ends before the first loss.
    pub enum HyStart {
        /// Only a loss ends it.
        Off,
        /// Ha and Rhee 2008 as in Linux: if acknowledgements arrive in a train as long as half the smallest
        /// round-trip time, or if the round-trip time grew.
        Linux,
        /// HyStart++ (RFC 9406): if the round-trip time grew, after a conservative slow start.
        PlusPlus,
    }
}

behaviour! {
    /// How CUBIC computes growth from its function.
    pub enum CubicGrowth {
        /// In real numbers with every acknowledgement (RFC 9438 section 4). Once the window reaches its size before the
        /// loss, the Reno estimate grows by one segment per round trip.
        Continuous,
        /// As in Linux: the window grows by whole packets, each for a number of acknowledged packets. That number is
        /// updated every 32 ms while the window is constant. If the Reno estimate is larger, the window grows as in
        /// section 4.3. Before a loss, and after a time-out, which resets the memory of the earlier window, the window
        /// grows by at least 5 % per round trip.
        Counted,
    }
}

behaviour! {
    /// When a partial segment waits for more data.
    pub enum Nagle {
        /// Never.
        Off,
        /// While any data is unacknowledged (RFC 896, RFC 9293 section 3.7.4).
        Nagle,
        /// While another partial segment is unacknowledged (Minshall).
        Minshall,
    }
}

behaviour! {
    /// How a connection opens.
    pub enum Handshake {
        /// By SYN, SYN-ACK and ACK (RFC 9293 section 3.5).
        Full,
        /// Without handshake: data is sent at once, and both ends know the sequence numbers and options.
        None,
    }
}

behaviour! {
    /// Whether options make packets longer.
    pub enum OptionBytes {
        /// As on the wire.
        Counted,
        /// Every header is 20 bytes of IP (40 for IPv6) and 20 of TCP.
        Free,
    }
}

behaviour! {
    /// How the user's data is cut into packets.
    pub enum Framing {
        /// As a stream of bytes.
        Stream,
        /// A message starts a new packet, and every packet is as long on the wire as a full one.
        WholePackets,
    }
}

behaviour! {
    /// Arithmetic of the round-trip estimate.
    pub enum RtoArithmetic {
        /// RFC 6298 in real numbers.
        Real,
        /// Jacobson's integers (1988, appendix A): ticks of `rto_tick`, with three fraction bits for the mean and two
        /// for the deviation. The deviation of a steady path never reaches zero. If the time-out is doubled more than
        /// three times, the mean is forgotten, as in 4.3BSD.
        FixedPoint,
    }
}

behaviour! {
    /// Which acknowledgements measure the round-trip time.
    pub enum RttSampling {
        /// Every acknowledgement of a segment that was sent once.
        PerAck,
        /// One per round trip: one segment is timed at a time.
        PerRound,
    }
}

/// A count that may be unbounded: a number, or `unbounded`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Limit {
    /// At most this number.
    Count(u32),
    /// Unbounded.
    Unbounded(Unbounded),
}

behaviour! {
    /// The word `unbounded`.
    pub enum Unbounded {
        /// Unbounded.
        Unbounded,
    }
}

impl Limit {
    /// No bound.
    pub const UNBOUNDED: Self = Self::Unbounded(Unbounded::Unbounded);

    /// The limit times `unit`; `u64::MAX` if unbounded.
    pub(crate) fn of(self, unit: u64) -> u64 {
        match self {
            Self::Count(n) => u64::from(n) * unit,
            Self::Unbounded(_) => u64::MAX,
        }
    }

    /// The limit as a number; `u32::MAX` if unbounded.
    pub(crate) const fn count(self) -> u32 {
        match self {
            Self::Count(n) => n,
            Self::Unbounded(_) => u32::MAX,
        }
    }
}
