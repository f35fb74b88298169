//! HyStart: leaves slow start before it overflows the queue.

use netrig_core::{Duration, Instant};

use super::control::Acked;
use crate::tcp::config;

/// Slow start ends if the round-trip time grows by a threshold between these bounds, with at least this number of
/// samples in the round. The values are the same in Linux (`HYSTART_DELAY_MIN`, `HYSTART_DELAY_MAX`,
/// `HYSTART_MIN_SAMPLES`, net/ipv4/tcp_cubic.c) and RFC 9406 section 4.3.
const MIN_RTT_THRESHOLD: Duration = Duration::from_millis(4);
const MAX_RTT_THRESHOLD: Duration = Duration::from_millis(16);
const RTT_SAMPLES: u32 = 8;
/// Linux: the smallest window at which slow start may end, segments (`hystart_low_window`).
const LINUX_LOW_WINDOW: u64 = 16;
/// Linux: the largest interval between two acknowledgements of a train (`hystart_ack_delta_us`).
const LINUX_ACK_SPACING: Duration = Duration::from_millis(2);
/// RFC 9406 section 4.3: number of rounds of conservative slow start, its growth divisor, and L for a sender without
/// pacing.
const CSS_ROUNDS: u32 = 5;
const CSS_GROWTH_DIVISOR: u64 = 4;
const L: u64 = 8;

/// The decision about slow start after an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlowStart {
    /// Growth as configured.
    Standard,
    /// Growth by the acknowledged data, but at most by `segments`, and divided by `divisor`.
    Limited { divisor: u64, segments: u64 },
    /// Slow start ends: ssthresh becomes the current window.
    Over,
}

/// The state of one slow start, updated in each round.
#[derive(Clone, Debug)]
pub(crate) struct HyStart {
    variant: config::HyStart,
    round_end: u64,
    round_start: Instant,
    last_ack: Instant,
    /// Smallest round-trip time of the connection, of this round and of the previous one.
    smallest: Duration,
    current: Duration,
    previous: Duration,
    samples: u32,
    /// State of conservative slow start: the baseline round-trip time, and the number of rounds so far.
    conservative: Option<(Duration, u32)>,
    over: bool,
}

impl HyStart {
    pub fn new(variant: config::HyStart) -> Self {
        Self {
            variant,
            round_end: 0,
            round_start: Instant::ZERO,
            last_ack: Instant::ZERO,
            smallest: Duration::MAX,
            current: Duration::MAX,
            previous: Duration::MAX,
            samples: 0,
            conservative: None,
            over: false,
        }
    }

    /// Slow start begins again after a time-out. RFC 9406 section 4.3 applies HyStart++ to the first slow start only.
    /// Linux applies HyStart to each slow start.
    pub fn restart(&mut self) {
        let over = self.variant == config::HyStart::PlusPlus;
        *self = Self { smallest: self.smallest, over, ..Self::new(self.variant) };
    }

    pub fn on_ack(&mut self, acked: &Acked, window: u64) -> SlowStart {
        if self.variant == config::HyStart::Off || self.over {
            return SlowStart::Standard;
        }
        if acked.una > self.round_end || self.round_end == 0 {
            self.begin_round(acked);
        }
        if let Some(rtt) = acked.rtt {
            self.smallest = self.smallest.min(rtt);
            self.current = self.current.min(rtt);
            self.samples += 1;
        }
        let verdict = match self.variant {
            config::HyStart::Linux if window >= LINUX_LOW_WINDOW => self.linux(acked.now),
            config::HyStart::PlusPlus => self.plus_plus(),
            _ => SlowStart::Standard,
        };
        self.over = verdict == SlowStart::Over;
        verdict
    }

    fn begin_round(&mut self, acked: &Acked) {
        self.round_end = acked.nxt;
        (self.round_start, self.last_ack) = (acked.now, acked.now);
        (self.previous, self.current) = (self.current, Duration::MAX);
        self.samples = 0;
        if let Some((_, rounds)) = &mut self.conservative {
            *rounds += 1;
        }
    }

    /// Linux, `hystart_update`: slow start ends if a train of acknowledgements is longer than half the smallest
    /// round-trip time of the connection, or if the smallest round-trip time of the round exceeds it by an eighth.
    fn linux(&mut self, now: Instant) -> SlowStart {
        if now.since(self.last_ack) <= LINUX_ACK_SPACING {
            self.last_ack = now;
            if now.since(self.round_start) * 2 > self.smallest {
                return SlowStart::Over;
            }
        }
        let enough = self.samples >= RTT_SAMPLES;
        if enough && self.current > self.smallest + threshold(self.smallest) {
            SlowStart::Over
        } else {
            SlowStart::Standard
        }
    }

    /// RFC 9406 section 4.2.
    fn plus_plus(&mut self) -> SlowStart {
        let enough = self.samples >= RTT_SAMPLES;
        match self.conservative {
            None if enough
                && self.previous < Duration::MAX
                && self.current >= self.previous + threshold(self.previous) =>
            {
                self.conservative = Some((self.current, 0));
            }
            // The round-trip time has fallen again, so its growth was jitter, and standard slow start continues.
            Some((baseline, _)) if enough && self.current < baseline => self.conservative = None,
            Some((_, rounds)) if rounds >= CSS_ROUNDS => return SlowStart::Over,
            _ => {}
        }
        let divisor = if self.conservative.is_some() { CSS_GROWTH_DIVISOR } else { 1 };
        SlowStart::Limited { divisor, segments: L }
    }
}

/// The growth that ends slow start: an eighth of the round-trip time, within bounds.
fn threshold(rtt: Duration) -> Duration {
    Duration::from_nanos(rtt.as_nanos() / 8).clamp(MIN_RTT_THRESHOLD, MAX_RTT_THRESHOLD)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates one round of `n` acknowledgements with this spacing and round-trip time. Returns the last decision.
    fn round(hystart: &mut HyStart, number: u64, n: u64, spacing: Duration, rtt_ms: u64) -> SlowStart {
        let mut verdict = SlowStart::Standard;
        for i in 0..n {
            let now = Instant::ZERO + Duration::from_millis(1000 * number) + spacing * i;
            let rtt = Duration::from_millis(rtt_ms);
            let acked = Acked {
                now,
                amount: 1,
                rtt: Some(rtt),
                srtt: rtt,
                una: number * 1000 + i,
                nxt: number * 1000 + 999,
            };
            verdict = hystart.on_ack(&acked, 100);
            if verdict == SlowStart::Over {
                break;
            }
        }
        verdict
    }

    #[test]
    fn linux_leaves_when_the_round_trip_grew_by_an_eighth() {
        let apart = Duration::from_millis(3);
        let mut hystart = HyStart::new(config::HyStart::Linux);
        assert_eq!(round(&mut hystart, 1, 20, apart, 80), SlowStart::Standard);
        assert_eq!(round(&mut hystart, 2, 20, apart, 90), SlowStart::Standard);
        assert_eq!(round(&mut hystart, 3, 20, apart, 91), SlowStart::Over);
    }

    #[test]
    fn linux_leaves_when_a_train_is_half_a_round_trip_long() {
        let mut hystart = HyStart::new(config::HyStart::Linux);
        assert_eq!(round(&mut hystart, 1, 41, Duration::from_millis(1), 80), SlowStart::Standard);
        assert_eq!(round(&mut hystart, 2, 42, Duration::from_millis(1), 80), SlowStart::Over);
    }

    /// RFC 9406 section 4.2: conservative slow start for five rounds, then congestion avoidance.
    #[test]
    fn plus_plus_slows_down_first() {
        let apart = Duration::from_millis(1);
        let mut hystart = HyStart::new(config::HyStart::PlusPlus);
        assert_eq!(round(&mut hystart, 1, 10, apart, 80), SlowStart::Limited { divisor: 1, segments: 8 });
        assert_eq!(round(&mut hystart, 2, 10, apart, 90), SlowStart::Limited { divisor: 4, segments: 8 });
        for number in 3..7 {
            assert_eq!(
                round(&mut hystart, number, 10, apart, 95),
                SlowStart::Limited { divisor: 4, segments: 8 }
            );
        }
        assert_eq!(round(&mut hystart, 7, 10, apart, 95), SlowStart::Over);
    }

    #[test]
    fn plus_plus_goes_on_if_it_was_jitter() {
        let apart = Duration::from_millis(1);
        let mut hystart = HyStart::new(config::HyStart::PlusPlus);
        round(&mut hystart, 1, 10, apart, 80);
        round(&mut hystart, 2, 10, apart, 95);
        assert_eq!(round(&mut hystart, 3, 10, apart, 81), SlowStart::Limited { divisor: 1, segments: 8 });
    }
}
