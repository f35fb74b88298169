//! The quality of expedited forwarding at a node: the error terms of its packet scale rate guarantee (RFC 3246).

use netrig_core::{Duration, Instant, Rate};

/// A packet of expedited forwarding that has passed a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedPacket {
    /// Arrival of its last bit.
    pub arrived: Instant,
    /// Departure of its last bit.
    pub departed: Instant,
    /// Its length in bytes, at the layer of the node's configured rate.
    pub bytes: u64,
}

/// The largest delays of departures after their target times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorTerms {
    /// E_a, the error term of the aggregate: the j-th departure is compared with the j-th arrival, even if these are
    /// different packets (RFC 3246 section 2.2, equations 1 and 2).
    pub aggregate: Duration,
    /// E_p, the error term of single packets: each departure is compared with the packet's own arrival (RFC 3246
    /// section 2.2, equations 3 and 4). Equal to `aggregate` if no packet overtakes another.
    pub packet: Duration,
}

/// The smallest error terms with which a node of the configured rate R forwarded these packets. They must be the whole
/// aggregate, in any order. If two packets arrive, or leave, at the same moment, the packet that is first in the slice
/// counts as the first.
///
/// A packet should leave by F_j = max(A_j, min(D_{j−1}, F_{j−1})) + L_j/R. If the node sent the previous packet early,
/// F_j does not get later. If it sent it late, it must catch up. F_0 and D_0 are the start of the run.
pub fn error_terms(packets: &[ForwardedPacket], rate: Rate) -> ErrorTerms {
    let mut by_arrival = packets.to_vec();
    by_arrival.sort_by_key(|packet| packet.arrived);
    let mut by_departure = packets.to_vec();
    by_departure.sort_by_key(|packet| packet.departed);
    let pairs = by_arrival.iter().zip(&by_departure);
    let of_aggregate = pairs.map(|(first, last)| ForwardedPacket { arrived: first.arrived, ..*last });
    ErrorTerms { aggregate: lateness(of_aggregate, rate), packet: lateness(by_arrival.into_iter(), rate) }
}

/// The largest delay of a departure after its target time F_j.
fn lateness(packets: impl Iterator<Item = ForwardedPacket>, rate: Rate) -> Duration {
    let (mut departed, mut target) = (Instant::ZERO, Instant::ZERO);
    let late = |ForwardedPacket { arrived, departed: now, bytes }: ForwardedPacket| {
        target = arrived.max(departed.min(target)) + rate.time_for(bytes);
        departed = now;
        now.since(target)
    };
    packets.map(late).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 Mbit/s: 1000 B take 1 ms.
    const RATE: Rate = Rate::from_bits_per_s(8_000_000);

    fn at_us(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    fn packet((arrived, departed): (u64, u64)) -> ForwardedPacket {
        ForwardedPacket { arrived: at_us(arrived), departed: at_us(departed), bytes: 1000 }
    }

    /// E_a and E_p, in microseconds, of packets of 1000 B with these arrival and departure times.
    fn terms(packets: &[(u64, u64)]) -> (u64, u64) {
        let packets: Vec<ForwardedPacket> = packets.iter().copied().map(packet).collect();
        let ErrorTerms { aggregate, packet } = error_terms(&packets, RATE);
        (aggregate.as_nanos() / 1000, packet.as_nanos() / 1000)
    }

    #[test]
    fn a_server_of_its_own_is_never_late() {
        assert_eq!(terms(&[]), (0, 0));
        assert_eq!(terms(&[(0, 1000), (0, 2000), (500, 3000), (9000, 10_000)]), (0, 0));
    }

    /// A packet of 1500 B of another class has just started: the error is 1.5 ms, and it does not grow for the
    /// following packets.
    #[test]
    fn a_packet_on_the_line_is_waited_for() {
        assert_eq!(terms(&[(0, 2500), (0, 3500), (0, 4500), (20_000, 21_000)]), (1500, 1500));
    }

    /// The node sends at half of R, so the n-th of n simultaneous packets is n packet times late: the error has no
    /// bound.
    #[test]
    fn a_node_that_is_too_slow_falls_behind() {
        assert_eq!(terms(&[(0, 2000), (0, 4000), (0, 6000), (0, 8000)]), (4000, 4000));
    }

    /// Five packets leave at twice the rate, then none for 3 ms. The sixth packet is due 1 ms after the fifth, at 3.5
    /// ms, and leaves at 5.5 ms. A meter that only compares the mean rate would accept this.
    #[test]
    fn having_been_early_is_no_credit() {
        let early = [(0, 500), (0, 1000), (0, 1500), (0, 2000), (0, 2500), (0, 5500)];
        assert_eq!(terms(&early), (2000, 2000));
    }

    /// A late departure counts once, even if it delays several packets: F continues from its last value.
    #[test]
    fn a_late_node_catches_up_without_a_further_error() {
        assert_eq!(terms(&[(0, 3000), (0, 3500), (0, 4000), (0, 4500)]), (2000, 2000));
    }

    /// The second packet overtakes the first: the aggregate is on time, and the first packet is late.
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
