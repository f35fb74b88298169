//! A connection whose waits always end: with success, after a time-out, or when a stop flag is set.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::transient_error::is_transient;

/// Maximum duration of one wait for a socket, after which the stop flag is checked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits at most 20 ms until a socket is readable. Returns whether it is readable.
pub fn readable(socket: impl AsFd) -> io::Result<bool> {
    ready(socket, PollFlags::IN, LOOK_EVERY)
}

/// Whether data or the end of the stream can be read without waiting.
pub fn is_readable(socket: &impl AsFd) -> bool {
    ready(socket, PollFlags::IN, Duration::ZERO).unwrap_or(false)
}

/// Waits until a socket is ready, at most for the time `within`, and returns whether it is ready. A signal ends the
/// wait early.
fn ready(socket: impl AsFd, what: PollFlags, within: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(within).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(&socket, what)], Some(&timeout)) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Sends a last message without waiting for the peer, and shuts down the sending direction. Errors are ignored.
pub fn dismiss(mut socket: &TcpStream, message: &[u8]) {
    if socket.set_nonblocking(true).is_ok() {
        // If octets were left unread, the kernel would reset the connection before the message is delivered.
        let _ = socket.read(&mut [0; 1 << 13]);
        let _ = socket.write(message);
        let _ = socket.shutdown(Shutdown::Write);
    }
}

/// A connection in non-blocking mode whose waits have deadlines.
#[derive(Clone, Copy, Debug)]
pub struct InterruptibleStream<'a> {
    stream: &'a TcpStream,
    /// The stop flag, which is checked during each wait.
    stop: Option<&'a AtomicBool>,
    /// Time-out of a single wait.
    pub patience: Duration,
    /// Deadline of all reads and writes, if there is one. It also applies if no read or write has to wait.
    pub until: Option<Instant>,
}

impl<'a> InterruptibleStream<'a> {
    /// Wraps a connection and puts it into non-blocking mode.
    pub fn new(stream: &'a TcpStream, stop: &'a AtomicBool, patience: Duration) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, stop: Some(stop), patience, until: None })
    }

    /// Wraps a connection that is already in non-blocking mode.
    pub const fn until(stream: &'a TcpStream, until: Instant) -> Self {
        Self { stream, stop: None, patience: Duration::MAX, until: Some(until) }
    }

    /// Repeats an operation until it succeeds or fails with an error that is not transient. Waits for the socket
    /// between the attempts, until the deadline has passed or the stop flag is set.
    fn when_ready<T>(
        &self,
        what: PollFlags,
        mut attempt: impl FnMut(&'a TcpStream) -> io::Result<T>,
    ) -> io::Result<T> {
        let of_this_wait = Instant::now().checked_add(self.patience);
        let deadline = of_this_wait.into_iter().chain(self.until).min();
        let longest = if self.stop.is_some() { LOOK_EVERY } else { Duration::MAX };
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match attempt(self.stream) {
                Err(error) if is_transient(&error) => {}
                done => return done,
            }
            if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Err(io::Error::other("the far end is shutting down"));
            }
            ready(self.stream, what, left.map_or(longest, |left| left.min(longest)))?;
        }
    }
}

impl Read for InterruptibleStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.when_ready(PollFlags::IN, |mut stream| stream.read(buffer))
    }
}

impl Write for InterruptibleStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.when_ready(PollFlags::OUT, |mut stream| stream.write(bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.when_ready(PollFlags::OUT, |mut stream| stream.write_vectored(parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_deadline_also_holds_for_a_peer_that_never_lets_a_read_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (own, _) = listener.accept().unwrap();
        own.set_nonblocking(true).unwrap();
        peer.write_all(b"ab").unwrap();
        let mut byte = [0];
        let until = |until| InterruptibleStream::until(&own, until);
        let later = Instant::now() + Duration::from_secs(60);
        assert_eq!((until(later).read(&mut byte).unwrap(), byte), (1, *b"a"));
        assert_eq!(until(Instant::now()).read(&mut byte).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!((until(later).read(&mut byte).unwrap(), byte), (1, *b"b"));
        let soon = Instant::now() + Duration::from_millis(10);
        assert_eq!(until(soon).read(&mut byte).unwrap_err().kind(), io::ErrorKind::TimedOut);
        let stop = AtomicBool::new(true);
        let mut stopped = InterruptibleStream::new(&own, &stop, Duration::from_secs(60)).unwrap();
        assert_eq!(stopped.read(&mut byte).unwrap_err().kind(), io::ErrorKind::Other);
    }
}
