//! Consecutive retransmission timeouts: TCP's back-off and SCTP's fail-over.

use super::curve::{CurveParameter, TheoryCurve};
use super::{TheoryError, positive};

/// A retransmission timer that doubles each time it expires, up to a maximum.
///
/// RFC 6298 (5.5): "The host MUST set RTO <- RTO * 2 ("back off the timer"). The maximum value discussed in
/// (2.5) above may be used to provide an upper bound to this doubling operation." SCTP does the same: RFC
/// 9260 section 6.3.3, rule E2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    first_s: f64,
    max_s: f64,
}

impl Backoff {
    /// The first timeout and the longest one, in seconds.
    ///
    /// # Errors
    /// A time that is not positive and finite.
    pub fn new(first_s: f64, max_s: f64) -> Result<Self, TheoryError> {
        Ok(Self { first_s: positive("rto_s", first_s)?, max_s: positive("rto_max_s", max_s)? })
    }

    /// The consecutive timeouts, seconds: the first timeout, twice, four times, … Each is at most the maximum. The
    /// iterator is infinite.
    pub fn timeouts_s(self) -> impl Iterator<Item = f64> {
        std::iter::successors(Some(self.first_s.min(self.max_s)), move |last| {
            Some((2.0 * last).min(self.max_s))
        })
    }

    /// The time from the first transmission to the `n`-th expiry (which sends the n-th retransmission), in
    /// seconds.
    #[must_use]
    pub fn elapsed_s(&self, n: u32) -> f64 {
        let doubling: Vec<f64> = self.timeouts_s().take(n as usize).take_while(|t| *t < self.max_s).collect();
        doubling.iter().sum::<f64>() + (n as usize - doubling.len()) as f64 * self.max_s
    }

    /// The time from the first lost DATA chunk until SCTP marks the path inactive, in seconds: the sum of
    /// min(RTO × 2^i, RTO.Max) for i = 0..=Path.Max.Retrans.
    ///
    /// RFC 9260 (8.2): "When the value in the error counter exceeds the protocol parameter 'Path.Max.Retrans'
    /// of that destination address", the address becomes inactive. The counter exceeds it at expiry number
    /// Path.Max.Retrans + 1.
    #[must_use]
    pub fn failover_s(&self, path_max_retrans: u32) -> f64 {
        self.elapsed_s(path_max_retrans.saturating_add(1))
    }
}

const RTO: CurveParameter =
    CurveParameter::required("rto_s", "s", "retransmission timeout before the first expiry");
const RTO_MAX: CurveParameter =
    CurveParameter::optional("rto_max_s", "s", "longest retransmission timeout", 60.0);

/// The curves of this model.
pub(super) const CURVES: &[TheoryCurve] = &[
    TheoryCurve {
        name: "rto_backoff",
        title: "time of the n-th retransmission",
        parameters: &[
            CurveParameter::required("retransmission", "1", "number of the retransmission, from 1"),
            RTO,
            RTO_MAX,
        ],
        unit: "s",
        source: "RFC 6298, section 5.5",
        formula: |a| {
            Ok(Backoff::new(a.get("rto_s")?, a.get("rto_max_s")?)?.elapsed_s(a.count("retransmission", 1)?))
        },
    },
    TheoryCurve {
        name: "sctp_failover",
        title: "SCTP fail-over time",
        parameters: &[
            CurveParameter::optional("path_max_retrans", "1", "Path.Max.Retrans", 5.0),
            CurveParameter::optional("rto_s", "s", "retransmission timeout when the path fails", 1.0),
            RTO_MAX,
        ],
        unit: "s",
        source: "RFC 9260, sections 6.3.3 and 8.2",
        formula: |a| {
            Ok(Backoff::new(a.get("rto_s")?, a.get("rto_max_s")?)?
                .failover_s(a.count("path_max_retrans", 0)?))
        },
    },
];
