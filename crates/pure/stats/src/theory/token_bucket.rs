//! A policer: the share of a Poisson stream that passes a token bucket.
//!
//! Tokens that are missing from the bucket correspond to the unfinished work of a server with a finite queue. A packet
//! passes the bucket if the queue has room for the work of this packet. So a bucket of K packets of one size drops the
//! same packets as an M/D/1/K queue whose services per second equal the rate of the bucket in packets per second.

use super::TheoryError;
use super::curve::{CurveParameter, TheoryCurve};
use super::finite::Mg1k;

/// The rate that passes the bucket, for a Poisson stream of packets of one size, in the unit of `offered`. `offered`
/// and `rate` count the same bytes. The depth of the bucket is `packets` packets.
///
/// # Errors
/// A rate that is not positive, or a bucket of less than 1 or more than 5000 packets.
pub fn passed(offered: f64, rate: f64, packets: u32) -> Result<f64, TheoryError> {
    let rate = super::positive("rate_bit_per_s", rate)?;
    if offered == 0.0 {
        return Ok(0.0);
    }
    Ok(offered * (1.0 - Mg1k::constant(offered / rate, 1.0, packets)?.loss()))
}

/// The curves of this model.
pub(super) const CURVES: &[TheoryCurve] = &[TheoryCurve {
    name: "token_bucket",
    title: "token bucket under Poisson packets, passed rate",
    parameters: &[
        CurveParameter::required("offered_bit_per_s", "bit/s", "offered rate"),
        CurveParameter::required("rate_bit_per_s", "bit/s", "rate at which the bucket is filled"),
        CurveParameter::required("packets", "1", "burst that passes a full bucket"),
    ],
    unit: "bit/s",
    source: "Gross and Harris, Fundamentals of Queueing Theory, 3rd ed. (1998), section 5.1.8",
    formula: |a| passed(a.get("offered_bit_per_s")?, a.get("rate_bit_per_s")?, a.count("packets", 1)?),
}];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Draws;

    /// 9 Mbit/s are offered to a policer of 9 Mbit/s. With buckets of 10, 25 and 100 packets, shares of 0.949, 0.980
    /// and 0.995 pass.
    #[test]
    fn at_its_own_rate_the_bucket_decides() {
        for (packets, share) in [(10, 0.949), (25, 0.980), (100, 0.995)] {
            let passes = passed(9e6, 9e6, packets).unwrap();
            assert!((passes / 9e6 - share).abs() < 5e-4, "{packets}: {passes}");
        }
    }

    #[test]
    fn far_from_its_rate_it_is_the_smaller_of_the_two() {
        for (offered, passes) in [(0.0, 0.0), (5e6, 5e6), (15e6, 9e6)] {
            assert!((passed(offered, 9e6, 100).unwrap() - passes).abs() <= 1e-6 * passes);
        }
        assert!(passed(1.0, 0.0, 10).is_err());
    }

    /// Simulates the unfinished work, which computes the same share independently.
    #[test]
    fn a_stream_stepped_through_one_by_one() {
        let mut random = Draws::new(7);
        let (mut missing, mut lost) = (0.0, 0.0);
        let count = 2_000_000;
        for _ in 0..count {
            let gap = -libm::log1p(-(random.index(1 << 32) as f64) / 4_294_967_296.0);
            missing = f64::max(0.0, missing - gap);
            if missing <= 24.0 { missing += 1.0 } else { lost += 1.0 }
        }
        let passes = passed(1.0, 1.0, 25).unwrap();
        assert!((1.0 - lost / f64::from(count) - passes).abs() < 1e-3);
    }
}
