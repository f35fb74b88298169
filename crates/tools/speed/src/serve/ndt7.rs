//! The server side of an ndt7 session.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_bulk::{Bucket, hold_to, pacing};
use netrig_core::Duration;
use netrig_host::http::message::HttpRequest;
use netrig_host::{InterruptibleStream, TcpInfo as Kernel, is_transient};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::response::{send, turn_away};
use super::shared::ServerShared;
use super::slot::{BudgetExceeded, Slot};
use super::tally::{ClientProtocol, ServiceFailure};
use crate::control::PATIENCE;
use crate::ndt7::{
    ConnectionInfo, ServerError, ServerEvent, ServerSession, TcpInfo, Upgrade, UpgradeError, check_origin,
};

/// The payload of load messages.
static ZEROS: [u8; 1 << 18] = [0; 1 << 18];

/// Size of a read, bytes.
const READ: usize = 1 << 18;

/// Maximum wait before the timers are checked.
const LOOK: StdDuration = StdDuration::from_millis(10);

/// Why a session failed.
#[derive(Debug, thiserror::Error)]
enum Ndt7Error {
    #[error("ndt7: {0}")]
    Upgrade(#[from] UpgradeError),
    #[error("ndt7: {0}")]
    Session(#[from] ServerError),
    #[error("ndt7: {0}")]
    Overrun(#[from] BudgetExceeded),
    #[error("ndt7: the server stops")]
    Ending,
    #[error("ndt7: the connection failed: {0}")]
    Broken(#[from] io::Error),
}

impl ServiceFailure for Ndt7Error {
    fn kind(&self) -> &'static str {
        match self {
            Self::Upgrade(_) => "garbage",
            Self::Session(ServerError::Closed) | Self::Broken(_) => "gone",
            Self::Session(ServerError::Overtime) => "time",
            Self::Session(_) => "violation",
            Self::Overrun(overrun) => overrun.kind(),
            Self::Ending => "ending",
        }
    }
}

/// Serves a client that has sent this upgrade request, and counts its failure, if any.
pub(super) fn serve(
    socket: TcpStream,
    peer: SocketAddr,
    request: &HttpRequest,
    rest: &[u8],
    shared: &ServerShared,
) {
    if let Err(error) = serve_session(socket, peer, request, rest, shared) {
        shared.tally.failed(ClientProtocol::Ndt7, &error);
    }
}

fn serve_session(
    socket: TcpStream,
    peer: SocketAddr,
    request: &HttpRequest,
    rest: &[u8],
    shared: &ServerShared,
) -> Result<(), Ndt7Error> {
    let read = check_origin(request, &shared.origins).and_then(|()| Upgrade::read(request));
    let upgrade = match read {
        Ok(upgrade) => upgrade,
        Err(error) => {
            send(&socket, &error.response().closing(""))?;
            return Err(error.into());
        }
    };
    let slot = match Slot::ask_at_once(shared, ClientProtocol::Ndt7, peer, None) {
        Ok(slot) => slot,
        Err(refusal) => return Ok(turn_away(&socket, refusal)?),
    };
    send(&socket, upgrade.response().to_string().as_bytes())?;
    let [client, server] = [peer, socket.local_addr()?].map(|end| end.to_string());
    let connection = ConnectionInfo { client, server, uuid: None };
    let now = shared.clock.now();
    let mut session = ServerSession::new(now, &upgrade, connection);
    session.handle_bytes(rest);
    let most = slot.held_to().map(pacing);
    most.map_or(Ok(()), |most| hold_to(&socket, most))?;
    let bucket = most.map(|most| Bucket::new(now, most.into(), READ as u64, Bucket::AWAY));
    let unsent = Unsent::default();
    Ndt7Session { shared, socket, session, slot, unsent, bytes: [0; 2], bucket }.serve()
}

/// A running session.
struct Ndt7Session<'a> {
    shared: &'a ServerShared,
    socket: TcpStream,
    session: ServerSession,
    slot: Slot<'a>,
    unsent: Unsent,
    /// Bytes received and sent.
    bytes: [u64; 2],
    /// The token bucket of received data, if the rate is limited.
    bucket: Option<Bucket>,
}

/// Data that the socket has not accepted yet: bytes, followed by zeros.
#[derive(Default)]
struct Unsent {
    bytes: Vec<u8>,
    /// Number of zeros after `bytes`.
    zeros: usize,
}

impl Ndt7Session<'_> {
    fn serve(&mut self) -> Result<(), Ndt7Error> {
        let mut buffer = vec![0; READ];
        loop {
            while let Some(event) = self.session.poll_event() {
                match event {
                    ServerEvent::Measure => self.measure(),
                    ServerEvent::Client(_) => {}
                    ServerEvent::Over(outcome) => return self.end(outcome),
                }
            }
            let has_moved = self.send()? | self.receive(&mut buffer);
            self.slot.spend(self.bytes)?;
            if self.shared.stop.load(Ordering::Relaxed) {
                return Err(Ndt7Error::Ending);
            }
            if !has_moved {
                self.wait()?;
            }
            self.session.handle_timeout(self.shared.clock.now());
        }
    }

    fn measure(&mut self) {
        let kernel = Kernel::read(&self.socket).ok();
        self.session.measured(self.shared.clock.now(), kernel.as_ref().map(told));
    }

    /// Writes pending data. Returns whether the socket accepted any.
    fn send(&mut self) -> io::Result<bool> {
        if self.unsent.is_empty() {
            self.unsent = match self.session.poll_transmit() {
                Some(bytes) => Unsent { bytes, zeros: 0 },
                None => match self.session.poll_load() {
                    Some(load) => Unsent { bytes: load.head, zeros: load.len as usize },
                    None => return Ok(false),
                },
            };
        }
        let sent = self.unsent.send(&mut self.socket)?;
        self.bytes[1] += sent as u64;
        Ok(sent > 0)
    }

    /// Reads data, unless the client is ahead of its rate limit. Returns whether data was read.
    fn receive(&mut self, buffer: &mut [u8]) -> bool {
        if self.is_ahead() {
            return false;
        }
        match self.socket.read(buffer) {
            Ok(0) => self.session.handle_close(),
            Ok(len) => {
                self.bytes[0] += len as u64;
                self.session.handle_bytes(&buffer[..len]);
                return true;
            }
            Err(error) if is_transient(&error) => {}
            Err(_) => self.session.handle_close(),
        }
        false
    }

    fn is_ahead(&mut self) -> bool {
        let (now, received) = (self.shared.clock.now(), self.bytes[0]);
        self.bucket.as_mut().is_some_and(|bucket| bucket.left(now, received) < 0.0)
    }

    /// Waits until the socket is ready, for at most [`LOOK`].
    fn wait(&mut self) -> io::Result<()> {
        let mut flags = if self.is_ahead() { PollFlags::empty() } else { PollFlags::IN };
        if !self.unsent.is_empty() {
            flags |= PollFlags::OUT;
        }
        let timeout = Timespec::try_from(LOOK).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.socket, flags)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends the remaining data and the closing message, if the client reads them in time.
    fn end(&mut self, outcome: Result<(), ServerError>) -> Result<(), Ndt7Error> {
        let until = StdInstant::now() + PATIENCE;
        while !self.unsent.is_empty() && StdInstant::now() < until {
            if self.unsent.send(&mut self.socket)? == 0 {
                self.wait()?;
            }
            self.slot.spend(self.bytes)?;
        }
        if let Some(bytes) = self.session.poll_transmit().filter(|_| self.unsent.is_empty()) {
            // The client may have closed the connection, so the error is ignored.
            let _ = InterruptibleStream::until(&self.socket, until).write_all(&bytes);
        }
        self.slot.spend(self.bytes)?;
        Ok(outcome?)
    }
}

impl Unsent {
    const fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.zeros == 0
    }

    /// Writes to a socket. Returns the number of bytes that the socket accepted.
    fn send(&mut self, socket: &mut TcpStream) -> io::Result<usize> {
        let zeros = &ZEROS[..self.zeros.min(ZEROS.len())];
        let sent = match socket.write_vectored(&[IoSlice::new(&self.bytes), IoSlice::new(zeros)]) {
            Ok(sent) => sent,
            Err(error) if is_transient(&error) => 0,
            Err(error) => return Err(error),
        };
        let of_bytes = sent.min(self.bytes.len());
        self.bytes.drain(..of_bytes);
        self.zeros -= sent - of_bytes;
        Ok(sent)
    }
}

/// The kernel's TCP information in the format of ndt7.
fn told(kernel: &Kernel) -> TcpInfo {
    let micros = |span: Duration| i64::try_from(span.as_nanos() / 1_000).ok();
    let bytes = |count: u64| i64::try_from(count).ok();
    let counts = &kernel.counts;
    TcpInfo {
        busy_time: micros(kernel.busy),
        bytes_acked: bytes(counts.bytes_acknowledged),
        bytes_received: bytes(counts.bytes_received),
        bytes_sent: bytes(counts.bytes_sent),
        bytes_retrans: bytes(counts.bytes_retransmitted),
        elapsed_time: None,
        min_rtt: kernel.min_rtt.and_then(micros),
        rtt: kernel.srtt.and_then(micros),
        rtt_var: micros(kernel.rtt_variation),
        rwnd_limited: micros(kernel.window_limited),
        snd_buf_limited: micros(kernel.buffer_limited),
    }
}
