//! Loss patterns: single losses and bursts (RFC 3357).

/// Losses of a stream, in the order of sending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LossPattern {
    sent: usize,
    /// For each loss except the first, its distance from the previous loss in packets (RFC 3357 section 4.1).
    distances: Vec<u64>,
    periods: Vec<u64>,
}

impl LossPattern {
    /// The loss pattern of a stream. `lost` is true for each lost packet.
    #[must_use]
    pub fn new(lost: impl IntoIterator<Item = bool>) -> Self {
        let mut pattern = Self::default();
        let mut last: Option<u64> = None;
        for (number, lost) in (0u64..).zip(lost) {
            pattern.sent += 1;
            if !lost {
                continue;
            }
            // RFC 3357 section 4.1: the distance of the first loss is undefined; 5.1.2: a new period begins with a
            // loss that follows a packet that arrived.
            match last.map(|last| number - last) {
                Some(1) => {
                    pattern.distances.push(1);
                    // The previous loss has started a period.
                    pattern.periods.last_mut().into_iter().for_each(|length| *length += 1);
                }
                Some(distance) => {
                    pattern.distances.push(distance);
                    pattern.periods.push(1);
                }
                None => pattern.periods.push(1),
            }
            last = Some(number);
        }
        pattern
    }

    /// Number of packets that were sent.
    #[must_use]
    pub const fn sent(&self) -> usize {
        self.sent
    }

    /// Number of packets that were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.periods.iter().sum()
    }

    /// The share of packets that were lost. Undefined without packets.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        (self.sent > 0).then(|| self.lost() as f64 / self.sent as f64)
    }

    /// The length of each loss period (the number of consecutive lost packets), in order
    /// (Type-P-One-Way-Loss-Period-Lengths, RFC 3357 section 6.3). The number of periods is
    /// Type-P-One-Way-Loss-Period-Total (section 6.2).
    #[must_use]
    pub fn periods(&self) -> &[u64] {
        &self.periods
    }

    /// The share of losses that are *noticeable*. A noticeable loss follows the previous loss by at most `distance`
    /// packets (Type-P-One-Way-Loss-Noticeable-Rate, RFC 3357 section 6.1). Undefined without a loss.
    #[must_use]
    pub fn noticeable_rate(&self, distance: u64) -> Option<f64> {
        let noticeable = self.distances.iter().filter(|found| **found <= distance).count();
        (self.lost() > 0).then(|| noticeable as f64 / self.lost() as f64)
    }

    /// The mean length of a loss period in packets. Undefined without a loss.
    #[must_use]
    pub fn mean_period(&self) -> Option<f64> {
        let periods = self.periods.len();
        (periods > 0).then(|| self.lost() as f64 / periods as f64)
    }

    /// The burst ratio: the mean loss period divided by the mean loss period of independent losses with the same share
    /// (1/(1 - loss), ITU-T G.107 section 7.5). It is 1 for independent losses and greater for bursts. Undefined
    /// without a loss or without an arrival.
    #[must_use]
    pub fn burst_ratio(&self) -> Option<f64> {
        let arrived = self.sent as f64 - self.lost() as f64;
        self.mean_period().filter(|_| arrived > 0.0).map(|mean| mean * arrived / self.sent as f64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(marks: &str) -> LossPattern {
        LossPattern::new(marks.chars().map(|mark| mark == 'x'))
    }

    #[test]
    fn the_example_of_the_rfc() {
        // RFC 3357 section 6: of ten packets the 2nd, 5th, 7th, 9th and 10th are lost; distances 3, 2, 2, 1; four
        // periods of lengths 1, 1, 1, 2.
        let pattern = of(".x..x.x.xx");
        assert_eq!(pattern.distances, [3, 2, 2, 1]);
        assert_eq!(pattern.periods(), [1, 1, 1, 2]);
        assert_eq!(pattern.lost(), 5);
        assert_eq!(pattern.noticeable_rate(1), Some(0.2));
        assert_eq!(pattern.noticeable_rate(2), Some(0.6));
        assert_eq!(pattern.noticeable_rate(99), Some(0.8));
    }

    #[test]
    fn without_a_loss_there_is_no_pattern() {
        let pattern = of(".....");
        assert_eq!(
            (pattern.noticeable_rate(9), pattern.mean_period(), pattern.burst_ratio()),
            (None, None, None)
        );
        assert_eq!(of("xxx").burst_ratio(), None);
    }

    #[test]
    fn bursts_show_in_their_ratio() {
        // By hand: 10 of 100 packets are lost in one burst: a mean period of 10, compared with 1/(1 - 0.1).
        let pattern = of(&format!("{}{}{}", ".".repeat(40), "x".repeat(10), ".".repeat(50)));
        assert!((pattern.burst_ratio().unwrap() - 9.0).abs() < 1e-12);
        // Every tenth packet is lost alone: the mean period is 1.
        assert!((of(&".........x".repeat(10)).burst_ratio().unwrap() - 0.9).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn every_packet_is_in_a_period_between_two_or_outside(marks: Vec<bool>) {
            let pattern = LossPattern::new(marks.iter().copied());
            let outside = marks.iter().take_while(|lost| !**lost).count()
                + marks.iter().rev().take_while(|lost| !**lost).count();
            // A distance of n means n - 1 arrivals before the loss.
            let arrived: u64 = pattern.distances.iter().map(|distance| distance - 1).sum();
            let inside = pattern.lost() + arrived;
            if pattern.lost() == 0 {
                prop_assert_eq!(pattern.sent(), marks.len());
            } else {
                prop_assert_eq!(inside as usize + outside, marks.len());
                prop_assert_eq!(pattern.distances.len() as u64, pattern.lost() - 1);
            }
        }
    }
}
