//! TCP Reno with timeouts and a limited window: the PFTK model.
//!
//! Assumes bulk transfer and a round trip that does not depend on the window. A loss includes all later segments of the
//! round, and losses are independent between rounds. Rates are sending rates, including lost segments. Source: Padhye,
//! Firoiu, Towsley and Kurose (1998), *Modeling TCP throughput: a simple model and its empirical validation*, SIGCOMM,
//! section 2.

use super::curve::{Arguments, CurveParameter, TheoryCurve};
use super::tcp::{LOSS, PER_ACK, RTT, SEGMENT, segments_per_ack_of};
use super::{TheoryError, loss_probability, positive};

/// A Reno connection in bulk transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Padhye {
    pub(super) segment_bytes: f64,
    pub(super) rtt_s: f64,
    pub(super) timeout_s: f64,
    pub(super) window_segments: f64,
    pub(super) segments_per_ack: f64,
}

impl Padhye {
    /// `timeout_s` is the first retransmission timeout (T0), `window_segments` is the receiver's window (Wmax; infinite
    /// for no limit), and `segments_per_ack` is b.
    ///
    /// # Errors
    /// A parameter that is not positive, a window or a `segments_per_ack` below 1.
    pub fn new(
        segment_bytes: f64,
        rtt_s: f64,
        timeout_s: f64,
        window_segments: f64,
        segments_per_ack: f64,
    ) -> Result<Self, TheoryError> {
        let segment_bytes = positive("segment_bytes", segment_bytes)?;
        let rtt_s = positive("rtt_s", rtt_s)?;
        let timeout_s = positive("timeout_s", timeout_s)?;
        if window_segments.is_nan() || window_segments < 1.0 {
            let range = "a number from 1";
            return Err(TheoryError::OutOfRange {
                parameter: "window_segments",
                range,
                value: window_segments,
            });
        }
        let segments_per_ack = segments_per_ack_of(segments_per_ack)?;
        Ok(Self { segment_bytes, rtt_s, timeout_s, window_segments, segments_per_ack })
    }

    /// The full model with the limited window (section 2.3), in bytes per second sent.
    ///
    /// # Errors
    /// A loss probability outside 0 to below 1, or a loss probability of 0 without a limited window.
    pub fn full_bytes_per_s(&self, loss: f64) -> Result<f64, TheoryError> {
        let p = loss_probability("loss", loss)?;
        if p == 0.0 {
            return self.lossless_bytes_per_s();
        }
        let b = self.segments_per_ack;
        let unlimited = window_of_losses(p, b);
        let between_losses = (1.0 - p) / p;
        let (window, rounds) = if unlimited < self.window_segments {
            (unlimited, 0.5 * b * unlimited + 1.0)
        } else {
            let most = self.window_segments;
            (most, b / 8.0 * most + between_losses / most + 2.0)
        };
        let timeout = timeout_share(p, window);
        let sent = between_losses + window + timeout / (1.0 - p);
        let took_s = self.rtt_s * rounds + timeout * self.timeout_s * backoff_series(p) / (1.0 - p);
        Ok(self.segment_bytes * sent / took_s)
    }

    /// The approximate form (end of section 2.3), in bytes per second sent: the smaller of one full window per round
    /// trip and 1 / (RTT sqrt(2bp/3) + T0 min(1, 3 sqrt(3bp/8)) p (1 + 32p^2)).
    ///
    /// # Errors
    /// As [`full_bytes_per_s`](Self::full_bytes_per_s).
    pub fn approximate_bytes_per_s(&self, loss: f64) -> Result<f64, TheoryError> {
        let p = loss_probability("loss", loss)?;
        if p == 0.0 {
            return self.lossless_bytes_per_s();
        }
        let b = self.segments_per_ack;
        let avoidance_s = self.rtt_s * (2.0 * b * p / 3.0).sqrt();
        let share = (3.0 * (3.0 * b * p / 8.0).sqrt()).min(1.0);
        let timeouts_s = self.timeout_s * share * p * (1.0 + 32.0 * p * p);
        let segments_per_s = (1.0 / (avoidance_s + timeouts_s)).min(self.window_segments / self.rtt_s);
        Ok(self.segment_bytes * segments_per_s)
    }

    /// The rate of one full window per round trip.
    fn lossless_bytes_per_s(&self) -> Result<f64, TheoryError> {
        Ok(self.segment_bytes * positive("window_segments", self.window_segments)? / self.rtt_s)
    }
}

/// W of the paper: the mean window at this loss, if the receiver does not limit it.
pub(super) fn window_of_losses(p: f64, b: f64) -> f64 {
    let middle = (2.0 + b) / (3.0 * b);
    middle + (8.0 * (1.0 - p) / (3.0 * b * p) + middle * middle).sqrt()
}

/// Q of the paper: the probability that a loss at window `w` ends in a timeout rather than in three duplicate
/// acknowledgements.
pub(super) fn timeout_share(p: f64, w: f64) -> f64 {
    if w <= 3.0 {
        return 1.0;
    }
    let kept = |segments: f64| libm::exp(segments * libm::log1p(-p));
    let lost = |segments: f64| -libm::expm1(segments * libm::log1p(-p));
    (lost(3.0) * (1.0 + kept(3.0) * lost(w - 3.0)) / lost(w)).min(1.0)
}

/// f(p) = 1 + p + 2p^2 + 4p^3 + 8p^4 + 16p^5 + 32p^6: timeouts double six times, to 64 T0.
pub(super) fn backoff_series(p: f64) -> f64 {
    1.0 + p * (1.0 + p * (2.0 + p * (4.0 + p * (8.0 + p * (16.0 + p * 32.0)))))
}

pub(super) const TIMEOUT: CurveParameter =
    CurveParameter::required("timeout_s", "s", "first retransmission timeout");
pub(super) const WINDOW: CurveParameter =
    CurveParameter::optional("window_segments", "1", "the receiver's window in segments", f64::INFINITY);

pub(super) fn model(a: &Arguments) -> Result<Padhye, TheoryError> {
    Padhye::new(
        a.get("segment_bytes")?,
        a.get("rtt_s")?,
        a.get("timeout_s")?,
        a.get("window_segments")?,
        a.get("segments_per_ack")?,
    )
}

/// The curves of this model.
pub(super) const CURVES: &[TheoryCurve] = &[
    TheoryCurve {
        name: "padhye",
        title: "Padhye et al., full model",
        parameters: &[LOSS, SEGMENT, RTT, TIMEOUT, WINDOW, PER_ACK],
        unit: "B/s",
        source: "Padhye, Firoiu, Towsley and Kurose (1998), section 2.3",
        formula: |a| model(a)?.full_bytes_per_s(a.get("loss")?),
    },
    TheoryCurve {
        name: "padhye_approximate",
        title: "Padhye et al., approximate model",
        parameters: &[LOSS, SEGMENT, RTT, TIMEOUT, WINDOW, PER_ACK],
        unit: "B/s",
        source: "Padhye, Firoiu, Towsley and Kurose (1998), section 2.3",
        formula: |a| model(a)?.approximate_bytes_per_s(a.get("loss")?),
    },
];
