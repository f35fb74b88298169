//! A connection on which every wait ends: with what is waited for, with its patience, or when the far end is to end.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How long one wait for the socket is at most, ns: then it is seen whether all is over.
const LOOK_EVERY: i64 = 20_000_000;

/// A connection that looks, while it waits, at whether it is to end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire<'a> {
    stream: &'a TcpStream,
    stop: &'a AtomicBool,
    /// How long the other side may take for what is waited for.
    pub patience: Duration,
    /// When all must have been said, if there is such a moment.
    pub until: Option<Instant>,
}

impl<'a> Wire<'a> {
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
            let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY };
            match poll(&mut [PollFd::new(self.stream, what)], Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Read for Wire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.when_ready(PollFlags::IN, |mut stream| stream.read(buffer))
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.when_ready(PollFlags::OUT, |mut stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
