//! Socket options that are whole numbers or bytes.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The value of an option that is an `int`.
pub fn option_int(socket: impl AsFd, level: i32, name: i32) -> io::Result<i32> {
    let mut value = [0; size_of::<i32>()];
    let len = option_bytes(socket, level, name, &mut value)?;
    if len < value.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(i32::from_ne_bytes(value))
}

/// Reads the bytes of an option into `value`. Returns the number of bytes, at most the length of `value`.
#[expect(unsafe_code, reason = "no safe wrapper takes an option by number")]
pub fn option_bytes(socket: impl AsFd, level: i32, name: i32, value: &mut [u8]) -> io::Result<usize> {
    let mut len = libc::socklen_t::try_from(value.len()).unwrap_or(libc::socklen_t::MAX);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is borrowed, `value` is writable for `len` bytes, and the kernel writes no more than that
    // and how many it wrote into `len`.
    let result = unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut len) };
    if result == 0 { Ok(len as usize) } else { Err(io::Error::last_os_error()) }
}

/// Sets an option that is an `int`.
#[expect(unsafe_code, reason = "no safe wrapper takes an option by number")]
pub fn set_option_int(socket: impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the descriptor is borrowed, and the kernel only reads the `len` bytes of `value`.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
