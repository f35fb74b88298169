//! Datagrams over a UDP socket.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netrig_core::{Data, DatagramId, Instant};
use rustix::net::{SocketType, ipproto};
use serde::{Deserialize, Serialize};

use crate::arrivals::{Arrival, ArrivalLog, Arrivals};
use crate::clock::RealtimeOffset;
use crate::datagram::{Body, Rest, STAMP_LEN, Stamp, answer_body, answered, body};
use crate::socket::{Making, SocketError};
use crate::source_report::{Asked, SourceMeter};
use crate::sys::{Incoming, ReceiveBatch, SendBatch, option_bytes};
use crate::{Buffers, Clock};

/// The longest payload over IPv4 (RFC 768, RFC 791): 65535 less 28 bytes.
const LONGEST: u64 = 65_507;

/// Zeros for datagrams without content.
static FILL: [u8; LONGEST as usize] = [0; LONGEST as usize];

/// Software stamps of what is received (Documentation/networking/timestamping).
const STAMPS: i32 = (libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE) as i32;

/// Where SO_MEMINFO has the count of drops, bytes: the ninth of its 32-bit words (include/uapi/linux/sock_diag.h).
const SK_MEMINFO_DROPS: usize = 32;

/// Datagrams that wait for the socket; while there are so many, the application is not asked for more.
const BACKLOG: usize = SendBatch::LIMIT;

/// One end's socket for datagrams: numbers and stamps what is sent, and tells what arrives.
pub(crate) struct UdpEnd {
    socket: OwnedFd,
    flow: u32,
    next: u64,
    waiting: VecDeque<Waiting>,
    source: SourceMeter,
    receive: ReceiveBatch,
    log: ArrivalLog,
    foreign: u64,
    unstamped: u64,
    reported_drops: u32,
    reported: Arrivals,
}

/// A datagram that is to be sent.
struct Waiting {
    to: SocketAddr,
    intended: Instant,
    rest: Rest,
    body: Body,
}

/// A datagram that arrived for the first time.
pub(crate) struct Received {
    pub at: Instant,
    pub from: SocketAddr,
    pub stamp: Stamp,
    /// What it answers, if it does.
    pub answers: Option<DatagramId>,
    pub data: Data,
}

/// What a UDP socket received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpReport {
    /// The flow's datagrams.
    pub arrivals: Arrivals,
    /// Datagrams that reached the host, and that the socket had no room for.
    pub socket_dropped: u32,
    /// Datagrams of others, or that no datagram of the flow can be.
    pub foreign: u64,
    /// Datagrams without the kernel's stamp; they are taken to have arrived when they were read.
    pub unstamped: u64,
}

/// What became of receiving since it was last told, for samples.
pub(crate) struct UdpCounts {
    pub duplicated: u64,
    pub reordered: u64,
    pub socket_dropped: u32,
}

impl UdpEnd {
    /// Opens a bound socket, with kernel stamps.
    pub fn open(
        flow: u32,
        local: SocketAddr,
        dscp: u8,
        buffers: Buffers,
        asked: Asked,
    ) -> Result<Self, SocketError> {
        let making = Making::open(SocketType::DGRAM, Some(ipproto::UDP), local)?;
        making.buffers(buffers)?;
        making.dscp(dscp)?;
        making.number("SO_TIMESTAMPING", libc::SOL_SOCKET, libc::SO_TIMESTAMPING, STAMPS)?;
        Ok(Self {
            socket: making.bound()?,
            flow,
            next: 0,
            waiting: VecDeque::new(),
            source: SourceMeter::new(asked),
            receive: ReceiveBatch::new(LONGEST as usize),
            log: ArrivalLog::default(),
            foreign: 0,
            unstamped: 0,
            reported_drops: 0,
            reported: Arrivals::default(),
        })
    }

    /// The socket.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether more datagrams may be given.
    pub fn has_room(&self) -> bool {
        self.waiting.len() < BACKLOG
    }

    /// Takes a datagram that is meant for `intended`, and what it answers; [`UdpEnd::flush`] sends it. An error says what
    /// is wrong with it.
    pub fn push(
        &mut self,
        intended: Instant,
        to: SocketAddr,
        answers: Option<DatagramId>,
        data: Data,
    ) -> Result<(), String> {
        let size = data.size();
        let (rest, body) = match answers {
            Some(answered) => (Rest::Answer, answer_body(answered, size)),
            None if matches!(data, Data::Bytes(_)) => (Rest::Content, body(data)),
            None => (Rest::Fill, body(data)),
        };
        let body =
            body.ok_or_else(|| format!("a datagram of {size} B has no room for its stamp of {STAMP_LEN} B"))?;
        let len = match &body {
            Body::Fill(rest) => *rest,
            Body::Content(bytes) => bytes.len() as u64,
        };
        if len + STAMP_LEN as u64 > LONGEST {
            return Err(format!("a datagram of {size} B cannot be sent over UDP, which takes {LONGEST} B"));
        }
        self.waiting.push_back(Waiting { to, intended, rest, body });
        Ok(())
    }

    /// Sends what waits, several at once if several are due. What the socket has no room for goes on waiting.
    pub fn flush(&mut self, clock: &Clock) -> io::Result<()> {
        while !self.waiting.is_empty() {
            let count = self.waiting.len().min(SendBatch::LIMIT);
            let mut stamps = [(Instant::ZERO, [0; STAMP_LEN]); SendBatch::LIMIT];
            for ((sent, bytes), (datagram, number)) in
                stamps.iter_mut().zip(self.waiting.iter().zip(self.next..))
            {
                *sent = clock.now();
                let late = *sent - datagram.intended;
                *bytes = Stamp { flow: self.flow, number, sent: *sent, late, rest: datagram.rest }.encode();
            }
            let batch: Vec<_> = self
                .waiting
                .iter()
                .zip(&stamps)
                .map(|(datagram, (_, stamp))| (datagram.to, &stamp[..], datagram.body.bytes()))
                .collect();
            let sent = match SendBatch::send(&self.socket, &batch[..count]) {
                Ok(sent) => sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // What has no way is lost, as on any network; it was sent.
                Err(error) if is_loss(&error) => 1,
                Err(error) => return Err(error),
            };
            for ((at, _), datagram) in stamps.iter().zip(self.waiting.drain(..sent)) {
                self.source.sent(datagram.intended, *at);
                self.next += 1;
            }
        }
        Ok(())
    }

    /// Takes what waits in the socket, at most one batch, and gives each datagram of the flow that arrives for the first
    /// time; whether there may be more.
    pub fn receive(
        &mut self,
        clock: &Clock,
        offset: &RealtimeOffset,
        mut each: impl FnMut(Received),
    ) -> io::Result<bool> {
        let count = match self.receive.receive(&self.socket) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted || is_loss(&error) => return Ok(true),
            Err(error) => return Err(error),
        };
        for at in 0..count {
            let Some(Incoming { from, head, len, stamp: kernel }) = self.receive.get(at) else {
                self.foreign += 1;
                continue;
            };
            let Some(stamp) = Stamp::decode(head).filter(|stamp| stamp.flow == self.flow) else {
                self.foreign += 1;
                continue;
            };
            self.unstamped += u64::from(kernel.is_none());
            let at = kernel.map_or_else(|| clock.now(), |ns| clock.instant(offset.monotonic(ns)));
            let (answers, data) = match stamp.rest {
                Rest::Fill => (None, Data::Fill(len as u64)),
                Rest::Content => (None, Data::Bytes(head[STAMP_LEN..].into())),
                Rest::Answer => (answered(head), Data::Fill(len as u64)),
            };
            if stamp.rest == Rest::Answer && answers.is_none() {
                self.foreign += 1;
                continue;
            }
            match self.log.arrived(stamp.number) {
                Arrival::First => each(Received { at, from, stamp, answers, data }),
                Arrival::Foreign => self.foreign += 1,
                Arrival::Duplicate | Arrival::Stale => {}
            }
        }
        Ok(count > 0)
    }

    /// Datagrams sent since the start.
    pub const fn sent(&self) -> u64 {
        self.next
    }

    /// How well the source kept to what was asked.
    pub const fn source(&self) -> &SourceMeter {
        &self.source
    }

    /// What was received.
    pub fn report(&self) -> io::Result<UdpReport> {
        let arrivals = self.log.counts();
        Ok(UdpReport {
            arrivals,
            socket_dropped: self.drops()?,
            foreign: self.foreign,
            unstamped: self.unstamped,
        })
    }

    /// How many datagrams the socket had no room for, since it was made. SO_RXQ_OVFL tells the same number, but only with the
    /// next datagram that there is room for.
    fn drops(&self) -> io::Result<u32> {
        let mut info = [0; SK_MEMINFO_DROPS + size_of::<u32>()];
        let len = option_bytes(&self.socket, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut info)?;
        let drops = info[..len].get(SK_MEMINFO_DROPS..).and_then(|bytes| bytes.first_chunk());
        drops.map(|bytes| u32::from_ne_bytes(*bytes)).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Counts since the last call.
    pub fn take_counts(&mut self) -> io::Result<UdpCounts> {
        let (now, before) = (self.log.counts(), self.reported);
        let drops = self.drops()?;
        let dropped = drops.wrapping_sub(self.reported_drops);
        (self.reported, self.reported_drops) = (now, drops);
        Ok(UdpCounts {
            duplicated: now.duplicated - before.duplicated,
            reordered: now.reordered - before.reordered,
            socket_dropped: dropped,
        })
    }
}

impl Body {
    fn bytes(&self) -> &[u8] {
        match self {
            // `push` has made sure that no datagram is longer.
            Self::Fill(size) => &FILL[..*size as usize],
            Self::Content(bytes) => bytes,
        }
    }
}

/// Whether an error only says that a packet was lost: no route, a link that is down, a full queue, a peer that is away.
pub(crate) fn is_loss(error: &io::Error) -> bool {
    const LOSSES: [i32; 6] = [
        libc::ENETUNREACH,
        libc::EHOSTUNREACH,
        libc::ENETDOWN,
        libc::ENOBUFS,
        libc::ECONNREFUSED,
        libc::EPERM,
    ];
    error.raw_os_error().is_some_and(|code| LOSSES.contains(&code))
}
