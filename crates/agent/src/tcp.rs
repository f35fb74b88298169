//! Connections of TCP and MPTCP over kernel sockets.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netrig_core::{CloseReason, ConnectionEvent, Data, StreamId};
use netrig_traffic::ConnId;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketFlags, sockopt};

use crate::TcpOptions;
use crate::socket::{Making, SocketError, refused};
use crate::sys::option_bytes;
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
    /// By their places, which are never given twice.
    connections: BTreeMap<u32, Conn>,
    made: u32,
    gone: TcpCounts,
    failed: u32,
    fallbacks: u32,
}

/// One connection.
pub(crate) struct Conn {
    pub id: ConnId,
    socket: OwnedFd,
    peer: SocketAddr,
    multipath: bool,
    reads: bool,
    /// The kernel has something to say that was not heard yet.
    ready: bool,
    /// What the kernel answered to the call.
    failed: Option<Errno>,
    outbox: VecDeque<Data>,
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
            connections: BTreeMap::new(),
            made: 0,
            gone: TcpCounts::default(),
            failed: 0,
            fallbacks: 0,
        })
    }

    /// The listening socket.
    pub fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(AsFd::as_fd)
    }

    /// Whether there has been a connection.
    pub const fn has_been_used(&self) -> bool {
        self.made > 0
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
        let place = self.made;
        self.made += 1;
        let conn = Conn {
            id,
            socket,
            peer,
            multipath: self.options.multipath,
            reads: self.reads,
            ready: true,
            failed,
            outbox: VecDeque::new(),
            connected: false,
            closing: false,
            shut: false,
            peer_finished: false,
            closed: false,
        };
        self.connections.insert(place, conn);
        place
    }

    /// The connection at a place, if it still is.
    pub fn get(&mut self, place: u32) -> Option<&mut Conn> {
        self.connections.get_mut(&place)
    }

    /// The place of the application's connection, if it still is.
    pub fn place_of(&self, id: ConnId) -> Option<u32> {
        self.connections.iter().find(|(_, conn)| conn.id == id).map(|(place, _)| *place)
    }

    /// Forgets a connection that is over; what it has counted stays.
    pub fn forget(&mut self, place: u32, reason: CloseReason) {
        self.failed += u32::from(reason != CloseReason::Finished);
        let Some(conn) = self.connections.remove(&place) else { return };
        self.fallbacks += u32::from(conn.fell_back());
        if let Ok(info) = TcpInfo::read(&conn.socket) {
            self.gone += info.counts;
        }
    }

    /// What the connections, those that are over too, have counted.
    pub fn counts(&self) -> TcpCounts {
        let mut counts = self.gone;
        self.infos().for_each(|info| counts += info.counts);
        counts
    }

    /// What the kernel tells of each connection that stands.
    pub fn infos(&self) -> impl Iterator<Item = TcpInfo> {
        self.connections.values().filter_map(|conn| TcpInfo::read(&conn.socket).ok())
    }

    /// Connections made so far, those that ended before everything had arrived, and those of MPTCP that fell back to TCP.
    pub fn tally(&self) -> [u32; 3] {
        let falling = self.connections.values().filter(|conn| conn.fell_back()).count() as u32;
        [self.made, self.failed, self.fallbacks + falling]
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
        if !self.closing && data.size() > 0 {
            self.outbox.push_back(data);
        }
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
            events.push(ConnectionEvent::Connected { peer: self.peer });
        }
        let sending = self.write(events)?;
        let receiving = if self.ready { self.read(buffer, events)? } else { Turn::Waits };
        if self.shut && self.peer_finished && TcpInfo::read(&self.socket).is_ok_and(|info| info.is_closed()) {
            self.closed = true;
            events.push(ConnectionEvent::Closed(CloseReason::Finished));
        }
        let goes_on = sending == Turn::GoesOn || receiving == Turn::GoesOn;
        Ok(if goes_on { Turn::GoesOn } else { Turn::Waits })
    }

    /// Gives the kernel what it has room for.
    fn write(&mut self, events: &mut Vec<ConnectionEvent>) -> Result<Turn, Errno> {
        if self.shut {
            return Ok(Turn::Waits);
        }
        let had_some = !self.outbox.is_empty();
        let mut left = TURN;
        while let Some(front) = self.outbox.front_mut() {
            if left == 0 {
                return Ok(Turn::GoesOn);
            }
            let piece = match front {
                Data::Fill(size) => &FILL[..FILL.len().min(*size as usize)],
                Data::Bytes(bytes) => bytes,
            };
            let piece = &piece[..piece.len().min(left)];
            match rustix::net::send(&self.socket, piece, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => {
                    left -= sent;
                    front.split_front(sent as u64);
                    if front.size() == 0 {
                        self.outbox.pop_front();
                    }
                }
                Err(Errno::AGAIN) => return Ok(Turn::Waits),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        if self.closing {
            rustix::net::shutdown(&self.socket, Shutdown::Write)?;
            self.shut = true;
        } else if had_some {
            events.push(ConnectionEvent::Writable);
        }
        Ok(Turn::Waits)
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

    /// Whether it was to be MPTCP and has become TCP (RFC 8684 section 3.7).
    fn fell_back(&self) -> bool {
        self.multipath && self.connected && !speaks_multipath(&self.socket)
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

/// Whether the peer speaks MPTCP: `MPTCP_INFO` is refused, or says so, once a connection has fallen back
/// (include/uapi/linux/mptcp.h).
fn speaks_multipath(socket: &OwnedFd) -> bool {
    const SOL_MPTCP: i32 = 284;
    const MPTCP_INFO: i32 = 1;
    const FLAGS_AT: usize = 8;
    const FELL_BACK: u32 = 1;
    let mut info = [0; 64];
    let flags =
        option_bytes(socket, SOL_MPTCP, MPTCP_INFO, &mut info).ok().filter(|len| *len >= FLAGS_AT + 4);
    flags.is_some_and(|_| {
        let bytes = info[FLAGS_AT..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        bytes & FELL_BACK == 0
    })
}

/// Why a connection is over, from what the kernel answers.
const fn reason(error: Errno) -> CloseReason {
    match error {
        Errno::CONNREFUSED => CloseReason::Refused,
        Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH => CloseReason::TimedOut,
        _ => CloseReason::Aborted,
    }
}
