//! The offset between two clocks and its uncertainty.

use super::seconds_between;

/// The offset of the far clock from the clock of this host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClockOffset {
    /// Both ends are on this host, and all time stamps are consistent with a single clock.
    Same,
    /// The far clock is ahead by a known amount.
    Bounded {
        /// How far the far clock is ahead, seconds.
        ahead: f64,
        /// Uncertainty of the offset, seconds: half of the shortest round-trip time.
        bound: f64,
    },
    /// The offset changed by more than a round-trip time during the measurement.
    Moved,
    /// No exchange succeeded.
    Unknown,
}

impl ClockOffset {
    /// Computes the offset from exchanges of two packets each. An exchange has four times: sent here, received there,
    /// sent there, received here. Each time is in ns since 1970 by the clock of the end that reads it.
    ///
    /// No packet has a negative delay. The far clock is therefore ahead by at most the apparent delay to the far end,
    /// and by at least the negated apparent delay back. The exchange with the shortest round-trip time gives the
    /// narrowest bounds. If another exchange contradicts them, the offset changed.
    pub fn of(exchanges: &[[u64; 4]]) -> Self {
        let bounds = exchanges.iter().map(|[sent, received, answered, returned]| {
            (-seconds_between(*answered, *returned), seconds_between(*sent, *received))
        });
        let least = bounds
            .clone()
            .filter(|(low, high)| low <= high)
            .min_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
        let Some((low, high)) = least else {
            return if exchanges.is_empty() { Self::Unknown } else { Self::Moved };
        };
        if bounds.clone().any(|(other_low, other_high)| other_low > high || other_high < low) {
            return Self::Moved;
        }
        Self::Bounded { ahead: f64::midpoint(low, high), bound: 0.5 * (high - low) }
    }

    /// Computes the offset between two ends with the same address, which normally read the same clock.
    /// [`ClockOffset::Same`] is returned if no packet has a delay below -`rounding_s` in either direction, where
    /// `rounding_s` is the rounding error of the time stamps, s. Otherwise the far program has a clock of its own, or
    /// none.
    pub fn of_one_address(exchanges: &[[u64; 4]], rounding_s: f64) -> Self {
        let takes_time = |earlier: u64, later: u64| seconds_between(earlier, later) >= -rounding_s;
        let is_one = exchanges.iter().all(|[sent, received, answered, returned]| {
            takes_time(*sent, *received) && takes_time(*answered, *returned)
        });
        if is_one && !exchanges.is_empty() { Self::Same } else { Self::of(exchanges) }
    }

    /// The correction of a one-way delay to the far end: the offset to subtract, and the uncertainty of the result,
    /// both in seconds. One-way delay is undefined if its error is not bounded (RFC 7679 section 3.7.1).
    ///
    /// The error is the reason why one-way delay is undefined.
    pub const fn correction(self) -> Result<(f64, f64), &'static str> {
        match self {
            Self::Same => Ok((0.0, 0.0)),
            Self::Bounded { ahead, bound } => Ok((ahead, bound)),
            Self::Moved => Err("the offset of the clocks changed during the measurement"),
            Self::Unknown => Err("nothing bounds the offset of the clocks"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn half_of_the_round_trip_bounds_the_offset() {
        // By hand: the far clock is 500 ns ahead. The packet takes 100 ns, the reflector 20 ns and the answer 300 ns.
        let exchange = [1_000, 1_600, 1_620, 1_420];
        let ClockOffset::Bounded { ahead, bound } = ClockOffset::of(&[exchange]) else { panic!() };
        assert!((ahead - 400e-9).abs() < 1e-15 && (bound - 200e-9).abs() < 1e-15, "{ahead} {bound}");
    }

    #[test]
    fn without_an_exchange_nothing_is_known() {
        assert_eq!(ClockOffset::of(&[]), ClockOffset::Unknown);
        assert!(ClockOffset::Unknown.correction().is_err());
    }

    #[test]
    fn a_clock_that_is_stepped_between_exchanges_shows() {
        let exchanges = [[1_000, 1_100, 1_100, 1_200], [2_000, 12_100, 12_100, 2_200]];
        assert_eq!(ClockOffset::of(&exchanges), ClockOffset::Moved);
        // A step within one exchange: by the clock of this host, the answer arrives before the packet was sent.
        assert_eq!(ClockOffset::of(&[[1_000, 1_100, 1_100, 900]]), ClockOffset::Moved);
    }

    #[test]
    fn one_address_is_one_clock_only_if_packets_take_time_both_ways() {
        let one = |exchanges: &[[u64; 4]]| ClockOffset::of_one_address(exchanges, 2e-9);
        let [here, rounded] = [[1_000, 1_100, 1_120, 1_200], [2_000, 1_998, 2_020, 2_018]];
        assert_eq!(one(&[here, rounded]), ClockOffset::Same);
        // The clock is an hour ahead or behind: the round-trip time bounds the offset.
        let hour = 3_600_000_000_000;
        let ahead = [1_000, hour + 1_100, hour + 1_120, 1_200];
        let behind = [hour + 1_000, 1_100, 1_120, hour + 1_200];
        for exchange in [ahead, behind] {
            assert!(matches!(one(&[exchange]), ClockOffset::Bounded { .. }));
            assert_eq!(one(&[exchange]), ClockOffset::of(&[exchange]));
        }
        assert_eq!(one(&[here, ahead]), ClockOffset::Moved, "one packet is enough");
        assert_eq!(one(&[]), ClockOffset::Unknown);
    }

    proptest! {
        /// The true offset is within the bound for any delays in the two directions.
        #[test]
        fn the_true_offset_is_within_the_bound(
            ahead in -1_000_000_000i64..1_000_000_000,
            ways in proptest::collection::vec((0u64..10_000_000, 0u64..10_000_000, 0u64..1_000_000), 1..20),
        ) {
            let start = 1_790_000_000_000_000_000u64;
            let far = |at: u64| at.checked_add_signed(ahead).unwrap();
            let exchanges: Vec<_> = ways.iter().map(|(there, back, residence)| {
                let received = start + there;
                let answered = received + residence;
                [start, far(received), far(answered), answered + back]
            }).collect();
            let ClockOffset::Bounded { ahead: found, bound } = ClockOffset::of(&exchanges) else { panic!() };
            prop_assert!((found - ahead as f64 * 1e-9).abs() <= bound + 1e-12);
        }
    }
}
