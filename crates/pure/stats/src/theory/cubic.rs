//! CUBIC's response function: the mean window under loss.
//!
//! Assumes periodic loss, no fast convergence, and a round-trip time that does not depend on the window.
//! Source: RFC 9438, sections 4.3 (Reno-friendly region) and 5.1 (response function).

use super::TheoryError;
use super::curve::{CurveParameter, TheoryCurve};
use super::positive;
use super::tcp::{LOSS, RTT, SEGMENT};

/// CUBIC with its constants C and beta.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cubic {
    c: f64,
    beta: f64,
}

impl Default for Cubic {
    /// C = 0.4 and beta = 0.7, as RFC 9438 recommends.
    fn default() -> Self {
        Self { c: 0.4, beta: 0.7 }
    }
}

impl Cubic {
    /// `c` is C in segments per second cubed. `beta` is the factor by which a loss multiplies the window.
    ///
    /// # Errors
    /// `c` not positive, or `beta` not strictly between 0 and 1.
    pub fn new(c: f64, beta: f64) -> Result<Self, TheoryError> {
        let c = positive("cubic_c", c)?;
        if !(beta > 0.0 && beta < 1.0) {
            let range = "between 0 and 1 (both excluded)";
            return Err(TheoryError::OutOfRange { parameter: "cubic_beta", range, value: beta });
        }
        Ok(Self { c, beta })
    }

    /// The mean window in segments: the larger of CUBIC's window and the Reno-friendly window. The Reno-friendly window
    /// has the additive increase 3 (1 - beta) / (1 + beta) of RFC 9438.
    ///
    /// # Errors
    /// A loss probability outside (0, 1], or a round-trip time that is not positive.
    pub fn window_segments(&self, loss: f64, rtt_s: f64) -> Result<f64, TheoryError> {
        if !(loss > 0.0 && loss <= 1.0) {
            return Err(TheoryError::OutOfRange {
                parameter: "loss",
                range: "above 0, at most 1",
                value: loss,
            });
        }
        let rtt_s = positive("rtt_s", rtt_s)?;
        // RFC 9438 (5.1): AVG_W_cubic = (C*(3+beta)/(4*(1-beta)))^(1/4) * RTT^(3/4) / p^(3/4)
        let scale = (self.c * (3.0 + self.beta) / (4.0 * (1.0 - self.beta))).sqrt().sqrt();
        let cubic = scale * libm::pow(rtt_s / loss, 0.75);
        // AVG_AIMD(alpha, beta) = sqrt(alpha (1+beta) / (2 (1-beta) p)), which is sqrt(1.5/p) for the alpha of the
        // Reno-friendly region.
        Ok(cubic.max((1.5 / loss).sqrt()))
    }

    /// The mean rate in bytes per second of segment payload: one window per round trip.
    ///
    /// # Errors
    /// As [`window_segments`](Self::window_segments), or a segment size that is not positive.
    pub fn bytes_per_s(&self, segment_bytes: f64, rtt_s: f64, loss: f64) -> Result<f64, TheoryError> {
        Ok(positive("segment_bytes", segment_bytes)? * self.window_segments(loss, rtt_s)? / rtt_s)
    }
}

/// The curves of this model.
pub(super) const CURVES: &[TheoryCurve] = &[TheoryCurve {
    name: "cubic",
    title: "CUBIC response function",
    parameters: &[
        LOSS,
        SEGMENT,
        RTT,
        CurveParameter::optional("cubic_c", "1/s^3", "aggressiveness C", 0.4),
        CurveParameter::optional("cubic_beta", "1", "share of the window after a loss", 0.7),
    ],
    unit: "B/s",
    source: "RFC 9438, section 5.1",
    formula: |a| {
        let cubic = Cubic::new(a.get("cubic_c")?, a.get("cubic_beta")?)?;
        cubic.bytes_per_s(a.get("segment_bytes")?, a.get("rtt_s")?, a.get("loss")?)
    },
}];
