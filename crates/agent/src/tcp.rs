//! Connections of TCP and MPTCP over kernel sockets.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netrig_core::{CloseReason, ConnectionEvent, Data, StreamId};
use netrig_traffic::ConnId;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketFlags, sockopt};

use crate::TcpOptions;
use crate::mptcp::{MptcpInfo, Subflow, SubflowCounts};
use crate::roster::{Named, Roster};
use crate::socket::{Making, SocketError, hold_window, refused};
use crate::tcp_info::{TcpCounts, TcpInfo};

/// Calls that may wait at a listening socket; the kernel cuts it to net.core.somaxconn.
const CALLS: i32 = 4096;

/// Bytes that one turn of a connection sends or receives at most, so that one does not starve the others.
const TURN: usize = 1 << 20;

/// Zeros for data without content, as many as one call gives the kernel.
static FILL: [u8; 1 << 18] = [0; 1 << 18];

/// One end's connections.
pub(crate) struct TcpEnd {
    options: TcpOptions,
    dscp: u8,
    local: SocketAddr,
    /// Whether somebody reads the bytes that arrive.
    reads: bool,
    listener: Option<OwnedFd>,
    accepted: u32,
    connections: Roster<Conn>,
    gone: TcpCounts,
    failed: u32,
    fallbacks: u32,
    /// The most subflows that a connection has had at once when it was looked at.
    subflows: u32,
}

/// What is told of a connection over one of its paths.
pub(crate) struct PathInfo {
    /// The path's place among those that the connection may take.
    pub path: u8,
    pub info: TcpInfo,
}

/// One connection.
pub(crate) struct Conn {
    pub id: ConnId,
    socket: OwnedFd,
    peer: SocketAddr,
    multipath: bool,
    /// What its subflows have counted, if it has any.
    counted: SubflowCounts,
    /// The largest window that it offers, bytes.
    clamp: Option<u32>,
    reads: bool,
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

/// Whether a connection has more to do at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It waits for the network.
    Waits,
    /// It was interrupted, and goes on when the others have had their turns.
    GoesOn,
}

impl TcpEnd {
    /// An end that opens connections and, if it is to, accepts them.
    pub fn open(
        options: TcpOptions,
        dscp: u8,
        local: SocketAddr,
        listens: bool,
        reads: bool,
    ) -> Result<Self, SocketError> {
        // Subflows that the peer opens come to other addresses than the first.
        let local = if options.multipath && listens { anywhere(local) } else { local };
        let making = Making::tcp(&options, dscp, local)?;
        // An end that does not listen has made a socket too: what the options cannot be is known before the run begins.
        let listener = if listens {
            let socket = making.bound()?;
            rustix::net::listen(&socket, CALLS).map_err(|error| refused("listen", local, error))?;
            Some(socket)
        } else {
            None
        };
        Ok(Self {
            options,
            dscp,
            local,
            reads,
            listener,
            accepted: 0,
            connections: Roster::default(),
            gone: TcpCounts::default(),
            failed: 0,
            fallbacks: 0,
            subflows: 0,
        })
    }

    /// The listening socket.
    pub fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(AsFd::as_fd)
    }

    /// Whether there has been a connection.
    pub const fn has_been_used(&self) -> bool {
        self.connections.made() > 0
    }

    /// Whether no connection is left.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Begins to open a connection; its place.
    pub fn connect(&mut self, id: ConnId, to: SocketAddr) -> Result<u32, SocketError> {
        let socket = Making::tcp(&self.options, self.dscp, self.local)?.bound()?;
        // What the kernel knows at once (no route, a refusal by this host) the application hears as of any connection.
        let failed = rustix::net::connect(&socket, &to).err();
        let failed = failed.filter(|error| !matches!(*error, Errno::INPROGRESS | Errno::INTR));
        Ok(self.enrol(id, socket, to, failed))
    }

    /// Accepts one call, if one waits; the place of the connection.
    pub fn accept(&mut self) -> io::Result<Option<u32>> {
        let Some(listener) = &self.listener else { return Ok(None) };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, peer) = loop {
            match rustix::net::acceptfrom_with(listener, flags) {
                Ok((socket, peer)) => break (socket, peer),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => return Err(error.into()),
            }
        };
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok()).unwrap_or(self.local);
        let id = ConnId::Accepted(self.accepted);
        self.accepted += 1;
        Ok(Some(self.enrol(id, socket, peer, None)))
    }

    fn enrol(&mut self, id: ConnId, socket: OwnedFd, peer: SocketAddr, failed: Option<Errno>) -> u32 {
        self.connections.enrol(Conn {
            id,
            socket,
            peer,
            multipath: self.options.multipath,
            counted: SubflowCounts::default(),
            clamp: self.options.window_clamp,
            reads: self.reads,
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
        })
    }

    /// The connection at a place, if it still is.
    pub fn get(&mut self, place: u32) -> Option<&mut Conn> {
        self.connections.get_mut(place)
    }

    /// The place of the application's connection, if it still is.
    pub fn place_of(&self, id: ConnId) -> Option<u32> {
        self.connections.place_of(id)
    }

    /// Forgets a connection that is over; what it has counted stays.
    pub fn forget(&mut self, place: u32, reason: CloseReason) {
        self.failed += u32::from(reason != CloseReason::Finished);
        let Some(mut conn) = self.connections.remove(place) else { return };
        self.fallbacks += u32::from(conn.fell_back());
        self.gone += conn.counts();
    }

    /// What the connections, those that are over too, have counted.
    pub fn counts(&mut self) -> TcpCounts {
        let mut counts = self.gone;
        for conn in self.connections.members_mut() {
            counts += conn.counts();
        }
        counts
    }

    /// What the kernel tells of the connection that stands, of several the first: of each path that it takes.
    pub fn infos(&self) -> Vec<PathInfo> {
        let Some(conn) = self.connections.members().next() else { return Vec::new() };
        if !self.options.multipath {
            return TcpInfo::read(&conn.socket)
                .ok()
                .map(|info| PathInfo { path: 0, info })
                .into_iter()
                .collect();
        }
        let place = |subflow: &Subflow| {
            let ends = (subflow.local.ip(), subflow.remote.ip());
            self.options
                .paths
                .iter()
                .position(|path| *path == ends)
                .and_then(|place| u8::try_from(place).ok())
        };
        let subflows = Subflow::all(&conn.socket).unwrap_or_default();
        let info = |subflow: &Subflow| Some(PathInfo { path: place(subflow)?, info: subflow.info });
        subflows.iter().filter_map(info).collect()
    }

    /// How many subflows the connection that stands has, of several the one with the most; nothing if it is none of
    /// Multipath TCP.
    pub fn subflows(&mut self) -> Option<u32> {
        let of = |conn: &Conn| {
            let all = Subflow::all(&conn.socket).ok()?;
            Some(all.iter().filter(|subflow| subflow.info.is_established()).count() as u32)
        };
        let now = self.connections.members().filter(|conn| conn.multipath).filter_map(of).max()?;
        self.subflows = self.subflows.max(now);
        Some(now)
    }

    /// The most subflows that a connection has had at once when [`Self::subflows`] was asked.
    pub const fn most_subflows(&self) -> u32 {
        self.subflows
    }

    /// Connections made so far, those that ended before everything had arrived, and those of MPTCP that fell back to TCP.
    pub fn tally(&self) -> [u32; 3] {
        let falling = self.connections.members().filter(|conn| conn.fell_back()).count() as u32;
        [self.connections.made(), self.failed, self.fallbacks + falling]
    }
}

impl Named for Conn {
    type Name = ConnId;

    fn name(&self) -> ConnId {
        self.id
    }
}

impl Conn {
    /// The socket.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The kernel has reported it.
    pub const fn is_ready(&mut self) {
        self.ready = true;
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

    /// Closes once everything was sent.
    pub const fn close(&mut self) {
        self.closing = true;
    }

    /// Does what can be done now, and gives what the application must hear. After [`ConnectionEvent::Closed`] nothing
    /// follows.
    pub fn take_turn(&mut self, buffer: &mut [u8], events: &mut Vec<ConnectionEvent>) -> Turn {
        if self.closed {
            return Turn::Waits;
        }
        match self.try_turn(buffer, events) {
            Ok(turn) => turn,
            Err(error) => {
                self.closed = true;
                events.push(ConnectionEvent::Closed(reason(error)));
                Turn::Waits
            }
        }
    }

    fn try_turn(&mut self, buffer: &mut [u8], events: &mut Vec<ConnectionEvent>) -> Result<Turn, Errno> {
        self.failed.take().map_or(Ok(()), Err)?;
        if self.ready {
            sockopt::socket_error(&self.socket)??;
        }
        if !self.connected {
            match rustix::net::getpeername(&self.socket) {
                Ok(_) => {}
                Err(Errno::NOTCONN) => return Ok(Turn::Waits),
                Err(error) => return Err(error),
            }
            self.connected = true;
            if !self.multipath {
                self.segment = TcpInfo::read(&self.socket).map_or(1, |info| info.segment.max(1).into());
            }
            events.push(ConnectionEvent::Connected { peer: self.peer });
        }
        let sending = self.write(events)?;
        let receiving = if self.ready { self.read(buffer, events)? } else { Turn::Waits };
        if self.shut && self.peer_finished && self.is_over() {
            self.closed = true;
            events.push(ConnectionEvent::Closed(CloseReason::Finished));
        }
        let goes_on = sending == Turn::GoesOn || receiving == Turn::GoesOn;
        Ok(if goes_on { Turn::GoesOn } else { Turn::Waits })
    }

    /// Gives the kernel what it has room for.
    ///
    /// While the application goes on it is given whole segments, for it sends what it has at the end of each call: a
    /// rest of some bytes would travel alone, and cost both ends as much as 64 KB.
    fn write(&mut self, events: &mut Vec<ConnectionEvent>) -> Result<Turn, Errno> {
        if self.shut {
            return Ok(Turn::Waits);
        }
        let had_some = !self.outbox.is_empty();
        let mut left = TURN;
        while let Some(piece) = self.next_piece() {
            if left == 0 {
                return Ok(Turn::GoesOn);
            }
            match rustix::net::send(&self.socket, piece, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => {
                    left = left.saturating_sub(sent);
                    self.sent(sent as u64);
                }
                Err(Errno::AGAIN) => return Ok(Turn::Waits),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        if !self.outbox.is_empty() {
            // What it says to this decides whether the rest goes alone.
            self.asked = true;
            events.push(ConnectionEvent::Writable);
            return Ok(Turn::GoesOn);
        }
        if self.closing {
            rustix::net::shutdown(&self.socket, Shutdown::Write)?;
            self.shut = true;
        } else if had_some && !self.asked {
            events.push(ConnectionEvent::Writable);
        }
        self.asked = false;
        Ok(Turn::Waits)
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
    fn read(&mut self, buffer: &mut [u8], events: &mut Vec<ConnectionEvent>) -> Result<Turn, Errno> {
        let discards = !self.reads && !self.multipath;
        let flags = if discards { RecvFlags::DONTWAIT | RecvFlags::TRUNC } else { RecvFlags::DONTWAIT };
        let mut left = TURN;
        while !self.peer_finished {
            if left == 0 {
                return Ok(Turn::GoesOn);
            }
            let room = buffer.len().min(left);
            match rustix::net::recv(&self.socket, &mut buffer[..room], flags) {
                Ok((_, 0)) => {
                    self.peer_finished = true;
                    events.push(ConnectionEvent::PeerFinished);
                }
                Ok((_, len)) => {
                    left -= len;
                    hold_window(&self.socket, self.clamp);
                    let data = if discards { Data::Fill(len as u64) } else { content(&buffer[..len]) };
                    events.push(ConnectionEvent::Received { stream: StreamId(0), data });
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        self.ready = false;
        Ok(Turn::Waits)
    }

    /// Whether it was to be MPTCP and has become TCP (RFC 8684 section 3.7): what is told of it is refused then, or says so.
    fn fell_back(&self) -> bool {
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
    fn counts(&mut self) -> TcpCounts {
        if let Some(subflows) = self.multipath.then(|| Subflow::all(&self.socket).ok()).flatten() {
            return self.counted.update(&subflows);
        }
        TcpInfo::read(&self.socket).map_or_else(|_| TcpCounts::default(), |info| info.counts)
    }
}

/// The same port at every address of that version of IP.
fn anywhere(at: SocketAddr) -> SocketAddr {
    let address: IpAddr =
        if at.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    (address, at.port()).into()
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
