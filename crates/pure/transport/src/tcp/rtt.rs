//! The retransmission time-out, in the arithmetic that the configuration selects.

use netrig_core::{Duration, Instant};

use super::config::{Config, RtoArithmetic};
use crate::{RtoEstimator, RtoRules};

/// Number of fraction bits of the mean and of the deviation (Jacobson 1988, appendix A).
const SRTT_BITS: u32 = 3;
const RTTVAR_BITS: u32 = 2;
/// Further doublings have no effect, because the time-out has reached any possible maximum.
const MOST_BACKOFFS: u32 = 32;
/// After more doublings than this, the mean is forgotten, as in 4.3BSD.
const TRUSTED_BACKOFFS: u32 = 3;

/// Smoothed round-trip time and retransmission time-out.
#[derive(Clone, Debug)]
pub(crate) enum RttEstimator {
    Real(RtoEstimator),
    FixedPoint(TickEstimator),
}

impl RttEstimator {
    pub fn new(config: &Config) -> Self {
        Self::starting_at(config, config.rto_initial)
    }

    /// An estimator whose time-out is `initial` until the first measurement.
    pub fn starting_at(config: &Config, initial: Duration) -> Self {
        match config.rto_arithmetic {
            RtoArithmetic::Real => Self::Real(RtoEstimator::new(RtoRules {
                initial,
                min: config.rto_min,
                max: config.rto_max,
                floor: config.rto_floor,
                alpha: 0.125,
                beta: 0.25,
                k: 4.0,
                granularity: config.rto_granularity,
                tick: config.rto_tick,
            })),
            RtoArithmetic::FixedPoint => Self::FixedPoint(TickEstimator::new(config, initial)),
        }
    }

    /// Takes the measurement of a segment that was sent only once, at `sent`, and acknowledged at `now`.
    pub fn measured(&mut self, sent: Instant, now: Instant) {
        match self {
            Self::Real(estimator) => estimator.measured(now.since(sent)),
            Self::FixedPoint(estimator) => estimator.measured(sent, now),
        }
    }

    /// The retransmission timer expired.
    pub fn back_off(&mut self) {
        match self {
            Self::Real(estimator) => estimator.back_off(),
            Self::FixedPoint(estimator) => estimator.back_off(),
        }
    }

    /// Ends the back-off, because the time-out was spurious.
    pub fn reset_backoff(&mut self) {
        match self {
            Self::Real(estimator) => estimator.reset_backoff(),
            Self::FixedPoint(estimator) => estimator.backoffs = 0,
        }
    }

    /// Retransmission time-out, back-off included.
    pub fn rto(&self) -> Duration {
        match self {
            Self::Real(estimator) => estimator.rto(),
            Self::FixedPoint(estimator) => estimator.rto(),
        }
    }

    /// Smoothed round-trip time, if measured.
    pub fn srtt(&self) -> Option<Duration> {
        match self {
            Self::Real(estimator) => estimator.srtt(),
            Self::FixedPoint(estimator) => estimator.srtt(),
        }
    }
}

/// Jacobson's integer arithmetic over clock ticks.
#[derive(Clone, Debug)]
pub(crate) struct TickEstimator {
    tick: Duration,
    min: Duration,
    max: Duration,
    /// In eighths of a tick. Zero if the next measurement sets it.
    srtt: i64,
    /// In quarters of a tick.
    rttvar: i64,
    /// Time-out without back-off.
    base: Duration,
    backoffs: u32,
}

impl TickEstimator {
    fn new(config: &Config, initial: Duration) -> Self {
        let tick = config.rto_tick.max(Duration::from_nanos(1));
        Self {
            tick,
            min: config.rto_min,
            max: config.rto_max,
            srtt: 0,
            rttvar: 0,
            base: initial,
            backoffs: 0,
        }
    }

    fn measured(&mut self, sent: Instant, now: Instant) {
        let ticks = |at: Instant| (at.as_nanos() / self.tick.as_nanos()) as i64;
        let rtt = (ticks(now) - ticks(sent)).max(1);
        if self.srtt == 0 {
            self.srtt = rtt << SRTT_BITS;
            self.rttvar = rtt << (RTTVAR_BITS - 1);
        } else {
            let error = rtt - (self.srtt >> SRTT_BITS);
            self.srtt = (self.srtt + error).max(1);
            self.rttvar = (self.rttvar + error.abs() - (self.rttvar >> RTTVAR_BITS)).max(1);
        }
        // The mean plus four deviations, both converted to eighths of a tick.
        let ticks = ((self.rttvar << (2 + SRTT_BITS - RTTVAR_BITS)) + self.srtt) >> SRTT_BITS;
        self.base = self.tick * ticks as u64;
        self.backoffs = 0;
    }

    fn back_off(&mut self) {
        self.backoffs = (self.backoffs + 1).min(MOST_BACKOFFS);
        if self.backoffs > TRUSTED_BACKOFFS {
            self.rttvar += self.srtt >> SRTT_BITS;
            self.srtt = 0;
        }
    }

    fn rto(&self) -> Duration {
        (self.base.max(self.min) * (1 << self.backoffs)).min(self.max).max(self.tick * 2)
    }

    fn srtt(&self) -> Option<Duration> {
        (self.srtt > 0).then(|| Duration::from_nanos((self.tick.as_nanos() * self.srtt as u64) >> SRTT_BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// A constant round-trip time of 1.08 s, in ticks of 10 ms. By hand: the deviation starts at 216 quarter ticks.
    /// Each measurement subtracts a quarter of it, rounded down, until that is 0, at 3. Then RTO = (3 · 8 + 108 · 8) /
    /// 8 = 111 ticks.
    #[test]
    fn the_deviation_of_a_steady_path_stays_above_zero() {
        let mut rtt = RttEstimator::new(&Config::of(Profile::Ns2));
        assert_eq!(rtt.rto(), MS(3000));
        let sent = |n: u64| Instant::ZERO + MS(1080 * n);
        rtt.measured(sent(0), sent(1));
        assert_eq!(rtt.rto(), MS(3240));
        (1..100).for_each(|n| rtt.measured(sent(n), sent(n + 1)));
        assert_eq!((rtt.srtt(), rtt.rto()), (Some(MS(1080)), MS(1110)));
    }

    #[test]
    fn back_off_of_tcp_doubles_up_to_the_maximum() {
        let mut rtt = RttEstimator::new(&Config::of(Profile::Ns2));
        rtt.measured(Instant::ZERO, Instant::ZERO + MS(100));
        let series: Vec<_> = (0..9)
            .map(|_| {
                let rto = rtt.rto();
                rtt.back_off();
                rto.as_nanos() / 1_000_000
            })
            .collect();
        assert_eq!(series, [300, 600, 1200, 2400, 4800, 9600, 19_200, 38_400, 60_000]);
    }

    /// Ticks are counted on an absolute clock, so a round trip of 9 ms takes either no tick or one.
    #[test]
    fn a_round_trip_is_the_ticks_that_passed() {
        for (sent, base) in [(0, 30), (5, 30), (15, 30)] {
            let mut rtt = RttEstimator::new(&Config { rto_min: Duration::ZERO, ..Config::of(Profile::Ns2) });
            rtt.measured(Instant::ZERO + MS(sent), Instant::ZERO + MS(sent + 9));
            assert_eq!(rtt.rto(), MS(base), "sent at {sent}");
        }
    }
}
