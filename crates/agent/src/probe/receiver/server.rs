//! The far end.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use netrig_core::Duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketType, ipproto, sockopt};

use super::protocol::{Answer, Arrival, Request, write_arrival};
use super::{LONGEST, MOST_BYTES, MOST_CONNECTIONS};
use crate::clock::RealtimeOffset;
use crate::control::{ControlError, read_frame, write_frame};
use crate::monotonic_nanos;
use crate::probe::ProbeFailure;
use crate::probe::wire::Wire;
use crate::socket::Making;
use crate::sys::{ReceiveBatch, option_bytes};

/// How long a probe may be silent between two requests.
const PATIENCE: StdDuration = StdDuration::from_secs(30);
/// How long is waited for stragglers after all was sent.
const GRACE: StdDuration = StdDuration::from_secs(1);
/// How long one wait for a socket is at most, ns: then it is seen whether all is over.
const LOOK_EVERY: i64 = 20_000_000;
/// Receive buffer that is asked for, bytes.
const BUFFER: usize = 4 << 20;
/// Software stamps of what is received (Documentation/networking/timestamping).
const STAMPS: i32 = (libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE) as i32;
/// Where SO_MEMINFO has the count of drops, bytes (include/uapi/linux/sock_diag.h).
const MEMINFO_DROPS: usize = 32;

/// One probe's talk with us.
struct Talk<'a> {
    peer: IpAddr,
    local: IpAddr,
    reader: BufReader<Wire<'a>>,
    writer: BufWriter<Wire<'a>>,
}

/// Serves a probe that was let in, until it hangs up or `stop` says so; how many of its requests were carried out.
///
/// # Errors
/// If the connection breaks, or what comes cannot be understood.
pub(in crate::probe) fn serve(
    stream: &TcpStream,
    peer: IpAddr,
    stop: &AtomicBool,
) -> Result<u64, ControlError> {
    let wire = Wire::new(stream, stop, PATIENCE)?;
    let local = stream.local_addr()?.ip();
    let mut talk = Talk { peer, local, reader: BufReader::new(wire), writer: BufWriter::new(wire) };
    let mut served = 0;
    loop {
        let request = match read_frame(&mut talk.reader) {
            Ok(Some(request)) => request,
            Ok(None) => break,
            // Between two requests nothing is broken off.
            Err(_) if stop.load(Ordering::Relaxed) => break,
            Err(error) => return Err(error),
        };
        match request {
            Request::Ping => talk.say(&Answer::Pong)?,
            Request::Receive { lasts_ms, keep } => talk.receive(lasts_ms, keep, stop)?,
            Request::Sink { connections, lasts_ms } => talk.sink(connections, lasts_ms, stop)?,
            Request::Sent => {
                talk.say(&Answer::Error { why: "that means nothing now".to_owned() })?;
                break;
            }
        }
        served += u64::from(request != Request::Ping);
    }
    Ok(served)
}

impl Talk<'_> {
    fn say(&mut self, answer: &Answer) -> Result<(), ControlError> {
        write_frame(&mut self.writer, answer)?;
        Ok(self.writer.flush()?)
    }

    fn refuse(&mut self, error: &dyn std::error::Error) -> Result<(), ControlError> {
        self.say(&Answer::Error { why: error.to_string() })
    }

    fn ready(&mut self, port: u16) -> Result<(), ControlError> {
        self.say(&Answer::Ready { port })
    }

    /// Takes datagrams on a thread of its own until the probe has sent all, or its time is over.
    fn receive(&mut self, lasts_ms: u64, keep: u16, stop: &AtomicBool) -> Result<(), ControlError> {
        let mut ear = match Ear::open(self.local, self.peer, keep.into()) {
            Ok(ear) => ear,
            Err(error) => return self.refuse(&error),
        };
        let until = monotonic_nanos().saturating_add(lasting(lasts_ms));
        self.ready(ear.port)?;
        let all_sent = AtomicBool::new(false);
        let patience = StdDuration::from_nanos(lasting(lasts_ms)) + PATIENCE;
        self.reader.get_mut().patience = patience;
        let (said, heard) = std::thread::scope(|scope| {
            let ear = &mut ear;
            let listening = scope.spawn(|| {
                ear.hear(|| {
                    stop.load(Ordering::Relaxed)
                        || all_sent.load(Ordering::Relaxed)
                        || monotonic_nanos() > until
                })
            });
            let said = read_frame(&mut self.reader);
            if matches!(said, Ok(Some(Request::Sent))) {
                std::thread::sleep(GRACE);
            }
            all_sent.store(true, Ordering::Relaxed);
            (said, listening.join())
        });
        self.reader.get_mut().patience = PATIENCE;
        let (Ok(Some(Request::Sent)), Ok(heard)) = (said, heard) else {
            return self.say(&Answer::Error { why: "a report was not asked for".to_owned() });
        };
        let stepped = match heard {
            Ok(stepped) => stepped,
            Err(error) => return self.refuse(&error),
        };
        let Ok(datagrams) = u32::try_from(ear.arrivals.len()) else {
            return self.say(&Answer::Error { why: "more came than can be counted".to_owned() });
        };
        let stepped_ns = stepped.map(Duration::as_nanos);
        self.say(&Answer::Came { datagrams, dropped: ear.dropped()?, stepped_ns })?;
        for arrival in &ear.arrivals {
            write_arrival(&mut self.writer, arrival)?;
        }
        Ok(self.writer.flush()?)
    }

    /// Takes connections, and throws away what comes over them.
    fn sink(&mut self, connections: u16, lasts_ms: u64, stop: &AtomicBool) -> Result<(), ControlError> {
        if connections > MOST_CONNECTIONS {
            let why = format!("{connections} connections: expected at most {MOST_CONNECTIONS}");
            return self.say(&Answer::Error { why });
        }
        let listener = match TcpListener::bind((self.local, 0)) {
            Ok(listener) => listener,
            Err(error) => return self.refuse(&error),
        };
        listener.set_nonblocking(true)?;
        let until = monotonic_nanos().saturating_add(lasting(lasts_ms));
        self.ready(listener.local_addr()?.port())?;
        let is_over = || stop.load(Ordering::Relaxed) || monotonic_nanos() > until;
        let bytes: io::Result<u64> = std::thread::scope(|scope| {
            let mut sinks = Vec::new();
            while sinks.len() < usize::from(connections) && !is_over() {
                if !readable(&listener)? {
                    continue;
                }
                match listener.accept() {
                    Ok((stream, peer)) if peer.ip() == self.peer => {
                        let is_over = &is_over;
                        sinks.push(scope.spawn(move || swallow(stream, is_over)));
                    }
                    Ok(_) => {}
                    Err(error) if is_passing(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            let ended = sinks
                .into_iter()
                .map(|sink| sink.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())));
            ended.sum()
        });
        match bytes {
            Ok(bytes) => self.say(&Answer::Sunk { bytes }),
            Err(error) => self.refuse(&error),
        }
    }
}

/// What a probe asked for, at most what it may; ns.
fn lasting(lasts_ms: u64) -> u64 {
    lasts_ms.saturating_mul(1_000_000).min(LONGEST.as_nanos())
}

/// Errors of one connection that are none of the listener's.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted | ConnectionReset)
}

/// Waits a little for a socket to have something.
fn readable(socket: impl AsFd) -> io::Result<bool> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY };
    match poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&timeout)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Reads to the end of a connection; how many bytes came.
fn swallow(mut stream: TcpStream, is_over: &dyn Fn() -> bool) -> io::Result<u64> {
    let mut bytes = 0;
    let mut buffer = vec![0; 256 << 10];
    stream.set_nonblocking(true)?;
    while !is_over() {
        if !readable(&stream)? {
            continue;
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(some) => bytes += some as u64,
            Err(error) if is_passing(&error) && error.kind() != io::ErrorKind::ConnectionReset => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "the probe took longer than it had said"))
}

/// A UDP socket that listens to one address.
struct Ear {
    socket: OwnedFd,
    port: u16,
    from: IpAddr,
    batch: ReceiveBatch,
    arrivals: Vec<Arrival>,
    cost: usize,
}

impl Ear {
    fn open(local: IpAddr, from: IpAddr, keep: usize) -> Result<Self, ProbeFailure> {
        let making = Making::open(SocketType::DGRAM, Some(ipproto::UDP), (local, 0).into())?;
        making.number("SO_TIMESTAMPING", libc::SOL_SOCKET, libc::SO_TIMESTAMPING, STAMPS)?;
        // As much as the system grants: what it has no room for is counted.
        let _ = sockopt::set_socket_recv_buffer_size_force(&making, BUFFER)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&making, BUFFER));
        let socket = making.bound()?;
        let bound = rustix::net::getsockname(&socket)
            .map_err(|error| ProbeFailure::step("getsockname")(error.into()))?;
        let bound =
            SocketAddr::try_from(bound).map_err(|error| ProbeFailure::step("getsockname")(error.into()))?;
        let batch = ReceiveBatch::new(keep.max(1));
        Ok(Self { socket, port: bound.port(), from, batch, arrivals: Vec::new(), cost: 0 })
    }

    /// Listens until `is_over`, and to the end of what has arrived then; by how much the wall clock was stepped meanwhile,
    /// which makes times before and after it incomparable.
    fn hear(&mut self, is_over: impl Fn() -> bool) -> io::Result<Option<Duration>> {
        let offset = RealtimeOffset::measure();
        loop {
            let over = is_over();
            let some = readable(&self.socket)? && self.take(&offset)?;
            if over && !some {
                return Ok(RealtimeOffset::measure().stepped_since(&offset));
            }
        }
    }

    /// Takes what waits; whether there was something.
    fn take(&mut self, offset: &RealtimeOffset) -> io::Result<bool> {
        let count = match self.batch.receive(&self.socket) {
            Ok(count) => count,
            Err(error) if is_passing(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        for at in 0..count {
            let Some(incoming) = self.batch.get(at).filter(|incoming| incoming.from.ip() == self.from) else {
                continue;
            };
            let at_ns = incoming.stamp.map_or_else(monotonic_nanos, |stamp| offset.monotonic(stamp));
            let len = u32::try_from(incoming.len).unwrap_or(u32::MAX);
            let arrival = Arrival { at_ns, len, head: incoming.head.to_vec() };
            self.cost += arrival.cost();
            if self.cost > MOST_BYTES {
                return Err(io::Error::other(format!(
                    "more came than the {MOST_BYTES} B that a receiver keeps"
                )));
            }
            self.arrivals.push(arrival);
        }
        Ok(count > 0)
    }

    /// Datagrams that reached the host and that the socket had no room for.
    fn dropped(&self) -> io::Result<u32> {
        let mut words = [0; MEMINFO_DROPS + 4];
        option_bytes(&self.socket, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut words)?;
        Ok(words.last_chunk().map_or(0, |drops| u32::from_ne_bytes(*drops)))
    }
}

/// How long a run of the receiver's may last, for those who say so to it.
pub(crate) fn generous(expected: Duration) -> Duration {
    (expected * 2 + Duration::from_secs(10)).min(LONGEST)
}
