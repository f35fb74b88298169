//! Settings of far ends in tests.

use netrig_core::Rate;
use netrig_probe::{FarEndOrder, FarEndSettings};

/// A far end at this address, for clients on this host, without a key.
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
