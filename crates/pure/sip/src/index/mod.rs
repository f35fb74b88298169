//! Delays, ratios, failures and thresholds of a server, computed from the records of a load.
//!
//! A [`Tally`] counts [`Record`](crate::load::Record)s and adds the tallies of other shards. Their order does not
//! change the result. It has a [histogram](netrig_core::Histogram) of every [`Delay`], the outcomes of all attempts,
//! and the counts for the ratios of RFC 6076. [`Thresholds`] judge a tally.
//!
//! Names are those of RFC 6076 (RRD, IRA, SRD, SDD, SDT, SER, SEER, ISA, SCR) and of server tests: registration,
//! connection, answer-signal, disconnect and redirect delay. ITU-T E.721 and timer T1 give the bounds of the delays of
//! server tests.

mod delay;
mod events;
pub mod quantity;
mod ratio;
mod tally;
mod thresholds;

use netrig_core::{Instant, Quantity, Sample};

use crate::record::{Failure, Record};

pub use delay::Delay;
pub use events::{Repetitions, ToleratedEvents};
pub use quantity::IndexMetric;
pub use ratio::{RATIOS, Ratio, Ratios};
pub use tally::{Outcomes, Tally};
pub use thresholds::{Bound, DelayStatistic, ThresholdVerdict, Thresholds};

/// The quantities of SIP users in the samples of a run.
pub fn quantities() -> impl Iterator<Item = &'static Quantity> {
    quantity::ALL.iter().copied().chain(Delay::ALL.into_iter().map(Delay::quantity))
}

/// Passes the samples of a record that ended at `at` to `each`: its counts and its delays.
pub fn samples_of(record: &Record, at: Instant, mut each: impl FnMut(Sample)) {
    if let Some(Failure::Unlocated(_)) = record.failure {
        each(Sample { at, quantity: &quantity::SIP_UNLOCATED, value: 1.0 });
        return;
    }
    for counted in &quantity::COUNTED {
        let count = (counted.of)(record);
        if count > 0 {
            each(Sample { at, quantity: counted.quantity, value: count as f64 });
        }
    }
    for delay in Delay::ALL {
        if let Some(span) = delay.of(record) {
            each(Sample { at, quantity: delay.quantity(), value: span.as_secs_f64() });
        }
    }
}
