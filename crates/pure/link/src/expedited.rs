//! How well a node gives expedited forwarding: the error terms of its packet scale rate guarantee (RFC 3246).

use netrig_core::{Duration, Instant, Rate};

/// A packet of expedited forwarding on its way through a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// When its last bit arrived.
    pub arrived: Instant,
    /// When its last bit left.
    pub departed: Instant,
    /// Its length, at the layer at which the node's rate is configured, bytes.
    pub bytes: u64,
}

/// How much later than they should packets left at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorTerms {
    /// E_a, of the aggregate: the j-th to leave is held to the j-th to arrive, whichever packets these are (RFC 3246
    /// section 2.2, equations 1 and 2).
    pub aggregate: Duration,
    /// E_p, of packets: each is held to its own arrival (RFC 3246 section 2.2, equations 3 and 4). The same as long as none
    /// overtakes another.
    pub packet: Duration,
}

/// The smallest error terms with which a node that is configured for the rate R gave expedited forwarding to these packets,
/// which are all of the aggregate. They may be given in any order; of those that arrive, or leave, at the same moment the
/// first given counts as the first.
///
/// A packet should leave by F_j = max(A_j, min(D_{j−1}, F_{j−1})) + L_j/R: a node that was early owes the next packet no
/// less for it, and one that was late must make up for it. F_0 and D_0 are the start.
pub fn error_terms(passages: &[Passage], rate: Rate) -> ErrorTerms {
    let mut by_arrival = passages.to_vec();
    by_arrival.sort_by_key(|passage| passage.arrived);
    let mut by_departure = passages.to_vec();
    by_departure.sort_by_key(|passage| passage.departed);
    let pairs = by_arrival.iter().zip(&by_departure);
    let of_aggregate = pairs.map(|(first, last)| Passage { arrived: first.arrived, ..*last });
    ErrorTerms { aggregate: lateness(of_aggregate, rate), packet: lateness(by_arrival.into_iter(), rate) }
}

/// The most by which one of these departures is later than its target.
fn lateness(passages: impl Iterator<Item = Passage>, rate: Rate) -> Duration {
    let (mut departed, mut target) = (Instant::ZERO, Instant::ZERO);
    let late = |Passage { arrived, departed: now, bytes }: Passage| {
        target = arrived.max(departed.min(target)) + rate.time_for(bytes);
        departed = now;
        now.since(target)
    };
    passages.map(late).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 Mbit/s: 1000 B take a millisecond.
    const RATE: Rate = Rate::from_bits_per_s(8_000_000);

    fn at_us(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    fn passage((arrived, departed): (u64, u64)) -> Passage {
        Passage { arrived: at_us(arrived), departed: at_us(departed), bytes: 1000 }
    }

    /// E_a and E_p in microseconds of packets of 1000 B by arrival and departure.
    fn terms(passages: &[(u64, u64)]) -> (u64, u64) {
        let passages: Vec<Passage> = passages.iter().copied().map(passage).collect();
        let ErrorTerms { aggregate, packet } = error_terms(&passages, RATE);
        (aggregate.as_nanos() / 1000, packet.as_nanos() / 1000)
    }

    #[test]
    fn a_server_of_its_own_is_never_late() {
        assert_eq!(terms(&[]), (0, 0));
        assert_eq!(terms(&[(0, 1000), (0, 2000), (500, 3000), (9000, 10_000)]), (0, 0));
    }

    /// 1500 B of something else had just begun: 1.5 ms, and no more for those behind it.
    #[test]
    fn a_packet_on_the_line_is_waited_for() {
        assert_eq!(terms(&[(0, 2500), (0, 3500), (0, 4500), (20_000, 21_000)]), (1500, 1500));
    }

    /// At half of R the n-th of packets that arrive together is n times their time late: no bound.
    #[test]
    fn a_node_that_is_too_slow_falls_behind() {
        assert_eq!(terms(&[(0, 2000), (0, 4000), (0, 6000), (0, 8000)]), (4000, 4000));
    }

    /// Five packets leave at twice the rate; then nothing for 3 ms. The sixth was due 1 ms behind the fifth, at 3.5 ms, and
    /// leaves at 5.5 ms. A clock that only counts the rate would have found it in time.
    #[test]
    fn having_been_early_is_no_credit() {
        let early = [(0, 500), (0, 1000), (0, 1500), (0, 2000), (0, 2500), (0, 5500)];
        assert_eq!(terms(&early), (2000, 2000));
    }

    /// Being late is one error, however many packets it holds up: F goes on from where it was.
    #[test]
    fn a_late_node_catches_up_without_a_further_error() {
        assert_eq!(terms(&[(0, 3000), (0, 3500), (0, 4000), (0, 4500)]), (2000, 2000));
    }

    /// The second overtakes the first, within the aggregate: as a whole it had what it should, the first packet had not.
    #[test]
    fn only_the_packets_own_term_sees_an_order_that_changed() {
        assert_eq!(terms(&[(0, 2000), (0, 1000)]), (0, 1000));
    }

    #[test]
    fn the_order_in_which_they_are_given_does_not_matter() {
        let there = [(0, 2500), (100, 3500), (200, 4500), (20_000, 21_000)];
        let back: Vec<_> = there.iter().rev().copied().collect();
        assert_eq!(terms(&there), terms(&back));
    }
}
