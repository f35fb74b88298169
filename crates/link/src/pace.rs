//! How long the line needs for a packet.

use netrig_core::{Duration, Rate};

use crate::Framing;

/// Bits per byte times nanoseconds per second.
const NANOBITS_PER_BYTE: u64 = 8_000_000_000;

/// Rate and framing, with the remainder of the division kept: within a busy period the n-th packet ends at
/// the period's start plus ⌊bits of the first n packets / rate⌋, so the rate is exact over any length of time.
///
/// Most lines carry few lengths of packets, and the last one again and again: its division is remembered.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    bits_per_s: u64,
    framing: Framing,
    /// Of a nanosecond, in units of 1/`bits_per_s`: what the packets of this busy period took beyond whole
    /// nanoseconds.
    carry: u64,
    ip_len: u32,
    /// Whole nanoseconds that a packet of `ip_len` takes.
    nanos: u64,
    /// What is left of the division.
    remainder: u64,
}

impl Pace {
    pub(crate) fn new(rate: Rate, framing: Framing) -> Self {
        let mut pace =
            Self { bits_per_s: rate.bits_per_s(), framing, carry: 0, ip_len: 0, nanos: 0, remainder: 0 };
        pace.divide(0);
        pace
    }

    pub(crate) fn set_rate(&mut self, bits_per_s: u64) {
        *self = Self::new(Rate::from_bits_per_s(bits_per_s), self.framing);
    }

    /// The line was idle: the next packet starts a busy period.
    #[inline]
    pub(crate) fn rest(&mut self) {
        self.carry = 0;
    }

    /// Time that the next packet takes.
    #[inline]
    pub(crate) fn next(&mut self, ip_len: u32) -> Duration {
        if ip_len != self.ip_len {
            self.divide(ip_len);
        }
        let short_of_a_nano = self.bits_per_s - self.remainder;
        if self.carry >= short_of_a_nano {
            self.carry -= short_of_a_nano;
            Duration::from_nanos(self.nanos.saturating_add(1))
        } else {
            self.carry += self.remainder;
            Duration::from_nanos(self.nanos)
        }
    }

    fn divide(&mut self, ip_len: u32) {
        let bytes = self.framing.line_bytes(ip_len);
        self.ip_len = ip_len;
        (self.nanos, self.remainder) = if self.bits_per_s == 0 {
            (u64::MAX, 0)
        } else if let Some(scaled) = bytes.checked_mul(NANOBITS_PER_BYTE) {
            (scaled / self.bits_per_s, scaled % self.bits_per_s)
        } else {
            let (scaled, rate) =
                (u128::from(bytes) * u128::from(NANOBITS_PER_BYTE), u128::from(self.bits_per_s));
            // The remainder is below the rate, which has 64 bits.
            (u64::try_from(scaled / rate).unwrap_or(u64::MAX), (scaled % rate) as u64)
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The closed form of a busy period, in 128 bits.
        #[test]
        fn no_time_is_lost_to_rounding(rate in 1u64..=u64::MAX, lens in prop::collection::vec(1u32..=u32::MAX, 1..50)) {
            let mut pace = Pace::new(Rate::from_bits_per_s(rate), Framing::None);
            let (mut bytes, mut spent) = (0u128, 0u128);
            for len in lens {
                bytes += u128::from(len);
                spent += u128::from(pace.next(len).as_nanos());
                prop_assume!(spent < u128::from(u64::MAX));
                prop_assert_eq!(spent, bytes * 8_000_000_000 / u128::from(rate));
            }
        }
    }

    #[test]
    fn a_third_of_a_megabit_is_kept_for_a_day() {
        // 1500 B at 333 333 bit/s take 36 000 036.000036 ns; rounded down each time, a day would be 86 ns short.
        let mut pace = Pace::new(Rate::from_bits_per_s(333_333), Framing::None);
        let n = 2_400_000u128;
        let spent: u128 = (0..n).map(|_| u128::from(pace.next(1500).as_nanos())).sum();
        assert_eq!(spent, n * 12_000 * 1_000_000_000 / 333_333);
    }
}
