//! The corpus of frames of control connections.

use netrig_test_support::corpus::replay;

use crate::it::any_control_frame;

#[test]
fn control_frames_are_survived() {
    replay("control_frame", 20, 2000, any_control_frame::check);
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_survived_as_control_frames(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
        any_control_frame::check(&bytes);
    }
}
