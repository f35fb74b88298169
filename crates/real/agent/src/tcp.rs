//! Connections of TCP and MPTCP over kernel sockets.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netrig_core::{CloseReason, Instant};
use netrig_traffic::ConnId;
use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::roster::{Named, Roster};
pub(crate) use netrig_bulk::tcp_connection::{ConnectionMode, TcpConnection};
use netrig_host::HostAddress;
use netrig_host::Subflow;
use netrig_host::socket::TcpOptions;
use netrig_host::socket::{SocketBuilder, SocketError, refused};
use netrig_host::{TcpCounts, TcpInfo};

/// Backlog of a listening socket; the kernel limits it to net.core.somaxconn.
const CALLS: i32 = 4096;

/// The connections of one end.
pub(crate) struct TcpEnd {
    options: TcpOptions,
    dscp: u8,
    local: SocketAddr,
    /// Whether the application reads the received bytes.
    reads: bool,
    listener: Option<OwnedFd>,
    accepted: u32,
    connections: Roster<TcpConnection>,
    gone: TcpCounts,
    failed: u32,
    fallbacks: u32,
    /// The most simultaneous subflows of a connection, as far as they were read.
    subflows: u32,
}

/// The kernel's state of a connection over one of its paths.
pub(crate) struct PathInfo {
    /// The path's index among those that the connection may use.
    pub path: u8,
    pub info: TcpInfo,
}

impl Named for TcpConnection {
    type Name = ConnId;

    fn name(&self) -> ConnId {
        self.id
    }
}

impl TcpEnd {
    /// An end that opens connections and, if `listens` is set, accepts them.
    pub fn open(
        options: TcpOptions,
        dscp: u8,
        local: SocketAddr,
        listens: bool,
        reads: bool,
    ) -> Result<Self, SocketError> {
        // Subflows that the peer opens arrive at other addresses than the first.
        let local = if options.multipath && listens { anywhere(local) } else { local };
        let making = SocketBuilder::tcp(&options, dscp, local)?;
        // An end that does not listen makes a socket too, so that wrong options are found before the run starts.
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

    pub fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(AsFd::as_fd)
    }

    /// Whether there has been a connection.
    pub const fn has_been_used(&self) -> bool {
        self.connections.made() > 0
    }

    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Starts to open a connection and returns its place.
    pub fn connect(&mut self, id: ConnId, to: SocketAddr) -> Result<u32, SocketError> {
        let socket = SocketBuilder::tcp(&self.options, self.dscp, self.local)?.bound()?;
        // The application gets an immediate error (no route, a refusal by this host) like the failure of any connection.
        let failed = rustix::net::connect(&socket, &to).err();
        let failed = failed.filter(|error| !matches!(*error, Errno::INPROGRESS | Errno::INTR));
        Ok(self.enrol(id, socket, to, failed))
    }

    /// Accepts one pending connection, if there is one, and returns its place.
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
        let (multipath, clamp) = (self.options.multipath, self.options.window_clamp);
        let manner = ConnectionMode { multipath, reads: self.reads, clamp };
        self.connections.enrol(TcpConnection::new(id, socket, peer, manner, failed))
    }

    /// The connection at a place, if it still exists.
    pub fn get(&mut self, place: u32) -> Option<&mut TcpConnection> {
        self.connections.get_mut(place)
    }

    /// The earliest scheduled read of an application that does not read at once.
    pub fn next_read(&self) -> Option<Instant> {
        self.connections.members().filter_map(TcpConnection::reads_at).min()
    }

    /// Lets applications with read schedules read what is due at `now`. Adds the places of their connections to `turns`.
    pub fn take_steps(&mut self, now: Instant, turns: &mut VecDeque<u32>) {
        for (place, conn) in self.connections.iter_mut() {
            if conn.reads_at().is_some_and(|at| at <= now) {
                conn.take_step(now);
                turns.push_back(place);
            }
        }
    }

    /// The place of the application's connection, if it still exists.
    pub fn place_of(&self, id: ConnId) -> Option<u32> {
        self.connections.place_of(id)
    }

    /// Removes a connection that is over; its counts stay.
    pub fn forget(&mut self, place: u32, reason: CloseReason) {
        self.failed += u32::from(reason != CloseReason::Finished);
        let Some(mut conn) = self.connections.remove(place) else { return };
        self.fallbacks += u32::from(conn.fell_back());
        self.gone += conn.counts();
    }

    /// The counts of all connections, including those that are over.
    pub fn counts(&mut self) -> TcpCounts {
        let mut counts = self.gone;
        for conn in self.connections.members_mut() {
            counts += conn.counts();
        }
        counts
    }

    /// The kernel's state of the oldest connection that still exists, for each of its paths.
    pub fn infos(&self) -> Vec<PathInfo> {
        let Some(conn) = self.connections.members().next() else { return Vec::new() };
        if !self.options.multipath {
            return TcpInfo::read(conn.fd())
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
        let subflows = Subflow::all(conn.fd()).unwrap_or_default();
        let info = |subflow: &Subflow| Some(PathInfo { path: place(subflow)?, info: subflow.info });
        subflows.iter().filter_map(info).collect()
    }

    /// The largest number of subflows of the connections that exist now. Returns nothing if none of them uses Multipath
    /// TCP.
    pub fn subflows(&mut self) -> Option<u32> {
        let of = |conn: &TcpConnection| {
            let all = Subflow::all(conn.fd()).ok()?;
            Some(all.iter().filter(|subflow| subflow.info.is_established()).count() as u32)
        };
        let now = self.connections.members().filter(|conn| conn.is_multipath()).filter_map(of).max()?;
        self.subflows = self.subflows.max(now);
        Some(now)
    }

    /// The largest result of [`Self::subflows`] so far.
    pub const fn most_subflows(&self) -> u32 {
        self.subflows
    }

    /// Number of connections so far, of those that ended before all data had arrived, and of MPTCP connections that fell back to TCP.
    pub fn tally(&self) -> [u32; 3] {
        let falling = self.connections.members().filter(|conn| conn.fell_back()).count() as u32;
        [self.connections.made(), self.failed, self.fallbacks + falling]
    }
}

/// The same port at the unspecified address of that version of IP.
fn anywhere(at: SocketAddr) -> SocketAddr {
    HostAddress::unspecified_for(at).at(at.port())
}
