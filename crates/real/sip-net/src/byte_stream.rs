//! Reading and writing of a stream that does not block.

use std::io::{self, Read, Write};

use netrig_host::is_transient;

/// Bytes of a read.
const PIECE: usize = 4096;

/// Writes as much of `unsent` as the stream takes, and removes it.
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

/// Reads what has arrived, until `got` has `most` bytes or a few more. Returns whether the peer may send more.
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
