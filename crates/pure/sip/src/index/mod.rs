//! What the records of a load say about the server: delays, ratios, failures by their kind, thresholds.
//!
//! A [`Tally`] takes [`Record`](crate::load::Record)s and tallies of other shards, in any order and with the same result;
//! it holds the delays of every [`Delay`] as a [`Histogram`], what became of everything that was begun, and the counts of
//! which RFC 6076 makes its ratios. [`Thresholds`] judge it.
//!
//! Names are the field's: those of RFC 6076 (RRD, IRA, SRD, SDD, SDT, SER, SEER, ISA, SCR) and, beside them, those of
//! server tests: registration, connection, answer-signal, disconnect and redirect delay, of which ITU-T E.721 and timer T1
//! say how long they may be.

mod delay;
mod histogram;
mod samples;
mod sessions;
mod tally;
mod thresholds;

pub use delay::Delay;
pub use histogram::Histogram;
pub use samples::samples_of;
pub use sessions::{RegistrationCounts, SessionCounts};
pub use tally::{Outcomes, Repetitions, Tally};
pub use thresholds::{Bound, DelayStatistic, ThresholdVerdict, Thresholds};
