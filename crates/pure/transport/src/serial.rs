//! Sequence numbers that wrap (RFC 1982).

/// A 32-bit sequence number: a TCP sequence number (RFC 9293 section 3.4) or an SCTP TSN (RFC 9260
/// section 1.6).
///
/// It does not implement `Ord`: the order of wrapping numbers is not transitive, so some inputs could not be sorted or
/// used as keys of an ordered map. Compare with [`Serial::before`], or convert to an offset from a known number with
/// [`Serial::offset_from`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Serial(pub u32);

impl Serial {
    /// Whether this number precedes `other`, by the shorter distance around the number circle.
    pub const fn before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Whether this number is `other` or precedes it.
    pub const fn at_or_before(self, other: Self) -> bool {
        !other.before(self)
    }

    /// This number plus `n`, with wrap-around.
    #[must_use]
    pub const fn plus(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }

    /// The distance from `base` to this number, −2³¹ to 2³¹ − 1; negative if this number precedes `base`.
    pub const fn offset_from(self, base: Self) -> i32 {
        self.0.wrapping_sub(base.0) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_goes_the_shorter_way_round() {
        let (last, first) = (Serial(u32::MAX), Serial(0));
        assert!(last.before(first) && !first.before(last));
        assert!(first.at_or_before(first) && !first.before(first));
        assert_eq!(first.offset_from(last), 1);
        assert_eq!(last.plus(3), Serial(2));
    }
}
