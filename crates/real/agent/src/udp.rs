//! The UDP socket of an end.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use netrig_core::{Data, DatagramId, Duration, Instant, quantity};
use netrig_host::socket::UdpOptions;
use netrig_host::socket::{LONGEST_DATAGRAM, SocketBuilder, SocketError, TimestampMode, drops, is_loss};
use netrig_host::sys::{MESSAGES, ReceiveBatch};
use netrig_host::{ArrivalCounts, ArrivalKind, ArrivalLog, Outbox, Pacer, Watch, quantity as own};
use netrig_host::{DatagramStamp, PayloadKind, STAMP_LEN, answered};
use netrig_traffic::{AppAction, AppEvent, FlowSide};
use rustix::net::{SocketType, ipproto};

use crate::carrier::{EndContext, EndState, FIRST_SOCKET, FlowCarrier, Samples};
use crate::order::EndOrder;
use crate::report::{EndReport, SocketPassage, UdpReport};
use crate::rtp::RtpStream;
use crate::{AgentError, AgentResult};

/// Default size of a receive buffer, as time at the rate of the flow. The receiver may then read at intervals.
const ROOM: Duration = Duration::from_millis(100);

/// Lower and upper limit of that size, bytes.
const LEAST_ROOM: f64 = 1e6;
const MOST_ROOM: f64 = 64e6;

/// Upper estimate of the memory that the kernel needs for a datagram in a socket buffer besides its data, bytes.
const BOOK_KEEPING: f64 = 1024.0;

/// Read interval of a receiver of one-way datagrams. If the receiver woke up for each datagram, it would take more
/// processor time from a sender on the same machine than the sending itself takes.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Above this rate, datagrams/s, the kernel may coalesce received datagrams (GRO), which then share one time stamp.
/// Below it, each datagram has its own time stamp.
const TOGETHER_ABOVE: f64 = 50_000.0;

/// A source may send datagrams that were due during the run until this time after the end of the run. The receiver
/// waits until no datagram has arrived for twice this time.
const LATEST: Duration = Duration::from_millis(10);

/// If nothing is due for this long, a source processes the send times of [`METERED`] datagrams in its meter, which
/// takes a tenth of this time per datagram.
const QUIET: Duration = Duration::from_micros(8);
const METERED: usize = 8;

/// One end's UDP socket. It numbers and stamps outgoing datagrams and records incoming datagrams.
pub(crate) struct UdpEnd {
    socket: OwnedFd,
    flow: u32,
    /// Identifies video datagrams, which have an RTP header instead of a stamp.
    rtp: Option<RtpStream>,
    /// Whether the arrival time is the time at which the datagram is read, instead of the kernel's time stamp.
    until_read: bool,
    /// Datagrams to be sent.
    outbox: Outbox,
    receive: ReceiveBatch,
    /// Size of the socket's receive buffer as the kernel reports it, bytes.
    room: u32,
    /// Read interval while datagrams arrive. `None`: the end reads only when the poller reports the socket.
    look_every: Option<Duration>,
    next_look: Option<Instant>,
    /// Whether more datagrams wait in the socket.
    more: bool,
    /// Buffer for the datagrams of one receive call.
    arrived: Vec<ReceivedDatagram>,
    log: ArrivalLog,
    /// Number of datagrams that were due during the run and arrived after its end.
    in_flight: u64,
    foreign: u64,
    unstamped: u64,
    reported_drops: u32,
    reported_sent: u64,
    reported: ArrivalCounts,
}

/// A datagram that arrived for the first time.
struct ReceivedDatagram {
    at: Instant,
    from: SocketAddr,
    stamp: DatagramStamp,
    /// If this datagram is an answer: the datagram that it answers.
    answers: Option<DatagramId>,
    data: Data,
}

impl UdpEnd {
    /// Opens a bound socket with kernel time stamps for a run that ends at `until`. If no buffer size is configured,
    /// the receive buffer of a receiver gets room for 100 ms of its flow, or the system's limit if that is smaller.
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
        // Datagrams that are only counted need only their stamp. If datagrams are coalesced, further stamps follow in
        // the same buffer, so the whole buffer is kept.
        let counted = order.application.is_one_way() && order.application.sends_fill_only();
        let kept = if counted && !together { STAMP_LEN } else { LONGEST_DATAGRAM };
        let room = making.receive_buffer()?;
        let socket = making.bound()?;
        // A connected socket looks up the route to its peer only once. If there is no route yet, the socket stays
        // unconnected, because a route may appear later.
        let has_one_peer = order.side == FlowSide::Client && order.application.is_one_way();
        let peer =
            has_one_peer.then_some(order.server).filter(|peer| rustix::net::connect(&socket, peer).is_ok());
        // A server may answer late requests without a limit, because answers are not counted after the end of the run.
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
            // If the receiver itself is measured, it wakes up for each datagram like any other program.
            look_every: (!limited && !until_read).then_some(look_every),
            next_look: None,
            more: false,
            arrived: Vec::new(),
            log: ArrivalLog::default(),
            in_flight: 0,
            foreign: 0,
            unstamped: 0,
            reported_drops: 0,
            reported_sent: 0,
            reported: ArrivalCounts::default(),
        })
    }

    /// Reads at most one batch from the socket. Keeps the datagrams of the flow and discards duplicates. Returns
    /// whether the socket may hold more datagrams.
    fn receive(&mut self, around: &EndContext) -> io::Result<bool> {
        let EndContext { clock, offset, .. } = around;
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
                        self.arrived.push(ReceivedDatagram {
                            at: arrived,
                            from: piece.from,
                            stamp,
                            answers,
                            data,
                        });
                    }
                    ArrivalKind::Foreign => self.foreign += 1,
                    ArrivalKind::Duplicate | ArrivalKind::Stale => {}
                }
            }
        }
        Ok(count == MESSAGES)
    }

    /// If the socket may hold datagrams, receives one batch and passes each datagram to the application.
    fn take_datagrams(&mut self, now: Instant, end: &mut EndState, around: &mut EndContext) -> AgentResult {
        let looks = self.next_look.is_some_and(|at| at <= now);
        if !std::mem::take(&mut self.more) && !looks {
            return Ok(());
        }
        self.more = self.receive(around).map_err(AgentError::kernel("recvmmsg"))?;
        let mut arrived = std::mem::take(&mut self.arrived);
        if end.order.only_receives() && !self.more {
            let now = around.clock.now();
            self.next_look = self.look_every.filter(|_| !arrived.is_empty()).map(|every| now + every);
            if self.next_look.is_none() {
                let key = end.key(FIRST_SOCKET);
                let watched = around.pacer.watch_again(&self.socket, key, Watch::ReadingOnce);
                watched.map_err(AgentError::kernel("epoll_ctl"))?;
            }
        }
        let counts = !end.order.sends_data();
        for ReceivedDatagram { at, from, stamp, answers, data } in arrived.drain(..) {
            if at > end.until {
                self.in_flight += u64::from(counts && stamp.intended() <= end.until);
                continue;
            }
            if counts {
                let headers = if from.is_ipv4() { 28 } else { 48 };
                end.meter.received(data.size());
                end.meter.packet_arrived(data.size() + headers);
                end.meter.data_arrived(at, &mut around.samples);
            }
            let event = match answers {
                Some(datagram) => AppEvent::Answered { datagram, data },
                None => AppEvent::Datagram { from, number: stamp.number, sent: stamp.sent, data },
            };
            self.notify(at, event, end, around)?;
        }
        self.arrived = arrived;
        Ok(())
    }

    /// Number of datagrams that the kernel dropped because the socket buffer was full.
    fn dropped(&self) -> AgentResult<u32> {
        drops(&self.socket).map_err(AgentError::kernel("SO_MEMINFO"))
    }
}

impl FlowCarrier for UdpEnd {
    /// The socket of a source that gets no answers is not polled.
    fn watch(&self, end: &EndState, pacer: &Pacer) -> AgentResult {
        let what = match end.order.side {
            _ if !end.order.application.is_one_way() => Watch::Reading,
            FlowSide::Server => Watch::ReadingOnce,
            FlowSide::Client => return Ok(()),
        };
        pacer.watch(&self.socket, end.key(FIRST_SOCKET), what).map_err(AgentError::kernel("epoll_ctl"))
    }

    fn next(&self) -> Option<Instant> {
        let more = self.more.then_some(Instant::ZERO);
        [more, self.outbox.retry(), self.next_look].into_iter().flatten().min()
    }

    fn ready(&mut self, _: u32, _: &EndState, _: &EndContext) -> AgentResult {
        self.more = true;
        Ok(())
    }

    fn advance(&mut self, now: Instant, end: &mut EndState, around: &mut EndContext) -> AgentResult {
        self.take_datagrams(now, end, around)
    }

    fn carry(&mut self, at: Instant, action: AppAction, end: &mut EndState, _: &EndContext) -> AgentResult {
        let (to, answers, data) = match action {
            AppAction::Datagram { to, data } => (to, None, data),
            AppAction::Answer { to, datagram, data } => (to, Some(datagram), data),
            _ => return Ok(()),
        };
        end.offered(data.size());
        self.outbox.push(at, to, answers, data).map_err(|why| end.order.wrong(why))
    }

    fn tick(&mut self, at: Instant, end: &EndState, out: &mut Samples) -> AgentResult {
        let (now, in_all, all_sent) = (self.log.counts(), self.dropped()?, self.outbox.sent());
        let before = std::mem::replace(&mut self.reported, now);
        let dropped = in_all.wrapping_sub(std::mem::replace(&mut self.reported_drops, in_all));
        let sent = all_sent - std::mem::replace(&mut self.reported_sent, all_sent);
        let counts = [
            (&quantity::PACKETS_SENT, sent),
            (&quantity::DATA_PACKETS_SENT, if end.order.sends_data() { sent } else { 0 }),
            (&own::DATAGRAMS_DUPLICATED, now.duplicated - before.duplicated),
            (&own::DATAGRAMS_REORDERED, now.reordered - before.reordered),
            (&own::SOCKET_DROPPED, dropped.into()),
        ];
        end.report_counts(at, counts, out);
        Ok(())
    }

    fn report(&mut self, report: &mut EndReport, end: &EndState, out: &mut Samples) -> AgentResult {
        if self.in_flight > 0 {
            end.meter.mark(end.until, &quantity::DATAGRAMS_SENT, -(self.in_flight as f64), out);
        }
        let (arrivals, socket_dropped) = (self.log.counts(), self.dropped()?);
        report.passed = Some(SocketPassage {
            sent: self.outbox.sent() - self.outbox.refused(),
            unsent: self.outbox.unsent(),
            refused: self.outbox.refused(),
            received: arrivals.received + arrivals.duplicated + arrivals.stale + self.foreign,
            dropped: socket_dropped.into(),
        });
        let Self { foreign, unstamped, room: receive_buffer, .. } = *self;
        match end.order.side {
            FlowSide::Client => report.source = Some(self.outbox.source().report()),
            FlowSide::Server => {
                report.datagrams =
                    Some(UdpReport { arrivals, socket_dropped, foreign, unstamped, receive_buffer });
            }
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.outbox.has_room()
    }

    fn grace(&self) -> Option<Instant> {
        self.outbox.grace()
    }

    fn flush(&mut self, end: &mut EndState, around: &EndContext) -> AgentResult {
        let before = self.outbox.sent();
        self.outbox.flush(&self.socket, &around.clock).map_err(AgentError::kernel("sendmmsg"))?;
        // Answers do not count as data of the flow.
        if end.order.sends_data() {
            end.meter.datagrams_sent(self.outbox.sent() - before);
        }
        if self.outbox.unmetered() >= METERED
            && end.deadline.is_none_or(|at| around.clock.left_until(at) > QUIET)
        {
            self.outbox.meter(METERED);
        }
        Ok(())
    }

    fn take_late(&mut self, now: Instant, end: &mut EndState, around: &mut EndContext) -> AgentResult {
        self.more = true;
        while self.more {
            self.take_datagrams(now, end, around)?;
        }
        Ok(())
    }
}

/// The payload for the application.
fn content(stamp: &DatagramStamp, head: &[u8], len: usize) -> Data {
    match stamp.rest {
        PayloadKind::Content => Data::Bytes(head[STAMP_LEN..].into()),
        PayloadKind::Fill | PayloadKind::Answer => Data::Fill(len as u64),
    }
}
