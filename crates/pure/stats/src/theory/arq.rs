//! Automatic repeat request on one link.

use super::curve::{CurveParameter, TheoryCurve};
use super::{TheoryError, loss_probability, positive};

/// The mean number of frame times that go-back-N needs for one frame: 1 + N p / (1 - p). Each loss costs `window` (N)
/// frame times, and losses are independent with probability `loss` (p).
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

/// The mean time that go-back-N needs for `packets` packets, s. One transmission of a packet takes `packet_s`.
///
/// # Errors
/// As [`go_back_n_frame_times`]; also a time or number of packets that is not positive.
pub fn go_back_n_transfer_s(loss: f64, window: u32, packets: f64, packet_s: f64) -> Result<f64, TheoryError> {
    let (packets, packet_s) = (positive("packets", packets)?, positive("packet_s", packet_s)?);
    Ok(packets * packet_s * go_back_n_frame_times(loss, window)?)
}

/// The curves of this model.
pub(super) const CURVES: &[TheoryCurve] = &[GO_BACK_N, TRANSFER];

const LOSS: CurveParameter = CurveParameter::required("loss", "1", "probability that a frame is lost");
const WINDOW: CurveParameter =
    CurveParameter::required("window", "1", "frames that are retransmitted after a loss");
const SOURCE: &str = "Bertsekas and Gallager, Data Networks, 2nd ed. (1992), section 2.4";

const TRANSFER: TheoryCurve = TheoryCurve {
    name: "go_back_n_transfer",
    title: "go-back-N, time of a transfer",
    parameters: &[
        LOSS,
        WINDOW,
        CurveParameter::required("packets", "1", "packets of the transfer"),
        CurveParameter::required("packet_s", "s", "time of one transmission of a packet"),
    ],
    unit: "s",
    source: SOURCE,
    formula: |a| {
        let window = a.count("window", 1)?;
        go_back_n_transfer_s(a.get("loss")?, window, a.get("packets")?, a.get("packet_s")?)
    },
};

const GO_BACK_N: TheoryCurve = TheoryCurve {
    name: "go_back_n",
    title: "go-back-N, mean service time in frame times",
    parameters: &[LOSS, WINDOW],
    unit: "1",
    source: SOURCE,
    formula: |a| go_back_n_frame_times(a.get("loss")?, a.count("window", 1)?),
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The series that the formula sums: a packet that is lost k times takes 1 + k n packet times.
    #[test]
    fn the_series_of_losses() {
        for (p, n) in [(0.0, 5i32), (0.1, 5), (0.5, 20)] {
            let series: f64 =
                (0..2000).map(|k| (1.0 + f64::from(k * n)) * (1.0 - p) * libm::pow(p, f64::from(k))).sum();
            assert!((go_back_n_frame_times(p, n.unsigned_abs()).unwrap() - series).abs() < 1e-9 * series);
        }
        // 90 packets, each of 1 + 20 · 0.1 / 0.9 packet times of 10 ms.
        let took = go_back_n_transfer_s(0.1, 20, 90.0, 0.01).unwrap();
        assert!((took - 0.9 * (1.0 + 2.0 / 0.9)).abs() < 1e-12);
        assert!(go_back_n_transfer_s(0.1, 20, 0.0, 0.01).is_err());
    }
}
