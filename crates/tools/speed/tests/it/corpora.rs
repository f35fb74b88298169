//! Replays the corpora of the parsers of foreign protocols, with random changes.

use netrig_test_support::corpus::{corpus, replay};

use crate::any_iperf3;
use crate::any_iperf3_datagram;
use crate::any_speed_control;
use crate::any_websocket;

#[test]
fn what_iperf3_says_is_survived() {
    replay("iperf3_control", 20, 5000, any_iperf3::check);
    // These inputs are complete tests, so that all stages of the protocol are tested.
    for (name, bytes) in corpus("iperf3_control").iter().filter(|(name, _)| name.starts_with("whole")) {
        assert_eq!(any_iperf3::ends(bytes), 1, "{name}");
    }
}

#[test]
fn datagrams_of_iperf3_are_survived() {
    replay("iperf3_datagram", 20, 5000, any_iperf3_datagram::check);
}

#[test]
fn what_a_client_of_ours_may_say_is_survived() {
    replay("speed_control", 20, 5000, any_speed_control::check);
    for (name, bytes) in corpus("speed_control").iter().filter(|(name, _)| name.starts_with("said")) {
        assert!(any_speed_control::said(bytes) > 0, "{name}");
    }
}

#[test]
fn websockets_are_survived() {
    replay("websocket", 20, 5000, any_websocket::check);
    for (name, bytes) in corpus("websocket").iter().filter(|(name, _)| name.starts_with("frames")) {
        assert!(any_websocket::frames(bytes) > 0, "{name}");
    }
}

proptest::proptest! {
    #[test]
    fn a_meter_survives_any_bytes(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
        any_iperf3::check(&bytes);
        any_iperf3_datagram::check(&bytes);
        any_websocket::check(&bytes);
        any_speed_control::check(&bytes);
    }
}
