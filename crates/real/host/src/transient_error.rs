//! Errors after which a system call is repeated.

use std::io::{self, ErrorKind};

/// Whether a read, a write or an accept had no effect and may succeed later: it would have blocked (`EAGAIN`), or a
/// signal interrupted it (`EINTR`). A connection that is not yet established also gives `EAGAIN`.
pub fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Whether an accept failed because of the new connection and not because of the listening socket: the connection ended
/// before it was accepted, or had a network error. "For reliable operation the application should detect the network
/// errors defined for the protocol after accept() and treat them like EAGAIN by retrying" (accept(2)).
pub fn is_connection_error(error: &io::Error) -> bool {
    const ERRORS: [i32; 9] = [
        libc::ECONNABORTED,
        libc::ENETDOWN,
        libc::EPROTO,
        libc::ENOPROTOOPT,
        libc::EHOSTDOWN,
        libc::ENONET,
        libc::EHOSTUNREACH,
        libc::EOPNOTSUPP,
        libc::ENETUNREACH,
    ];
    error.raw_os_error().is_some_and(|number| ERRORS.contains(&number))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, listen, socket_with};

    use super::*;

    #[test]
    fn what_ends_a_connection_does_not_pass() {
        let of = |number| io::Error::from_raw_os_error(number);
        for number in [libc::EAGAIN, libc::EINTR] {
            assert!(is_transient(&of(number)) && !is_connection_error(&of(number)));
        }
        for number in [libc::ECONNRESET, libc::ENOTCONN, libc::ETIMEDOUT, libc::EPIPE, libc::EMFILE] {
            assert!(!is_transient(&of(number)) && !is_connection_error(&of(number)), "{}", of(number));
        }
        assert!(is_connection_error(&of(libc::ECONNABORTED)) && !is_transient(&of(libc::ECONNABORTED)));
    }

    #[test]
    fn a_connection_that_does_not_stand_yet_has_nothing_and_one_that_was_refused_has_ended() {
        let tried = |to: SocketAddr| {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let made = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
            // The socket is non-blocking, so the connection is not established when the call returns.
            let _ = connect(&made, &to);
            TcpStream::from(made)
        };
        // The listener never accepts, so its queue becomes full and further connections get no answer.
        let listener =
            socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        listen(&listener, 1).unwrap();
        let full = TcpListener::from(listener);
        let mut all = Vec::new();
        let (read, written) = loop {
            assert!(all.len() < 1000, "all of them stand");
            let mut one = tried(full.local_addr().unwrap());
            if let Err(written) = one.write(&[0]) {
                break (one.read(&mut [0]).unwrap_err(), written);
            }
            all.push(one);
        };
        assert!(is_transient(&read) && is_transient(&written), "{read}; {written}");
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(!is_transient(&tried(closed).read(&mut [0]).unwrap_err()));
    }
}
