//! The retransmission time-out computed from round-trip times (RFC 6298; RFC 9260 section 6.3.1 specifies the same).

use netrig_core::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The quantity that the minimum bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RtoFloor {
    /// The whole timer: RTO = max(minimum, SRTT + 4 RTTVAR) (RFC 6298 section 2.4).
    Whole,
    /// The variance term: RTO = SRTT + max(minimum, 4 RTTVAR), as Linux's TCP does (`tcp_set_rto`,
    /// `__tcp_set_rto`, `tcp_rto_min` in net/ipv4/tcp_input.c).
    Variance,
}

/// The constants of the estimator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RtoRules {
    /// Time-out before the first measurement.
    pub initial: Duration,
    /// Lower bound of the quantity that `floor` selects.
    pub min: Duration,
    /// Upper bound of the time-out, back-off included.
    pub max: Duration,
    /// The quantity that `min` bounds.
    pub floor: RtoFloor,
    /// Gain of the smoothed round-trip time: 1/8.
    pub alpha: f64,
    /// Gain of the variance: 1/4.
    pub beta: f64,
    /// Weight of the variance: 4.
    pub k: f64,
    /// Clock granularity G, the lower bound of the variance term.
    pub granularity: Duration,
    /// Measurements and the time-out are rounded up to multiples of this (ns-2's `tcpTick_`). Zero for no rounding.
    pub tick: Duration,
}

/// Smoothed round-trip time, its variation, and the resulting time-out.
#[derive(Clone, Debug)]
pub struct RtoEstimator {
    rules: RtoRules,
    /// Smoothed round-trip time and mean deviation, seconds.
    smoothed: Option<(f64, f64)>,
    /// Time-out without back-off.
    base: Duration,
    backoff: u32,
}

impl RtoEstimator {
    /// An estimator without measurements.
    pub fn new(rules: RtoRules) -> Self {
        Self { rules, smoothed: None, base: rules.initial.min(rules.max), backoff: 0 }
    }

    /// Takes a measured round-trip time. The packet must not have been retransmitted (Karn's algorithm). Ends the
    /// back-off.
    pub fn measured(&mut self, rtt: Duration) {
        let r = rtt.round_up(self.rules.tick).as_secs_f64();
        let (srtt, rttvar) = match self.smoothed {
            // RFC 6298 (2.2): SRTT <- R, RTTVAR <- R/2.
            None => (r, r / 2.0),
            // RFC 6298 (2.3): RTTVAR is computed first, from the old SRTT.
            Some((srtt, rttvar)) => {
                let (alpha, beta) = (self.rules.alpha, self.rules.beta);
                ((1.0 - alpha) * srtt + alpha * r, (1.0 - beta) * rttvar + beta * libm::fabs(srtt - r))
            }
        };
        self.smoothed = Some((srtt, rttvar));
        self.backoff = 0;
        let floor = if self.rules.floor == RtoFloor::Variance { self.rules.min } else { Duration::ZERO };
        let variance =
            (self.rules.k * rttvar).max(self.rules.granularity.as_secs_f64()).max(floor.as_secs_f64());
        let whole = Duration::from_secs_f64(srtt + variance).round_up(self.rules.tick);
        self.base = whole.max(self.rules.min).min(self.rules.max);
    }

    /// Doubles the time-out after an expiration (RFC 6298 (5.5)), up to the maximum.
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(63);
    }

    /// Ends the back-off without a measurement, for example when new data is acknowledged.
    pub fn reset_backoff(&mut self) {
        self.backoff = 0;
    }

    /// Retransmission time-out, back-off included.
    pub fn rto(&self) -> Duration {
        self.base.saturating_mul(1 << self.backoff).min(self.rules.max)
    }

    /// Smoothed round-trip time, if one was measured.
    pub fn srtt(&self) -> Option<Duration> {
        self.smoothed.map(|(srtt, _)| Duration::from_secs_f64(srtt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RFC: RtoRules = RtoRules {
        initial: Duration::from_secs(1),
        min: Duration::from_secs(1),
        max: Duration::from_secs(60),
        floor: RtoFloor::Whole,
        alpha: 0.125,
        beta: 0.25,
        k: 4.0,
        granularity: Duration::from_millis(1),
        tick: Duration::ZERO,
    };

    #[test]
    fn the_first_measurement_makes_three_round_trips() {
        let mut e = RtoEstimator::new(RFC);
        assert_eq!(e.rto(), Duration::from_secs(1));
        e.measured(Duration::from_millis(500));
        assert_eq!(e.rto(), Duration::from_millis(1500));
        // SRTT stays 500 ms, RTTVAR 187.5 ms.
        e.measured(Duration::from_millis(500));
        assert_eq!(e.rto(), Duration::from_millis(1250));
    }

    /// RFC 6298 section 2.3, by hand: with the old mean, RTTVAR = 3/4 · 250 + 1/4 · |500 − 100| = 287.5 ms. Then SRTT =
    /// 7/8 · 500 + 1/8 · 100 = 450 ms, and RTO = 450 + 4 · 287.5 ms. If SRTT were updated first, RTO would be 1550 ms.
    #[test]
    fn the_variance_is_updated_before_the_mean() {
        let mut e = RtoEstimator::new(RFC);
        e.measured(Duration::from_millis(500));
        e.measured(Duration::from_millis(100));
        assert_eq!(e.srtt(), Some(Duration::from_millis(450)));
        assert_eq!(e.rto(), Duration::from_millis(1600));
    }

    /// RFC 6298 sections 2.3 and 4: if the round-trip time is constant, the variance term is the clock granularity.
    #[test]
    fn the_variance_is_a_grain_of_the_clock_at_least() {
        let mut e = RtoEstimator::new(RtoRules { granularity: Duration::from_millis(100), ..RFC });
        (0..300).for_each(|_| e.measured(Duration::from_secs(2)));
        assert_eq!(e.rto(), Duration::from_millis(2100));
    }

    #[test]
    fn back_off_doubles_up_to_the_maximum() {
        let mut e = RtoEstimator::new(RFC);
        let series: Vec<_> = (0..8)
            .map(|_| {
                let rto = e.rto();
                e.back_off();
                rto.as_nanos() / 1_000_000_000
            })
            .collect();
        assert_eq!(series, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn linux_adds_its_minimum_to_the_round_trip() {
        let linux = RtoRules { min: Duration::from_millis(200), floor: RtoFloor::Variance, ..RFC };
        let mut e = RtoEstimator::new(linux);
        for _ in 0..100 {
            e.measured(Duration::from_millis(100));
        }
        assert_eq!(e.rto(), Duration::from_millis(300));
    }
}
