//! Proportional rate reduction (RFC 9937).

/// Reduces the data in flight from its amount at the start of recovery to ssthresh, in proportion to the delivered
/// data.
#[derive(Clone, Debug)]
pub(crate) struct Prr {
    delivered: u64,
    out: u64,
    recover_fs: u64,
}

impl Prr {
    /// Recovery begins. `recover_fs` is RecoverFS of RFC 9937 section 6.1: the data in flight, including the data that
    /// the current acknowledgement delivers.
    pub const fn new(recover_fs: u64) -> Self {
        Self { delivered: 0, out: 0, recover_fs }
    }

    /// Handles an acknowledgement that delivers `delivered`. `safe` is SafeACK of RFC 9937: SND.UNA advanced and no
    /// further loss was detected. Returns the congestion window.
    pub fn on_ack(
        &mut self,
        delivered: u64,
        in_flight: u64,
        ssthresh: u64,
        safe: bool,
        smss: u64,
    ) -> Option<u64> {
        if delivered == 0 {
            return None;
        }
        self.delivered += delivered;
        let mut count = if in_flight > ssthresh {
            // Proportional rate reduction.
            let out = (u128::from(self.delivered) * u128::from(ssthresh))
                .div_ceil(u128::from(self.recover_fs.max(1)));
            (out as u64).saturating_sub(self.out)
        } else {
            // Reduction bound: conservative, plus one segment if the acknowledgement is safe.
            let bound = self.delivered.saturating_sub(self.out).max(delivered);
            let bound = if safe { bound + smss } else { bound };
            bound.min(ssthresh - in_flight)
        };
        // The fast retransmit at the start of recovery is always allowed.
        if self.out == 0 && count == 0 {
            count = smss;
        }
        Some(in_flight + count)
    }

    /// Records that `amount` was sent during recovery.
    pub const fn on_sent(&mut self, amount: u64) {
        self.out += amount;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of 20 segments is lost, and ssthresh is half of them. One segment is sent for every two that are delivered.
    /// In the end, ssthresh is in flight.
    #[test]
    fn it_sends_one_for_every_two_delivered() {
        let mut prr = Prr::new(20);
        let mut in_flight = 19;
        let mut sent = Vec::new();
        for _ in 0..19 {
            in_flight -= 1;
            let cwnd = prr.on_ack(1, in_flight, 10, false, 1).unwrap();
            let count = cwnd - in_flight;
            prr.on_sent(count);
            in_flight += count;
            sent.push(count);
        }
        assert_eq!(sent[..16], [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0]);
        assert_eq!(in_flight, 10);
    }

    /// Below ssthresh, the number of packets in flight is constant, or grows by one with each safe acknowledgement.
    #[test]
    fn below_ssthresh_it_conserves_packets() {
        let mut prr = Prr::new(20);
        assert_eq!(prr.on_ack(1, 4, 10, false, 1), Some(5));
        prr.on_sent(1);
        assert_eq!(prr.on_ack(1, 4, 10, true, 1), Some(6));
        assert_eq!(prr.on_ack(0, 4, 10, true, 1), None);
        assert_eq!(prr.on_ack(3, 9, 10, true, 1), Some(10));
    }
}
