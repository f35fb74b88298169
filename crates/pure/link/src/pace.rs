//! The time that a line needs to send a packet.

use netrig_core::{Duration, Seeds, Stream};

use crate::{Framing, LineSettings, Service};

/// Bits per byte times nanoseconds per second.
const NANOBITS_PER_BYTE: u64 = 8_000_000_000;

/// Rate and framing of a line.
#[derive(Clone, Debug)]
pub(crate) struct LineRate {
    bits_per_s: u64,
    framing: Framing,
}

impl LineRate {
    pub(crate) fn new(settings: &LineSettings) -> Self {
        Self { bits_per_s: settings.rate.bits_per_s(), framing: settings.framing }
    }

    /// Whole nanoseconds that a packet takes, and the remainder of the division in units of 1/`bits_per_s` of a nanosecond.
    fn divide(&self, ip_len: u32) -> (u64, u64) {
        let bytes = self.framing.line_bytes(ip_len);
        if self.bits_per_s == 0 {
            (u64::MAX, 0)
        } else if let Some(scaled) = bytes.checked_mul(NANOBITS_PER_BYTE) {
            (scaled / self.bits_per_s, scaled % self.bits_per_s)
        } else {
            let (scaled, rate) =
                (u128::from(bytes) * u128::from(NANOBITS_PER_BYTE), u128::from(self.bits_per_s));
            // The remainder is below the rate, which has 64 bits.
            (u64::try_from(scaled / rate).unwrap_or(u64::MAX), (scaled % rate) as u64)
        }
    }
}

/// The sending time of packets. The remainder of the division is kept: within a busy period the n-th packet ends at the
/// start of the period plus ⌊bits of the first n packets / rate⌋. So the rate is exact over any length of time.
///
/// Most lines carry packets of few lengths, and the same length often repeats. The division for the last length is
/// cached.
#[derive(Clone, Debug)]
pub(crate) struct SendingTime {
    /// Whole nanoseconds that a packet of `ip_len` takes.
    nanos: u64,
    /// The remainder of the division.
    remainder: u64,
    /// Sum of the remainders in this busy period, below one nanosecond, in units of 1/`bits_per_s`.
    carry: u64,
    ip_len: u32,
}

impl SendingTime {
    /// State at the start of a busy period.
    pub(crate) fn new(rate: &LineRate) -> Self {
        let (nanos, remainder) = rate.divide(0);
        Self { nanos, remainder, carry: 0, ip_len: 0 }
    }

    /// The line was idle: the next packet starts a busy period.
    #[inline]
    pub(crate) fn rest(&mut self) {
        self.carry = 0;
    }

    /// Time that the next packet takes. `rate` must be that of [`SendingTime::new`].
    #[inline]
    pub(crate) fn next(&mut self, rate: &LineRate, ip_len: u32) -> Duration {
        if ip_len != self.ip_len {
            (self.nanos, self.remainder) = rate.divide(ip_len);
            self.ip_len = ip_len;
        }
        // In the common case the rate is not read.
        if self.remainder == 0 {
            return Duration::from_nanos(self.nanos);
        }
        let short_of_a_nano = rate.bits_per_s - self.remainder;
        if self.carry >= short_of_a_nano {
            self.carry -= short_of_a_nano;
            Duration::from_nanos(self.nanos.saturating_add(1))
        } else {
            self.carry += self.remainder;
            Duration::from_nanos(self.nanos)
        }
    }
}

/// The service time of each packet. The rate may change, and the service may be random.
#[derive(Clone, Debug)]
pub(crate) struct LinePace {
    rate: LineRate,
    sending: SendingTime,
    /// The random stream, if the service is random.
    luck: Option<Box<Stream>>,
}

impl LinePace {
    /// If the service is random, it draws from the stream `link/<name>/service`.
    pub(crate) fn new(settings: &LineSettings, seeds: &Seeds, name: &str) -> Self {
        let luck = match settings.service {
            Service::Constant => None,
            Service::Exponential => Some(Box::new(seeds.stream(&format!("link/{name}/service")))),
        };
        let rate = LineRate::new(settings);
        Self { sending: SendingTime::new(&rate), rate, luck }
    }

    pub(crate) fn set_rate(&mut self, bits_per_s: u64) {
        self.rate.bits_per_s = bits_per_s;
        self.sending = SendingTime::new(&self.rate);
    }

    /// The line was idle: the next packet starts a busy period.
    #[inline]
    pub(crate) fn rest(&mut self) {
        self.sending.rest();
    }

    /// Time that the next packet takes.
    #[inline]
    pub(crate) fn next(&mut self, ip_len: u32) -> Duration {
        let takes = self.sending.next(&self.rate, ip_len);
        match &mut self.luck {
            None => takes,
            // `as` saturates. A fraction of a nanosecond does not matter in a random time.
            Some(luck) => Duration::from_nanos(luck.exponential(takes.as_nanos() as f64).round() as u64),
        }
    }

    /// Mean sending time of `packets` with `bytes` in total, as if all had the same length.
    pub(crate) fn of_backlog(&self, packets: usize, bytes: u64) -> Duration {
        let packets = packets as u64;
        let Some(each) = bytes.checked_div(packets) else { return Duration::ZERO };
        let on_the_line =
            self.rate.framing.line_bytes(u32::try_from(each).unwrap_or(u32::MAX)).saturating_mul(packets);
        let nanos = u128::from(on_the_line) * u128::from(NANOBITS_PER_BYTE);
        let nanos =
            nanos.checked_div(self.rate.bits_per_s.into()).and_then(|nanos| u64::try_from(nanos).ok());
        Duration::from_nanos(nanos.unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use netrig_core::Rate;

    use super::*;
    use crate::Queue;
    use crate::queue::fifo::Fifo;

    fn pace(bits_per_s: u64, service: Service) -> LinePace {
        let queue = Queue::Fifo(Fifo { unlimited: true, ..Fifo::default() });
        let line = LineSettings::new(Rate::from_bits_per_s(bits_per_s), Duration::ZERO, queue);
        LinePace::new(&LineSettings { service, ..line }, &Seeds::new(1), "test/forward")
    }

    proptest! {
        /// The closed form of a busy period, in 128 bits.
        #[test]
        fn no_time_is_lost_to_rounding(rate in 1u64..=u64::MAX, lens in prop::collection::vec(1u32..=u32::MAX, 1..50)) {
            let mut pace = pace(rate, Service::Constant);
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
        // 1500 B at 333 333 bit/s take 36 000 036.000036 ns. If each time were rounded down, a day would be 86 ns too
        // short.
        let mut pace = pace(333_333, Service::Constant);
        let n = 2_400_000u128;
        let spent: u128 = (0..n).map(|_| u128::from(pace.next(1500).as_nanos())).sum();
        assert_eq!(spent, n * 12_000 * 1_000_000_000 / 333_333);
    }

    /// An exponential time of mean a has the variance a². The bounds are five standard errors of 100,000 draws. The
    /// standard error of the variance is √8·a²/√n.
    #[test]
    fn a_random_service_is_exponential_around_the_time_of_the_bits() {
        let mut pace = pace(8_000_000, Service::Exponential);
        let n = 100_000;
        let times: Vec<f64> = (0..n).map(|_| pace.next(1000).as_secs_f64() * 1000.0).collect();
        let mean = times.iter().sum::<f64>() / f64::from(n);
        let variance = times.iter().map(|t| (t - mean) * (t - mean)).sum::<f64>() / f64::from(n);
        let error = 5.0 / f64::from(n).sqrt();
        assert!((mean - 1.0).abs() < error, "{mean}");
        assert!((variance - 1.0).abs() < 8f64.sqrt() * error, "{variance}");
        let longer = times.iter().filter(|t| **t > 2.0).count() as f64 / f64::from(n);
        assert!((longer - libm::exp(-2.0)).abs() < error, "{longer}");
    }
}
