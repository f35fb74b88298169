//! CUBIC's growth as in Linux. The window grows by whole packets. The price is the number of acknowledged packets for
//! one packet of growth.

use netrig_core::{Duration, Instant};

/// A jiffy at HZ = 250, the unit of `tcp_jiffies32`.
const JIFFY: Duration = Duration::from_millis(4);
/// While the window does not change, the price is computed again only after more than HZ/32, which is 7 jiffies
/// (`bictcp_update`, net/ipv4/tcp_cubic.c).
const PRICE_HOLDS: u64 = 7;
/// The largest price before the first loss: the window grows by at least 5 % per round trip.
const PRICE_BEFORE_A_LOSS: u64 = 20;
/// The smallest price: the window grows by at most half per round trip.
const PRICE_LEAST: u64 = 2;

/// Parameters of the cubic function, in packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct CubicParameters {
    pub c: f64,
    pub beta: f64,
    pub reno_friendly: bool,
    /// W_max. Zero before the first loss, and after a time-out.
    pub w_max: f64,
    /// The function is evaluated at this time in the future: the smallest round-trip time.
    pub ahead: Duration,
}

/// State of one congestion-avoidance stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedGrowth {
    /// The jiffy in which the stage began.
    start: u64,
    /// K, the time at which the function reaches its plateau, seconds; and the plateau, packets.
    k: f64,
    plateau: f64,
    /// Number of acknowledged packets for one packet of growth.
    price: u64,
    /// Window and jiffy of the last evaluation of the function.
    asked: (u64, u64),
    /// W_est, the window that Reno would have, and the number of packets acknowledged since W_est last grew.
    reno: u64,
    reno_credit: u64,
}

impl CountedGrowth {
    /// The price when `acked` packets are acknowledged and the window is `cwnd`. Starts a stage if there is none.
    pub fn price(
        stage: &mut Option<Self>,
        shape: &CubicParameters,
        now: Instant,
        cwnd: u64,
        acked: u64,
    ) -> u64 {
        let jiffy = jiffies(now.since(Instant::ZERO));
        let begins = stage.is_none();
        let stage = stage.get_or_insert_with(|| Self::begin(shape, jiffy, cwnd));
        stage.reno_credit += acked;
        let (of, at) = stage.asked;
        if begins || of != cwnd || jiffy - at > PRICE_HOLDS {
            if begins || jiffy != at {
                stage.asked = (cwnd, jiffy);
                stage.price = stage.by_function(shape, cwnd, jiffy);
            }
            if shape.reno_friendly {
                stage.price = stage.price.min(stage.by_reno(shape, cwnd));
            }
            stage.price = stage.price.max(PRICE_LEAST);
        }
        stage.price
    }

    /// Sending resumes when nothing is in flight. The idle time since `last_sent` is excluded from the stage
    /// (`cubictcp_cwnd_event`, net/ipv4/tcp_cubic.c).
    pub fn resume(&mut self, now: Instant, last_sent: Instant) {
        let [now, last_sent] = [now, last_sent].map(|at| jiffies(at.since(Instant::ZERO)));
        self.start = (self.start + (now - last_sent)).min(now);
    }

    fn begin(shape: &CubicParameters, jiffy: u64, cwnd: u64) -> Self {
        let window = cwnd as f64;
        let (k, plateau) = if window < shape.w_max {
            (libm::cbrt((shape.w_max - window) / shape.c), shape.w_max)
        } else {
            (0.0, window)
        };
        Self { start: jiffy, k, plateau, price: 0, asked: (cwnd, jiffy), reno: cwnd, reno_credit: 0 }
    }

    /// RFC 9438 section 4.4: cwnd grows by (W(t + RTT) − cwnd)/cwnd for each packet.
    fn by_function(&self, shape: &CubicParameters, cwnd: u64, jiffy: u64) -> u64 {
        let t = JIFFY * jiffy.saturating_sub(self.start)
            + JIFFY * shape.ahead.as_nanos().div_ceil(JIFFY.as_nanos());
        let distance = t.as_secs_f64() - self.k;
        // Linux computes in whole packets, so the distance from the plateau is truncated.
        let target = self.plateau + libm::trunc(shape.c * distance * distance * distance);
        let missing = target - cwnd as f64;
        // If the window has reached its target, it grows by a hundredth of a packet per round trip.
        let price = if missing >= 1.0 { cwnd / missing as u64 } else { 100 * cwnd };
        if shape.w_max == 0.0 { price.min(PRICE_BEFORE_A_LOSS) } else { price }
    }

    /// RFC 9438 section 4.3, but α is always the initial 3 (1 − β)/(1 + β).
    fn by_reno(&mut self, shape: &CubicParameters, cwnd: u64) -> u64 {
        // Linux keeps 8/α as a whole number (`beta_scale`).
        let eighths = (8.0 * (1.0 + shape.beta) / (3.0 * (1.0 - shape.beta))) as u64;
        let worth = (cwnd * eighths / 8).max(1);
        while self.reno_credit > worth {
            self.reno_credit -= worth;
            self.reno += 1;
        }
        if self.reno > cwnd { cwnd / (self.reno - cwnd) } else { u64::MAX }
    }
}

fn jiffies(span: Duration) -> u64 {
    span.as_nanos() / JIFFY.as_nanos()
}
