//! CUBIC (RFC 9438).

use netrig_core::{Duration, Instant};

use super::control::{Acked, CongestionControl, CongestionWindow};
use super::counted::{CountedGrowth, CubicParameters};
use super::hystart::{HyStart, SlowStart};
use crate::tcp::config::{Config, CubicGrowth};

/// The window as a cubic function of the time since the last congestion event. Windows are in segments.
#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    c: f64,
    beta: f64,
    fast_convergence: bool,
    reno_friendly: bool,
    growth: CubicGrowth,
    hystart: HyStart,
    /// The smallest round-trip time measured on the connection.
    shortest: Duration,
    /// W_max: the window just before the last reduction, or less with fast convergence. Zero before the first loss and
    /// after a time-out: the next stage then begins at its plateau.
    w_max: f64,
    /// `cwnd_prior` of RFC 9438 section 4.3.
    cwnd_prior: f64,
    epoch: Option<Epoch>,
    /// The current stage if growth is counted ([`CubicGrowth::Counted`]).
    counted: Option<CountedGrowth>,
    before: CubicSnapshot,
}

/// The current congestion-avoidance stage.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// t: the time in this stage, without the periods in which the sender did not fill the window.
    elapsed: Duration,
    /// The time until which `elapsed` has been counted.
    counted_until: Instant,
    /// K: the time at which the function reaches W_max again, seconds.
    k: f64,
    /// The window at the plateau of the function.
    origin: f64,
    /// W_est: the window that Reno would have.
    w_est: f64,
    /// Growth of less than a byte, kept for the next acknowledgement.
    fraction: f64,
}

/// State that [`CongestionControl::on_undo`] restores.
#[derive(Clone, Copy, Debug, Default)]
struct CubicSnapshot {
    w_max: f64,
    cwnd_prior: f64,
    epoch: Option<Epoch>,
    counted: Option<CountedGrowth>,
}

impl Cubic {
    pub fn new(config: &Config) -> Self {
        Self {
            c: config.cubic_c,
            beta: config.cubic_beta.get(),
            fast_convergence: config.cubic_fast_convergence,
            reno_friendly: config.cubic_reno_friendly,
            growth: config.cubic_growth,
            hystart: HyStart::new(config.hystart),
            shortest: Duration::MAX,
            w_max: 0.0,
            cwnd_prior: 0.0,
            epoch: None,
            counted: None,
            before: CubicSnapshot::default(),
        }
    }

    /// RFC 9438 section 4.2: W_cubic(t) = C (t − K)³ + W_max.
    fn w_cubic(&self, epoch: &Epoch, t: f64) -> f64 {
        let distance = t - epoch.k;
        self.c * distance * distance * distance + epoch.origin
    }

    fn begin(&self, now: Instant, cwnd: f64) -> Epoch {
        // RFC 9438 section 4.2: K = ∛((W_max − cwnd_epoch)/C). Sections 4.8 and 4.10: K is 0 after a time-out, and if
        // slow start ended without a loss. It is also 0 above W_max.
        let (k, origin) = if cwnd < self.w_max {
            (libm::cbrt((self.w_max - cwnd) / self.c), self.w_max)
        } else {
            (0.0, cwnd)
        };
        Epoch { elapsed: Duration::ZERO, counted_until: now, k, origin, w_est: cwnd, fraction: 0.0 }
    }

    fn avoid(&mut self, window: &mut CongestionWindow, acked: &Acked, amount: u64) {
        let smss = window.smss() as f64;
        let mut epoch = self.epoch.unwrap_or_else(|| self.begin(acked.now, window.cwnd as f64 / smss));
        let cwnd = (window.cwnd as f64 + epoch.fraction) / smss;
        let segments = amount as f64 / smss;
        epoch.elapsed += acked.now.since(epoch.counted_until);
        epoch.counted_until = acked.now;
        let t = epoch.elapsed.as_secs_f64();
        let (now, soon) = (self.w_cubic(&epoch, t), self.w_cubic(&epoch, t + acked.srtt.as_secs_f64()));

        // RFC 9438 section 4.3: W_est += α · segments_acked / cwnd, with α = 3 (1 − β)/(1 + β) until W_est
        // reaches cwnd_prior, then 1.
        let alpha =
            if epoch.w_est >= self.cwnd_prior { 1.0 } else { 3.0 * (1.0 - self.beta) / (1.0 + self.beta) };
        epoch.w_est += alpha * segments / cwnd;
        let grown = if self.reno_friendly && now < epoch.w_est {
            epoch.w_est.max(cwnd)
        } else {
            // Sections 4.4 and 4.5: cwnd grows towards W_cubic(t + RTT), bounded below by cwnd and above by 1.5 cwnd.
            let target = soon.clamp(cwnd, 1.5 * cwnd);
            cwnd + segments * (target - cwnd) / cwnd
        };
        let bytes = grown * smss;
        window.cwnd = bytes as u64;
        epoch.fraction = bytes - window.cwnd as f64;
        self.epoch = Some(epoch);
    }

    fn count(&mut self, window: &mut CongestionWindow, acked: &Acked, amount: u64) {
        let Self { c, beta, reno_friendly, w_max, .. } = *self;
        // Before the first measurement of a round-trip time, the function is evaluated at the current time.
        let ahead = if self.shortest == Duration::MAX { Duration::ZERO } else { self.shortest };
        let shape = CubicParameters { c, beta, reno_friendly, w_max, ahead };
        let packets = amount.div_ceil(window.smss());
        let price =
            CountedGrowth::price(&mut self.counted, &shape, acked.now, window.cwnd / window.smss(), packets);
        window.buy(price, packets);
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, window: &mut CongestionWindow, acked: &Acked) {
        let mut amount = acked.amount;
        self.shortest = self.shortest.min(acked.rtt.unwrap_or(Duration::MAX));
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
            // Slow start after an idle period ends the stage of congestion avoidance. In Linux the stage continues.
            self.epoch = None;
        }
        if amount > 0 && !window.in_slow_start() {
            match self.growth {
                CubicGrowth::Continuous => self.avoid(window, acked, amount),
                CubicGrowth::Counted => self.count(window, acked, amount),
            }
        }
    }

    fn on_congestion(&mut self, window: &CongestionWindow, base: u64) -> u64 {
        let Self { w_max, cwnd_prior, epoch, counted, .. } = *self;
        self.before = CubicSnapshot { w_max, cwnd_prior, epoch, counted };
        let cwnd = window.cwnd as f64 / window.smss() as f64;
        self.cwnd_prior = cwnd;
        // RFC 9438 section 4.7: a flow that has not reached W_max again releases bandwidth.
        self.w_max =
            if self.fast_convergence && cwnd < self.w_max { cwnd * (1.0 + self.beta) / 2.0 } else { cwnd };
        if self.growth == CubicGrowth::Counted {
            self.w_max = libm::floor(self.w_max);
        }
        (self.epoch, self.counted) = (None, None);
        // Section 4.6: ssthresh = flight_size · β, at least two segments.
        window.threshold((base as f64 * self.beta) as u64)
    }

    fn on_timeout(&mut self) {
        // RFC 9438 section 4.8: the reduction is that of a loss, but slow start follows. W_max is then the window with
        // which congestion avoidance begins, and K is 0. Linux does the same (`cubictcp_state`, net/ipv4/tcp_cubic.c).
        (self.epoch, self.counted, self.w_max) = (None, None, 0.0);
        self.hystart.restart();
    }

    fn on_unused(&mut self, now: Instant) {
        // RFC 9438 section 4.2: t does "NOT include periods during which cwnd has not been updated due to
        // application-limited behavior". Linux includes them while data is in flight.
        if let Some(epoch) = &mut self.epoch {
            epoch.counted_until = now;
        }
    }

    fn on_resume(&mut self, now: Instant, last_sent: Instant) {
        if let Some(epoch) = &mut self.epoch {
            epoch.counted_until = now;
        }
        if let Some(counted) = &mut self.counted {
            counted.resume(now, last_sent);
        }
    }

    fn on_undo(&mut self) {
        // RFC 9438 section 4.9.
        let CubicSnapshot { w_max, cwnd_prior, epoch, counted } = self.before;
        (self.w_max, self.cwnd_prior, self.epoch, self.counted) = (w_max, cwnd_prior, epoch, counted);
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

    /// Simulates a loss at `w_max` segments, then rounds in which one window is acknowledged. Returns the time and the
    /// window after each round.
    fn after_loss(config: &Config, rtt: Duration, w_max: u64, rounds: u64) -> Vec<(f64, f64)> {
        let mut cubic = Cubic::new(config);
        let mut window = CongestionWindow::new(config, 1000);
        window.cwnd = w_max * 1000;
        let ssthresh = cubic.on_congestion(&window, window.cwnd);
        window.reduce(ssthresh, ssthresh);
        rounds_of(&mut cubic, &mut window, Instant::ZERO, rtt, rounds)
    }

    /// Simulates rounds in which one window is acknowledged. Returns the time and the window after each round.
    fn rounds_of(
        cubic: &mut Cubic,
        window: &mut CongestionWindow,
        start: Instant,
        rtt: Duration,
        rounds: u64,
    ) -> Vec<(f64, f64)> {
        let mut series = Vec::new();
        for round in 0..rounds {
            let acks = window.cwnd / 1000;
            for n in 0..acks {
                let now = start + rtt * round + Duration::from_nanos(rtt.as_nanos() * n / acks);
                cubic.on_ack(window, &Acked { now, amount: 1000, rtt: Some(rtt), srtt: rtt, una: 0, nxt: 0 });
            }
            series.push(((rtt * (round + 1)).as_secs_f64(), window.cwnd as f64 / 1000.0));
        }
        series
    }

    /// RFC 9438 section 4.2: W(t) = C (t − K)³ + W_max with K = ∛(W_max (1 − β)/C).
    #[test]
    fn the_window_follows_the_cubic_function() {
        let config = Config { cubic_reno_friendly: false, ..config() };
        let k = libm::cbrt(1000.0 * 0.3 / 0.4);
        for (t, cwnd) in after_loss(&config, Duration::from_millis(100), 1000, 150) {
            let expected = 0.4 * (t - k) * (t - k) * (t - k) + 1000.0;
            // The target is one round trip ahead, and the window follows it with a time constant of one round trip, so
            // the two effects cancel. If the window grew at half the speed, it would lag by the growth of one round.
            let slope = 3.0 * 0.4 * (t - k) * (t - k) * 0.1;
            assert!((cwnd - expected).abs() <= slope / 2.0 + 1.0, "at {t}: {cwnd} for {expected}");
        }
    }

    /// RFC 9438 section 4.3: with a small window and a short round-trip time, the window grows like AIMD(α, β), by α
    /// segments per round: 3 · 0.3/1.7 = 0.529.
    #[test]
    fn on_short_paths_it_grows_like_reno() {
        let series = after_loss(&config(), Duration::from_millis(10), 20, 8);
        let (first, last) = (series[0].1, series[7].1);
        assert!(((last - first) / 7.0 - 0.529).abs() < 0.03, "{series:?}");
    }

    fn counting() -> Config {
        Config { cubic_growth: CubicGrowth::Counted, ..config() }
    }

    /// Reno-friendly counted growth adds 8/15 of a segment per round on average, in steps of a whole segment. This
    /// continues beyond W_max, where RFC 9438 adds one segment per round.
    #[test]
    fn counted_growth_keeps_its_pace_beyond_the_window_of_before() {
        let series = |config: &Config| after_loss(config, Duration::from_millis(40), 20, 60);
        let gained = |series: &[(f64, f64)]| series[50].1 - series[20].1;
        let counted = gained(&series(&counting()));
        assert!((counted - 30.0 * 8.0 / 15.0).abs() <= 1.5, "{counted}");
        let continuous = gained(&series(&config()));
        assert!((continuous - 30.0).abs() <= 1.5, "{continuous}");
        assert!(series(&counting()).iter().all(|(_, cwnd)| cwnd.fract() == 0.0));
    }

    /// Without the Reno estimate, counted growth follows the cubic function, as continuous growth does.
    #[test]
    fn counted_growth_follows_the_cubic_function() {
        let config = Config { cubic_reno_friendly: false, ..counting() };
        let k = libm::cbrt(1000.0 * 0.3 / 0.4);
        for (t, cwnd) in after_loss(&config, Duration::from_millis(100), 1000, 80) {
            let expected = 0.4 * (t - k) * (t - k) * (t - k) + 1000.0;
            // Tolerance: the number of acknowledged packets for each packet of growth is rounded down, and it is computed
            // again only after a part of a round.
            let slope = 3.0 * 0.4 * (t - k) * (t - k) * 0.1;
            assert!((cwnd - expected).abs() <= 2.0 * slope + 2.0, "at {t}: {cwnd} for {expected}");
        }
    }

    /// 5 % per round trip in whole segments: from 100 to 105, 110, 115 and 121.
    #[test]
    fn counted_growth_before_a_loss_is_a_twentieth() {
        let config = counting();
        let mut cubic = Cubic::new(&config);
        let mut window = CongestionWindow::new(&config, 1000);
        let begin = |window: &mut CongestionWindow| (window.cwnd, window.ssthresh) = (100_000, 100_000);
        begin(&mut window);
        let grown = |series: &[(f64, f64)]| series.iter().map(|(_, cwnd)| *cwnd).collect::<Vec<_>>();
        let expected = [105.0, 110.0, 115.0, 121.0];
        assert_eq!(
            grown(&rounds_of(&mut cubic, &mut window, Instant::ZERO, Duration::from_millis(10), 4)),
            expected
        );
        // A time-out resets W_max, so the window grows as before the first loss.
        cubic.on_congestion(&window, window.cwnd);
        assert!(cubic.w_max > 0.0);
        cubic.on_timeout();
        begin(&mut window);
        window.credit = 0;
        assert_eq!(
            grown(&rounds_of(&mut cubic, &mut window, Instant::ZERO, Duration::from_millis(10), 4)),
            expected
        );
    }

    /// The window after a loss at 1000 segments and 60 round trips of 100 ms, with a pause after each. `pause` returns
    /// its end.
    fn with_pauses(config: &Config, mut pause: impl FnMut(&mut Cubic, Instant) -> Instant) -> f64 {
        let rtt = Duration::from_millis(100);
        let mut cubic = Cubic::new(config);
        let mut window = CongestionWindow::new(config, 1000);
        window.cwnd = 1_000_000;
        let ssthresh = cubic.on_congestion(&window, window.cwnd);
        window.reduce(ssthresh, ssthresh);
        let mut now = Instant::ZERO;
        for _ in 0..60 {
            rounds_of(&mut cubic, &mut window, now, rtt, 1);
            now = pause(&mut cubic, now + rtt);
        }
        window.cwnd as f64 / 1000.0
    }

    /// RFC 9438 sections 4.2 and 5.8: t excludes the time in which the application sends nothing, whether it is longer
    /// than a time-out or shorter than a round trip. After 6 s of use, W = 0.4 (6 − 9.09)³ + 1000 = 988. With the
    /// pauses, t would be at least 10 s, and W would exceed W_max.
    #[test]
    fn idle_time_is_no_time_of_the_cubic_function() {
        for config in [config(), counting()] {
            let busy = with_pauses(&config, |_, now| now);
            assert!((busy - 988.0).abs() < 3.0, "{busy}");
            for ms in [80, 600, 20_000] {
                let paused = with_pauses(&config, |cubic, now| {
                    let later = now + Duration::from_millis(ms);
                    cubic.on_resume(later, now);
                    later
                });
                assert!((paused - busy).abs() < 1.5, "{paused} with pauses of {ms} ms, {busy} without");
            }
        }
    }

    /// t also excludes "periods during which cwnd has not been updated due to application-limited behavior" (RFC 9438
    /// section 4.2), even if data is always in flight. Linux includes them.
    #[test]
    fn a_window_in_part_used_stops_the_clock_of_rfc_9438() {
        let trickle = |cubic: &mut Cubic, now: Instant| {
            let step = Duration::from_millis(100);
            (1..=5).for_each(|n| cubic.on_unused(now + step * n));
            now + step * 5
        };
        let (busy, part) = (with_pauses(&config(), |_, now| now), with_pauses(&config(), trickle));
        assert!((part - busy).abs() < 1.5, "{part} and {busy}");
        assert!(with_pauses(&counting(), trickle) > 1100.0);
    }

    /// After an idle period there is slow start up to the threshold of 700. A new stage of congestion avoidance begins
    /// there, whose function reaches W_max after K = 9.09 s.
    #[test]
    fn slow_start_after_idleness_begins_a_stage() {
        let config = Config { cubic_reno_friendly: false, ..config() };
        let rtt = Duration::from_millis(100);
        let mut cubic = Cubic::new(&config);
        let mut window = CongestionWindow::new(&config, 1000);
        window.cwnd = 1_000_000;
        let ssthresh = cubic.on_congestion(&window, window.cwnd);
        window.reduce(ssthresh, ssthresh);
        rounds_of(&mut cubic, &mut window, Instant::ZERO, rtt, 60);
        window.cwnd = 10_000;
        let again = Instant::ZERO + rtt * 160;
        cubic.on_resume(again, Instant::ZERO + rtt * 60);
        let series = rounds_of(&mut cubic, &mut window, again, rtt, 20);
        let start = series.iter().position(|(_, cwnd)| *cwnd >= 700.0).expect("congestion avoidance");
        for (round, (_, cwnd)) in series.iter().enumerate().skip(start) {
            let d = (round - start) as f64 * 0.1 - 9.086;
            // The stage began at an unknown time within the round `start`, and the window lags the function by at most
            // one round.
            let slope = 3.0 * 0.4 * d * d * 0.1;
            let expected = 0.4 * d * d * d + 1000.0;
            assert!((cwnd - expected).abs() <= 1.5 * slope, "{cwnd} for {expected} in round {round}");
        }
    }

    /// RFC 9438 section 4.8: after a time-out W_est and W_max start from the window with which congestion avoidance
    /// begins, and K is 0.
    #[test]
    fn after_a_time_out_the_estimate_starts_from_the_threshold() {
        let rtt = Duration::from_millis(100);
        let mut cubic = Cubic::new(&config());
        let mut window = CongestionWindow::new(&config(), 1000);
        window.cwnd = 20_000;
        let ssthresh = cubic.on_congestion(&window, window.cwnd);
        cubic.on_timeout();
        window.reduce(ssthresh, 1000);
        let mut begun = window.cwnd;
        while cubic.epoch.is_none() {
            begun = window.cwnd;
            let now = Instant::ZERO + rtt;
            cubic
                .on_ack(&mut window, &Acked { now, amount: 1000, rtt: Some(rtt), srtt: rtt, una: 0, nxt: 0 });
        }
        let Epoch { w_est: estimate, k, origin, .. } = cubic.epoch.expect("it has begun");
        assert_eq!((k, origin), (0.0, 14.0));
        // An acknowledgement of one segment adds α / cwnd.
        let alpha = 3.0 * 0.3 / 1.7;
        assert_eq!(begun, 14_000);
        assert!((estimate - (14.0 + alpha / 14.0)).abs() < 1e-9, "{estimate}");
    }

    #[test]
    fn a_second_loss_below_the_first_makes_room() {
        let config = config();
        let mut cubic = Cubic::new(&config);
        let mut window = CongestionWindow::new(&config, 1000);
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
