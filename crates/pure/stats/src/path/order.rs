//! Reordered packets (RFC 4737) and duplicated packets (RFC 5560).

use std::collections::{BTreeMap, BTreeSet};

/// Reordering of a stream's packets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reordering {
    arrived: usize,
    reordered: Vec<Reordered>,
    runs: Vec<u64>,
}

/// A packet that arrived after a packet that was sent later (RFC 4737 section 3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reordered {
    /// The packet's number in the order of sending.
    pub number: u64,
    /// The reordering extent: the distance, in arrivals, from the first packet that arrived with a larger number (RFC
    /// 4737 section 4.2).
    pub extent: u64,
    /// n-reordering: the number of packets that arrived immediately before this packet and were all sent later (RFC
    /// 4737 section 5.2). A sender with a threshold of three duplicate acknowledgements assumes that a packet is lost
    /// if its `n` is at least 3.
    pub n: u64,
}

impl Reordering {
    /// `numbers` has the packets' numbers in the order of arrival. Packets are numbered in the order of sending. Only
    /// the first copy of each packet counts (RFC 4737 section 3.2).
    #[must_use]
    pub fn new(numbers: impl IntoIterator<Item = u64>) -> Self {
        // Each arrival whose number is the largest up to then, and its index among the arrivals.
        let mut largest: Vec<(u64, u64)> = Vec::new();
        // Each arrival whose number is smaller than all later ones, and its index.
        let mut smallest: Vec<(u64, u64)> = Vec::new();
        let (mut found, mut run, mut place) = (Self::default(), 0, 0);
        let mut seen = BTreeSet::new();
        for number in numbers {
            if !seen.insert(number) {
                continue;
            }
            while smallest.last().is_some_and(|(before, _)| *before > number) {
                smallest.pop();
            }
            // RFC 4737 section 3.3: a packet is in order if its number is at least the next expected number.
            if largest.last().is_none_or(|(most, _)| *most < number) {
                largest.push((number, place));
                run += 1;
            } else {
                let earliest = largest.partition_point(|(before, _)| *before < number);
                let extent = place - largest[earliest].1;
                let n = smallest.last().map_or(place, |(_, below)| place - below - 1);
                found.reordered.push(Reordered { number, extent, n });
                // RFC 4737 section 4.5: a run of packets in order ends with a reordered packet.
                found.runs.push(run);
                run = 0;
            }
            smallest.push((number, place));
            place += 1;
        }
        found.arrived = seen.len();
        found
    }

    /// Number of packets that arrived, without copies.
    #[must_use]
    pub const fn arrived(&self) -> usize {
        self.arrived
    }

    /// The packets that were reordered, in the order of arrival.
    #[must_use]
    pub fn reordered(&self) -> &[Reordered] {
        &self.reordered
    }

    /// The share of packets that were reordered (Type-P-Reordered-Ratio-Stream, RFC 4737 section 4.1); undefined if no
    /// packet arrived.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (self.arrived > 0).then(|| self.reordered.len() as f64 / self.arrived as f64)
    }

    /// The largest extent; undefined if no packet was reordered.
    #[must_use]
    pub fn largest_extent(&self) -> Option<u64> {
        self.reordered.iter().map(|packet| packet.extent).max()
    }

    /// The share of packets that were n-reordered: a sender with a threshold of `n` duplicate acknowledgements assumes
    /// that these packets are lost (RFC 4737 section 5.3). Undefined if no packet arrived.
    #[must_use]
    pub fn n_reordered_ratio(&self, n: u64) -> Option<f64> {
        let count = self.reordered.iter().filter(|packet| packet.n >= n).count();
        (self.arrived > 0).then(|| count as f64 / self.arrived as f64)
    }

    /// Reordering-free runs: the number of packets in order before each reordered packet (RFC 4737 section 4.5).
    #[must_use]
    pub fn runs(&self) -> &[u64] {
        &self.runs
    }
}

/// Duplication of a stream's packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Duplication {
    unique: u64,
    copies: u64,
    /// Number of packets that arrived more than once.
    replicated: u64,
}

impl Duplication {
    /// `numbers` has the numbers of all packets that arrived, including copies.
    #[must_use]
    pub fn new(numbers: impl IntoIterator<Item = u64>) -> Self {
        let mut counts = BTreeMap::<u64, u64>::new();
        for number in numbers {
            *counts.entry(number).or_default() += 1;
        }
        Self {
            unique: counts.len() as u64,
            copies: counts.values().sum::<u64>() - counts.len() as u64,
            replicated: counts.values().filter(|count| **count > 1).count() as u64,
        }
    }

    /// Number of copies, without the first arrival of each packet.
    #[must_use]
    pub const fn copies(&self) -> u64 {
        self.copies
    }

    /// Copies per packet that was not lost (Type-P-one-way-packet-duplication-fraction, RFC 5560 section 5.1);
    /// undefined if no packet arrived.
    #[must_use]
    pub fn fraction(&self) -> Option<f64> {
        (self.unique > 0).then(|| self.copies as f64 / self.unique as f64)
    }

    /// The share of packets that arrived more than once among all packets that arrived
    /// (Type-P-one-way-replicated-packet-rate, RFC 5560 section 5.2); undefined if none arrived.
    #[must_use]
    pub fn replicated_rate(&self) -> Option<f64> {
        (self.unique > 0).then(|| self.replicated as f64 / self.unique as f64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Number, extent and n of each reordered packet.
    fn of(numbers: &[u64]) -> Vec<(u64, u64, u64)> {
        let found = Reordering::new(numbers.iter().copied());
        found.reordered().iter().map(|packet| (packet.number, packet.extent, packet.n)).collect()
    }

    #[test]
    fn one_late_packet() {
        // RFC 4737 section 8.1: packet 4 arrives after packet 8. Its extent is 4, and it is 4-reordered.
        assert_eq!(of(&[1, 2, 3, 5, 6, 7, 8, 4, 9, 10]), [(4, 4, 4)]);
    }

    #[test]
    fn an_early_packet_makes_its_followers_reordered() {
        // RFC 4737 section 8.2: packet 7 overtakes packets 5 and 6. Their extents are 1 and 2. Packet 5 is 1-reordered,
        // and 6 follows 5 directly.
        assert_eq!(of(&[1, 2, 3, 4, 7, 5, 6, 8, 9, 10]), [(5, 1, 1), (6, 2, 0)]);
    }

    #[test]
    fn a_block_that_was_overtaken() {
        // RFC 4737 section 8.3: packets 7 to 10 overtake 4, 5 and 6. The extents are 4, 5, 6. Only packet 4 is
        // n-reordered.
        assert_eq!(of(&[1, 2, 3, 7, 8, 9, 10, 4, 5, 6, 11]), [(4, 4, 4), (5, 5, 0), (6, 6, 0)]);
    }

    #[test]
    fn ratios_and_runs_by_hand() {
        let found = Reordering::new([1, 2, 4, 3, 5, 6, 8, 7, 9]);
        assert_eq!(found.ratio(), Some(2.0 / 9.0));
        assert_eq!(found.runs(), [3, 3]);
        assert_eq!(found.n_reordered_ratio(1), Some(2.0 / 9.0));
        assert_eq!(found.n_reordered_ratio(2), Some(0.0));
        assert_eq!(Reordering::new([]).ratio(), None);
    }

    #[test]
    fn copies_do_not_count_as_reordered() {
        assert_eq!(of(&[1, 2, 3, 2, 1, 4]), []);
    }

    #[test]
    fn duplication_by_hand() {
        // Four packets arrive, one of them three times: six arrivals.
        let found = Duplication::new([0, 1, 1, 2, 1, 3]);
        assert_eq!(found.copies(), 2);
        assert_eq!((found.fraction(), found.replicated_rate()), (Some(0.5), Some(0.25)));
        assert_eq!(Duplication::new([]).fraction(), None);
    }

    proptest! {
        /// A literal, slow implementation of the definitions for comparison.
        #[test]
        fn extents_are_as_defined(numbers in proptest::sample::subsequence((0u64..40).collect::<Vec<_>>(), 0..40).prop_shuffle()) {
            let mut expected = Vec::new();
            for (i, number) in numbers.iter().enumerate() {
                if let Some(j) = numbers[..i].iter().position(|before| before > number) {
                    let n = (1..=i).take_while(|back| numbers[i - back] > *number).count();
                    expected.push((*number, (i - j) as u64, n as u64));
                }
            }
            prop_assert_eq!(of(&numbers), expected);
        }
    }
}
