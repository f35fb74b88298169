//! The retransmission timer of RFC 6298 (of RFC 9260 section 6.3, which is the same), and what both replays tell.

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
    /// RFC 6298 (2.1): one second until something is measured.
    pub fn new(min: u64) -> Self {
        Self { min, smoothed: None, base: 1_000_000_000, doubled: 0 }
    }

    /// (5.7): three seconds for data if the SYN was sent more than once.
    pub fn fall_back(&mut self) {
        self.base = 3_000_000_000;
    }

    /// (2.2) and (2.3).
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

    /// (5.5)
    pub fn back_off(&mut self) {
        self.doubled += 1;
    }

    pub fn rto(&self) -> u64 {
        (self.base << self.doubled.min(10)).min(MAX)
    }

    /// Seconds; zero before the first measurement.
    pub fn srtt(&self) -> f64 {
        self.smoothed.map_or(0.0, |(srtt, _)| srtt)
    }
}

/// Real numbers are added up in another order here than there.
const ROUNDING: u64 = 5;

/// Whether a timer that runs out at `due` does so at `at`.
pub fn is_due(due: Option<u64>, at: u64) -> bool {
    due.is_some_and(|due| due.abs_diff(at) <= ROUNDING)
}

/// Whether it should have run out before.
pub fn is_overdue(due: &u64, at: u64) -> bool {
    *due + ROUNDING < at
}

/// What the packets at a sender show.
#[derive(Default)]
pub struct Story {
    /// The state at the end of each moment at which packets passed.
    pub moments: Vec<Moment>,
    pub time_outs: Vec<TimeOut>,
    /// Of what opens the connection.
    pub openings: Vec<TimeOut>,
    /// Here a timer ran out, and nothing was sent again. What came later is not followed.
    pub unheeded: Option<u64>,
    /// Segments or chunks that were sent again because the timer had run out, and others.
    pub sent_after_time_outs: u64,
    pub sent_again_fast: u64,
}

/// The timer ran out, and something was sent again at that very moment.
#[derive(Debug)]
pub struct TimeOut {
    pub at: u64,
    pub path: u8,
    /// The timer that ran out.
    pub rto: u64,
    /// Time-outs since something was acknowledged.
    pub in_a_row: u32,
}

/// What opens a connection is sent again after RTO.Initial, and twice as long each time (RFC 6298 section 5, RFC 9260
/// section 5.1.6), and no sooner or later: `sent` are the moments at which the same thing left.
pub fn openings(sent: &[u64]) -> Vec<TimeOut> {
    let repeats = sent.windows(2).zip(1..).map(|(pair, in_a_row)| {
        let rto = 1_000_000_000 << (in_a_row - 1);
        assert_eq!(pair[1] - pair[0], rto, "{sent:?}");
        TimeOut { at: pair[1], path: 0, rto, in_a_row }
    });
    repeats.collect()
}

/// The sender at one moment, on one path. Bytes.
#[derive(Debug)]
pub struct Moment {
    pub at: u64,
    pub path: u8,
    /// What the report calls bytes in flight.
    pub flight: u64,
    /// What the congestion window is held against.
    pub in_network: u64,
    /// The same before the last new packet of this moment was sent.
    pub before_last: u64,
    /// What the first duplicate acknowledgements let out beyond the window.
    pub allowance: u64,
    /// By how much a packet that may be sent may pass the window: it may begin below it and end above.
    pub overshoot: u64,
    /// Less room than this below the window is no room for a packet.
    pub slack: u64,
    /// The largest packet's data.
    pub packet: u64,
    /// What the receiver would take beyond all that was sent.
    pub room_at_receiver: i64,
    /// Something was sent for the first time.
    pub sent_new: bool,
    /// Nothing but a window keeps the sender from sending more.
    pub backlogged: bool,
    pub rto: u64,
    pub srtt: f64,
}
