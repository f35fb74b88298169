//! The far end's part of the receiver protocol.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use netrig_core::Duration;

use super::protocol::{ArrivalLog, ReceivedDatagram, ReceiverReply, ReceiverRequest};
use super::{LONGEST, MOST_BYTES, MOST_CONNECTIONS};
use crate::greeting::LONGEST_WORD;
use crate::socket::ProbeSocket;
use crate::{ProbeError, ProbeResult};
use netrig_host::frames::{FrameError, read_frame_within, write_frame};
use netrig_host::{
    HostAddress, InterruptibleStream, MemoryBudget, MemoryReservation, RealtimeOffset, is_connection_error,
    is_transient, monotonic_nanos, readable,
};

/// Maximum time between two requests of a probe.
const PATIENCE: StdDuration = StdDuration::from_secs(30);
/// Wait for late datagrams after the probe has sent all.
const GRACE: StdDuration = StdDuration::from_secs(1);

/// Maximum number of bytes in one read from a connection of a transfer.
const SWALLOW: usize = 256 << 10;

/// A session with one probe.
struct ReceiverSession<'a> {
    /// Memory budget that all probes share.
    memory: &'a MemoryBudget,
    peer: IpAddr,
    local: HostAddress,
    reader: BufReader<InterruptibleStream<'a>>,
    writer: BufWriter<InterruptibleStream<'a>>,
}

/// Serves an accepted probe until it closes the connection or `stop` is set. Returns the number of completed requests.
///
/// Fails if the connection fails or a frame is malformed.
pub(crate) fn serve(
    stream: &TcpStream,
    peer: IpAddr,
    memory: &MemoryBudget,
    stop: &AtomicBool,
) -> Result<u64, FrameError> {
    let wire = InterruptibleStream::new(stream, stop, PATIENCE)?;
    let local = HostAddress::from(stream.local_addr()?);
    let (reader, writer) = (BufReader::new(wire), BufWriter::new(wire));
    let mut session = ReceiverSession { memory, peer, local, reader, writer };
    let mut served = 0;
    loop {
        let request = match read_frame_within(&mut session.reader, LONGEST_WORD) {
            Ok(Some(request)) => request,
            Ok(None) => break,
            // The error comes from the wait for the next request, which `stop` has ended: no request is aborted.
            Err(_) if stop.load(Ordering::Relaxed) => break,
            Err(error) => return Err(error),
        };
        match request {
            ReceiverRequest::Ping => session.reply(&ReceiverReply::Pong)?,
            ReceiverRequest::Receive { lasts_ms, keep } => session.receive(lasts_ms, keep, stop)?,
            ReceiverRequest::Sink { connections, lasts_ms } => session.sink(connections, lasts_ms, stop)?,
            ReceiverRequest::Sent => {
                session.reply(&ReceiverReply::Error { why: "the request is not valid now".to_owned() })?;
                break;
            }
        }
        served += u64::from(request != ReceiverRequest::Ping);
    }
    Ok(served)
}

impl ReceiverSession<'_> {
    fn reply(&mut self, answer: &ReceiverReply) -> Result<(), FrameError> {
        write_frame(&mut self.writer, answer)?;
        Ok(self.writer.flush()?)
    }

    fn refuse(&mut self, error: &dyn std::error::Error) -> Result<(), FrameError> {
        self.reply(&ReceiverReply::Error { why: error.to_string() })
    }

    fn ready(&mut self, port: u16) -> Result<(), FrameError> {
        self.reply(&ReceiverReply::Ready { port })
    }

    /// Receives datagrams on a separate thread until the probe has sent all, or the requested time has passed.
    fn receive(&mut self, lasts_ms: u64, keep: u16, stop: &AtomicBool) -> Result<(), FrameError> {
        let mut listener =
            match DatagramListener::open(self.local, self.peer, keep.into(), self.memory.none()) {
                Ok(listener) => listener,
                Err(error) => return self.refuse(&error),
            };
        let until = monotonic_nanos().saturating_add(lasting(lasts_ms));
        self.ready(listener.port)?;
        let all_sent = AtomicBool::new(false);
        let patience = StdDuration::from_nanos(lasting(lasts_ms)) + PATIENCE;
        self.reader.get_mut().patience = patience;
        let (request, received) = std::thread::scope(|scope| {
            let listener = &mut listener;
            let listening = scope.spawn(|| {
                listener.listen(|| {
                    stop.load(Ordering::Relaxed)
                        || all_sent.load(Ordering::Relaxed)
                        || monotonic_nanos() > until
                })
            });
            let request = read_frame_within(&mut self.reader, LONGEST_WORD);
            if matches!(request, Ok(Some(ReceiverRequest::Sent))) {
                std::thread::sleep(GRACE);
            }
            all_sent.store(true, Ordering::Relaxed);
            (request, listening.join())
        });
        self.reader.get_mut().patience = PATIENCE;
        let (Ok(Some(ReceiverRequest::Sent)), Ok(received)) = (request, received) else {
            return self.reply(&ReceiverReply::Error { why: "expected a request for the report".to_owned() });
        };
        let stepped = match received {
            Ok(stepped) => stepped,
            Err(error) => return self.refuse(&error),
        };
        let stepped_ns = stepped.map(Duration::as_nanos);
        let (datagrams, dropped) = (listener.arrivals.len(), listener.socket.drops()?);
        self.reply(&ReceiverReply::Came { datagrams, dropped, stepped_ns })?;
        listener.arrivals.write_to(&mut self.writer)?;
        Ok(self.writer.flush()?)
    }

    /// Accepts connections, discards their data and reports the number of bytes.
    fn sink(&mut self, connections: u16, lasts_ms: u64, stop: &AtomicBool) -> Result<(), FrameError> {
        if connections > MOST_CONNECTIONS {
            let why = format!("{connections} connections: expected at most {MOST_CONNECTIONS}");
            return self.reply(&ReceiverReply::Error { why });
        }
        let _kept = match self.memory.reserve(usize::from(connections) * SWALLOW) {
            Ok(kept) => kept,
            Err(error) => return self.refuse(&error),
        };
        let listener = match TcpListener::bind(self.local.at(0)) {
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
                    Err(error) if is_transient(&error) || is_connection_error(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            let ended = sinks
                .into_iter()
                .map(|sink| sink.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())));
            ended.sum()
        });
        match bytes {
            Ok(bytes) => self.reply(&ReceiverReply::Sunk { bytes }),
            Err(error) => self.refuse(&error),
        }
    }
}

/// The requested duration, limited to the maximum, ns.
fn lasting(lasts_ms: u64) -> u64 {
    lasts_ms.saturating_mul(1_000_000).min(LONGEST.as_nanos())
}

/// Reads and discards the data of a connection until its end. Returns the number of bytes.
fn swallow(mut stream: TcpStream, is_over: &dyn Fn() -> bool) -> io::Result<u64> {
    let mut bytes = 0;
    let mut buffer = vec![0; SWALLOW];
    stream.set_nonblocking(true)?;
    while !is_over() {
        if !readable(&stream)? {
            continue;
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(some) => bytes += some as u64,
            Err(error) if is_transient(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "the probe took longer than it had announced"))
}

/// A UDP socket that accepts datagrams from one address.
struct DatagramListener {
    socket: ProbeSocket,
    port: u16,
    from: IpAddr,
    keep: usize,
    arrivals: ArrivalLog,
    /// Memory that is reserved for the arrivals.
    kept: MemoryReservation,
}

impl DatagramListener {
    fn open(local: HostAddress, from: IpAddr, keep: usize, kept: MemoryReservation) -> ProbeResult<Self> {
        let socket = ProbeSocket::udp(local.at(0), 0)?;
        let port = socket.local().map_err(ProbeError::kernel("getsockname"))?.port();
        Ok(Self { socket, port, from, keep, arrivals: ArrivalLog::default(), kept })
    }

    /// Receives datagrams until `is_over` returns true, and then those that are still pending. Returns the step of the
    /// wall clock in this time, if there was one. Times before and after a step cannot be compared.
    fn listen(&mut self, is_over: impl Fn() -> bool) -> io::Result<Option<Duration>> {
        let offset = RealtimeOffset::measure();
        loop {
            let over = is_over();
            let some = readable(self.socket.fd())? && self.take(&offset)?;
            if over && !some {
                return Ok(RealtimeOffset::measure().stepped_since(&offset));
            }
        }
    }

    /// Receives pending datagrams. Returns whether there were any.
    fn take(&mut self, offset: &RealtimeOffset) -> io::Result<bool> {
        let Self { socket, from, keep, arrivals, kept, .. } = self;
        let (mut some, mut full) = (false, None);
        socket.receive(|incoming| {
            some = true;
            if incoming.from.ip() != *from || full.is_some() {
                return;
            }
            let at_ns = incoming.stamp.map_or_else(monotonic_nanos, |stamp| offset.monotonic(stamp));
            let len = u32::try_from(incoming.len).unwrap_or(u32::MAX);
            let head = incoming.head[..incoming.head.len().min(*keep)].to_vec();
            let arrival = ReceivedDatagram { at_ns, len, head };
            if kept.bytes() + arrival.cost() > MOST_BYTES {
                full = Some(format!("more arrived than the {MOST_BYTES} B that a receiver keeps"));
            } else if let Err(error) = kept.grow(arrival.cost()) {
                full = Some(error.to_string());
            } else if let Err(error) = arrivals.push(&arrival) {
                full = Some(error.to_string());
            }
        })?;
        full.map_or(Ok(some), |why| Err(io::Error::other(why)))
    }
}

/// A time limit to request from a receiver: twice the expected duration and 10 s.
pub(crate) fn generous(expected: Duration) -> Duration {
    (expected * 2 + Duration::from_secs(10)).min(LONGEST)
}
