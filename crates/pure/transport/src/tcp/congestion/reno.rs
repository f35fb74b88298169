//! Additive increase, multiplicative decrease (RFC 5681 section 3.1).

use super::control::{Acked, CongestionControl, CongestionWindow};
use crate::tcp::config::Config;

/// Adds one segment per round trip, and halves the window after a loss. It has no state except the window.
#[derive(Clone, Debug)]
pub(crate) struct Reno;

impl Reno {
    pub fn new(_config: &Config) -> Self {
        Self
    }
}

impl CongestionControl for Reno {
    fn on_ack(&mut self, window: &mut CongestionWindow, acked: &Acked) {
        let mut amount = acked.amount;
        if window.in_slow_start() {
            amount = window.slow_start(amount, window.slow_start_limit);
        }
        if amount > 0 {
            window.avoid(amount);
        }
    }

    /// RFC 5681 equation 4: ssthresh = max(FlightSize / 2, 2 SMSS).
    fn on_congestion(&mut self, window: &CongestionWindow, base: u64) -> u64 {
        window.threshold(base / 2)
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::{Duration, Instant};

    use super::*;
    use crate::Profile;
    use crate::tcp::config::{Avoidance, Limit};

    fn acked(amount: u64) -> Acked {
        Acked { now: Instant::ZERO, amount, rtt: None, srtt: Duration::ZERO, una: 0, nxt: 0 }
    }

    /// Acknowledges one window, segment by segment.
    fn round(window: &mut CongestionWindow) {
        for _ in 0..window.cwnd / 1000 {
            Reno.on_ack(window, &acked(1000));
        }
    }

    fn window(avoidance: Avoidance, ssthresh: Limit) -> CongestionWindow {
        let config = Config { avoidance, initial_ssthresh: ssthresh, ..Config::of(Profile::Rfc) };
        CongestionWindow::new(&config, 1000)
    }

    #[test]
    fn slow_start_doubles_the_window() {
        let mut window = window(Avoidance::ByteCounting, Limit::UNBOUNDED);
        let series: Vec<_> = (0..4)
            .map(|_| {
                round(&mut window);
                window.cwnd
            })
            .collect();
        assert_eq!(series, [20_000, 40_000, 80_000, 160_000]);
    }

    #[test]
    fn avoidance_adds_a_segment_per_round() {
        let mut window = window(Avoidance::ByteCounting, Limit::Count(10));
        (0..7).for_each(|_| round(&mut window));
        assert_eq!(window.cwnd, 17_000);
    }

    /// Equation 3 adds a little less than one segment per round, because SMSS²/cwnd falls while the window grows. The
    /// sum over a round of w acknowledgements is at least w·ln(1 + 1/w), a little more than 1 − 1/(2w).
    #[test]
    fn per_ack_avoidance_adds_almost_a_segment() {
        let mut window = window(Avoidance::PerAck, Limit::Count(10));
        round(&mut window);
        let grown = window.cwnd - 10_000;
        assert!((950..1000).contains(&grown), "{grown}");
    }

    #[test]
    fn growth_beyond_ssthresh_is_avoidance() {
        let mut window = window(Avoidance::ByteCounting, Limit::Count(12));
        Reno.on_ack(&mut window, &acked(1000));
        Reno.on_ack(&mut window, &acked(1000));
        assert_eq!(window.cwnd, 12_000);
        Reno.on_ack(&mut window, &acked(1000));
        assert_eq!(window.cwnd, 12_000);
    }

    #[test]
    fn the_threshold_is_half_the_flight_and_two_segments_at_least() {
        let window = window(Avoidance::ByteCounting, Limit::UNBOUNDED);
        assert_eq!(Reno.on_congestion(&window, 45_000), 22_500);
        assert_eq!(Reno.on_congestion(&window, 3_000), 2_000);
        let packets = CongestionWindow::new(&Config::of(Profile::Linux), 1000);
        assert_eq!(Reno.on_congestion(&packets, 45_000), 22_000);
    }
}
