//! The UDP socket of an end.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netrig_core::{Data, DatagramId, Duration, Instant};
use netrig_traffic::FlowSide;
use rustix::net::{SocketType, ipproto};

use crate::order::EndOrder;
use crate::report::{SocketPassage, UdpReport};
use crate::rtp::RtpStream;
use netrig_host::Clock;
use netrig_host::Outbox;
use netrig_host::RealtimeOffset;
use netrig_host::socket::UdpOptions;
use netrig_host::socket::{LONGEST_DATAGRAM, SocketBuilder, SocketError, TimestampMode, drops, is_loss};
use netrig_host::sys::{MESSAGES, ReceiveBatch};
use netrig_host::{ArrivalCounts, ArrivalKind, ArrivalLog};
use netrig_host::{DatagramStamp, PayloadKind, STAMP_LEN, answered};

/// Traffic that a receive buffer holds, so that the receiver may read at intervals.
const ROOM: Duration = Duration::from_millis(100);

/// Lower and upper limit of that buffer, bytes.
const LEAST_ROOM: f64 = 1e6;
const MOST_ROOM: f64 = 64e6;

/// Upper estimate of the kernel's overhead for a datagram in a socket, bytes: its descriptor and the rest of its memory.
const BOOK_KEEPING: f64 = 1024.0;

/// Read interval of a receiver of one-way datagrams. A wake-up for each datagram would cost a sender on the same machine
/// more than sending it.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Above this rate, datagrams/s, the kernel may coalesce received datagrams, which then share one time stamp. Below it each
/// datagram has its own.
const TOGETHER_ABOVE: f64 = 50_000.0;

/// A source may send datagrams that were due in the run until this long after its end. The receiver waits until no datagram
/// has arrived for twice as long.
const LATEST: Duration = Duration::from_millis(10);

/// One end's UDP socket: numbers and stamps outgoing datagrams, and records incoming ones.
pub(crate) struct UdpEnd {
    socket: OwnedFd,
    flow: u32,
    /// Identifies datagrams without stamps.
    rtp: Option<RtpStream>,
    /// Whether arrival times are the times of reading instead of the kernel's stamps.
    until_read: bool,
    /// Datagrams to be sent.
    pub outbox: Outbox,
    receive: ReceiveBatch,
    /// Size of the socket's receive buffer as the kernel reports it, bytes.
    room: u32,
    /// Interval until the next read; nothing if the poller reports the socket.
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
pub(crate) struct ReceivedDatagram {
    pub at: Instant,
    pub from: SocketAddr,
    pub stamp: DatagramStamp,
    /// The datagram that it answers, if any.
    pub answers: Option<DatagramId>,
    pub data: Data,
}

/// Counts since the last call, for samples.
pub(crate) struct UdpCounts {
    pub sent: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub socket_dropped: u32,
}

impl UdpEnd {
    /// Opens a bound socket with kernel time stamps for a run that ends at `until`. Without a configured size, the receive
    /// buffer of a receiver holds 100 ms of its flow, as far as the system's limit allows.
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
        let per_s = order.pace().filter(|_| order.side == FlowSide::Server);
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
        // Counted datagrams need only the stamp, unless stamps stand in the middle of coalesced datagrams.
        let counted = order.application.is_one_way() && order.application.sends_fill_only();
        let kept = if counted && !together { STAMP_LEN } else { LONGEST_DATAGRAM };
        let room = making.receive_buffer()?;
        let socket = making.bound()?;
        // A connected socket looks up the route to its only peer once. A missing route may appear later.
        let has_one_peer = order.side == FlowSide::Client && order.application.is_one_way();
        let peer =
            has_one_peer.then_some(order.server).filter(|peer| rustix::net::connect(&socket, peer).is_ok());
        // Answers follow what they answer, and are not counted after the end.
        let closes = if order.side == FlowSide::Client { until + LATEST } else { Instant::NEVER };
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
            // A receiver that is part of what is measured wakes up like any other program.
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

    /// The time of the next read without a poll event.
    pub const fn next_look(&self) -> Option<Instant> {
        self.next_look
    }

    /// Schedules the next read after a read at `now`; `some` says whether that found datagrams. Returns false if the poller must
    /// watch the socket.
    pub fn look_again(&mut self, now: Instant, some: bool) -> bool {
        self.next_look = self.look_every.filter(|_| some).map(|every| now + every);
        self.next_look.is_some()
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends queued datagrams, as far as the socket has room.
    pub fn flush(&mut self, clock: &Clock) -> io::Result<()> {
        self.outbox.flush(&self.socket, clock)
    }

    /// Reads at most one batch from the socket, and passes on each datagram of the flow that arrives for the first time.
    /// Returns whether there may be more.
    pub fn receive(
        &mut self,
        clock: &Clock,
        offset: &RealtimeOffset,
        mut each: impl FnMut(ReceivedDatagram),
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
                        each(ReceivedDatagram { at: arrived, from: piece.from, stamp, answers, data });
                    }
                    ArrivalKind::Foreign => self.foreign += 1,
                    ArrivalKind::Duplicate | ArrivalKind::Stale => {}
                }
            }
        }
        Ok(count == MESSAGES)
    }

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

    /// The counts of the socket.
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

/// The payload for the application.
fn content(stamp: &DatagramStamp, head: &[u8], len: usize) -> Data {
    match stamp.rest {
        PayloadKind::Content => Data::Bytes(head[STAMP_LEN..].into()),
        PayloadKind::Fill | PayloadKind::Answer => Data::Fill(len as u64),
    }
}
