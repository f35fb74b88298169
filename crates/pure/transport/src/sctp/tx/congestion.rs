//! Congestion control of one path (RFC 9260 section 7.2).

use crate::sctp::config::Config;

/// Congestion window and slow-start threshold of one path, bytes.
#[derive(Clone, Debug)]
pub(crate) struct Congestion {
    cwnd: u64,
    ssthresh: u64,
    partial_bytes_acked: u64,
    /// Size of one packet, bytes.
    unit: u64,
    /// Smallest window after a reduction, bytes. It does not apply after a time-out, when the window is one packet.
    floor: u64,
    backoff_keeps_ssthresh: bool,
}

impl Congestion {
    pub(crate) fn new(cwnd: u64, ssthresh: u64, unit: u64, config: &Config) -> Self {
        Self {
            cwnd,
            ssthresh,
            partial_bytes_acked: 0,
            unit,
            floor: u64::from(config.ssthresh_floor) * unit,
            backoff_keeps_ssthresh: config.backoff_keeps_ssthresh,
        }
    }

    pub(crate) const fn cwnd(&self) -> u64 {
        self.cwnd
    }

    pub(crate) const fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    pub(crate) const fn set_ssthresh(&mut self, ssthresh: u64) {
        self.ssthresh = ssthresh;
    }

    /// Handles a SACK that newly acknowledged `bytes` of this path. `flight` is the number of outstanding bytes before
    /// the SACK.
    pub(crate) fn acknowledged(&mut self, bytes: u64, flight: u64, in_fast_recovery: bool) {
        let fully_used = flight >= self.cwnd;
        if self.cwnd <= self.ssthresh {
            // RFC 9260 section 7.2.1: the window grows only if it was fully used, and not in fast recovery. It grows by
            // the acknowledged bytes, but at most by L packets, with L = 1.
            if fully_used && !in_fast_recovery {
                self.cwnd += bytes.min(self.unit);
            }
            return;
        }
        // RFC 9260 section 7.2.2.
        self.partial_bytes_acked += bytes;
        if self.partial_bytes_acked < self.cwnd {
            return;
        }
        if fully_used {
            self.partial_bytes_acked -= self.cwnd;
            self.cwnd += self.unit;
        } else {
            self.partial_bytes_acked = self.cwnd;
        }
    }

    /// RFC 9260 section 7.2.2: "When all of the data transmitted by the sender has been acknowledged by the
    /// receiver, partial_bytes_acked is initialized to 0."
    pub(crate) const fn all_acknowledged(&mut self) {
        self.partial_bytes_acked = 0;
    }

    /// Handles a loss that fast retransmit detected (RFC 9260 section 7.2.3).
    pub(crate) fn lost(&mut self) {
        self.ssthresh = (self.cwnd / 2).max(self.floor);
        self.cwnd = self.ssthresh;
        self.partial_bytes_acked = 0;
    }

    /// Handles the expiration of T3-rtx (RFC 9260 section 7.2.3).
    pub(crate) fn timed_out(&mut self) {
        if !(self.backoff_keeps_ssthresh && self.cwnd <= self.unit) {
            self.ssthresh = (self.cwnd / 2).max(self.floor);
        }
        self.cwnd = self.unit;
        self.partial_bytes_acked = 0;
    }

    /// Handles `rtos` RTOs without new data: halves the window once for each (RFC 9260 section 7.2.1).
    pub(crate) fn idle(&mut self, rtos: u64, threshold_too: bool) {
        if threshold_too {
            // "Before the first cwnd adjustment, the ssthresh of the transport address SHOULD be set to the
            // cwnd."
            self.ssthresh = self.cwnd;
        }
        for _ in 0..rtos {
            let halved = self.halved();
            if halved == self.cwnd {
                break;
            }
            self.cwnd = halved;
        }
    }

    /// Halves a window that is not used, once.
    pub(crate) fn unused(&mut self) {
        self.ssthresh = self.cwnd;
        self.cwnd = self.halved();
    }

    /// Half of the window, at least the floor, but at most the window.
    fn halved(&self) -> u64 {
        (self.cwnd / 2).max(self.floor).min(self.cwnd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: u64 = 1468;

    fn with(cwnd: u64, ssthresh: u64) -> Congestion {
        Congestion::new(cwnd, ssthresh, P, &Config::of(crate::Profile::Rfc))
    }

    #[test]
    fn slow_start_grows_by_what_was_acknowledged_up_to_one_packet() {
        let mut c = with(4404, u64::MAX);
        c.acknowledged(500, 4404, false);
        assert_eq!(c.cwnd(), 4904);
        c.acknowledged(2 * P, 4904, false);
        assert_eq!(c.cwnd(), 4904 + P);
    }

    #[test]
    fn slow_start_needs_a_full_window_and_no_recovery() {
        let mut c = with(4404, u64::MAX);
        c.acknowledged(P, 4403, false);
        c.acknowledged(P, 9999, true);
        assert_eq!(c.cwnd(), 4404);
    }

    #[test]
    fn avoidance_grows_one_packet_per_window() {
        let mut c = with(10 * P, 5 * P);
        for acks in 1..=9 {
            c.acknowledged(P, 10 * P, false);
            assert_eq!(c.cwnd(), 10 * P, "after {acks} packets");
        }
        c.acknowledged(P, 10 * P, false);
        assert_eq!(c.cwnd(), 11 * P);
    }

    #[test]
    fn avoidance_with_a_window_half_used_saves_at_most_one_packet() {
        let mut c = with(10 * P, 5 * P);
        for _ in 0..100 {
            c.acknowledged(P, 3 * P, false);
        }
        assert_eq!(c.cwnd(), 10 * P);
        c.acknowledged(P, 10 * P, false);
        assert_eq!(c.cwnd(), 11 * P);
        c.acknowledged(P, 11 * P, false);
        assert_eq!(c.cwnd(), 11 * P);
    }

    #[test]
    fn losses_halve_and_time_outs_start_over() {
        let mut c = with(20 * P, 40 * P);
        c.lost();
        assert_eq!((c.cwnd(), c.ssthresh()), (10 * P, 10 * P));
        c.timed_out();
        assert_eq!((c.cwnd(), c.ssthresh()), (P, 5 * P));
        // The floor is four packets.
        c.timed_out();
        assert_eq!((c.cwnd(), c.ssthresh()), (P, 4 * P));
    }

    #[test]
    fn ns2_leaves_the_threshold_alone_when_it_backs_off() {
        let mut c = Congestion::new(45 * P, 65_536, P, &Config::of(crate::Profile::Ns2));
        for _ in 0..5 {
            c.timed_out();
            assert_eq!((c.cwnd(), c.ssthresh()), (P, 33_030));
        }
    }

    #[test]
    fn an_idle_window_decays_to_four_packets() {
        let mut c = with(40 * P, u64::MAX);
        c.idle(2, true);
        assert_eq!((c.cwnd(), c.ssthresh()), (10 * P, 40 * P));
        c.idle(1_000_000, false);
        assert_eq!(c.cwnd(), 4 * P);
        // A window of two packets is not increased to four.
        let mut small = with(2 * P, u64::MAX);
        small.idle(5, true);
        assert_eq!(small.cwnd(), 2 * P);
    }
}
