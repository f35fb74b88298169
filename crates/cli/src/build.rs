//! The identity of the build. It is part of a run's identity, so that results of two builds are never mixed.

use std::fs::File;
use std::io::Read as _;
use std::sync::LazyLock;

use netrig_core::text::hex;
use sha2::{Digest, Sha256};

/// Version and commit, `0.1.0+abc1234`; if the source tree had uncommitted changes, also a hash of the executable.
pub static BUILD: LazyLock<String> = LazyLock::new(|| {
    let clean = concat!(env!("CARGO_PKG_VERSION"), "+", env!("NETRIG_COMMIT"));
    if env!("NETRIG_DIRTY") != "true" {
        return clean.to_owned();
    }
    match executable_hash() {
        Some(hash) => format!("{clean}.dirty.{hash}"),
        None => format!("{clean}.dirty"),
    }
});

/// The first eight hexadecimal digits of the executable's SHA-256.
fn executable_hash() -> Option<String> {
    let mut executable = File::open(std::env::current_exe().ok()?).ok()?;
    // The file is read in pieces, because an agent may have less memory than the size of its executable.
    let (mut hash, mut piece) = (Sha256::new(), vec![0; 64 << 10]);
    loop {
        match executable.read(&mut piece).ok()? {
            0 => break,
            read => hash.update(&piece[..read]),
        }
    }
    Some(hex(&hash.finalize()[..4]))
}
