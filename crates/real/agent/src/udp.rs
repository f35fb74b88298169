//! Datagrams over a UDP socket.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netrig_core::{Data, DatagramId, Duration, Instant};
use rustix::net::{SocketType, ipproto};
use serde::{Deserialize, Serialize};

use crate::order::EndOrder;
use crate::rtp::RtpStream;
use crate::side::Side;
use netrig_host::Clock;
use netrig_host::Outbox;
use netrig_host::RealtimeOffset;
use netrig_host::socket::UdpOptions;
use netrig_host::socket::{LONGEST_DATAGRAM, SocketBuilder, SocketError, TimestampMode, drops, is_loss};
use netrig_host::sys::{MESSAGES, ReceiveBatch};
use netrig_host::{ArrivalCounts, ArrivalKind, ArrivalLog};
use netrig_host::{DatagramStamp, PayloadKind, STAMP_LEN, answered};

/// A receiver has room for what comes in so long a time, so that it may be kept from looking.
const ROOM: Duration = Duration::from_millis(100);

/// But for no less than this, bytes, and for no more.
const LEAST_ROOM: f64 = 1e6;
const MOST_ROOM: f64 = 64e6;

/// What the kernel takes for a datagram in a socket beside its payload, bytes: its descriptor and the rest of its memory,
/// generously.
const BOOK_KEEPING: f64 = 1024.0;

/// A receiver that nobody waits for looks so often while datagrams come: being woken up by each would cost the sender,
/// on the same machine, more than sending does.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Above so many datagrams per second the kernel may put several together before they are received: their stamp is then
/// that of one of them. Below it each has its own.
const TOGETHER_ABOVE: f64 = 50_000.0;

/// So long after the end of its run a source may still send what was due in it: who receives waits for what is on its way
/// until none has come for twice as long.
const LATEST: Duration = Duration::from_millis(10);

/// One end's socket for datagrams: numbers and stamps what is sent, and tells what arrives.
pub(crate) struct UdpEnd {
    socket: OwnedFd,
    flow: u32,
    /// How datagrams are told that have no stamps.
    rtp: Option<RtpStream>,
    /// Whether the kernel's stamps say when something arrived, or the moment when it was read.
    until_read: bool,
    /// What is to be sent.
    pub outbox: Outbox,
    receive: ReceiveBatch,
    /// Size of the socket's receive buffer as the kernel tells it, bytes.
    room: u32,
    /// How long after a look the next one is due; nothing if the kernel says when.
    look_every: Option<Duration>,
    next_look: Option<Instant>,
    log: ArrivalLog,
    foreign: u64,
    unstamped: u64,
    reported_drops: u32,
    reported_sent: u64,
    reported: ArrivalCounts,
}

/// A datagram that arrived for the first time.
pub(crate) struct Received {
    pub at: Instant,
    pub from: SocketAddr,
    pub stamp: DatagramStamp,
    /// What it answers, if it does.
    pub answers: Option<DatagramId>,
    pub data: Data,
}

/// What a UDP socket received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpReport {
    /// The flow's datagrams.
    pub arrivals: ArrivalCounts,
    /// Datagrams that reached the host, and that the socket had no room for.
    pub socket_dropped: u32,
    /// Datagrams of others, or that no datagram of the flow can be.
    pub foreign: u64,
    /// Datagrams without the kernel's stamp; they are taken to have arrived when they were read.
    pub unstamped: u64,
    /// Size of the socket's receive buffer as it reads back, bytes, of which the kernel's book-keeping takes its share.
    pub receive_buffer: u32,
}

/// What passed a socket for datagrams, as it tells itself: what is not here, and was on a wire, was lost in a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketPassage {
    /// Datagrams that were given to it, and left it.
    pub sent: u64,
    /// Datagrams that were due, and that it was not given before the run was over.
    #[serde(default)]
    pub unsent: u64,
    /// Datagrams that were given to it, and were too long to leave it uncut.
    #[serde(default)]
    pub refused: u64,
    /// Datagrams that were taken from it, whosever they were.
    pub received: u64,
    /// Datagrams that reached it, and that it had no room for.
    pub dropped: u64,
}

/// What was sent and what became of receiving since it was last told, for samples.
pub(crate) struct UdpCounts {
    pub sent: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub socket_dropped: u32,
}

impl UdpEnd {
    /// Opens a bound socket, with the kernel's stamps, for a run that lasts until then. That of a receiver has room for 100 ms
    /// of what its flow sends, if it was not told how much and as far as the system's limit allows.
    pub fn open(order: &EndOrder, options: UdpOptions, until: Instant) -> Result<Self, SocketError> {
        let UdpOptions { buffers, uncut, limited, until_read } = options;
        let making = SocketBuilder::open(SocketType::DGRAM, Some(ipproto::UDP), order.local())?;
        making.buffers(buffers)?;
        if uncut {
            making.never_fragment()?;
        }
        making.dscp(order.dscp)?;
        making.stamped(TimestampMode::Received)?;
        let (mut look_every, mut together) = (LOOK_EVERY, false);
        let per_s = order.pace().filter(|_| order.side == Side::Server);
        if let Some(per_s) = per_s {
            let bytes_per_s = per_s * (order.application.datagram().unwrap_or(0.0) + BOOK_KEEPING);
            if buffers.receive.is_none() {
                making.receive_at_least(
                    (bytes_per_s * ROOM.as_secs_f64()).clamp(LEAST_ROOM, MOST_ROOM) as usize
                )?;
            }
            together = per_s > TOGETHER_ABOVE;
            if together {
                making.coalesce_received()?;
            }
            let filled_in = f64::from(making.receive_buffer()?) / bytes_per_s;
            look_every = look_every.min(Duration::from_secs_f64(filled_in / 4.0));
        }
        // Of what is only counted the stamp is enough, unless stamps stand in the midst of what was put together.
        let counted = order.application.is_one_way() && order.application.sends_fill_only();
        let kept = if counted && !together { STAMP_LEN } else { LONGEST_DATAGRAM };
        let room = making.receive_buffer()?;
        let socket = making.bound()?;
        // The way to an only peer is then looked up once; where there is none now, there may be one later.
        let has_one_peer = order.side == Side::Client && order.application.is_one_way();
        let peer =
            has_one_peer.then_some(order.server).filter(|peer| rustix::net::connect(&socket, peer).is_ok());
        // Answers follow what they answer, and nobody counts them after the end.
        let closes = if order.side == Side::Client { until + LATEST } else { Instant::NEVER };
        let (rtp, outbox) = (RtpStream::of(order), Outbox::new(order.flow, order.asked(), peer));
        let outbox = outbox.closing_at(closes);
        Ok(Self {
            room,
            socket,
            flow: order.flow,
            outbox: if rtp.is_some() { outbox.without_stamps() } else { outbox },
            rtp,
            until_read,
            receive: ReceiveBatch::new(kept),
            // A receiver that is a part of what is measured is woken as anybody's program is.
            look_every: (!limited && !until_read).then_some(look_every),
            next_look: None,
            log: ArrivalLog::default(),
            foreign: 0,
            unstamped: 0,
            reported_drops: 0,
            reported_sent: 0,
            reported: ArrivalCounts::default(),
        })
    }

    /// When to look for datagrams that nobody waits for, while they come.
    pub const fn next_look(&self) -> Option<Instant> {
        self.next_look
    }

    /// Says when to look again after a look at `now` that found `some` datagrams or none; false if the kernel is to say.
    pub fn look_again(&mut self, now: Instant, some: bool) -> bool {
        self.next_look = self.look_every.filter(|_| some).map(|every| now + every);
        self.next_look.is_some()
    }

    /// The socket.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends what waits, as far as the socket has room.
    pub fn flush(&mut self, clock: &Clock) -> io::Result<()> {
        self.outbox.flush(&self.socket, clock)
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
            Err(error) if error.kind() == io::ErrorKind::Interrupted || is_loss(&error) => return Ok(true),
            Err(error) => return Err(error),
        };
        for at in 0..count {
            let Some(piece) = self.receive.get(at) else {
                self.foreign += 1;
                continue;
            };
            let by_kernel = piece.stamp.filter(|_| !self.until_read);
            let arrived = by_kernel.map_or_else(|| clock.now(), |ns| clock.instant(offset.monotonic(ns)));
            for (head, len) in piece.datagrams() {
                let expected = self.log.counts().expected;
                let whole = || DatagramStamp::decode(head).filter(|stamp| stamp.flow == self.flow);
                let short = || DatagramStamp::decode_short(head, self.flow, arrived, expected);
                let stamp = match &self.rtp {
                    Some(rtp) => rtp.stamp(head, expected),
                    None => whole().or_else(short),
                };
                let Some(stamp) = stamp else {
                    self.foreign += 1;
                    continue;
                };
                self.unstamped += u64::from(piece.stamp.is_none());
                match self.log.arrived(stamp.number) {
                    ArrivalKind::First => {
                        let data = content(&stamp, head, len);
                        let answers = (stamp.rest == PayloadKind::Answer).then(|| answered(head)).flatten();
                        each(Received { at: arrived, from: piece.from, stamp, answers, data });
                    }
                    ArrivalKind::Foreign => self.foreign += 1,
                    ArrivalKind::Duplicate | ArrivalKind::Stale => {}
                }
            }
        }
        Ok(count == MESSAGES)
    }

    /// What was received.
    pub fn report(&self) -> io::Result<UdpReport> {
        let arrivals = self.log.counts();
        Ok(UdpReport {
            arrivals,
            socket_dropped: drops(&self.socket)?,
            foreign: self.foreign,
            unstamped: self.unstamped,
            receive_buffer: self.room,
        })
    }

    /// What passed the socket.
    pub fn passage(&self) -> io::Result<SocketPassage> {
        let ArrivalCounts { received, duplicated, stale, .. } = self.log.counts();
        Ok(SocketPassage {
            sent: self.outbox.sent() - self.outbox.refused(),
            unsent: self.outbox.unsent(),
            refused: self.outbox.refused(),
            received: received + duplicated + stale + self.foreign,
            dropped: drops(&self.socket)?.into(),
        })
    }

    /// Counts since the last call.
    pub fn take_counts(&mut self) -> io::Result<UdpCounts> {
        let (now, before) = (self.log.counts(), self.reported);
        let in_all = drops(&self.socket)?;
        let dropped = in_all.wrapping_sub(self.reported_drops);
        (self.reported, self.reported_drops) = (now, in_all);
        let sent = self.outbox.sent() - self.reported_sent;
        self.reported_sent = self.outbox.sent();
        Ok(UdpCounts {
            sent,
            duplicated: now.duplicated - before.duplicated,
            reordered: now.reordered - before.reordered,
            socket_dropped: dropped,
        })
    }
}

/// What the application gets of a datagram.
fn content(stamp: &DatagramStamp, head: &[u8], len: usize) -> Data {
    match stamp.rest {
        PayloadKind::Content => Data::Bytes(head[STAMP_LEN..].into()),
        PayloadKind::Fill | PayloadKind::Answer => Data::Fill(len as u64),
    }
}
