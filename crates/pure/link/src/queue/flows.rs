//! The assignment of flows to a fixed number of queues.

use std::net::IpAddr;

use netrig_core::FiveTuple;

use super::context::QueueContext;

/// A hash of the five-tuple with a random salt. So collisions of flows differ between runs and do not depend on the
/// addresses alone (RFC 8290 section 4.1.1 asks for a random perturbation).
#[derive(Clone, Debug)]
pub(super) struct FlowHash {
    salt: u64,
    queues: u64,
}

impl FlowHash {
    /// A hash into this number of queues. Its salt is the first number of the stream `link/<line>/flows`.
    pub(super) fn new(queues: u32, context: &QueueContext<'_>) -> Self {
        Self { salt: context.stream("flows").bits(), queues: queues.into() }
    }

    /// The queue of a flow.
    #[inline]
    pub(super) fn queue_of(&self, flow: &FiveTuple) -> usize {
        let mut state = self.salt;
        for address in [flow.src, flow.dst] {
            let bits = match address {
                IpAddr::V4(address) => u128::from(address.to_bits()),
                IpAddr::V6(address) => address.to_bits(),
            };
            state = mixed(state ^ bits as u64);
            state = mixed(state ^ (bits >> 64) as u64);
        }
        let ports = u64::from(flow.src_port) << 32 | u64::from(flow.dst_port) << 8;
        state = mixed(state ^ ports ^ u64::from(flow.protocol));
        // The upper half of the product is uniform over the queues and needs no division.
        ((u128::from(state) * u128::from(self.queues)) >> 64) as usize
    }
}

/// The queues of flows. Only queues that are used take memory.
#[derive(Clone, Debug)]
pub(super) struct FlowTable {
    hash: FlowHash,
    queues: usize,
    /// By group and hash: the number of the queue plus one, or zero if no flow has used it.
    seats: Vec<u16>,
    taken: u16,
}

impl FlowTable {
    /// A table for several groups of flows, each spread over `queues` queues. At most 65,535 queues in total.
    pub(super) fn new(groups: usize, queues: u32, context: &QueueContext<'_>) -> Self {
        let hash = FlowHash::new(queues, context);
        let queues = queues as usize;
        Self { hash, queues, seats: vec![0; groups * queues], taken: 0 }
    }

    /// The number of the queue of a flow, and whether the queue is new. Queues are numbered in the order of their first
    /// use.
    #[inline]
    pub(super) fn queue_of(&mut self, group: usize, flow: &FiveTuple) -> (u16, bool) {
        let seat = &mut self.seats[group * self.queues + self.hash.queue_of(flow)];
        let is_new = *seat == 0;
        if is_new {
            self.taken += 1;
            *seat = self.taken;
        }
        (*seat - 1, is_new)
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014): each bit of the result depends on all bits of `x`.
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use netrig_core::{Rate, Seeds};

    use super::*;
    use crate::Framing;

    fn flow(n: u16) -> FiveTuple {
        FiveTuple {
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            src_port: 40_000 + n,
            dst_port: 80,
            protocol: 6,
        }
    }

    /// χ² for 6400 flows that differ in one port, over 64 queues: 63 degrees of freedom, 99.9 % quantile 103.4.
    #[test]
    fn conversations_spread_evenly() {
        for seed in 1..=3 {
            let seeds = Seeds::new(seed);
            let context = QueueContext::new(&seeds, "line", Rate::from_bits_per_s(1), Framing::None);
            let hash = FlowHash::new(64, &context);
            let mut found = [0f64; 64];
            (0..6400).for_each(|n| found[hash.queue_of(&flow(n))] += 1.0);
            let chi2: f64 = found.iter().map(|n| (n - 100.0) * (n - 100.0) / 100.0).sum();
            assert!(chi2 < 103.4, "{chi2}");
        }
    }

    #[test]
    fn another_run_has_other_neighbours() {
        let queues = |seed| {
            let seeds = Seeds::new(seed);
            let hash = FlowHash::new(
                1024,
                &QueueContext::new(&seeds, "line", Rate::from_bits_per_s(1), Framing::None),
            );
            (0..10).map(|n| hash.queue_of(&flow(n))).collect::<Vec<_>>()
        };
        assert_eq!(queues(1), queues(1));
        assert_ne!(queues(1), queues(2));
    }
}
