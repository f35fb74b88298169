//! Settings of far ends in tests.

use netrig_core::{Prefix, Rate};
use netrig_probe::FarEndOrder;
use netrig_probe::stamp::Format;

/// A far end at this address, for clients on this host, without a key.
pub fn far_end_order(at: &str) -> FarEndOrder {
    FarEndOrder {
        listen: vec![at.parse().unwrap()],
        stamp_port: 0,
        control_port: 0,
        key: None,
        authenticated: false,
        allowed: Prefix::LOOPBACK.to_vec(),
        dscps: None,
        stateful: false,
        format: Format::Ntp,
        most_rate: Rate::from_bits_per_s(1_000_000),
        slots: FarEndOrder::SLOTS,
    }
}
