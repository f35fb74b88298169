//! Why the settings of a measurement are invalid.

use netrig_core::{Duration, Rate, Size};

use crate::protocol::{PhaseError, SHORTEST_INTERVAL};

/// Minimum duration of a phase. It has five readings.
pub(super) const SHORTEST: Duration = Duration::from_millis(500);

/// Minimum number of datagrams that a phase needs for a result.
pub(super) const FEWEST: f64 = 10.0;

/// Why the settings of a measurement are invalid. A setting is named by its flag.
#[derive(Debug, thiserror::Error)]
pub enum MeasureRequestError {
    /// A phase is too short.
    #[error("--time {0}: expected {SHORTEST} or more: a shorter phase has no rate")]
    ShortPhase(Duration),
    /// The time is not a multiple of a second, as the protocol of iperf3 requires.
    #[error("--time {0}: iperf3 takes whole seconds")]
    PartOfSecond(Duration),
    /// The idle phase is too short.
    #[error("--idle {0}: expected {SHORTEST_INTERVAL} or more, or 0s for none")]
    ShortIdle(Duration),
    /// The maximum rate of the search is zero.
    #[error("--most 0bit/s: expected a rate that can be offered")]
    NoRate,
    /// A search with SCTP was requested, but the search uses UDP.
    #[error(
        "--only capacity --sctp: the search for the capacity uses UDP datagrams; leave out one of the two"
    )]
    SctpSearch,
    /// A search with iperf3 was requested, but its protocol has no search.
    #[error("iperf3 has no search for a line's capacity: leave out --only capacity")]
    Iperf3Search,
    /// The rate is too low for a result.
    #[error(
        "--udp {rate}: that is less than {FEWEST} datagrams of {size} B within {time}; expected a higher rate, shorter datagrams \
         (--size) or a longer time (--time)"
    )]
    FewDatagrams {
        /// The rate.
        rate: Rate,
        /// Payload of a datagram, bytes.
        size: u64,
        /// The duration of the phase.
        time: Duration,
    },
    /// A datagram is too long.
    #[error("--size: a datagram has at most 65507 B of payload")]
    LongDatagram,
    /// A segment is too long.
    #[error("--mss: expected at most 65535 B")]
    LongSegment,
    /// A size is too large for the kernel.
    #[error("{0}: expected less than 4 GiB")]
    Large(&'static str),
    /// A size is too small for the kernel.
    #[error("{flag} {size}: expected {least} B or more")]
    Small {
        /// The flag.
        flag: &'static str,
        /// The size.
        size: Size,
        /// The minimum size, bytes.
        least: u64,
    },
    /// A phase of the measurement is invalid.
    #[error(transparent)]
    Phase(#[from] PhaseError),
}
