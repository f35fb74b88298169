//! The duration of a TCP transfer: handshake, slow start until the first loss, then congestion avoidance.
//!
//! Assumes Reno, losses that are independent between rounds, and a round trip that does not depend on the window. A
//! transfer ends when the sender receives the last acknowledgement. Source: Cardwell, Savage and Anderson (2000),
//! *Modeling TCP latency*, INFOCOM, sections II and III.

use super::curve::{CurveParameter, TheoryCurve};
use super::padhye::{self, Padhye, TIMEOUT, WINDOW, backoff_series, timeout_share, window_of_losses};
use super::tcp::{LOSS, PER_ACK, RTT, SEGMENT};
use super::{TheoryError, loss_probability, positive};

/// A transfer over TCP.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transfer {
    segments: f64,
    initial_window: f64,
    handshake_timeout_s: f64,
    connection: Padhye,
}

impl Transfer {
    /// A transfer of `bytes` over `connection`, with a first congestion window of `initial_window` segments.
    /// `handshake_timeout_s` is the first time-out of a SYN: 3 s (RFC 1122), or 1 s (RFC 6298).
    ///
    /// # Errors
    /// A parameter that is not positive.
    pub fn new(
        bytes: f64,
        initial_window: f64,
        handshake_timeout_s: f64,
        connection: Padhye,
    ) -> Result<Self, TheoryError> {
        Ok(Self {
            segments: (positive("bytes", bytes)? / connection.segment_bytes).ceil(),
            initial_window: positive("initial_window", initial_window)?,
            handshake_timeout_s: positive("handshake_timeout_s", handshake_timeout_s)?,
            connection,
        })
    }

    /// Mean time of handshake and transfer (equations 4 and 25), s. `loss` is the loss in the direction of the data.
    /// Acknowledgements are not lost.
    ///
    /// # Errors
    /// A loss probability outside 0 to below 1/2. From 1/2 on the handshake has no finite mean.
    pub fn seconds(&self, loss: f64) -> Result<f64, TheoryError> {
        Ok(self.handshake_s(loss)? + self.transfer_s(loss)?)
    }

    /// The mean time of the handshake (equation 4): a round trip, and time-outs with back-off.
    fn handshake_s(&self, loss: f64) -> Result<f64, TheoryError> {
        let p = loss_probability("loss", loss)?;
        if p >= 0.5 {
            return Err(TheoryError::OutOfRange { parameter: "loss", range: "below 0.5", value: p });
        }
        Ok(self.connection.rtt_s + self.handshake_timeout_s * ((1.0 - p) / (1.0 - 2.0 * p) - 1.0))
    }

    /// Mean time from the first segment to the last acknowledgement, without handshake, s.
    ///
    /// # Errors
    /// A loss probability outside 0 to below 1.
    pub fn transfer_s(&self, loss: f64) -> Result<f64, TheoryError> {
        let p = loss_probability("loss", loss)?;
        let rtt = self.connection.rtt_s;
        if p == 0.0 {
            return Ok(rtt * self.slow_start_rounds(self.segments));
        }
        // Equation 5: segments up to and including the first loss.
        let lossless = libm::exp(self.segments * libm::log1p(-p));
        let started = ((1.0 - lossless) * (1.0 - p) / p + 1.0).min(self.segments);
        // Equation 11: the window of slow start when this segment is sent.
        let growth = self.growth();
        let window = (started * (growth - 1.0) + self.initial_window) / growth;
        let window = window.min(self.connection.window_segments);
        // Equations 16 to 20: the recovery from the loss that ends slow start.
        let by_timeout = timeout_share(p, window);
        let timeout_s = self.connection.timeout_s * backoff_series(p) / (1.0 - p);
        let first_loss_s = (1.0 - lossless) * (by_timeout * timeout_s + (1.0 - by_timeout) * rtt);
        // Equations 21 to 24: the remaining segments at the steady-state rate.
        let rest_s = (self.segments - started) / self.steady_segments_per_s(p);
        Ok(rtt * self.slow_start_rounds(started) + first_loss_s + rest_s)
    }

    /// The factor by which the window grows in a round of slow start.
    fn growth(&self) -> f64 {
        1.0 + 1.0 / self.connection.segments_per_ack
    }

    /// Number of rounds of slow start for `segments` (equation 15), limited by the receiver's window.
    fn slow_start_rounds(&self, segments: f64) -> f64 {
        let (growth, first, most) = (self.growth(), self.initial_window, self.connection.window_segments);
        let rounds_to = |window: f64| libm::log(window / first) / libm::log(growth);
        let last_window = (segments * (growth - 1.0) + first) / growth;
        if last_window > most {
            let until_full = (growth * most - first) / (growth - 1.0);
            rounds_to(most) + 1.0 + (segments - until_full) / most
        } else {
            libm::log1p(segments * (growth - 1.0) / first) / libm::log(growth)
        }
    }

    /// Segments per second that arrive in steady state (equation 22).
    fn steady_segments_per_s(&self, p: f64) -> f64 {
        let Padhye { rtt_s, timeout_s, window_segments, segments_per_ack: b, .. } = self.connection;
        let between_losses = (1.0 - p) / p;
        let unlimited = window_of_losses(p, b);
        let (window, rounds) = if unlimited < window_segments {
            (unlimited, 0.5 * b * unlimited + 1.0)
        } else {
            (window_segments, b / 8.0 * window_segments + between_losses / window_segments + 2.0)
        };
        let by_timeout = timeout_share(p, window);
        let arrived = between_losses + 0.5 * window + by_timeout;
        arrived / (rtt_s * rounds + by_timeout * timeout_s * backoff_series(p) / (1.0 - p))
    }
}

const BYTES: CurveParameter = CurveParameter::required("bytes", "B", "length of the transfer");

/// The curves of this model.
pub(super) const CURVES: &[TheoryCurve] = &[
    TheoryCurve {
        name: "cardwell",
        title: "Cardwell et al., time of a transfer",
        parameters: &[
            LOSS,
            BYTES,
            SEGMENT,
            RTT,
            TIMEOUT,
            WINDOW,
            PER_ACK,
            CurveParameter::optional("initial_window", "1", "first congestion window in segments", 10.0),
            CurveParameter::optional("handshake_timeout_s", "s", "first time-out of a SYN", 1.0),
        ],
        unit: "s",
        source: "Cardwell, Savage and Anderson (2000), sections II and III",
        formula: |a| {
            let (first, handshake) = (a.get("initial_window")?, a.get("handshake_timeout_s")?);
            Transfer::new(a.get("bytes")?, first, handshake, padhye::model(a)?)?.seconds(a.get("loss")?)
        },
    },
    TheoryCurve {
        name: "padhye_transfer",
        title: "Padhye et al., time of a transfer",
        parameters: &[LOSS, BYTES, SEGMENT, RTT, TIMEOUT, WINDOW, PER_ACK],
        unit: "s",
        source: "Padhye, Firoiu, Towsley and Kurose (1998), section 2.3",
        formula: |a| {
            let bytes = positive("bytes", a.get("bytes")?)?;
            Ok(bytes / padhye::model(a)?.full_bytes_per_s(a.get("loss")?)?)
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, within: f64) {
        assert!((a - b).abs() <= within * b.abs(), "{a} is not {b}");
    }

    fn transfer(segments: f64, window: f64, per_ack: f64, first: f64) -> Transfer {
        let connection = Padhye::new(1000.0, 0.1, 1.0, window, per_ack).unwrap();
        Transfer::new(1000.0 * segments, first, 3.0, connection).unwrap()
    }

    /// Windows of 1, 2, 4, .. 64 are 127 segments in 7 rounds. With a receiver window of 8 the windows are 1 + 2 + 4,
    /// then 8 per round.
    #[test]
    fn without_loss_slow_start_is_a_series() {
        close(transfer(127.0, f64::INFINITY, 1.0, 1.0).transfer_s(0.0).unwrap(), 0.7, 1e-12);
        close(transfer(7.0 + 40.0, 8.0, 1.0, 1.0).transfer_s(0.0).unwrap(), 0.3 + 0.5, 1e-12);
        // With one acknowledgement for two segments, windows of 8 and 12 segments are 20 segments in two rounds.
        close(transfer(20.0, f64::INFINITY, 2.0, 8.0).transfer_s(0.0).unwrap(), 0.2, 1e-12);
        // The handshake takes one more round trip.
        close(transfer(127.0, f64::INFINITY, 1.0, 1.0).seconds(0.0).unwrap(), 0.8, 1e-12);
    }

    /// A very small loss has a very small effect.
    #[test]
    fn it_is_continuous_at_no_loss() {
        let transfer = transfer(500.0, 64.0, 2.0, 2.0);
        close(transfer.seconds(1e-9).unwrap(), transfer.seconds(0.0).unwrap(), 1e-3);
    }

    /// The rate of a long transfer is the steady-state rate: Padhye's rate without lost segments.
    #[test]
    fn a_long_transfer_goes_at_the_rate_of_the_steady_state() {
        let transfer = transfer(1e7, f64::INFINITY, 2.0, 2.0);
        for loss in [0.001, 0.01, 0.05] {
            let sent = transfer.connection.full_bytes_per_s(loss).unwrap() / 1000.0;
            let rate = 1e7 / transfer.transfer_s(loss).unwrap();
            assert!(rate < sent && rate > 0.6 * sent, "{rate} of {sent}");
        }
    }

    /// Computed by hand for 10 segments, p = 0.1, b = 1, first window 1, round trip 0.1 s, time-out 1 s.
    ///
    /// Until the first loss 0.6513 · 0.9 / 0.1 + 1 = 6.862 segments are sent in log2(7.862) = 2.975 rounds, and the
    /// window is 3.931. The loss ends in a time-out with a probability of min(1, 0.271 (1 + 0.729 · (1 - 0.9^0.931)) /
    /// (1 - 0.9^3.931)) = 0.8558. Time-outs take 1.1256 / 0.9 s. So the recovery takes 0.6513 (0.8558 · 1.2506 + 0.1442
    /// · 0.1) = 0.7065 s.
    ///
    /// The remaining 3.138 segments have a window of 1 + √(24 + 1) = 6 in 1 + 3 rounds: Q = 0.271 (1 + 0.729 · 0.271) /
    /// 0.4686 = 0.6926. The rate is (9 + 3 + 0.6926) / (0.4 + 0.6926 · 1.2506) = 10.03 segments per second.
    #[test]
    fn a_short_lossy_transfer_by_hand() {
        close(
            transfer(10.0, f64::INFINITY, 1.0, 1.0).transfer_s(0.1).unwrap(),
            0.2975 + 0.7065 + 0.3129,
            3e-3,
        );
        // The handshake takes 0.1 + 3 (0.9 / 0.8 - 1) s.
        close(transfer(10.0, f64::INFINITY, 1.0, 1.0).handshake_s(0.1).unwrap(), 0.475, 1e-12);
    }

    #[test]
    fn more_loss_takes_longer_and_half_has_no_mean() {
        let transfer = transfer(650.0, 64.0, 1.0, 10.0);
        let took: Vec<f64> =
            [0.0, 0.001, 0.01, 0.05, 0.1, 0.3].iter().map(|loss| transfer.seconds(*loss).unwrap()).collect();
        assert!(took.is_sorted(), "{took:?}");
        assert!(transfer.seconds(0.5).is_err());
    }
}
