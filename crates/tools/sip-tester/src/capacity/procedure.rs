//! The interface of the search modes: each selects the next action and receives its result.

use std::fmt;

use super::decision::StepReason;
use super::step::{StepPause, StepPurpose};
use super::verdict::CapacityVerdict;

/// The next action of a mode.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NextAction {
    Step { rate: f64, purpose: StepPurpose },
    Drain(StepPause),
    Finished(CapacityVerdict),
}

/// The procedure of a mode. Its only input is the result of each action.
pub(super) trait Procedure: fmt::Debug + Send {
    /// The next action. It stays the same until its result is reported.
    fn wanted(&self) -> NextAction;
    /// The step passed or failed.
    fn decided(&mut self, passed: bool);
    /// The step was invalid and is repeated. Returns true if the procedure itself lets the server recover before that.
    fn spoilt(&mut self) -> bool {
        false
    }
    /// The step was invalid in all its attempts.
    fn limited(&mut self, reason: &StepReason);
    /// The pause is over.
    fn drained(&mut self);
    /// The last step, attempt or pause took `span_s` seconds. It is called after the result is reported.
    fn spent(&mut self, _span_s: f64) {}
    /// The remaining time for all steps, s; `None` if the mode has no time limit.
    fn left_s(&self) -> Option<f64> {
        None
    }
}
