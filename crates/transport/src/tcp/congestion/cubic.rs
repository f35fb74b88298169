//! CUBIC (RFC 9438).

use netrig_core::{Duration, Instant};

use super::hystart::{HyStart, SlowStart};
use super::{Acked, CongestionControl, Window};
use crate::tcp::config::Config;

/// The window as a cubic function of the time since the last congestion. Windows are in segments.
#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    c: f64,
    beta: f64,
    fast_convergence: bool,
    reno_friendly: bool,
    hystart: HyStart,
    /// W_max: the window just before the last reduction.
    w_max: f64,
    /// `cwnd_prior` of RFC 9438 section 4.3.
    cwnd_prior: f64,
    epoch: Option<Epoch>,
    before: Saved,
}

/// The current congestion-avoidance stage.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Instant,
    /// K: when the function reaches W_max again, seconds.
    k: f64,
    /// Where the function has its plateau.
    origin: f64,
    /// W_est: what Reno would have.
    w_est: f64,
    /// Growth that is less than a byte so far.
    fraction: f64,
}

/// What an undo restores.
#[derive(Clone, Copy, Debug, Default)]
struct Saved {
    w_max: f64,
    cwnd_prior: f64,
    epoch: Option<Epoch>,
}

impl Cubic {
    pub fn new(config: &Config) -> Self {
        Self {
            c: config.cubic_c,
            beta: config.cubic_beta.get(),
            fast_convergence: config.cubic_fast_convergence,
            reno_friendly: config.cubic_reno_friendly,
            hystart: HyStart::new(config.hystart),
            w_max: 0.0,
            cwnd_prior: 0.0,
            epoch: None,
            before: Saved::default(),
        }
    }

    /// RFC 9438 section 4.2: W_cubic(t) = C (t − K)³ + W_max.
    fn w_cubic(&self, epoch: &Epoch, t: f64) -> f64 {
        let distance = t - epoch.k;
        self.c * distance * distance * distance + epoch.origin
    }

    fn begin(&self, now: Instant, cwnd: f64) -> Epoch {
        // RFC 9438 section 4.2: K = ∛((W_max − cwnd_epoch)/C); section 4.10: K is 0 if slow start ended
        // without a loss, or above W_max.
        let (k, origin) = if cwnd < self.w_max {
            (libm::cbrt((self.w_max - cwnd) / self.c), self.w_max)
        } else {
            (0.0, cwnd)
        };
        Epoch { start: now, k, origin, w_est: cwnd, fraction: 0.0 }
    }

    fn avoid(&mut self, window: &mut Window, acked: &Acked, amount: u64) {
        let smss = window.smss() as f64;
        let mut epoch = self.epoch.unwrap_or_else(|| self.begin(acked.now, window.cwnd as f64 / smss));
        let cwnd = (window.cwnd as f64 + epoch.fraction) / smss;
        let segments = amount as f64 / smss;
        let t = acked.now.since(epoch.start).as_secs_f64();
        let (now, soon) = (self.w_cubic(&epoch, t), self.w_cubic(&epoch, t + acked.srtt.as_secs_f64()));

        // RFC 9438 section 4.3: W_est += α · segments_acked / cwnd, with α = 3 (1 − β)/(1 + β) until W_est
        // reaches cwnd_prior, then 1.
        let alpha =
            if epoch.w_est >= self.cwnd_prior { 1.0 } else { 3.0 * (1.0 - self.beta) / (1.0 + self.beta) };
        epoch.w_est += alpha * segments / cwnd;
        let grown = if self.reno_friendly && now < epoch.w_est {
            epoch.w_est.max(cwnd)
        } else {
            // Sections 4.4 and 4.5: towards W_cubic(t + RTT), kept between cwnd and 1.5 cwnd.
            let target = soon.clamp(cwnd, 1.5 * cwnd);
            cwnd + segments * (target - cwnd) / cwnd
        };
        let bytes = grown * smss;
        window.cwnd = bytes as u64;
        epoch.fraction = bytes - window.cwnd as f64;
        self.epoch = Some(epoch);
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
        let mut amount = acked.amount;
        if window.in_slow_start() {
            let limit = match self.hystart.on_ack(acked, window.cwnd / window.smss()) {
                SlowStart::Standard => window.slow_start_limit,
                SlowStart::Limited { divisor, segments } => {
                    amount /= divisor;
                    (segments * window.smss()) / divisor
                }
                SlowStart::Over => {
                    window.ssthresh = window.cwnd;
                    0
                }
            };
            amount = window.slow_start(amount, limit);
        }
        if amount > 0 && !window.in_slow_start() {
            self.avoid(window, acked, amount);
        }
    }

    fn on_congestion(&mut self, window: &Window, base: u64) -> u64 {
        self.before = Saved { w_max: self.w_max, cwnd_prior: self.cwnd_prior, epoch: self.epoch };
        let cwnd = window.cwnd as f64 / window.smss() as f64;
        self.cwnd_prior = cwnd;
        // RFC 9438 section 4.7: a flow that did not get back to W_max makes room.
        self.w_max =
            if self.fast_convergence && cwnd < self.w_max { cwnd * (1.0 + self.beta) / 2.0 } else { cwnd };
        self.epoch = None;
        // Section 4.6: ssthresh = flight_size · β, at least two segments.
        window.threshold((base as f64 * self.beta) as u64)
    }

    fn on_timeout(&mut self) {
        // RFC 9438 section 4.8: as for a loss, but slow start comes first.
        self.epoch = None;
        self.hystart.restart();
    }

    fn on_idle(&mut self, idle: Duration) {
        // RFC 9438 section 5.8: time in which the application sent nothing does not count.
        if let Some(epoch) = &mut self.epoch {
            epoch.start += idle;
        }
    }

    fn on_undo(&mut self) {
        // RFC 9438 section 4.9.
        Saved { w_max: self.w_max, cwnd_prior: self.cwnd_prior, epoch: self.epoch } = self.before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use crate::tcp::config::{self, SsthreshFrom};

    fn config() -> Config {
        Config {
            congestion: crate::tcp::Congestion::Cubic,
            hystart: config::HyStart::Off,
            ssthresh_from: SsthreshFrom::Cwnd,
            ..Config::of(Profile::Rfc)
        }
    }

    /// A loss at `w_max` segments, then rounds of a window's acknowledgements; the window after each round.
    fn after_loss(config: &Config, rtt: Duration, w_max: u64, rounds: u64) -> Vec<(f64, f64)> {
        let mut cubic = Cubic::new(config);
        let mut window = Window::new(config, 1000);
        window.cwnd = w_max * 1000;
        let ssthresh = cubic.on_congestion(&window, window.cwnd);
        window.reduce(ssthresh, ssthresh);
        let mut series = Vec::new();
        for round in 0..rounds {
            let acks = window.cwnd / 1000;
            for n in 0..acks {
                let now = Instant::ZERO + rtt * round + Duration::from_nanos(rtt.as_nanos() * n / acks);
                cubic.on_ack(
                    &mut window,
                    &Acked { now, amount: 1000, rtt: Some(rtt), srtt: rtt, una: 0, nxt: 0 },
                );
            }
            series.push(((rtt * (round + 1)).as_secs_f64(), window.cwnd as f64 / 1000.0));
        }
        series
    }

    /// RFC 9438 section 4.2 itself: W(t) = C (t − K)³ + W_max with K = ∛(W_max (1 − β)/C).
    #[test]
    fn the_window_follows_the_cubic_function() {
        let config = Config { cubic_reno_friendly: false, ..config() };
        let k = libm::cbrt(1000.0 * 0.3 / 0.4);
        for (t, cwnd) in after_loss(&config, Duration::from_millis(100), 1000, 150) {
            let expected = 0.4 * (t - k) * (t - k) * (t - k) + 1000.0;
            // The window pursues the target of one round trip ahead; it lags by at most what a round adds.
            let slope = 3.0 * 0.4 * (t - k) * (t - k) * 0.1;
            assert!((cwnd - expected).abs() <= slope + 1.0, "at {t}: {cwnd} for {expected}");
        }
    }

    /// RFC 9438 section 4.3: with a small window and a short round trip it grows as AIMD(α, β) does, α
    /// segments per round: 3 · 0.3/1.7 = 0.529.
    #[test]
    fn on_short_paths_it_grows_like_reno() {
        let series = after_loss(&config(), Duration::from_millis(10), 20, 8);
        let (first, last) = (series[0].1, series[7].1);
        assert!(((last - first) / 7.0 - 0.529).abs() < 0.03, "{series:?}");
    }

    #[test]
    fn a_second_loss_below_the_first_makes_room() {
        let config = config();
        let mut cubic = Cubic::new(&config);
        let mut window = Window::new(&config, 1000);
        window.cwnd = 100_000;
        assert_eq!(cubic.on_congestion(&window, 100_000), 70_000);
        assert_eq!(cubic.w_max, 100.0);
        window.cwnd = 80_000;
        assert_eq!(cubic.on_congestion(&window, 80_000), 56_000);
        assert_eq!(cubic.w_max, 80.0 * 0.85);
        cubic.on_undo();
        assert_eq!(cubic.w_max, 100.0);
    }
}
