//! Bytes of a connection with the kernel's time stamps.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use super::messages::{control_messages, stamp};
use super::set_option_int;

/// Bytes for control messages: three time stamps with their header.
const CONTROL: usize = 64;

/// Space for control messages, with the alignment of their headers.
#[repr(C, align(8))]
struct StreamControl([u8; CONTROL]);

/// Switches on software time stamps of received data (Documentation/networking/timestamping).
pub fn stamp_received(socket: impl AsFd) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    set_option_int(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags as i32)
}

/// Reads the available bytes. Returns their number, which is zero at the end of the stream. If time stamps are switched
/// on, also returns the arrival time of the last byte, ns of `CLOCK_REALTIME`.
#[expect(unsafe_code, reason = "no safe wrapper reads the stamps of a stream")]
pub fn receive_stamped(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = StreamControl([0; CONTROL]);
    // SAFETY: all zeros is a valid `msghdr`: null pointers and lengths of zero.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL;
    let fd = socket.as_fd().as_raw_fd();
    loop {
        // SAFETY: the descriptor is borrowed; the header points to a vector with one buffer, as long as it says, and to space
        // for control messages, with its length, which all outlive the call.
        let count = unsafe { libc::recvmsg(fd, &raw mut header, libc::MSG_DONTWAIT) };
        match usize::try_from(count) {
            Ok(count) => {
                let messages = control_messages(&control.0[..header.msg_controllen.min(CONTROL)]);
                let stamped = messages
                    .filter(|(level, kind, _)| (*level, *kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING))
                    .find_map(|(.., content)| stamp(content));
                return Ok((count, stamped));
            }
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::clock::realtime_nanos;

    #[test]
    fn bytes_come_with_the_moment_of_their_arrival_and_an_end_with_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        stamp_received(&far).unwrap();
        // Time stamps start a short time after they are switched on (net_enable_timestamp in Linux's net/core/dev.c).
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut buffer = [0; 100];
        assert_eq!(receive_stamped(&far, &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let before = realtime_nanos();
        near.write_all(b"hello").unwrap();
        let after = realtime_nanos();
        // The bytes wait in the socket, so the time of the read differs from the arrival time.
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (count, at) = receive_stamped(&far, &mut buffer).unwrap();
        assert_eq!(&buffer[..count], b"hello");
        let at = at.unwrap();
        assert!(before <= at && at <= after + 10_000_000, "{before} {at} {after}");
        drop(near);
        assert_eq!(receive_stamped(&far, &mut buffer).unwrap(), (0, None));
    }
}
