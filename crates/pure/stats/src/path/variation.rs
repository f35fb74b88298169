//! Delay variation of a stream's packets.
//!
//! The clock offset cancels in differences, so delay variation is defined even if one-way delay is not.

use super::Delays;
use crate::error::StatsError;

/// Delay variation of a stream in its two forms (RFC 5481 section 4).
#[derive(Debug, Clone, PartialEq)]
pub struct Variation {
    /// Inter-packet delay variation, s, in the order of sending: the delay of each packet minus the delay of the
    /// previous packet, if both arrived. The selection function of RFC 3393 section 2.6 selects consecutive packets of
    /// the stream.
    inter_packet: Vec<f64>,
    /// Packet delay variation, s: the delay of each packet minus the smallest delay of the stream.
    packet: Delays,
}

impl Variation {
    /// The variation of packets in the order of sending. A singleton is the delay in seconds, with any offset between the
    /// clocks, or `None` for a lost packet.
    ///
    /// # Errors
    /// A delay that is not a finite number.
    pub fn new(singletons: &[Option<f64>]) -> Result<Self, StatsError> {
        let least = Delays::new(singletons.iter().copied())?.minimum();
        let packet = singletons.iter().map(|delay| Some((*delay)? - least?));
        let pairs = singletons.windows(2).map(|pair| Some(pair[1]? - pair[0]?));
        let inter_packet: Vec<f64> = pairs.flatten().collect();
        Ok(Self { packet: Delays::new(packet)?, inter_packet })
    }

    /// Inter-packet delay variation (IPDV): the differences between the delays of consecutive packets, seconds. Pairs
    /// with a lost packet are undefined and are omitted (RFC 3393 section 2.4).
    #[must_use]
    pub fn inter_packet(&self) -> &[f64] {
        &self.inter_packet
    }

    /// Packet delay variation (PDV) relative to the smallest delay of the stream (RFC 5481 section 4.2), seconds. A
    /// quantile of it is the size of the buffer that removes the variation for this share of the packets.
    #[must_use]
    pub const fn packet(&self) -> &Delays {
        &self.packet
    }

    /// The mean magnitude of the inter-packet delay variation, seconds (RFC 3393 section 4.4).
    #[must_use]
    pub fn jitter(&self) -> Option<f64> {
        let n = self.inter_packet.len();
        (n > 0).then(|| self.inter_packet.iter().map(|difference| difference.abs()).sum::<f64>() / n as f64)
    }

    /// The largest inter-packet delay variation minus the smallest, seconds (RFC 3393 section 4.5).
    #[must_use]
    pub fn peak_to_peak(&self) -> Option<f64> {
        let largest = self.inter_packet.iter().copied().reduce(f64::max)?;
        let smallest = self.inter_packet.iter().copied().reduce(f64::min)?;
        Some(largest - smallest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pairs_without_a_lost_packet_count() {
        // By hand: 10, 14, lost, 11, 9 → +4 and -2. Two pairs contain the lost packet.
        let variation = Variation::new(&[Some(10.0), Some(14.0), None, Some(11.0), Some(9.0)]).unwrap();
        assert_eq!(variation.inter_packet(), [4.0, -2.0]);
        assert_eq!((variation.jitter(), variation.peak_to_peak()), (Some(3.0), Some(6.0)));
        assert_eq!(variation.packet().arrived(), [0.0, 1.0, 2.0, 5.0]);
        assert_eq!(variation.packet().lost(), 1);
    }

    #[test]
    fn one_packet_or_none_has_no_variation() {
        for singletons in [&[][..], &[Some(1.0)], &[None, None]] {
            let variation = Variation::new(singletons).unwrap();
            assert_eq!((variation.jitter(), variation.peak_to_peak()), (None, None));
        }
    }

    proptest! {
        /// RFC 3393 section 1.1: the clock offset cancels. Integers make this exact.
        #[test]
        fn the_clocks_offset_changes_nothing(
            delays in proptest::collection::vec(proptest::option::of(0u32..1000), 0..50),
            offset in -100_000i32..100_000,
        ) {
            let at = |offset: i32| {
                let singletons: Vec<_> =
                    delays.iter().map(|delay| delay.map(|delay| f64::from(delay) + f64::from(offset))).collect();
                Variation::new(&singletons).unwrap()
            };
            prop_assert_eq!(at(0), at(offset));
        }
    }
}
