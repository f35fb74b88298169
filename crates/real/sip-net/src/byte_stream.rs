//! Reading from and writing to a non-blocking stream.

use std::io::{self, Read, Write};

use netrig_host::is_transient;

/// Size of one read, bytes.
const PIECE: usize = 4096;

/// Writes as much of `unsent` as the stream accepts, and removes the written bytes from `unsent`.
///
/// # Errors
/// If the stream has ended or fails.
pub fn flush_bytes(stream: &mut impl Write, unsent: &mut Vec<u8>) -> io::Result<()> {
    let mut sent = 0;
    let end = loop {
        if sent == unsent.len() {
            break Ok(());
        }
        match stream.write(&unsent[sent..]) {
            Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => sent += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_transient(&error) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    unsent.drain(..sent);
    end
}

/// Appends the received bytes to `got`, and stops when `got` has `most` bytes or slightly more. Returns false if the
/// peer has closed its sending direction.
///
/// # Errors
/// If the stream fails.
pub fn read_bytes(stream: &mut impl Read, got: &mut Vec<u8>, most: usize) -> io::Result<bool> {
    let mut piece = [0; PIECE];
    while got.len() < most {
        match stream.read(&mut piece) {
            Ok(0) => return Ok(false),
            Ok(count) => got.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_transient(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
