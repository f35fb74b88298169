//! A TCP or MPTCP connection over a kernel socket.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netrig_core::{CloseReason, ConnectionEvent, Data, Instant, StreamId};
use netrig_traffic::{ConnId, ReadSchedule};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, sockopt};

use netrig_host::socket::hold_window;
use netrig_host::{MptcpInfo, Subflow, SubflowCounts};
use netrig_host::{TcpCounts, TcpInfo};

/// Maximum number of bytes that one turn of a connection sends or receives, so that it does not starve other
/// connections.
const TURN: usize = 1 << 20;

/// Zeros to send for [`Data::Fill`]. The length is the maximum of one send call.
static FILL: [u8; 1 << 18] = [0; 1 << 18];

/// A non-blocking connection. An event loop serves many connections by calling [`TcpConnection::take_turn`] in turn.
#[derive(Debug)]
pub struct TcpConnection {
    /// The application's identifier of the connection.
    pub id: ConnId,
    socket: OwnedFd,
    peer: SocketAddr,
    multipath: bool,
    /// Counts of the MPTCP subflows.
    counted: SubflowCounts,
    /// The largest receive window that this end offers, bytes.
    clamp: Option<u32>,
    /// Whether the application needs the contents of the received bytes.
    reads: bool,
    /// The read schedule of the application. `None`: the application reads data as soon as it arrives.
    reader: Option<SlowReader>,
    /// Whether the kernel reported readiness and the socket has not been read until empty since then.
    ready: bool,
    /// The immediate error of `connect`, if it has not been reported yet.
    failed: Option<Errno>,
    outbox: VecDeque<Data>,
    /// Maximum segment size, bytes; 1 if unknown, as for MPTCP.
    segment: u64,
    /// Whether less than a segment is unsent and the application was asked for more data.
    asked: bool,
    connected: bool,
    /// The application has closed the connection.
    closing: bool,
    /// The socket was shut down for writing.
    shut: bool,
    peer_finished: bool,
    closed: bool,
}

/// State of an application that reads on a schedule.
#[derive(Clone, Copy, Debug)]
struct SlowReader {
    schedule: ReadSchedule,
    /// Bytes that may be read before the next step of the schedule.
    left: u64,
}

/// Options of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionMode {
    /// Whether the connection is Multipath TCP.
    pub multipath: bool,
    /// Whether the application needs the contents of the received bytes. If not, they are discarded in the kernel.
    pub reads: bool,
    /// The largest receive window that this end offers, bytes; `None` if the kernel chooses it.
    pub clamp: Option<u32>,
}

/// Whether a connection has more work that it can do immediately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnOutcome {
    /// The connection has nothing to do until the socket becomes ready or the application acts.
    Waits,
    /// The connection reached the limit of one turn and needs another turn after the other connections.
    GoesOn,
}

impl TcpConnection {
    /// Makes a connection from a non-blocking socket that is connecting or connected. `failed` is the immediate error
    /// of `connect`, if there was one; the next turn reports it like a later error.
    pub fn new(
        id: ConnId,
        socket: OwnedFd,
        peer: SocketAddr,
        manner: ConnectionMode,
        failed: Option<Errno>,
    ) -> Self {
        Self {
            id,
            socket,
            peer,
            multipath: manner.multipath,
            counted: SubflowCounts::default(),
            clamp: manner.clamp,
            reads: manner.reads,
            reader: None,
            ready: true,
            failed,
            outbox: VecDeque::new(),
            segment: 1,
            asked: false,
            connected: false,
            closing: false,
            shut: false,
            peer_finished: false,
            closed: false,
        }
    }

    /// The socket.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether MPTCP was requested.
    pub const fn is_multipath(&self) -> bool {
        self.multipath
    }

    /// Records that the kernel reported the socket as ready.
    pub const fn is_ready(&mut self) {
        self.ready = true;
    }

    /// From now on, the application reads on `schedule`.
    pub const fn read_by(&mut self, schedule: ReadSchedule) {
        self.reader = Some(SlowReader { schedule, left: 0 });
    }

    /// When the application reads next; `None` if it reads data as soon as it arrives.
    pub fn reads_at(&self) -> Option<Instant> {
        self.reader.map(|reader| reader.schedule.next())
    }

    /// Executes the read steps of the schedule that are due at `now`. Unused bytes of earlier steps expire.
    pub fn take_step(&mut self, now: Instant) {
        if let Some(reader) = &mut self.reader {
            let bytes = reader.schedule.take(now);
            reader.left = if self.ready { bytes } else { 0 };
        }
    }

    /// Queues data to send. The queue has no limit. Does nothing after [`close`](Self::close).
    pub fn send(&mut self, data: Data) {
        if self.closing || data.size() == 0 {
            return;
        }
        match (self.outbox.back_mut(), data) {
            (Some(Data::Fill(size)), Data::Fill(more)) => *size = size.saturating_add(more),
            (_, data) => self.outbox.push_back(data),
        }
        self.asked = false;
    }

    /// Number of queued bytes that the kernel has not accepted.
    pub fn unsent(&self) -> u64 {
        self.outbox.iter().map(Data::size).sum()
    }

    /// Closes the connection after all queued data is sent.
    pub const fn close(&mut self) {
        self.closing = true;
    }

    /// Sends and receives as much as possible without waiting, up to the limit of a turn. Appends the events for the
    /// application to `events`. [`ConnectionEvent::Closed`] is the last event of a connection.
    pub fn take_turn(&mut self, buffer: &mut [u8], events: &mut Vec<ConnectionEvent>) -> TurnOutcome {
        if self.closed {
            return TurnOutcome::Waits;
        }
        match self.try_turn(buffer, events) {
            Ok(turn) => turn,
            Err(error) => {
                self.closed = true;
                events.push(ConnectionEvent::Closed(reason(error)));
                TurnOutcome::Waits
            }
        }
    }

    fn try_turn(
        &mut self,
        buffer: &mut [u8],
        events: &mut Vec<ConnectionEvent>,
    ) -> Result<TurnOutcome, Errno> {
        self.failed.take().map_or(Ok(()), Err)?;
        if self.ready {
            sockopt::socket_error(&self.socket)??;
        }
        if !self.connected {
            match rustix::net::getpeername(&self.socket) {
                Ok(_) => {}
                Err(Errno::NOTCONN) => return Ok(TurnOutcome::Waits),
                Err(error) => return Err(error),
            }
            self.connected = true;
            if !self.multipath {
                self.segment = TcpInfo::read(&self.socket).map_or(1, |info| info.segment.max(1).into());
            }
            events.push(ConnectionEvent::Connected { peer: self.peer });
        }
        let sending = self.write(events)?;
        let receiving = if self.ready { self.read(buffer, events)? } else { TurnOutcome::Waits };
        if self.shut && self.peer_finished && self.is_over() {
            self.closed = true;
            events.push(ConnectionEvent::Closed(CloseReason::Finished));
        }
        let goes_on = sending == TurnOutcome::GoesOn || receiving == TurnOutcome::GoesOn;
        Ok(if goes_on { TurnOutcome::GoesOn } else { TurnOutcome::Waits })
    }

    /// Sends until the kernel's buffer is full.
    ///
    /// The kernel sends the last, incomplete segment of each call immediately. While the application has more data,
    /// only whole segments are therefore passed to the kernel. A segment of a few bytes would cost both ends as much as
    /// 64 KB.
    fn write(&mut self, events: &mut Vec<ConnectionEvent>) -> Result<TurnOutcome, Errno> {
        if self.shut {
            return Ok(TurnOutcome::Waits);
        }
        let had_some = !self.outbox.is_empty();
        let mut left = TURN;
        while let Some(piece) = self.next_piece() {
            if left == 0 {
                return Ok(TurnOutcome::GoesOn);
            }
            match rustix::net::send(&self.socket, piece, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => {
                    left = left.saturating_sub(sent);
                    self.sent(sent as u64);
                }
                Err(Errno::AGAIN) => return Ok(TurnOutcome::Waits),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        if !self.outbox.is_empty() {
            // If the application sends no more data now, the next turn sends the rest as an incomplete segment.
            self.asked = true;
            events.push(ConnectionEvent::Writable);
            return Ok(TurnOutcome::GoesOn);
        }
        if self.closing {
            rustix::net::shutdown(&self.socket, Shutdown::Write)?;
            self.shut = true;
        } else if had_some && !self.asked {
            events.push(ConnectionEvent::Writable);
        }
        self.asked = false;
        Ok(TurnOutcome::Waits)
    }

    /// The next bytes for the kernel. `None` if the queue is empty, or if it contains less than a segment and the
    /// application must first be asked for more data.
    fn next_piece(&self) -> Option<&[u8]> {
        match self.outbox.front()? {
            Data::Bytes(bytes) => Some(bytes),
            Data::Fill(size) => {
                let most = (FILL.len() as u64).min(*size);
                let whole = most - most % self.segment;
                let goes_on = self.outbox.len() == 1 && !self.closing && !self.asked;
                match whole {
                    0 if goes_on => None,
                    0 => Some(&FILL[..most as usize]),
                    _ => Some(&FILL[..whole as usize]),
                }
            }
        }
    }

    /// Removes `bytes` bytes, which the kernel accepted, from the queue.
    fn sent(&mut self, bytes: u64) {
        let Some(front) = self.outbox.front_mut() else { return };
        front.split_front(bytes);
        if front.size() == 0 {
            self.outbox.pop_front();
        }
    }

    /// Receives the arrived bytes. If the application does not need their contents, the kernel discards them without
    /// copying (`MSG_TRUNC`, tcp(7)).
    fn read(&mut self, buffer: &mut [u8], events: &mut Vec<ConnectionEvent>) -> Result<TurnOutcome, Errno> {
        let discards = !self.reads && !self.multipath;
        let flags = if discards { RecvFlags::DONTWAIT | RecvFlags::TRUNC } else { RecvFlags::DONTWAIT };
        let mut left = TURN;
        while !self.peer_finished {
            if left == 0 {
                return Ok(TurnOutcome::GoesOn);
            }
            let most = self.reader.map_or(u64::MAX, |reader| reader.left);
            let room = buffer.len().min(left).min(usize::try_from(most).unwrap_or(usize::MAX));
            if room == 0 {
                return self.look_for_the_end(events);
            }
            match rustix::net::recv(&self.socket, &mut buffer[..room], flags) {
                Ok((_, 0)) => {
                    self.peer_finished = true;
                    events.push(ConnectionEvent::PeerFinished);
                }
                Ok((_, len)) => {
                    left -= len;
                    if let Some(reader) = &mut self.reader {
                        reader.left -= len as u64;
                    }
                    hold_window(&self.socket, self.clamp);
                    let data = if discards { Data::Fill(len as u64) } else { content(&buffer[..len]) };
                    events.push(ConnectionEvent::Received { stream: StreamId(0), data });
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(reader) = &mut self.reader {
            // All waiting bytes have been read, so the rest of the step expires.
            reader.left = 0;
        }
        self.ready = false;
        Ok(TurnOutcome::Waits)
    }

    /// Checks for the end of the stream while no data may be read before the next step. If data waits, `ready` stays
    /// set, because the kernel reports readiness only once.
    fn look_for_the_end(&mut self, events: &mut Vec<ConnectionEvent>) -> Result<TurnOutcome, Errno> {
        match rustix::net::recv(&self.socket, &mut [0; 1], RecvFlags::DONTWAIT | RecvFlags::PEEK) {
            Ok((_, 0)) => {
                self.peer_finished = true;
                self.ready = false;
                events.push(ConnectionEvent::PeerFinished);
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => self.ready = false,
            Err(error) => return Err(error),
        }
        Ok(TurnOutcome::Waits)
    }

    /// Whether MPTCP fell back to TCP (RFC 8684 section 3.7). In that case, the kernel refuses the option `MPTCP_INFO`
    /// or reports the fallback in it.
    pub fn fell_back(&self) -> bool {
        self.multipath && self.connected && MptcpInfo::read(&self.socket).map_or(true, |info| info.fell_back)
    }

    /// Whether both directions are closed and all data is acknowledged. MPTCP needs its own check, because the state of
    /// a single subflow does not show this.
    fn is_over(&self) -> bool {
        match MptcpInfo::read(&self.socket) {
            Ok(info) if self.multipath && !info.fell_back => info.all_acknowledged,
            _ => TcpInfo::read(&self.socket).is_ok_and(|info| info.is_closed()),
        }
    }

    /// The counts of the connection. For MPTCP, they are the sums over all subflows. All counts are zero if the kernel
    /// reports none.
    pub fn counts(&mut self) -> TcpCounts {
        if let Some(subflows) = self.multipath.then(|| Subflow::all(&self.socket).ok()).flatten() {
            return self.counted.update(&subflows);
        }
        TcpInfo::read(&self.socket).map_or_else(|_| TcpCounts::default(), |info| info.counts)
    }
}

/// Received data for the application. Zeros become [`Data::Fill`], which takes no memory.
fn content(bytes: &[u8]) -> Data {
    if bytes.iter().all(|byte| *byte == 0) {
        Data::Fill(bytes.len() as u64)
    } else {
        Data::Bytes(bytes.into())
    }
}

/// The close reason for an error of the kernel.
const fn reason(error: Errno) -> CloseReason {
    match error {
        Errno::CONNREFUSED => CloseReason::Refused,
        Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH => CloseReason::TimedOut,
        _ => CloseReason::Aborted,
    }
}
