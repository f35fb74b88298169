//! Kernel counters of connections: at one time, and of a whole transfer.

use netrig_core::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::StreamCounts;

/// Counts of one stream at one time, at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionCounts {
    /// Time since the phase began, by the clock of this end, ns.
    pub at_ns: u64,
    /// The number of the stream.
    pub stream: u16,
    /// Bytes received.
    pub received: u64,
    /// Data segments received, including out-of-order ones. Zero if they are not counted (SCTP).
    pub segments: u64,
    /// Whether some segments cannot be read yet because an earlier one is missing.
    pub has_hole: bool,
    /// Bytes that were passed to the kernel for sending.
    pub sent: u64,
    /// Congestion window, bytes. This field and the following ones apply to a sender.
    pub cwnd: u64,
    /// The receive window of the peer, bytes.
    pub window: u64,
    /// Smoothed round-trip time, ns.
    pub srtt_ns: Option<u64>,
    /// Recent minimum of the round-trip time, ns.
    pub min_rtt_ns: Option<u64>,
    /// Bytes transmitted, including retransmissions. This is less than `sent` while data wait in the kernel. `None` if
    /// not reported.
    pub transmitted: Option<u64>,
    /// Bytes retransmitted.
    pub sent_again: Option<u64>,
    /// Bytes of the phase that the peer has acknowledged. `None` if not reported.
    pub acknowledged: Option<u64>,
    /// Time with unsent or unacknowledged data, ns.
    pub busy_ns: u64,
    /// Time in which the receive window of the peer limited the sender, ns.
    pub window_limited_ns: u64,
    /// Time in which the send buffer limited the sender, ns.
    pub buffer_limited_ns: u64,
}

impl ConnectionCounts {
    /// Whether the reading shows the path under load. Until data are acknowledged, the round-trip time is that of the
    /// handshake.
    pub fn is_under_load(&self) -> bool {
        self.acknowledged != Some(0)
    }
}

impl From<&StreamCounts> for ConnectionCounts {
    fn from(carried: &StreamCounts) -> Self {
        let info = carried.info.unwrap_or_default();
        Self {
            received: carried.received,
            segments: info.counts.data_segments_received,
            has_hole: carried.has_hole,
            sent: carried.sent,
            cwnd: info.cwnd,
            window: info.window,
            srtt_ns: info.srtt.map(Duration::as_nanos),
            min_rtt_ns: info.min_rtt.map(Duration::as_nanos),
            transmitted: Some(info.counts.bytes_sent),
            sent_again: Some(info.counts.bytes_retransmitted),
            acknowledged: carried.acknowledged,
            busy_ns: info.busy.as_nanos(),
            window_limited_ns: info.window_limited.as_nanos(),
            buffer_limited_ns: info.buffer_limited.as_nanos(),
            ..Self::default()
        }
    }
}

/// All connections of a phase after the warm-up. Means are over readings. A value that the sender does not report is absent: servers
/// of iperf3 report no kernel counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct ConnectionSummary {
    /// Share of the time with unsent or unacknowledged data, mean over connections.
    pub busy: Option<f64>,
    /// Share of the time in which the receive window of the peer limited the sender, mean over connections.
    pub window_limited: Option<f64>,
    /// Share of the time in which the send buffer limited the sender, mean over connections.
    pub buffer_limited: Option<f64>,
    /// Share of the transmitted bytes that were retransmissions (RFC 6349 section 4.2), including the warm-up. Absent if the sender does
    /// not report it.
    pub sent_again: Option<f64>,
    /// Retransmitted bytes, including the warm-up.
    pub bytes_again: Option<u64>,
    /// Bytes given to the kernel, including the warm-up.
    pub bytes_sent: u64,
    /// Mean congestion window of a connection, bytes.
    pub cwnd: Option<f64>,
    /// Mean receive window of the peer per connection, bytes.
    pub window: Option<f64>,
    /// Mean round-trip time, s. Absent if the kernel measured none.
    pub round_trip_s: Option<f64>,
    /// Shortest round-trip time, s.
    pub least_round_trip_s: Option<f64>,
}

impl ConnectionSummary {
    /// Summarises the readings after `from_s` seconds. `None` if no connection has two such readings.
    pub fn of(counted: &[ConnectionCounts], from_s: f64) -> Option<Self> {
        let streams = counted.iter().map(|counted| counted.stream).max()?;
        let kept = |counted: &&ConnectionCounts| counted.at_ns as f64 * 1e-9 >= from_s;
        let mut all = Self::default();
        let (mut took_ns, mut busy_ns, mut window_ns, mut buffer_ns) = (0, 0, 0, 0);
        let mut transmitted: Option<u64> = None;
        for stream in 0..=streams {
            let readings = || counted.iter().filter(|counted| counted.stream == stream);
            let (Some(first), Some(last)) = (readings().find(kept), readings().next_back()) else { continue };
            // A connection that only receives belongs to the other direction.
            if last.sent == 0 {
                continue;
            }
            add(&mut took_ns, last.at_ns.saturating_sub(first.at_ns));
            add(&mut busy_ns, last.busy_ns.saturating_sub(first.busy_ns));
            add(&mut window_ns, last.window_limited_ns.saturating_sub(first.window_limited_ns));
            add(&mut buffer_ns, last.buffer_limited_ns.saturating_sub(first.buffer_limited_ns));
            add(&mut all.bytes_sent, last.sent);
            if let Some(again) = last.sent_again {
                add(all.bytes_again.get_or_insert(0), again);
                add(transmitted.get_or_insert(0), last.transmitted.unwrap_or(0));
            }
        }
        let mean = |of: &dyn Fn(&ConnectionCounts) -> Option<f64>| {
            let carry = |counted: &&ConnectionCounts| kept(counted) && counted.sent > 0;
            let values: Vec<f64> = counted.iter().filter(carry).filter_map(of).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let share = |part: u64, of: u64| if of == 0 { 0.0 } else { (part as f64 / of as f64).min(1.0) };
        (took_ns > 0).then_some(())?;
        // A connection that carried data has busy time, unless the kernel does not count it.
        let told = |part: u64| (busy_ns > 0).then(|| share(part, took_ns));
        [all.busy, all.window_limited, all.buffer_limited] = [busy_ns, window_ns, buffer_ns].map(told);
        // The warm-up is included: data may wait in the kernel for minutes, and a retransmitted segment may have been
        // lost in the warm-up.
        let transmitted = transmitted.filter(|transmitted| *transmitted > 0);
        all.sent_again =
            all.bytes_again.zip(transmitted).map(|(again, transmitted)| share(again, transmitted));
        all.cwnd = mean(&|counted| Some(counted.cwnd as f64)).filter(|bytes| *bytes > 0.0);
        all.window = mean(&|counted| Some(counted.window as f64)).filter(|bytes| *bytes > 0.0);
        all.round_trip_s = mean(&|counted| counted.srtt_ns.map(|ns| ns as f64 * 1e-9));
        let sending = counted.iter().filter(|counted| counted.sent > 0);
        let least = sending.filter_map(|counted| counted.min_rtt_ns).min();
        all.least_round_trip_s = least.map(|ns| ns as f64 * 1e-9);
        Some(all)
    }
}

/// Saturating addition, because a peer may send any numbers.
const fn add(all: &mut u64, more: u64) {
    *all = all.saturating_add(more);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn counted(at_ms: u64, stream: u16, limited_ms: [u64; 2], sent: [u64; 2]) -> ConnectionCounts {
        ConnectionCounts {
            at_ns: at_ms * MS,
            stream,
            sent: sent[0],
            transmitted: Some(sent[0] + sent[1]),
            sent_again: Some(sent[1]),
            busy_ns: at_ms / 2 * MS,
            window_limited_ns: limited_ms[0] * MS,
            buffer_limited_ns: limited_ms[1] * MS,
            cwnd: 10_000 * (u64::from(stream) + 1),
            window: 65_536,
            srtt_ns: Some(20 * MS),
            min_rtt_ns: Some((10 + u64::from(stream)) * MS),
            ..ConnectionCounts::default()
        }
    }

    /// Two connections carry data for 900 ms after a warm-up of 100 ms. The receive window limits each of them for a
    /// third of the time. A ninth of all transmitted bytes are retransmissions.
    #[test]
    fn shares_are_of_the_time_after_the_warm_up() {
        let readings = [
            counted(50, 0, [50, 0], [500, 400]),
            counted(50, 1, [0, 0], [0, 0]),
            counted(100, 0, [100, 0], [1000, 500]),
            counted(100, 1, [0, 0], [1000, 0]),
            counted(1000, 0, [400, 90], [10_000, 1500]),
            counted(1000, 1, [300, 90], [10_000, 1000]),
        ];
        let told = ConnectionSummary::of(&readings, 0.1).unwrap();
        let near =
            |told: Option<f64>, wanted: f64| told.is_some_and(|told| (told / wanted - 1.0).abs() < 1e-9);
        assert!(near(told.busy, 0.5) && near(told.window_limited, 1.0 / 3.0), "{told:?}");
        assert!(near(told.buffer_limited, 0.1), "{told:?}");
        assert!(near(told.sent_again, 1.0 / 9.0), "{told:?}");
        assert_eq!((told.bytes_sent, told.bytes_again), (20_000, Some(2500)));
        assert!(near(told.cwnd, 15_000.0) && told.least_round_trip_s == Some(0.01), "{told:?}");
        // If an end reports only bytes, all other values are absent.
        let bytes = |at_ms, sent| ConnectionCounts { at_ns: at_ms * MS, sent, ..ConnectionCounts::default() };
        let told = ConnectionSummary::of(&[bytes(100, 1000), bytes(1000, 10_000)], 0.1).unwrap();
        assert_eq!((told.busy, told.window_limited, told.cwnd, told.bytes_sent), (None, None, None, 10_000));
        assert_eq!((told.sent_again, told.bytes_again), (None, None));
        // The peer may send any numbers.
        let most = |at_ms, stream| ConnectionCounts {
            sent: u64::MAX,
            transmitted: Some(u64::MAX),
            sent_again: Some(u64::MAX),
            ..counted(at_ms, stream, [0, 0], [0, 0])
        };
        let told =
            ConnectionSummary::of(&[most(100, 0), most(100, 1), most(1000, 0), most(1000, 1)], 0.1).unwrap();
        assert_eq!(told.bytes_sent, u64::MAX);
        assert_eq!(told.sent_again, Some(1.0));
        assert_eq!(ConnectionSummary::of(&readings[..1], 0.0), None);
        assert_eq!(ConnectionSummary::of(&[], 0.0), None);
    }

    /// On a line of 128 kbit/s, the kernel accepts 150 kB immediately and sends them within ten seconds. Of the 160 kB
    /// sent, 13.6 kB are retransmissions. No data are passed to the kernel after the warm-up.
    #[test]
    fn shares_are_of_what_the_kernel_transmitted() {
        let reading = |at_ms: u64| ConnectionCounts {
            sent: 150_000,
            transmitted: Some(16 * at_ms),
            sent_again: Some(16 * at_ms * 85 / 1000),
            ..counted(at_ms, 0, [0, 0], [0, 0])
        };
        let readings: Vec<_> = (1..=100).map(|n| reading(n * 100)).collect();
        for warm_up_s in [0.0, 1.0, 9.0] {
            let told = ConnectionSummary::of(&readings, warm_up_s).unwrap();
            assert!((told.sent_again.unwrap() - 0.085).abs() < 1e-4, "{told:?}");
        }
        // An iperf3 server reports only the retransmitted bytes.
        let untold: Vec<_> =
            readings.iter().map(|reading| ConnectionCounts { transmitted: None, ..*reading }).collect();
        let told = ConnectionSummary::of(&untold, 1.0).unwrap();
        assert_eq!((told.sent_again, told.bytes_again), (None, Some(13_600)));
    }
}
