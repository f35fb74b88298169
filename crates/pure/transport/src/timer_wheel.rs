//! The coarse timer of the Linux kernel.

use netrig_core::{Duration, Instant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Granularity of the host's timers: how late one fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TimerWheel {
    /// On time.
    Exact,
    /// Linux since 4.8 with HZ = 250: a timer is never early, and its granularity grows with its duration
    /// (kernel/time/timer.c, `calc_wheel_index`). Each level has 64 slots and a granularity of eight times the level
    /// before, from one jiffy of 4 ms. A timer of 2 to 16 s therefore fires up to 256 ms and a jiffy late.
    Linux250,
}

/// Duration of a jiffy at HZ = 250, nanoseconds.
const JIFFY: u64 = 4_000_000;
/// Base-2 logarithm of the ratio between the granularities of two successive levels.
const LEVEL_SHIFT: u32 = 3;
/// Number of slots of a level.
const LEVEL_SIZE: u64 = 64;
/// Number of levels at HZ = 250.
const LEVELS: u32 = 9;

impl TimerWheel {
    /// The time at which a timer that is set at `now` for `span` fires.
    pub fn fires(self, now: Instant, span: Duration) -> Instant {
        match self {
            Self::Exact => now + span,
            Self::Linux250 => {
                let clock = now.as_nanos() / JIFFY;
                let jiffies = span.as_nanos().div_ceil(JIFFY);
                // A level takes a timer if the timer expires within less than 63 times the granularity of the level.
                let level = (0..LEVELS - 1)
                    .find(|level| jiffies < (LEVEL_SIZE - 1) << (LEVEL_SHIFT * level))
                    .unwrap_or(LEVELS - 1);
                let shift = LEVEL_SHIFT * level;
                // Rounded up by at least one unit of the level. Otherwise the timer could fire early.
                let expires = (((clock + jiffies) >> shift) + 1) << shift;
                Instant::from_nanos(expires.saturating_mul(JIFFY))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHEEL: TimerWheel = TimerWheel::Linux250;

    #[test]
    fn never_early_and_late_by_the_grain_of_the_span_at_most() {
        // The table in the comment at the top of kernel/time/timer.c for HZ = 250: level, grain, range.
        let levels = [(4, 0, 252), (32, 252, 2_016), (256, 2_016, 16_128), (2_048, 16_128, 129_024)];
        for (grain, from, to) in levels {
            for span in (from..to).step_by(97) {
                for start in (0..40_000_u64).step_by(1_733) {
                    let now = Instant::from_nanos(start * 1_000_000);
                    let (due, fires) =
                        (now + Duration::from_millis(span), WHEEL.fires(now, Duration::from_millis(span)));
                    // The granularity, plus the jiffy that the span is rounded up to.
                    let latest = due + Duration::from_millis(grain + 4);
                    assert!(due <= fires && fires <= latest, "{span} ms from {now}: {fires}");
                }
            }
        }
    }

    #[test]
    fn the_exact_one_is_exact() {
        let now = Instant::from_nanos(12_345);
        assert_eq!(TimerWheel::Exact.fires(now, Duration::from_secs(3)), now + Duration::from_secs(3));
    }
}
