//! Replays the stored inputs of the fuzz targets. Each input is also truncated at many places, like a capture that is
//! still being written.

use netrig_test_support::corpus::replay;

use crate::it::{any_media, any_scenario, any_trace};

#[test]
fn traces_are_survived() {
    replay("sip_trace", 20, 0, |bytes| {
        (0..bytes.len()).step_by(7).chain([bytes.len()]).for_each(|end| any_trace::check(&bytes[..end]));
    });
}

#[test]
fn scenarios_are_survived() {
    replay("sip_scenario", 20, 0, |bytes| {
        (0..bytes.len()).step_by(13).chain([bytes.len()]).for_each(|end| any_scenario::check(&bytes[..end]));
    });
}

#[test]
fn media_are_survived() {
    replay("media_packet", 4, 0, |bytes| {
        (0..bytes.len()).step_by(7).chain([bytes.len()]).for_each(|end| any_media::check(&bytes[..end]));
    });
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_media_or_none(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..600)) {
        any_media::check(&bytes);
    }

    #[test]
    fn any_bytes_are_a_trace_or_an_error(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
        any_trace::check(&bytes);
    }
}
