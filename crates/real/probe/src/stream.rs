//! One end of a one-way stream: it sends packets or records arrivals, and answers the clock queries of the other end.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;

use netrig_core::{Duration, Instant};

use super::error::{ProbeError, ProbeResult};
use super::icmp_error::IcmpErrors;
use super::pacing::{self, PacketReceiver, PacketSender};
use super::schedule::Schedule;
use super::socket::{ProbeSocket, is_refusal};
use super::stream_packet::{Content, StreamPacket};
use super::two_way::ProbePlan;
use netrig_host::sys::TransmitStamp;
use netrig_host::{Clock, realtime_nanos};
use netrig_host::{SourceMeter, SourceReport};

/// Number of clock exchanges before a stream and after it.
const EXCHANGES: u32 = 16;

/// Time between two clock exchanges, and maximum wait for the first answer.
const EXCHANGE_GAP: Duration = Duration::from_millis(5);
const EXCHANGE_WAIT: Duration = Duration::from_secs(2);

/// Records of one end.
#[derive(Default)]
pub(super) struct StreamLog {
    /// Arrived data packets: number and time of arrival, ns since 1970.
    pub arrivals: Vec<(u32, u64)>,
    /// Maximum number of recorded arrivals.
    pub most: usize,
    /// Arrivals with a time stamp of the kernel.
    pub stamped: usize,
    /// Number of arrivals by DSCP.
    pub dscps: BTreeMap<u8, usize>,
    /// Number of arrivals by TTL or hop limit.
    pub ttls: BTreeMap<u8, usize>,
    /// ICMP errors about the packets of this end.
    pub icmp_errors: IcmpErrors,
    /// Clock exchanges. Each has four times: query sent, query received, answer sent, answer received; ns since 1970.
    pub exchanges: Vec<[u64; 4]>,
}

/// A stream that was sent.
pub(super) struct SentStream {
    /// Time of sending of each packet, ns since 1970.
    pub at: Vec<u64>,
    /// Packets with a time stamp of the kernel.
    pub stamped: usize,
    pub source: SourceReport,
    /// Packets for which the socket had no room.
    pub no_room: usize,
}

/// One end of a stream: its socket and the state of its clock exchanges.
pub(super) struct StreamEnd {
    socket: ProbeSocket,
    token: u64,
    /// Address of the other end. A far end learns the port of its peer from the first packet with the token.
    peer: SocketAddr,
    connected: bool,
    /// Sending times of the clock queries that have not been answered.
    open: BTreeSet<u64>,
    /// Number of datagrams sent on this socket. The kernel numbers transmit time stamps with the same count.
    datagrams: u32,
}

impl StreamEnd {
    /// An end that knows the address of its peer.
    pub fn connected(socket: ProbeSocket, token: u64, peer: SocketAddr) -> io::Result<Self> {
        socket.connect(peer)?;
        Ok(Self { socket, token, peer, connected: true, open: BTreeSet::new(), datagrams: 0 })
    }

    /// An end that accepts packets from one host. It sends to the source port of the first packet that has the token.
    pub const fn listening(socket: ProbeSocket, token: u64, peer: SocketAddr) -> Self {
        Self { socket, token, peer, connected: false, open: BTreeSet::new(), datagrams: 0 }
    }

    /// Datagrams that reached this host but were dropped by the socket.
    pub fn drops(&self) -> ProbeResult<u32> {
        self.socket.drops().map_err(ProbeError::kernel("SO_MEMINFO"))
    }

    /// Receives at most one batch, answers clock queries, and reads time stamps and errors. Returns whether there may
    /// be more packets.
    fn take(&mut self, log: &mut StreamLog, left: impl FnMut(TransmitStamp)) -> ProbeResult<bool> {
        let (token, host, connected) = (self.token, self.peer.ip(), self.connected);
        let open = &mut self.open;
        let mut questions = Vec::new();
        let mut learnt = None;
        let took = self.socket.receive(|incoming| {
            let now = incoming.stamp.unwrap_or_else(realtime_nanos);
            let packet = StreamPacket::decode(incoming.head).filter(|packet| packet.token == token);
            // Until the socket is connected, packets from any host arrive.
            let Some(packet) = packet.filter(|_| connected || incoming.from.ip() == host) else { return };
            learnt.get_or_insert(incoming.from);
            match packet.content {
                Content::Data if log.arrivals.len() < log.most => {
                    log.arrivals.push((packet.number, now));
                    log.stamped += usize::from(incoming.stamp.is_some());
                    incoming
                        .class
                        .into_iter()
                        .for_each(|class| *log.dscps.entry(class >> 2).or_default() += 1);
                    incoming.ttl.into_iter().for_each(|ttl| *log.ttls.entry(ttl).or_default() += 1);
                }
                Content::Data => {}
                Content::Question(sent) => questions.push((packet.number, sent, now)),
                // Only the first answer to a query counts. Unsolicited answers and copies contain no information about
                // the clock.
                Content::Answer([sent, received, answered]) if open.remove(&sent) => {
                    log.exchanges.push([sent, received, answered, now]);
                }
                Content::Answer(_) => {}
            }
        });
        let more = took.map_err(ProbeError::kernel("recvmmsg"))?;
        let taken = self.socket.stamps_and_errors(left, &mut log.icmp_errors, |_| true);
        taken.map_err(ProbeError::kernel("the error queue"))?;
        if let Some(from) = learnt.filter(|_| !connected) {
            self.peer = from;
            self.socket.connect(from).map_err(|error| ProbeError::send(from, error))?;
            self.connected = true;
        }
        for (number, sent, received) in questions {
            let content = Content::Answer([sent, received, realtime_nanos()]);
            self.send(&StreamPacket { token, number, content }.encode(0))?;
        }
        Ok(more)
    }

    /// Sends one datagram. Returns whether there was room for it.
    fn send(&mut self, bytes: &[u8]) -> ProbeResult<bool> {
        match self.socket.offer(self.peer, bytes) {
            Ok(had_room) => {
                self.datagrams = self.datagrams.wrapping_add(u32::from(had_room));
                Ok(had_room)
            }
            // A datagram without a route counts as lost.
            Err(error) if is_refusal(&error) => Ok(true),
            Err(error) => Err(ProbeError::send(self.peer, error)),
        }
    }

    /// Sends a stream by its schedule until it ends or `stop` returns true.
    pub fn stream(
        &mut self,
        plan: ProbePlan,
        size: usize,
        log: &mut StreamLog,
        stop: impl Fn() -> bool,
    ) -> ProbeResult<SentStream> {
        let nothing = SourceMeter::new(plan.gaps.asked()).report();
        let sent = SentStream { at: Vec::new(), stamped: 0, source: nothing, no_room: 0 };
        let mut sending = StreamSender { end: self, log, size, sent, datagrams: Vec::new() };
        let schedule = Schedule::new(plan.gaps, plan.count, plan.seed);
        let (_, meter) = pacing::keep(&mut sending, schedule, plan.gaps.asked(), stop)?;
        pacing::linger(&mut sending, Duration::ZERO, |_, _| Instant::ZERO + EXCHANGE_GAP)?;
        Ok(SentStream { source: meter.report(), ..sending.sent })
    }

    /// Receives packets for the time `span`, or until `stop` returns true.
    pub fn linger(&mut self, span: Duration, log: &mut StreamLog, stop: impl Fn() -> bool) -> ProbeResult {
        let mut hearing = StreamListener { end: self, log };
        pacing::linger(&mut hearing, Duration::ZERO, |_, now| if stop() { now } else { Instant::ZERO + span })
    }

    /// Sends [`EXCHANGES`] clock queries to the peer. Returns whether at least one was answered.
    pub fn ask(&mut self, log: &mut StreamLog, stop: impl Fn() -> bool) -> ProbeResult<bool> {
        let before = log.exchanges.len();
        for number in 0..EXCHANGES {
            let sent = realtime_nanos();
            self.open.insert(sent);
            let content = Content::Question(sent);
            self.send(&StreamPacket { token: self.token, number, content }.encode(0))?;
            self.linger(EXCHANGE_GAP, log, &stop)?;
        }
        let clock = Clock::starting_in(Duration::ZERO);
        while log.exchanges.len() == before && clock.now() < Instant::ZERO + EXCHANGE_WAIT && !stop() {
            self.linger(EXCHANGE_GAP, log, &stop)?;
        }
        Ok(log.exchanges.len() > before)
    }
}

/// An end that only receives.
struct StreamListener<'a> {
    end: &'a mut StreamEnd,
    log: &'a mut StreamLog,
}

impl PacketReceiver for StreamListener<'_> {
    fn socket(&self) -> &ProbeSocket {
        &self.end.socket
    }

    fn take(&mut self) -> ProbeResult<bool> {
        self.end.take(self.log, |_| {})
    }
}

/// An end that sends a stream.
struct StreamSender<'a> {
    end: &'a mut StreamEnd,
    log: &'a mut StreamLog,
    size: usize,
    sent: SentStream,
    /// For each packet of the stream, the number of its datagram on the socket.
    datagrams: Vec<u32>,
}

impl PacketReceiver for StreamSender<'_> {
    fn socket(&self) -> &ProbeSocket {
        &self.end.socket
    }

    /// Receives packets and reads the transmit time stamps.
    fn take(&mut self) -> ProbeResult<bool> {
        let (SentStream { at, stamped, .. }, datagrams) = (&mut self.sent, &self.datagrams);
        self.end.take(self.log, |stamp| {
            let place = datagrams.partition_point(|datagram| *datagram < stamp.number);
            let ours = datagrams.get(place) == Some(&stamp.number);
            // A time stamp that is earlier than the construction of the packet belongs to another packet.
            if let Some(at) = at.get_mut(place).filter(|at| ours && stamp.at >= **at) {
                *at = stamp.at;
                *stamped += 1;
            }
        })
    }
}

impl PacketSender for StreamSender<'_> {
    fn send(&mut self, _: &Clock) -> ProbeResult {
        let number = self.sent.at.len() as u32;
        let packet = StreamPacket { token: self.end.token, number, content: Content::Data };
        let bytes = packet.encode(self.size);
        self.sent.at.push(realtime_nanos());
        self.datagrams.push(self.end.datagrams);
        self.sent.no_room += usize::from(!self.end.send(&bytes)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// The peer sends unsolicited answers, and answers each query three times. One answer per query is recorded.
    #[test]
    fn answers_are_kept_to_open_questions_only() {
        const TOKEN: u64 = 7;
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = ProbeSocket::udp("127.0.0.1:0".parse().unwrap(), 0).unwrap();
        far.connect(socket.local().unwrap()).unwrap();
        let mut end = StreamEnd::connected(socket, TOKEN, far.local_addr().unwrap()).unwrap();
        let answer = |sent| {
            let content = Content::Answer([sent, sent + 1, sent + 2]);
            far.send(&StreamPacket { token: TOKEN, number: 0, content }.encode(0)).unwrap();
        };
        let mut log = StreamLog::default();
        (0..100).for_each(answer);
        end.linger(EXCHANGE_GAP, &mut log, || false).unwrap();
        assert_eq!(log.exchanges.len(), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut bytes = [0; 100];
                for _ in 0..EXCHANGES {
                    let len = far.recv(&mut bytes).unwrap();
                    let packet = StreamPacket::decode(&bytes[..len]).unwrap();
                    let Content::Question(sent) = packet.content else { panic!("no question") };
                    (0..3).for_each(|_| answer(sent));
                }
            });
            assert!(end.ask(&mut log, || false).unwrap());
        });
        end.linger(EXCHANGE_GAP, &mut log, || false).unwrap();
        assert_eq!(log.exchanges.len(), EXCHANGES as usize);
    }
}
