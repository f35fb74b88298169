//! When a timer fires that was set to a delay.

use netrig_core::{Duration, Instant};

use super::config::TimerWheel;

/// A jiffy of Linux at 250 Hz.
const JIFFY: u64 = 4_000_000;
/// Buckets of a level of the wheel, and how much wider each level's are than the one's below
/// (`LVL_SIZE`, `LVL_CLK_DIV` in kernel/time/timer.c).
const LEVEL_BUCKETS: u64 = 64;
const LEVEL_STEP: u64 = 8;
/// Levels at 250 Hz (`LVL_DEPTH`).
const LEVELS: u32 = 9;

/// The moment `span` before `now`; the start of the run if there is none.
pub(crate) fn ago(now: Instant, span: Duration) -> Instant {
    Instant::from_nanos(now.since(Instant::ZERO + span).as_nanos())
}

impl TimerWheel {
    /// When a timer fires that is set at `now` to go off after `delay`.
    ///
    /// On Linux the delay is rounded up to jiffies; a delay of fewer than 63·8ⁿ jiffies is kept on level n,
    /// whose buckets are 8ⁿ jiffies wide, and fires at the end of the bucket that it falls into: up to one
    /// bucket late, and never early.
    pub(crate) fn fires(self, now: Instant, delay: Duration) -> Instant {
        match self {
            Self::None => now + delay,
            Self::LinuxHz250 => {
                let jiffies = delay.as_nanos().div_ceil(JIFFY);
                let mut width = 1;
                for _ in 1..LEVELS {
                    if jiffies < (LEVEL_BUCKETS - 1) * width {
                        break;
                    }
                    width *= LEVEL_STEP;
                }
                let due = (now.as_nanos() / JIFFY).saturating_add(jiffies);
                Instant::from_nanos((due / width + 1).saturating_mul(width).saturating_mul(JIFFY))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fires_ms(now: u64, delay: u64) -> u64 {
        let now = Instant::ZERO + Duration::from_millis(now);
        TimerWheel::LinuxHz250.fires(now, Duration::from_millis(delay)).as_nanos() / 1_000_000
    }

    /// The table in kernel/time/timer.c for HZ = 250: level 0 up to 255 ms in steps of 4 ms, level 1 from 256
    /// ms in steps of 32 ms, level 2 from 2048 ms in steps of 256 ms, level 3 from 16384 ms in steps of 2048
    /// ms.
    #[test]
    fn longer_delays_are_coarser() {
        assert_eq!(fires_ms(0, 200), 204);
        assert_eq!(fires_ms(0, 300), 320);
        assert_eq!(fires_ms(10, 1000), 1024);
        assert_eq!(fires_ms(0, 3000), 3072);
        assert_eq!(fires_ms(0, 20_000), 20_480);
    }

    proptest! {
        #[test]
        fn never_early_and_at_most_one_bucket_late(now in 0u64..100_000, delay in 0u64..100_000) {
            let width = match delay {
                0..252 => 4,
                252..2_016 => 32,
                2_016..16_128 => 256,
                _ => 2_048,
            };
            let late = fires_ms(now, delay) - (now + delay);
            prop_assert!(late <= width + 4, "{late}");
        }
    }
}
