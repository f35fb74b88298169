//! The retransmission timer of RFC 6298, which is also that of RFC 9260 section 6.3, and the common results of both
//! replays.

/// Smoothed round-trip time, its variation, and the timer that follows. Times are nanoseconds.
pub struct Timer {
    min: u64,
    smoothed: Option<(f64, f64)>,
    base: u64,
    doubled: u32,
}

const MAX: u64 = 60_000_000_000;
/// Clock granularity G, seconds.
const GRANULARITY: f64 = 0.001;

impl Timer {
    /// RFC 6298 (2.1): one second before the first measurement.
    pub fn new(min: u64) -> Self {
        Self { min, smoothed: None, base: 1_000_000_000, doubled: 0 }
    }

    /// RFC 6298 (5.7): three seconds for data if the SYN was retransmitted.
    pub fn fall_back(&mut self) {
        self.base = 3_000_000_000;
    }

    /// Adds a measurement of the round-trip time: RFC 6298 (2.2) and (2.3).
    pub fn measured(&mut self, nanos: u64) {
        let r = nanos as f64 / 1e9;
        let (srtt, rttvar) = self.smoothed.map_or((r, r / 2.0), |(srtt, rttvar)| {
            let rttvar = 0.75 * rttvar + 0.25 * (srtt - r).abs();
            (0.875 * srtt + 0.125 * r, rttvar)
        });
        self.smoothed = Some((srtt, rttvar));
        // (2.4), (2.5)
        let rto = srtt + (4.0 * rttvar).max(GRANULARITY);
        self.base = ((rto * 1e9).round() as u64).clamp(self.min, MAX);
        self.doubled = 0;
    }

    /// Doubles the RTO: RFC 6298 (5.5).
    pub fn back_off(&mut self) {
        self.doubled += 1;
    }

    pub fn rto(&self) -> u64 {
        (self.base << self.doubled.min(10)).min(MAX)
    }

    /// The smoothed round-trip time, s; zero before the first measurement.
    pub fn srtt(&self) -> f64 {
        self.smoothed.map_or(0.0, |(srtt, _)| srtt)
    }
}

/// Tolerance, ns: this computation adds floating-point numbers in another order than the sender.
const ROUNDING: u64 = 5;

/// Whether a timer with the deadline `due` expires at `at`.
pub fn is_due(due: Option<u64>, at: u64) -> bool {
    due.is_some_and(|due| due.abs_diff(at) <= ROUNDING)
}

/// Whether a timer with the deadline `due` should have expired before `at`.
pub fn is_overdue(due: &u64, at: u64) -> bool {
    *due + ROUNDING < at
}

/// The results of replaying the packets at a sender.
#[derive(Default)]
pub struct Story {
    /// The state at the end of each time at which packets passed.
    pub moments: Vec<Moment>,
    pub time_outs: Vec<TimeOut>,
    /// Retransmissions of the packets that open the connection.
    pub openings: Vec<TimeOut>,
    /// The time of an expiry without a retransmission, at which the replay stops.
    pub unheeded: Option<u64>,
    /// Number of segments or chunks retransmitted after a time-out. `sent_again_fast` counts all other retransmissions.
    pub sent_after_time_outs: u64,
    pub sent_again_fast: u64,
}

/// An expiry of the timer with a retransmission at the same time.
#[derive(Debug)]
pub struct TimeOut {
    pub at: u64,
    pub path: u8,
    /// The RTO that expired, ns.
    pub rto: u64,
    /// Number of consecutive time-outs without an acknowledgement.
    pub in_a_row: u32,
}

/// The packets that open a connection are retransmitted after RTO.Initial, which doubles each time (RFC 6298 section 5,
/// RFC 9260 section 5.1.6). `sent` are the times at which the same packet was sent, ns. Panics if an interval differs.
pub fn openings(sent: &[u64]) -> Vec<TimeOut> {
    let repeats = sent.windows(2).zip(1..).map(|(pair, in_a_row)| {
        let rto = 1_000_000_000 << (in_a_row - 1);
        assert_eq!(pair[1] - pair[0], rto, "{sent:?}");
        TimeOut { at: pair[1], path: 0, rto, in_a_row }
    });
    repeats.collect()
}

/// The state of the sender at one time on one path. Amounts are in bytes, times in ns.
#[derive(Debug)]
pub struct Moment {
    pub at: u64,
    pub path: u8,
    /// The bytes in flight, as netrig reports them.
    pub flight: u64,
    /// The bytes that are compared with the congestion window.
    pub in_network: u64,
    /// `in_network` before the last new packet of this time was sent.
    pub before_last: u64,
    /// Bytes that may be sent beyond the window because of the first duplicate acknowledgements.
    pub allowance: u64,
    /// Bytes by which a permitted packet may exceed the window: it may start below the limit and end above it.
    pub overshoot: u64,
    /// Room below the window that does not suffice for a packet.
    pub slack: u64,
    /// User data of the largest packet.
    pub packet: u64,
    /// Remaining bytes in the receiver's window after all sent data.
    pub room_at_receiver: i64,
    /// Whether new data were sent.
    pub sent_new: bool,
    /// Whether the sender has more data and only a window limits it.
    pub backlogged: bool,
    pub rto: u64,
    pub srtt: f64,
}
