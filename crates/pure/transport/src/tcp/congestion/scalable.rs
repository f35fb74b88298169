//! Scalable TCP (T. Kelly, "Scalable TCP: Improving Performance in Highspeed Wide Area Networks", ACM CCR 33(2),
//! 2003).

use super::control::{Acked, CongestionControl, CongestionWindow};
use crate::tcp::config::Config;

/// 1/a: each acknowledged segment adds a hundredth of a segment.
const ACKED_PER_SEGMENT: u64 = 100;

/// 1/b: a loss removes an eighth of the window.
const SHARE_LOST: u64 = 8;

/// Largest window at which it behaves like Reno, segments (the paper's lwnd). At such windows TCP performs well, and
/// Scalable TCP must be fair to it.
const LEGACY_WINDOW: u64 = 16;

/// The window grows by the same percentage in each round trip. The recovery from a loss therefore takes the same number
/// of round trips for every window size.
#[derive(Clone, Debug)]
pub(crate) struct Scalable {
    /// Acknowledged data that has not yet been used for growth, bytes.
    credit: u64,
}

impl Scalable {
    pub fn new(_config: &Config) -> Self {
        Self { credit: 0 }
    }
}

/// Whether a window of `bytes` is small enough for Reno's behaviour.
fn is_legacy(bytes: u64, window: &CongestionWindow) -> bool {
    bytes <= LEGACY_WINDOW * window.smss()
}

impl CongestionControl for Scalable {
    fn on_ack(&mut self, window: &mut CongestionWindow, acked: &Acked) {
        let mut amount = acked.amount;
        if window.in_slow_start() {
            amount = window.slow_start(amount, window.slow_start_limit);
        }
        if is_legacy(window.cwnd, window) {
            if amount > 0 {
                window.avoid(amount);
            }
            return;
        }
        self.credit += amount;
        window.cwnd += self.credit / ACKED_PER_SEGMENT;
        self.credit %= ACKED_PER_SEGMENT;
    }

    fn on_congestion(&mut self, window: &CongestionWindow, base: u64) -> u64 {
        self.credit = 0;
        let loss = if is_legacy(base, window) { base / 2 } else { base / SHARE_LOST };
        window.threshold(base - loss)
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::{Duration, Instant};

    use super::*;
    use crate::Profile;

    const SMSS: u64 = 1000;

    /// The algorithm, and its window after a loss at `segments` segments.
    fn after_a_loss_at(segments: u64) -> (Scalable, CongestionWindow) {
        let config = Config::of(Profile::Rfc);
        let (mut scalable, mut window) = (Scalable::new(&config), CongestionWindow::new(&config, SMSS));
        window.cwnd = segments * SMSS;
        let ssthresh = scalable.on_congestion(&window, window.cwnd);
        window.reduce(ssthresh, ssthresh);
        (scalable, window)
    }

    /// Acknowledges segments one by one until the window has `segments` segments. Returns the number of
    /// acknowledgements and of round trips.
    fn until(scalable: &mut Scalable, window: &mut CongestionWindow, segments: u64) -> (u64, u64) {
        let (mut acknowledged, mut rounds, mut round) = (0, 0, 0);
        while window.cwnd < segments * SMSS {
            if round == 0 {
                rounds += 1;
                round = window.cwnd / SMSS;
            }
            round -= 1;
            acknowledged += 1;
            let (now, srtt) = (Instant::ZERO, Duration::ZERO);
            scalable.on_ack(window, &Acked { now, amount: SMSS, rtt: None, srtt, una: 0, nxt: 0 });
        }
        (acknowledged, rounds)
    }

    /// Growth from 7/8 W to W by a hundredth of a segment per acknowledgement takes W/8 · 100 acknowledged segments and
    /// ln(8/7) / ln(1.01) = 13.4 round trips. This agrees with the response function: with one loss in n segments, W =
    /// n · a/b.
    #[test]
    fn the_way_back_takes_the_same_round_trips_for_any_window() {
        for segments in [80, 800, 8000] {
            let (mut scalable, mut window) = after_a_loss_at(segments);
            assert_eq!(window.cwnd, segments / 8 * 7 * SMSS);
            assert_eq!(until(&mut scalable, &mut window, segments), (segments / 8 * 100, 14));
        }
    }

    /// A loss halves the window, and each round trip adds one segment.
    #[test]
    fn a_small_window_is_that_of_reno() {
        let (mut scalable, mut window) = after_a_loss_at(16);
        assert_eq!(window.cwnd, 8 * SMSS);
        assert_eq!(until(&mut scalable, &mut window, 16).1, 8);
    }
}
