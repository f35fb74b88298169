//! A connection on which every wait ends: with what is waited for, with its patience, or when the far end is to end.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How long one wait for a socket is at most: then it is seen whether all is over.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits a little for a socket to have something.
pub(super) fn readable(socket: impl AsFd) -> io::Result<bool> {
    ready(socket, PollFlags::IN, LOOK_EVERY)
}

/// Waits a little for room in a socket.
pub(super) fn writable(socket: impl AsFd) -> io::Result<bool> {
    ready(socket, PollFlags::OUT, LOOK_EVERY)
}

/// Whether a word, or the end, can be read at once.
pub(super) fn is_readable(socket: &impl AsFd) -> bool {
    ready(socket, PollFlags::IN, Duration::ZERO).unwrap_or(false)
}

/// Whether something can be done with a socket within so long; a signal ends the wait early.
fn ready(socket: impl AsFd, what: PollFlags, within: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(within).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(&socket, what)], Some(&timeout)) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A connection that looks, while it waits, at whether it is to end.
#[derive(Clone, Copy, Debug)]
pub(super) struct InterruptibleStream<'a> {
    stream: &'a TcpStream,
    stop: &'a AtomicBool,
    /// How long the other side may take for what is waited for.
    pub patience: Duration,
    /// When all must have been said, if there is such a moment.
    pub until: Option<Instant>,
}

impl<'a> InterruptibleStream<'a> {
    /// Over a connection, which does not block from now on.
    pub fn new(stream: &'a TcpStream, stop: &'a AtomicBool, patience: Duration) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, stop, patience, until: None })
    }

    /// Does something with the connection as soon as it can be done.
    fn when_ready<T>(
        &self,
        what: PollFlags,
        mut attempt: impl FnMut(&'a TcpStream) -> io::Result<T>,
    ) -> io::Result<T> {
        let deadline = Instant::now() + self.patience;
        let deadline = self.until.map_or(deadline, |until| until.min(deadline));
        loop {
            match attempt(self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(io::Error::other("the far end was told to end"));
            }
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            ready(self.stream, what, LOOK_EVERY)?;
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

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
