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
mod samples;
mod sessions;
mod tally;
mod thresholds;

pub use delay::Delay;
pub use samples::samples_of;
pub use sessions::{RegistrationCounts, SessionCounts};
pub use tally::{Outcomes, Repetitions, Tally};
pub use thresholds::{Bound, DelayStatistic, ThresholdVerdict, Thresholds};
