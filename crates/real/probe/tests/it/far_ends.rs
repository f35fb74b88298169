//! Orders for the far ends that tests start.

use netrig_core::Rate;
use netrig_probe::{FarEndOrder, FarEndSettings};

/// The order for a far end at this address. It has no key and serves only clients on this host.
pub fn far_end_order(at: &str) -> FarEndOrder {
    let settings = FarEndSettings {
        listen: vec![at.parse().unwrap()],
        stamp_port: 0,
        control_port: 0,
        max_rate: Rate::from_bits_per_s(1_000_000),
        ..FarEndSettings::default()
    };
    FarEndOrder { settings, key: None, slots: FarEndOrder::SLOTS }
}
