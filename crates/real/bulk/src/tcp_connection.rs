//! One connection of TCP or MPTCP over a kernel socket.

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

/// Bytes that one turn of a connection sends or receives at most, so that one does not starve the others.
const TURN: usize = 1 << 20;

/// Zeros for data without content, as many as one call gives the kernel.
static FILL: [u8; 1 << 18] = [0; 1 << 18];

/// One connection.
#[derive(Debug)]
pub struct TcpConnection {
    /// The name by which the application knows the connection.
    pub id: ConnId,
    socket: OwnedFd,
    peer: SocketAddr,
    multipath: bool,
    /// What its subflows have counted, if it has any.
    counted: SubflowCounts,
    /// The largest window that it offers, bytes.
    clamp: Option<u32>,
    reads: bool,
    /// Its application, if that does not read at once.
    reader: Option<SlowReader>,
    /// The kernel has something to say that was not heard yet.
    ready: bool,
    /// What the kernel answered to the call.
    failed: Option<Errno>,
    outbox: VecDeque<Data>,
    /// Largest segment that the kernel sends, bytes; 1 if it is not known, as of several subflows.
    segment: u64,
    /// Less than a segment is left, and the application was asked for more.
    asked: bool,
    connected: bool,
    /// The application has closed.
    closing: bool,
    /// The kernel was told so.
    shut: bool,
    peer_finished: bool,
    closed: bool,
}

/// An application that reads by a schedule.
#[derive(Clone, Copy, Debug)]
struct SlowReader {
    schedule: ReadSchedule,
    /// Bytes that it may read before the next step.
    left: u64,
}

/// In what manner a connection is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionMode {
    /// It is one of Multipath TCP.
    pub multipath: bool,
    /// Somebody reads the bytes that arrive.
    pub reads: bool,
    /// The largest window that it offers, bytes.
    pub clamp: Option<u32>,
}

/// Whether a connection has more to do at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnOutcome {
    /// It waits for the network.
    Waits,
    /// It was interrupted, and goes on when the others have had their turns.
    GoesOn,
}

impl TcpConnection {
    /// One that is being opened, or stands: by a socket that does not block. What the kernel answered to the call at once is told
    /// as of any connection.
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

    /// Whether it was to be one of MPTCP.
    pub const fn is_multipath(&self) -> bool {
        self.multipath
    }

    /// The kernel has reported it.
    pub const fn is_ready(&mut self) {
        self.ready = true;
    }

    /// Its application reads by this schedule from now on.
    pub const fn read_by(&mut self, schedule: ReadSchedule) {
        self.reader = Some(SlowReader { schedule, left: 0 });
    }

    /// When its application may read more, if it does not read at once.
    pub fn reads_at(&self) -> Option<Instant> {
        self.reader.map(|reader| reader.schedule.next())
    }

    /// The steps that are due at `now` let its application read of what waits; what it had left before lapses.
    pub fn take_step(&mut self, now: Instant) {
        if let Some(reader) = &mut self.reader {
            let bytes = reader.schedule.take(now);
            reader.left = if self.ready { bytes } else { 0 };
        }
    }

    /// Takes data that is to be sent; never refused.
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

    /// Bytes that it was given and that the kernel has not taken.
    pub fn unsent(&self) -> u64 {
        self.outbox.iter().map(Data::size).sum()
    }

    /// Closes once everything was sent.
    pub const fn close(&mut self) {
        self.closing = true;
    }

    /// Does what can be done now, and gives what the application must hear. After [`ConnectionEvent::Closed`] nothing
    /// follows.
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

    /// Gives the kernel what it has room for.
    ///
    /// While the application goes on it is given whole segments, for it sends what it has at the end of each call: a
    /// rest of some bytes would travel alone, and cost both ends as much as 64 KB.
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
            // What it says to this decides whether the rest goes alone.
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

    /// What the kernel gets next: nothing if there is nothing, or so little that the application is asked for more first.
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

    /// The kernel has taken so many bytes.
    fn sent(&mut self, bytes: u64) {
        let Some(front) = self.outbox.front_mut() else { return };
        front.split_front(bytes);
        if front.size() == 0 {
            self.outbox.pop_front();
        }
    }

    /// Takes from the kernel what has arrived; bytes that nobody reads are not copied (`MSG_TRUNC`, tcp(7)).
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
            // It has read all that waited.
            reader.left = 0;
        }
        self.ready = false;
        Ok(TurnOutcome::Waits)
    }

    /// Nothing may be read before the next step; but the end is told behind the last data. While data wait the connection stays
    /// ready, for the kernel reports them once.
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

    /// Whether it was to be MPTCP and has become TCP (RFC 8684 section 3.7): what is told of it is refused then, or says so.
    pub fn fell_back(&self) -> bool {
        self.multipath && self.connected && MptcpInfo::read(&self.socket).map_or(true, |info| info.fell_back)
    }

    /// Whether nothing can be sent or received any more, and all was acknowledged. Of several subflows none can tell.
    fn is_over(&self) -> bool {
        match MptcpInfo::read(&self.socket) {
            Ok(info) if self.multipath && !info.fell_back => info.all_acknowledged,
            _ => TcpInfo::read(&self.socket).is_ok_and(|info| info.is_closed()),
        }
    }

    /// What it has counted; a connection that nothing is told of has counted what it had before.
    pub fn counts(&mut self) -> TcpCounts {
        if let Some(subflows) = self.multipath.then(|| Subflow::all(&self.socket).ok()).flatten() {
            return self.counted.update(&subflows);
        }
        TcpInfo::read(&self.socket).map_or_else(|_| TcpCounts::default(), |info| info.counts)
    }
}

/// What was received, as an application gets it: zeros are fill, which need not be carried around.
fn content(bytes: &[u8]) -> Data {
    if bytes.iter().all(|byte| *byte == 0) {
        Data::Fill(bytes.len() as u64)
    } else {
        Data::Bytes(bytes.into())
    }
}

/// Why a connection is over, from what the kernel answers.
const fn reason(error: Errno) -> CloseReason {
    match error {
        Errno::CONNREFUSED => CloseReason::Refused,
        Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH => CloseReason::TimedOut,
        _ => CloseReason::Aborted,
    }
}
