//! The contract of a congestion control: the window that it changes, and its inputs.

use netrig_core::{Duration, Instant};

use crate::tcp::config::{Avoidance, Config, WindowCounts};

/// Congestion window and slow-start threshold. The unit is bytes; if the window counts packets, every packet counts as
/// a full segment.
#[derive(Clone, Debug)]
pub(crate) struct CongestionWindow {
    pub cwnd: u64,
    pub ssthresh: u64,
    /// Sender maximum segment size.
    smss: u64,
    /// Whether the window counts packets. If so, ssthresh is a whole number of packets, except as
    /// [`CongestionWindow::threshold`] says.
    packets: bool,
    avoidance: Avoidance,
    pub(super) slow_start_limit: u64,
    /// Acknowledged data in congestion avoidance that has not yet been used for growth, bytes.
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

    /// RFC 5681 equation 2: cwnd grows by `acked`, but by at most `limit`, and to at most ssthresh. Returns the growth that
    /// ssthresh did not allow.
    pub(super) fn slow_start(&mut self, acked: u64, limit: u64) -> u64 {
        let counted = acked.min(limit);
        let growth = counted.min(self.ssthresh - self.cwnd);
        self.cwnd += growth;
        counted - growth
    }

    /// Congestion avoidance: adds about one segment per round trip.
    pub(super) fn avoid(&mut self, acked: u64) {
        match self.avoidance {
            // RFC 5681 section 3.1: one segment for each full window of acknowledged bytes.
            Avoidance::ByteCounting => {
                self.credit += acked;
                if self.credit >= self.cwnd {
                    self.credit -= self.cwnd;
                    self.cwnd += self.smss;
                }
            }
            // RFC 5681 equation 3. The remainder of the division is kept in `credit`.
            Avoidance::PerAck => {
                self.credit += self.smss * self.smss;
                let growth = self.credit / self.cwnd;
                self.credit -= growth * self.cwnd;
                self.cwnd += growth;
            }
        }
    }

    /// Congestion avoidance in whole packets: adds one packet for every `price` acknowledged packets
    /// (`tcp_cong_avoid_ai`, net/ipv4/tcp_cong.c).
    pub(super) fn buy(&mut self, price: u64, packets: u64) {
        let price = price * self.smss;
        // If the price has fallen, the saved credit adds only one packet, even if it is worth several at the new price.
        if self.credit >= price {
            self.credit = 0;
            self.cwnd += self.smss;
        }
        self.credit += packets * self.smss;
        let bought = self.credit / price;
        self.credit -= bought * price;
        self.cwnd += bought * self.smss;
    }

    /// ssthresh of `bytes`, at least two segments (RFC 5681 equation 4). It is rounded down to whole packets if the window
    /// counts packets and grows by [`Avoidance::ByteCounting`].
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

/// An acknowledgement, as input to a congestion control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub now: Instant,
    /// Amount of newly acknowledged data, bytes.
    pub amount: u64,
    /// Round-trip time measured by this acknowledgement, if any.
    pub rtt: Option<Duration>,
    pub srtt: Duration,
    /// Offset of the oldest outstanding byte.
    pub una: u64,
    /// Offset of the next new byte.
    pub nxt: u64,
}

/// A congestion control algorithm.
pub(crate) trait CongestionControl {
    /// New data was acknowledged outside fast recovery, and the window may grow.
    fn on_ack(&mut self, window: &mut CongestionWindow, acked: &Acked);

    /// Returns the new ssthresh after a congestion signal (loss, time-out or ECN). `base` is the amount of data that
    /// the reduction starts from.
    fn on_congestion(&mut self, window: &CongestionWindow, base: u64) -> u64;

    /// The retransmission timer expired. If this expiration reduces ssthresh, `on_congestion` was called before this
    /// function.
    fn on_timeout(&mut self) {}

    /// Data was acknowledged, but the window must not grow, because the sender does not fill it.
    fn on_unused(&mut self, now: Instant) {
        let _ = now;
    }

    /// The sender begins to send again after a time in which nothing was in flight. The previous data was sent at
    /// `last_sent`.
    fn on_resume(&mut self, now: Instant, last_sent: Instant) {
        let _ = (now, last_sent);
    }

    /// The last congestion signal was spurious. The caller has already restored the window.
    fn on_undo(&mut self) {}

    /// Whether duplicate acknowledgements start fast recovery. If not, the loss is handled like a time-out: the window
    /// becomes one segment, and all outstanding data is retransmitted.
    fn recovers(&self) -> bool {
        true
    }
}
