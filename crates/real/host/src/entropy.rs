//! What nobody can guess.

use std::fs::File;
use std::io::{self, Read as _};

/// Octets of the kernel's random source (random(4)).
///
/// # Errors
/// There is no such source here.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut octets = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut octets)?;
    Ok(octets)
}
