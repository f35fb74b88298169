//! Automatic repeat request on one link.

use super::curve::{Curve, Parameter};
use super::{TheoryError, loss_probability, positive};

/// The mean number of frame times that go-back-N spends on one frame: 1 + N p / (1 - p), where each loss
/// costs `window` (N) frame times and losses are independent with probability `loss` (p).
///
/// Assumes a sender that always has frames, a window that fills the round trip, and acknowledgements without
/// loss. Source: Bertsekas and Gallager, *Data Networks*, 2nd ed. (1992), section 2.4.2.
///
/// # Errors
/// A loss probability outside 0 to below 1, or no window.
pub fn go_back_n_frame_times(loss: f64, window: u32) -> Result<f64, TheoryError> {
    let p = loss_probability("loss", loss)?;
    let n = positive("window", f64::from(window))?;
    Ok(1.0 + n * p / (1.0 - p))
}

/// The curves of this model.
pub(super) const CURVES: &[Curve] = &[Curve {
    name: "go_back_n",
    title: "go-back-N, mean service time in frame times",
    parameters: &[
        Parameter::required("loss", "1", "probability that a frame is lost"),
        Parameter::required("window", "1", "frames that are sent again after a loss"),
    ],
    unit: "1",
    source: "Bertsekas and Gallager, Data Networks, 2nd ed. (1992), section 2.4",
    formula: |a| go_back_n_frame_times(a.get("loss")?, a.count("window", 1)?),
}];
