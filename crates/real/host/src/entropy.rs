//! The kernel's random source.

use std::fs::File;
use std::io::{self, Read as _};

/// Reads `N` random octets from `/dev/urandom` (random(4)).
///
/// # Errors
/// If the source cannot be read.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut octets = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut octets)?;
    Ok(octets)
}
