//! The contract of a congestion control: the window that it changes, and its inputs.

use netrig_core::{Duration, Instant};

use crate::tcp::config::{Avoidance, Config, WindowCounts};

/// Congestion window and slow-start threshold, in bytes (of full segments, if the window counts packets).
#[derive(Clone, Debug)]
pub(crate) struct CongestionWindow {
    pub cwnd: u64,
    pub ssthresh: u64,
    /// Sender maximum segment size.
    smss: u64,
    /// Whether the window counts packets. Then slow start after a time-out ends at a whole number of them.
    packets: bool,
    avoidance: Avoidance,
    pub(super) slow_start_limit: u64,
    /// Acknowledged in congestion avoidance and not yet used for growth.
    pub(super) credit: u64,
}

impl CongestionWindow {
    pub fn new(config: &Config, smss: u64) -> Self {
        let cap = config.send_window.of(smss);
        Self {
            cwnd: u64::from(config.initial_window.max(1)) * smss,
            ssthresh: config.initial_ssthresh.of(smss).min(cap),
            smss,
            packets: config.window_counts == WindowCounts::Packets,
            avoidance: config.avoidance,
            slow_start_limit: config.slow_start_limit.of(smss),
            credit: 0,
        }
    }

    pub fn smss(&self) -> u64 {
        self.smss
    }

    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// RFC 5681 equation 2: cwnd grows by `acked`, up to `limit` and ssthresh. Returns the part beyond ssthresh.
    pub(super) fn slow_start(&mut self, acked: u64, limit: u64) -> u64 {
        let counted = acked.min(limit);
        let growth = counted.min(self.ssthresh - self.cwnd);
        self.cwnd += growth;
        counted - growth
    }

    /// Adds a segment per round trip.
    pub(super) fn avoid(&mut self, acked: u64) {
        match self.avoidance {
            // RFC 5681 section 3.1: a segment for every window of acknowledged bytes.
            Avoidance::ByteCounting => {
                self.credit += acked;
                if self.credit >= self.cwnd {
                    self.credit -= self.cwnd;
                    self.cwnd += self.smss;
                }
            }
            // RFC 5681 equation 3; the remainder of the division is kept.
            Avoidance::PerAck => {
                self.credit += self.smss * self.smss;
                let growth = self.credit / self.cwnd;
                self.credit -= growth * self.cwnd;
                self.cwnd += growth;
            }
        }
    }

    /// Congestion avoidance in whole packets: a packet for every `price` acknowledged packets (`tcp_cong_avoid_ai`,
    /// net/ipv4/tcp_cong.c).
    pub(super) fn buy(&mut self, price: u64, packets: u64) {
        let price = price * self.smss;
        // Credit saved at a higher price adds one packet, not several at the new price.
        if self.credit >= price {
            self.credit = 0;
            self.cwnd += self.smss;
        }
        self.credit += packets * self.smss;
        let bought = self.credit / price;
        self.credit -= bought * price;
        self.cwnd += bought * self.smss;
    }

    /// ssthresh of `bytes`, at least two segments (RFC 5681 equation 4). If the window counts packets and grows by
    /// whole ones, it is rounded down to whole packets; if the window grows by 1/cwnd, it is not.
    pub(super) fn threshold(&self, bytes: u64) -> u64 {
        let bytes = if self.avoidance == Avoidance::ByteCounting { self.whole(bytes) } else { bytes };
        bytes.max(2 * self.smss)
    }

    /// `bytes` rounded down to whole packets, if the window counts packets.
    pub fn whole(&self, bytes: u64) -> u64 {
        if self.packets { bytes / self.smss * self.smss } else { bytes }
    }

    /// Sets the window after a congestion signal.
    pub fn reduce(&mut self, ssthresh: u64, cwnd: u64) {
        self.ssthresh = ssthresh;
        self.cwnd = cwnd.max(self.smss);
        self.credit = 0;
    }
}

/// An acknowledgement as a congestion control sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub now: Instant,
    /// Newly acknowledged, in the window's unit.
    pub amount: u64,
    /// Round-trip time of this acknowledgement, if known.
    pub rtt: Option<Duration>,
    pub srtt: Duration,
    /// Offset of the oldest outstanding byte.
    pub una: u64,
    /// Offset of the next new byte.
    pub nxt: u64,
}

/// A congestion control algorithm.
pub(crate) trait CongestionControl {
    /// New data is acknowledged outside fast recovery, and the window may grow.
    fn on_ack(&mut self, window: &mut CongestionWindow, acked: &Acked);

    /// Returns the new ssthresh after a congestion signal (loss, time-out or ECN), if `base` was in use.
    fn on_congestion(&mut self, window: &CongestionWindow, base: u64) -> u64;

    /// The retransmission timer expired. At the first expiration in a row `on_congestion` is called before.
    fn on_timeout(&mut self) {}

    /// Data is acknowledged, but the window does not grow, because the sender does not fill it.
    fn on_unused(&mut self, now: Instant) {
        let _ = now;
    }

    /// Data is sent while nothing is in flight. The previous data was sent at `last_sent`.
    fn on_resume(&mut self, now: Instant, last_sent: Instant) {
        let _ = (now, last_sent);
    }

    /// The last congestion signal was spurious. The window is already restored.
    fn on_undo(&mut self) {}

    /// Whether duplicate acknowledgements start fast recovery. If not, the loss is treated like a time-out: a window of
    /// one segment, and all outstanding data is retransmitted.
    fn recovers(&self) -> bool {
        true
    }
}
