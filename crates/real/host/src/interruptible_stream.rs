//! A connection whose waits always end: with success, a time-out, or the end of the far end.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Maximum duration of one wait for a socket, after which the stop flag is checked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits briefly until a socket is readable.
pub fn readable(socket: impl AsFd) -> io::Result<bool> {
    ready(socket, PollFlags::IN, LOOK_EVERY)
}

/// Waits briefly until a socket is writable.
pub fn writable(socket: impl AsFd) -> io::Result<bool> {
    ready(socket, PollFlags::OUT, LOOK_EVERY)
}

/// Whether data or the end of the stream can be read at once.
pub fn is_readable(socket: &impl AsFd) -> bool {
    ready(socket, PollFlags::IN, Duration::ZERO).unwrap_or(false)
}

/// Whether a socket becomes ready within this time. A signal ends the wait early.
fn ready(socket: impl AsFd, what: PollFlags, within: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(within).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(&socket, what)], Some(&timeout)) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A connection that checks a stop flag while it waits.
#[derive(Clone, Copy, Debug)]
pub struct InterruptibleStream<'a> {
    stream: &'a TcpStream,
    stop: &'a AtomicBool,
    /// Time-out of a single wait.
    pub patience: Duration,
    /// Deadline of all waits, if there is one.
    pub until: Option<Instant>,
}

impl<'a> InterruptibleStream<'a> {
    /// Wraps a connection and puts it into non-blocking mode.
    pub fn new(stream: &'a TcpStream, stop: &'a AtomicBool, patience: Duration) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, stop, patience, until: None })
    }

    /// Repeats an operation until it does not block.
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
                return Err(io::Error::other("the far end is shutting down"));
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
