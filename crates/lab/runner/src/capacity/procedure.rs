//! What each mode of a search has in common: it says what it wants next, and gets the result.

use std::fmt;

use super::decision::StepReason;
use super::step::{Drain, Purpose};
use super::verdict::Verdict;

/// What a mode wants next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NextAction {
    /// A step.
    Step {
        /// Its rate.
        rate: f64,
        /// Why.
        purpose: Purpose,
    },
    /// Silence.
    Drain(Drain),
    /// It has found what it looked for.
    Finished(Verdict),
}

/// How a mode finds its way: each is told what became of what it wanted, and nothing else.
pub(super) trait Procedure: fmt::Debug + Send {
    /// The next.
    fn wanted(&self) -> NextAction;
    /// The step that was wanted passed or failed.
    fn decided(&mut self, passed: bool);
    /// The step that was wanted did not count, and is to be tried again; whether the procedure wants the server to recover before.
    fn spoilt(&mut self) -> bool {
        false
    }
    /// The step that was wanted did not count, however often it was tried.
    fn limited(&mut self, reason: &StepReason);
    /// The silence that was wanted is over.
    fn drained(&mut self);
    /// The last step, attempt or pause has taken so long, s. It is told after what the step has shown.
    fn spent(&mut self, _span_s: f64) {}
    /// How much of the time for all steps is left, s; `None` if the time does not end the search.
    fn left_s(&self) -> Option<f64> {
        None
    }
}
