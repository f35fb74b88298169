//! How far two clocks are apart, and how well that is known.

use super::seconds_between;

/// What is known of the far clock's offset from this one's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClockOffset {
    /// Both ends are this host's, and by all that was seen they read one clock.
    Same,
    /// The far clock is ahead by this, within the bound.
    Bounded {
        /// How far the far clock is ahead, seconds.
        ahead: f64,
        /// By how much that may be wrong, seconds: half of the least round trip.
        bound: f64,
    },
    /// The clocks moved against each other by more than a round trip while it was measured.
    Moved,
    /// Nothing came back.
    Unknown,
}

impl ClockOffset {
    /// From exchanges of two packets each: sent here, received there, sent there, received here; ns since 1970 by the clocks
    /// of the two ends.
    ///
    /// No packet takes less than no time, so that the far clock is ahead by at most what the way there seems to take, and
    /// at least by what the way back seems to take less than nothing; the exchange with the least round trip says most.
    /// Every other exchange must agree with it, or the offset changed.
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

    /// The same of ends that have one address, and so ought to read one clock. That is believed as long as no packet took less
    /// than no time in either direction, but for what the timestamps are rounded by, seconds: a program may have a clock of its
    /// own, or none.
    pub fn of_one_address(exchanges: &[[u64; 4]], rounding_s: f64) -> Self {
        let takes_time = |earlier: u64, later: u64| seconds_between(earlier, later) >= -rounding_s;
        let is_one = exchanges.iter().all(|[sent, received, answered, returned]| {
            takes_time(*sent, *received) && takes_time(*answered, *returned)
        });
        if is_one && !exchanges.is_empty() { Self::Same } else { Self::of(exchanges) }
    }

    /// The offset to take out of a one-way delay towards the far end, and how much the result may be wrong by, seconds;
    /// or why there is no such delay (RFC 7679 section 3.7.1: no error of it is known).
    ///
    /// # Errors
    /// Why one-way delay is undefined, in words.
    pub const fn correction(self) -> Result<(f64, f64), &'static str> {
        match self {
            Self::Same => Ok((0.0, 0.0)),
            Self::Bounded { ahead, bound } => Ok((ahead, bound)),
            Self::Moved => Err("the clocks moved against each other while it was measured"),
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
        // By hand: the far clock is 500 ns ahead, 100 ns there, 20 at the reflector, 300 back.
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
        // Or within one: the answer arrives before the packet was sent.
        assert_eq!(ClockOffset::of(&[[1_000, 1_100, 1_100, 900]]), ClockOffset::Moved);
    }

    #[test]
    fn one_address_is_one_clock_only_if_packets_take_time_both_ways() {
        let one = |exchanges: &[[u64; 4]]| ClockOffset::of_one_address(exchanges, 2e-9);
        let [here, rounded] = [[1_000, 1_100, 1_120, 1_200], [2_000, 1_998, 2_020, 2_018]];
        assert_eq!(one(&[here, rounded]), ClockOffset::Same);
        // An hour off, ahead and behind: the round trip bounds what one address does not tell.
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
        /// Whatever the ways there and back take, the true offset is within the bound.
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
