//! What the machines have in common: objects that wait, each for its own time.

use netrig_core::Instant;

use super::output::LoadOutput;
use crate::wheel::Wheel;

/// A machine whose objects, known by their indices, each wait for a time, and which has one wheel for them all.
pub(super) trait Timed {
    /// Where the next time of each object is kept.
    fn wheel(&mut self) -> &mut Wheel;

    /// When something is due of the object at an index, if there is one.
    fn next_of(&self, index: u32) -> Option<Instant>;

    /// Does what is due of the object at an index. Its next time is kept afterwards.
    fn do_due(&mut self, now: Instant, index: u32, out: &mut LoadOutput);

    /// Does what is due of all objects.
    fn do_all_due(&mut self, now: Instant, out: &mut LoadOutput) {
        while let Some(index) = self.wheel().pop(now) {
            self.do_due(now, index, out);
            self.rest(index);
        }
    }

    /// Sets the wheel to what the object at an index waits for.
    fn rest(&mut self, index: u32) {
        if let Some(next) = self.next_of(index) {
            self.wheel().set(index, next);
        }
    }
}
