//! What the constants of a TCP endpoint choose between: behaviours by name, and counts that may be without bound.

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
    /// How losses are found and repaired. `sack` and `rack` fall back to `newreno` if SACK was not agreed.
    pub enum Recovery {
        /// By the retransmission timer only.
        None,
        /// Fast retransmit and fast recovery, ended by the first new acknowledgement (RFC 2581 section 3.2), once in a
        /// window of data.
        Reno,
        /// Fast recovery that lasts until all that was outstanding is acknowledged (RFC 6582).
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
        /// At the first partial acknowledgement only: with many losses the timer ends the recovery.
        Impatient,
        /// At every partial acknowledgement.
        SlowButSteady,
    }
}

behaviour! {
    /// What the first two duplicate acknowledgements let out beyond the congestion window.
    pub enum LimitedTransmit {
        /// Nothing.
        Off,
        /// A new segment each (RFC 3042).
        NewData,
        /// A segment each, new or, after a time-out, one that is sent again.
        AnyData,
    }
}

behaviour! {
    /// Use of Explicit Congestion Notification (RFC 3168).
    pub enum EcnMode {
        /// Never.
        Off,
        /// If the peer asks for it.
        Accept,
        /// Asked for at every opening.
        Request,
    }
}

behaviour! {
    /// What the congestion window counts.
    pub enum WindowCounts {
        /// Bytes of data.
        Bytes,
        /// Packets, be they full or not.
        Packets,
    }
}

behaviour! {
    /// How congestion avoidance adds its segment per round trip.
    pub enum Avoidance {
        /// A segment for every window's worth of bytes acknowledged (RFC 5681 section 3.1, RFC 3465).
        ByteCounting,
        /// SMSS²/cwnd for each acknowledgement, whatever it acknowledges (RFC 5681 equation 3): slower where
        /// acknowledgements are delayed.
        PerAck,
    }
}

behaviour! {
    /// What the reduction of the window at a loss is reckoned from.
    pub enum SsthreshFrom {
        /// What was outstanding (RFC 5681 equation 4).
        FlightSize,
        /// The congestion window, or the send window limit if that is smaller.
        Cwnd,
    }
}

behaviour! {
    /// How often ssthresh is reduced while the retransmission timer backs off.
    pub enum BackoffSsthresh {
        /// At the first time-out; then it is kept until an acknowledgement comes (RFC 5681 section 3.1).
        Once,
        /// As `once`, and not at all if the time-out ends a fast recovery, which has reduced it already.
        OncePerLoss,
        /// At every time-out: after a long outage slow start ends at two segments.
        Every,
    }
}

behaviour! {
    /// Whether the window grows that the application does not fill.
    pub enum Growth {
        /// It grows with every acknowledgement.
        Always,
        /// Only if the congestion window was what limited the sender (slow start: if more than half of it
        /// was used).
        WhenLimited,
    }
}

behaviour! {
    /// What happens to the window when the sender was idle for a retransmission time-out or longer.
    pub enum IdleRestart {
        /// Nothing.
        None,
        /// It is set back to the initial window (RFC 5681 section 4.1).
        InitialWindow,
        /// It is halved for every time-out of idleness, down to the initial window (RFC 2861 section 3.2).
        Decay,
    }
}

behaviour! {
    /// How slow start ends before the first loss.
    pub enum HyStart {
        /// It does not.
        Off,
        /// Ha and Rhee 2008 as in Linux: when acknowledgements come in a train as long as half the smallest
        /// round-trip time, or when the round-trip time grew.
        Linux,
        /// HyStart++ (RFC 9406): when the round-trip time grew, by way of conservative slow start.
        PlusPlus,
    }
}

behaviour! {
    /// How CUBIC's function becomes growth.
    pub enum CubicGrowth {
        /// In real numbers with every acknowledgement (RFC 9438 section 4); as fast as Reno's of now once the window
        /// of before the loss is reached again.
        Continuous,
        /// As in Linux: whole packets, bought with acknowledged ones at a price that is looked up every 32 ms while the
        /// window stands; never faster than the Reno of section 4.3 where Reno leads; 5 % per round trip at least
        /// before a loss and after a time-out, which forgets the window of before.
        Counted,
    }
}

behaviour! {
    /// When a segment that is not full waits for more data.
    pub enum Nagle {
        /// Never.
        Off,
        /// While anything is unacknowledged (RFC 896, RFC 9293 section 3.7.4).
        Nagle,
        /// While another small segment is unacknowledged (Minshall).
        Minshall,
    }
}

behaviour! {
    /// How a connection opens.
    pub enum Handshake {
        /// SYN, SYN and ACK, ACK (RFC 9293 section 3.5).
        Full,
        /// Not at all: the first data packet goes at once, and both ends know the numbers and options.
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
        /// A message begins a new packet, and every packet is as long on the wire as a full one.
        WholePackets,
    }
}

behaviour! {
    /// Arithmetic of the round-trip estimate.
    pub enum RtoArithmetic {
        /// RFC 6298 in real numbers.
        Real,
        /// Jacobson's integers (1988, appendix A): ticks of `rto_tick`, three bits of fraction for the mean
        /// and two for the deviation. The deviation of a steady path never quite reaches zero. Beyond eight
        /// times the timer the mean is forgotten, as 4.3BSD did.
        FixedPoint,
    }
}

behaviour! {
    /// Which acknowledgements measure the round-trip time.
    pub enum RttSampling {
        /// Each that acknowledges something sent once.
        PerAck,
        /// One per round trip: one segment is timed at a time.
        PerRound,
    }
}

/// A count that may be without bound: a number, or `unbounded`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Limit {
    /// At most so many.
    Count(u32),
    /// Without bound.
    Unbounded(Unbounded),
}

behaviour! {
    /// The word for "without bound".
    pub enum Unbounded {
        /// Without bound.
        Unbounded,
    }
}

impl Limit {
    /// Without bound.
    pub const UNBOUNDED: Self = Self::Unbounded(Unbounded::Unbounded);

    /// The limit times `unit`; `u64::MAX` without one.
    pub(crate) fn of(self, unit: u64) -> u64 {
        match self {
            Self::Count(n) => u64::from(n) * unit,
            Self::Unbounded(_) => u64::MAX,
        }
    }

    /// The limit as a number; `u32::MAX` without one.
    pub(crate) const fn count(self) -> u32 {
        match self {
            Self::Count(n) => n,
            Self::Unbounded(_) => u32::MAX,
        }
    }
}
