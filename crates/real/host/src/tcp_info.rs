//! The kernel's state of a TCP connection: `TCP_INFO`.

use std::io;
use std::os::fd::AsFd;

use netrig_core::{Duration, counts};

use crate::sys::option_bytes;

/// Size of a buffer that is longer than the `struct tcp_info` of any kernel, bytes.
const LONGEST: usize = 512;

/// `TCP_ESTABLISHED` of the kernel's states.
const ESTABLISHED: u8 = 1;
/// `TCP_CLOSE` of the kernel's states (include/net/tcp_states.h).
const CLOSED: u8 = 7;

/// `TCPI_OPT_TIMESTAMPS` (include/uapi/linux/tcp.h).
const TIMESTAMPS: u8 = 1;

/// A reading of `TCP_INFO`. Fields that an older kernel lacks are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpInfo {
    state: u8,
    /// Whether both ends put time stamps into every segment (RFC 7323).
    pub has_timestamps: bool,
    /// User bytes of a full segment that this end sends (`snd_mss`), without the TCP options that are in every segment.
    pub segment: u32,
    /// User bytes of the longest segment that this end announced (`advmss`), without the TCP options that are in every
    /// segment.
    pub announced: u32,
    /// The path MTU, bytes.
    pub path_mtu: u32,
    /// The window that the peer offers, bytes.
    pub window: u64,
    /// Congestion window, bytes: the kernel's number of segments times `snd_mss`.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `None` while it is unbounded.
    pub ssthresh: Option<u64>,
    /// Data in flight, bytes: the number of unacknowledged and retransmitted segments minus the selectively
    /// acknowledged and lost segments, times `snd_mss`.
    pub flight: u64,
    /// Smoothed round-trip time; `None` before the first measurement.
    pub srtt: Option<Duration>,
    /// Smoothed variation of the round-trip time (RFC 6298: RTTVAR).
    pub rtt_variation: Duration,
    /// Recent minimum of the round-trip time; `None` before the first measurement.
    pub min_rtt: Option<Duration>,
    /// Smoothed round-trip time that the receiver measures: the time from an acknowledgement to the first data that
    /// echoes its time stamp. `None` before the first measurement.
    pub received_rtt: Option<Duration>,
    /// Current retransmission timeout.
    pub rto: Duration,
    /// Pacing rate, B/s; `None` without pacing.
    pub pacing_rate: Option<u64>,
    /// Most recent delivery rate, B/s.
    pub delivery_rate: u64,
    /// Time with unsent or unacknowledged data.
    pub busy: Duration,
    /// Time for which the peer's window limited sending.
    pub window_limited: Duration,
    /// Time for which the send buffer limited sending.
    pub buffer_limited: Duration,
    /// Counts since the connection was opened.
    pub counts: TcpCounts,
}

counts! {
    /// Counters of a TCP connection.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TcpCounts {
        /// Segments sent, of any kind.
        pub segments_sent: u64,
        /// Segments received, of any kind.
        pub segments_received: u64,
        /// Segments with data sent, retransmissions included.
        pub data_segments_sent: u64,
        /// Segments with data received, duplicates included.
        pub data_segments_received: u64,
        /// Bytes acknowledged; SYN and FIN count as one byte each.
        pub bytes_acknowledged: u64,
        /// User bytes retransmitted.
        pub bytes_retransmitted: u64,
        /// Segments retransmitted.
        pub segments_retransmitted: u64,
        /// User bytes sent, retransmissions included.
        pub bytes_sent: u64,
        /// User bytes received, without duplicates.
        pub bytes_received: u64,
        /// Retransmission time-outs.
        pub timeouts: u64,
    }
}

impl TcpInfo {
    /// Reads the state from the kernel.
    ///
    /// # Errors
    /// If the socket is not TCP.
    pub fn read(socket: impl AsFd) -> io::Result<Self> {
        let mut bytes = [0; LONGEST];
        let len = option_bytes(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)?;
        Ok(Self::parse(&bytes[..len.min(LONGEST)]))
    }

    /// Whether the connection is closed: nothing can be sent or received, and all data is acknowledged.
    pub const fn is_closed(&self) -> bool {
        self.state == CLOSED
    }

    /// Whether data can be sent and received.
    pub const fn is_established(&self) -> bool {
        self.state == ESTABLISHED
    }

    /// Parses the fields by their offsets (include/uapi/linux/tcp.h), which never change: new fields are appended.
    pub fn parse(bytes: &[u8]) -> Self {
        let word =
            |at: usize| bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_ne_bytes(*b));
        let long =
            |at: usize| bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_ne_bytes(*b));
        let half =
            |at: usize| bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u16::from_ne_bytes(*b));
        let micros = |at| Duration::from_micros(word(at).into());
        let mss = u64::from(word(16));
        let [unacked, sacked, lost, retransmitted] = [24, 28, 32, 36].map(|at| u64::from(word(at)));
        let flight = (unacked + retransmitted).saturating_sub(sacked + lost);
        // 0x7FFF_FFFF is TCP_INFINITE_SSTHRESH. The minimum round-trip time has all bits set before the first
        // measurement.
        let ssthresh = Some(word(76)).filter(|segments| *segments < 0x7FFF_FFFF);
        Self {
            state: bytes.first().copied().unwrap_or(CLOSED),
            has_timestamps: bytes.get(5).is_some_and(|options| options & TIMESTAMPS != 0),
            segment: word(16),
            announced: word(84),
            path_mtu: word(60),
            window: word(228).into(),
            cwnd: u64::from(word(80)) * mss,
            ssthresh: ssthresh.map(|segments| u64::from(segments) * mss),
            flight: flight * mss,
            srtt: Some(micros(68)).filter(|span| !span.is_zero()),
            rtt_variation: micros(72),
            received_rtt: Some(micros(92)).filter(|span| !span.is_zero()),
            min_rtt: Some(word(148))
                .filter(|us| !matches!(us, 0 | &u32::MAX))
                .map(|us| Duration::from_micros(us.into())),
            rto: micros(8),
            pacing_rate: Some(long(104)).filter(|rate| !matches!(rate, 0 | &u64::MAX)),
            delivery_rate: long(160),
            busy: Duration::from_micros(long(168)),
            window_limited: Duration::from_micros(long(176)),
            buffer_limited: Duration::from_micros(long(184)),
            counts: TcpCounts {
                segments_sent: word(136).into(),
                segments_received: word(140).into(),
                data_segments_sent: word(156).into(),
                data_segments_received: word(152).into(),
                bytes_acknowledged: long(120),
                bytes_retransmitted: long(208),
                segments_retransmitted: word(100).into(),
                bytes_sent: long(200),
                bytes_received: long(128),
                timeouts: half(240).into(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use libc::tcp_info;

    use super::*;

    /// Compares the offsets with the declaration of the C library, which lacks the newest fields.
    #[test]
    fn fields_lie_where_the_c_library_has_them() {
        let mut bytes = [0; LONGEST];
        let mut put = |at: usize, value: u64, width: usize| {
            bytes[at..at + width].copy_from_slice(&value.to_ne_bytes()[..width]);
        };
        put(offset_of!(tcp_info, tcpi_state), 7, 1);
        put(offset_of!(tcp_info, tcpi_rto), 204_000, 4);
        put(offset_of!(tcp_info, tcpi_snd_mss), 1448, 4);
        put(offset_of!(tcp_info, tcpi_pmtu), 1500, 4);
        put(offset_of!(tcp_info, tcpi_advmss), 1460, 4);
        put(offset_of!(tcp_info, tcpi_options), 0b101, 1);
        put(offset_of!(tcp_info, tcpi_unacked), 10, 4);
        put(offset_of!(tcp_info, tcpi_sacked), 3, 4);
        put(offset_of!(tcp_info, tcpi_lost), 2, 4);
        put(offset_of!(tcp_info, tcpi_retrans), 1, 4);
        put(offset_of!(tcp_info, tcpi_rtt), 40_000, 4);
        put(offset_of!(tcp_info, tcpi_rttvar), 5_000, 4);
        put(offset_of!(tcp_info, tcpi_total_retrans), 9, 4);
        put(offset_of!(tcp_info, tcpi_snd_ssthresh), 20, 4);
        put(offset_of!(tcp_info, tcpi_snd_cwnd), 11, 4);
        let info = TcpInfo::parse(&bytes);
        assert!(info.is_closed());
        assert_eq!((info.cwnd, info.ssthresh, info.flight), (11 * 1448, Some(20 * 1448), 6 * 1448));
        assert_eq!(info.srtt, Some(Duration::from_millis(40)));
        assert_eq!((info.rtt_variation, info.counts.segments_retransmitted), (Duration::from_millis(5), 9));
        assert_eq!(info.rto, Duration::from_millis(204));
        assert_eq!((info.segment, info.path_mtu, info.has_timestamps), (1448, 1500, true));
        assert_eq!(info.announced, 1460);
    }

    #[test]
    fn what_an_old_kernel_does_not_tell_is_zero() {
        let info = TcpInfo::parse(&[1, 0, 0]);
        assert_eq!((info.counts, info.srtt, info.is_closed()), (TcpCounts::default(), None, false));
    }
}
