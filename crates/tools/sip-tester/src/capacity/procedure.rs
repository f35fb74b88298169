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
    /// The next action. It does not change until its result is reported.
    fn wanted(&self) -> NextAction;
    /// Reports that the step passed or failed.
    fn decided(&mut self, passed: bool);
    /// Reports that the step was invalid and is repeated. Returns true if the procedure itself orders a pause before
    /// the repetition.
    fn spoilt(&mut self) -> bool {
        false
    }
    /// Reports that all attempts of the step were invalid.
    fn limited(&mut self, reason: &StepReason);
    /// Reports that the pause is over.
    fn drained(&mut self);
    /// Reports that the last step, attempt or pause took `span_s` seconds. It is called after the result was reported.
    fn spent(&mut self, _span_s: f64) {}
    /// The remaining time for all steps, s; `None` if the mode has no time limit.
    fn left_s(&self) -> Option<f64> {
        None
    }
}
