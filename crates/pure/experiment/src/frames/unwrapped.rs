//! Serial numbers without wrap.

use netrig_transport::Serial;

/// Converts serial numbers of 32 bits (RFC 1982) to distances from a base, which do not wrap. Of the possible
/// distances, the one nearest to the highest so far is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unwrapped {
    pub base: Serial,
    /// The highest distance so far.
    pub highest: i64,
}

impl Unwrapped {
    /// Starts at `base`, with the highest distance 0.
    pub fn new(base: u32) -> Self {
        Self { base: Serial(base), highest: 0 }
    }

    /// The distance of a number from the base; negative for a number before it.
    pub fn distance(&self, number: u32) -> i64 {
        let highest = self.base.plus(self.highest as u32);
        self.highest + i64::from(Serial(number).offset_from(highest))
    }

    /// Raises the highest distance, if this one is greater.
    pub fn reach(&mut self, distance: i64) {
        self.highest = self.highest.max(distance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_go_on_where_numbers_begin_again() {
        let mut numbers = Unwrapped::new(u32::MAX - 1);
        assert_eq!(numbers.distance(1), 3);
        assert_eq!(numbers.distance(u32::MAX - 3), -2);
        for step in 1..=12_i64 {
            let far = step << 30;
            assert_eq!(numbers.distance((u32::MAX - 1).wrapping_add(far as u32)), far);
            numbers.reach(far);
        }
        numbers.reach(5);
        assert_eq!(numbers.highest, 12 << 30);
    }
}
