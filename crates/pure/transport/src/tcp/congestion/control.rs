//! The contract of a congestion control: the window that it moves, and what it is told.

use netrig_core::{Duration, Instant};

use crate::tcp::config::{Avoidance, Config, WindowCounts};

/// The congestion window and what bounds slow start, in bytes (of full segments, if packets are counted).
#[derive(Clone, Debug)]
pub(crate) struct CongestionWindow {
    pub cwnd: u64,
    pub ssthresh: u64,
    /// Sender maximum segment size.
    smss: u64,
    /// Whether packets are counted; then slow start after a time-out ends at a whole number of them.
    packets: bool,
    avoidance: Avoidance,
    pub(super) slow_start_limit: u64,
    /// What congestion avoidance has been acknowledged and not yet turned into window.
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

    /// RFC 5681 equation 2: cwnd grows by what was acknowledged, up to `limit`. Returns what of it
    /// lies beyond ssthresh.
    pub(super) fn slow_start(&mut self, acked: u64, limit: u64) -> u64 {
        let counted = acked.min(limit);
        let growth = counted.min(self.ssthresh - self.cwnd);
        self.cwnd += growth;
        counted - growth
    }

    /// A segment more per round trip.
    pub(super) fn avoid(&mut self, acked: u64) {
        match self.avoidance {
            // RFC 5681 section 3.1: count the bytes; a window's worth of them is worth a segment.
            Avoidance::ByteCounting => {
                self.credit += acked;
                if self.credit >= self.cwnd {
                    self.credit -= self.cwnd;
                    self.cwnd += self.smss;
                }
            }
            // RFC 5681 equation 3; what division leaves over is kept.
            Avoidance::PerAck => {
                self.credit += self.smss * self.smss;
                let growth = self.credit / self.cwnd;
                self.credit -= growth * self.cwnd;
                self.cwnd += growth;
            }
        }
    }

    /// Congestion avoidance of whole packets: a packet for every `price` that are acknowledged (`tcp_cong_avoid_ai`,
    /// net/ipv4/tcp_cong.c).
    pub(super) fn buy(&mut self, price: u64, packets: u64) {
        let price = price * self.smss;
        // What was saved while a packet was dearer buys one, and not several at the new price.
        if self.credit >= price {
            self.credit = 0;
            self.cwnd += self.smss;
        }
        self.credit += packets * self.smss;
        let bought = self.credit / price;
        self.credit -= bought * price;
        self.cwnd += bought * self.smss;
    }

    /// At least two segments (RFC 5681 equation 4). A window that counts packets and grows by whole ones has
    /// no fractions to halve; one that grows by 1/cwnd has.
    pub(super) fn threshold(&self, bytes: u64) -> u64 {
        let bytes = if self.avoidance == Avoidance::ByteCounting { self.whole(bytes) } else { bytes };
        bytes.max(2 * self.smss)
    }

    /// So many bytes in whole packets, if packets are counted.
    pub fn whole(&self, bytes: u64) -> u64 {
        if self.packets { bytes / self.smss * self.smss } else { bytes }
    }

    /// The window after a congestion signal.
    pub fn reduce(&mut self, ssthresh: u64, cwnd: u64) {
        self.ssthresh = ssthresh;
        self.cwnd = cwnd.max(self.smss);
        self.credit = 0;
    }
}

/// What an acknowledgement tells a congestion control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub now: Instant,
    /// Newly acknowledged, in the window's unit.
    pub amount: u64,
    /// Round-trip time of this acknowledgement, if it can be told.
    pub rtt: Option<Duration>,
    pub srtt: Duration,
    /// Offset of the oldest outstanding byte.
    pub una: u64,
    /// Offset of the next new byte.
    pub nxt: u64,
}

/// A congestion control algorithm.
pub(crate) trait CongestionControl {
    /// New data was acknowledged while the sender was not in fast recovery, and the window may grow.
    fn on_ack(&mut self, window: &mut CongestionWindow, acked: &Acked);

    /// A congestion signal, be it loss, time-out or ECN: what ssthresh is to be if `base` was in use.
    fn on_congestion(&mut self, window: &CongestionWindow, base: u64) -> u64;

    /// The retransmission timer ran out; `on_congestion` was asked before if it was the first time.
    fn on_timeout(&mut self) {}

    /// Data was acknowledged, but the window does not grow, for the sender does not fill it.
    fn on_unused(&mut self, now: Instant) {
        let _ = now;
    }

    /// Data is sent while nothing is in flight. The data before were sent at `last_sent`.
    fn on_resume(&mut self, now: Instant, last_sent: Instant) {
        let _ = (now, last_sent);
    }

    /// The last congestion signal was spurious; the window has been restored.
    fn on_undo(&mut self) {}

    /// Whether duplicate acknowledgements lead to fast recovery; if not, a loss that they tell of is answered like
    /// a time-out: one segment, and all that is outstanding again.
    fn recovers(&self) -> bool {
        true
    }
}
