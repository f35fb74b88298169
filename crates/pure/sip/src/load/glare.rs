//! Crossing INVITEs of the two sides of a dialog (RFC 3261 section 14.1).

use netrig_core::Duration;

use crate::record::Key;

/// Most retries of an INVITE within a dialog that got 491.
pub(super) const MOST_PENDING: u8 = 10;

/// A number that depends on the call and on the retry, so that the two sides do not collide repeatedly.
const fn scattered(key: Key, time: u8) -> u32 {
    let seed = key.index ^ key.generation.rotate_left(16) ^ ((time as u32) << 8);
    // The finalizer of MurmurHash3.
    let seed = (seed ^ (seed >> 16)).wrapping_mul(0x85eb_ca6b);
    let seed = (seed ^ (seed >> 13)).wrapping_mul(0xc2b2_ae35);
    seed ^ (seed >> 16)
}

/// The pause before an INVITE that got 491 is sent again, in steps of 10 ms: 2.1 to 4 s for the owner of the Call-ID, else 0 to 2 s
/// (RFC 3261 section 14.1).
pub(super) const fn pause_after_glare(owns_call_id: bool, key: Key, time: u8) -> Duration {
    let drawn = scattered(key, time);
    let tens = if owns_call_id { 210 + drawn % 191 } else { drawn % 201 };
    Duration::from_millis(10 * tens as u64)
}
