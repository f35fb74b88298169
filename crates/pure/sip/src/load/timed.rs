//! Machines whose objects wait for deadlines.

use netrig_core::Instant;

use super::output::LoadOutput;
use crate::wheel::Wheel;

/// A machine whose objects, identified by their indices, each have one deadline in a common wheel.
pub(super) trait Timed {
    /// The deadlines of all objects.
    fn wheel(&mut self) -> &mut Wheel;

    /// The next deadline of the object at an index. `None` if there is no object.
    fn next_of(&self, index: u32) -> Option<Instant>;

    /// Handles the expired timers of the object at an index. The caller sets the next deadline afterwards.
    fn do_due(&mut self, now: Instant, index: u32, out: &mut LoadOutput);

    /// Handles the expired timers of all objects.
    fn do_all_due(&mut self, now: Instant, out: &mut LoadOutput) {
        while let Some(index) = self.wheel().pop(now) {
            self.do_due(now, index, out);
            self.rest(index);
        }
    }

    /// Sets the deadline of the object at an index in the wheel.
    fn rest(&mut self, index: u32) {
        if let Some(next) = self.next_of(index) {
            self.wheel().set(index, next);
        }
    }
}
