//! The sockets of media: a pair of ports (RTP and RTCP) per call.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::path::Path;

use bytes::Bytes;
use netrig_core::{Duration, Instant, Stream};
use netrig_host::socket::SocketError;
use netrig_host::user_file::{self, UserFileError};
use netrig_host::{Clock, realtime_nanos};
use netrig_sip_net::{DatagramBatch, DatagramSocket};

use super::codec::MediaCodec;
use super::report::MediaReport;
use super::session::{MediaResult, MediaSession};

/// How long packets are counted after the end of a call. The other side receives the BYE later, and sends until then.
const LINGERS: Duration = Duration::from_millis(500);

/// Requested size of a receive buffer, bytes: room for a second of voice.
const ROOM: u32 = 128 * 1024;

/// Longest packet that is read, bytes.
const LONGEST_PACKET: usize = 2048;

/// The largest number of packets that are stored before the session of a call is set up: a minute of voice. If more
/// arrive, the first ones are dropped and count as never sent.
const MOST_EARLY: usize = 3000;

/// A packet that is sent more than this time after it was due counts as late.
const LATE: Duration = Duration::from_millis(10);

/// The source of sent media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaSource {
    /// Packets of silence.
    Silence,
    /// A tone; silence for codecs without a sample table.
    Tone,
    /// The bytes of a file in the codec's encoding, repeated from the start.
    File(Bytes),
    /// Received packets are sent back; nothing else is sent.
    Echo,
    /// No media are sent.
    Nothing,
}

/// A source of media that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MediaSourceError {
    /// The text is not a keyword for a source, and there is no readable file of this name.
    #[error("expected tone, silence, echo, nothing or a file; cannot read {0}: {1}")]
    Unreadable(String, UserFileError),
    /// The file is empty.
    #[error("{0} is empty")]
    Empty(String),
}

impl MediaSource {
    /// Reads a source: `tone`, `silence`, `echo`, `nothing`, or the name of a file.
    ///
    /// # Errors
    /// If the text is not a source, or the file is empty or cannot be read.
    pub fn read(text: &str) -> Result<Self, MediaSourceError> {
        Ok(match text {
            "tone" => Self::Tone,
            "silence" => Self::Silence,
            "echo" => Self::Echo,
            "nothing" => Self::Nothing,
            file => {
                let bytes = user_file::read(Path::new(file), user_file::LONGEST_DATA)
                    .map_err(|error| MediaSourceError::Unreadable(file.to_owned(), error))?;
                if bytes.is_empty() {
                    return Err(MediaSourceError::Empty(file.to_owned()));
                }
                Self::File(bytes.into())
            }
        })
    }
}

/// The media of a load.
#[derive(Clone, Debug)]
pub struct MediaOrder {
    /// The codec.
    pub codec: MediaCodec,
    /// The source of the sent media.
    pub source: MediaSource,
    /// Share of the calls with media, 0 to 1.
    pub share: f64,
}

struct EngineCall {
    rtp: DatagramSocket,
    rtcp: DatagramSocket,
    /// The addresses of the other side for RTP and RTCP; `None` until the session is set up.
    remote: Option<(SocketAddr, SocketAddr)>,
    session: Option<MediaSession>,
    /// Packets that arrived before the session was set up, with their arrival times. They count as part of the session.
    early: VecDeque<(Instant, Bytes)>,
    is_echo: bool,
    /// When the call is removed; `None` if it has not ended.
    until: Option<Instant>,
}

/// The media of all calls.
pub struct MediaEngine {
    order: MediaOrder,
    local: IpAddr,
    epoch_ns: u64,
    draws: Stream,
    calls: BTreeMap<u64, EngineCall>,
    due: BinaryHeap<Reverse<(Instant, u64)>>,
    /// Open calls for which [`open`](MediaEngine::open) was called, including calls that were not selected for media.
    asked: BTreeSet<u64>,
    results: Vec<MediaResult>,
    unsupported: u64,
    without_port: u64,
    late: u64,
    unsent: u64,
    dropped: u64,
    clock: Clock,
    batch: DatagramBatch,
}

impl MediaEngine {
    /// The engine before the first call. All times are those of `clock`.
    pub fn new(order: MediaOrder, local: IpAddr, clock: &Clock, draws: Stream) -> Self {
        let epoch_ns = realtime_nanos() - clock.now().as_nanos();
        Self {
            asked: BTreeSet::new(),
            order,
            local,
            epoch_ns,
            draws,
            calls: BTreeMap::new(),
            due: BinaryHeap::new(),
            results: Vec::new(),
            unsupported: 0,
            without_port: 0,
            late: 0,
            unsent: 0,
            dropped: 0,
            clock: *clock,
            batch: DatagramBatch::new(LONGEST_PACKET),
        }
    }

    /// Selects at random whether a call has media, and if so, opens its sockets. Called before the session description
    /// is sent. RTCP uses the next port (RFC 3550 section 11). Until `close`, further calls of this function for the
    /// same call have no effect.
    pub fn open(&mut self, call: u64, port: u16) {
        if !self.asked.insert(call) || !self.draws.chance(self.order.share) {
            return;
        }
        match self.pair(port) {
            Ok((rtp, rtcp)) => {
                let own = EngineCall {
                    rtp,
                    rtcp,
                    remote: None,
                    session: None,
                    early: VecDeque::new(),
                    is_echo: false,
                    until: None,
                };
                self.calls.insert(call, own);
            }
            Err(_) => self.without_port += 1,
        }
    }

    /// The order.
    pub const fn order(&self) -> &MediaOrder {
        &self.order
    }

    fn pair(&self, port: u16) -> Result<(DatagramSocket, DatagramSocket), SocketError> {
        let open = |port| DatagramSocket::open_stamped(SocketAddr::new(self.local, port), ROOM);
        Ok((open(port)?, open(port.saturating_add(1))?))
    }

    /// Starts the media session of a call. Media are sent to `remote`. Does nothing if the call has no media.
    pub fn begin(&mut self, now: Instant, call: u64, remote: SocketAddr, is_supported: bool) {
        let Some(own) = self.calls.get_mut(&call).filter(|own| own.session.is_none()) else { return };
        if !is_supported {
            self.unsupported += 1;
            self.calls.remove(&call);
            return;
        }
        let mut rtcp = remote;
        rtcp.set_port(remote.port().saturating_add(1));
        own.remote = Some((remote, rtcp));
        own.is_echo = self.order.source == MediaSource::Echo;
        let codec = self.order.codec;
        let payloads = payloads(codec, &self.order.source);
        let mut session = MediaSession::new(codec, payloads, self.draws.bits(), self.epoch_ns, now);
        own.early.drain(..).for_each(|(at, bytes)| session.receive_packet(at, &bytes));
        own.session = Some(session);
        self.schedule(call);
    }

    fn schedule(&mut self, call: u64) {
        let due = self.calls.get(&call).and_then(|own| own.session.as_ref()?.poll_timeout());
        self.due.extend(due.map(|due| Reverse((due, call))));
    }

    /// Ends the media session of a call.
    pub fn end(&mut self, now: Instant, call: u64) {
        let Some(own) = self.calls.get_mut(&call).filter(|own| own.until.is_none()) else { return };
        own.until = Some(now + LINGERS);
        self.due.push(Reverse((now + LINGERS, call)));
        if let (Some(session), Some((_, rtcp))) = (&mut own.session, own.remote) {
            // The last report may be lost like any datagram.
            own.rtcp.send_one(rtcp, &session.end(now));
        }
    }

    /// Ends a call, with or without a media session.
    pub fn close(&mut self, now: Instant, call: u64) {
        self.asked.remove(&call);
        if self.calls.get(&call).is_some_and(|own| own.session.is_none()) {
            self.calls.remove(&call);
        }
        self.end(now, call);
    }

    /// When the next packet is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse((due, _))| *due)
    }

    /// Sends due packets, and removes ended calls.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(Reverse((due, call))) =
            self.due.peek().copied().filter(|Reverse((due, _))| *due <= now)
        {
            self.due.pop();
            let Some(own) = self.calls.get_mut(&call) else { continue };
            if own.until.is_some_and(|until| until <= now) {
                own.receive(&self.clock, &mut self.batch);
                let over = self.calls.remove(&call).map(|mut own| {
                    self.dropped += own.rtp.take_drops().unwrap_or(0);
                    own
                });
                self.results.extend(over.and_then(|own| own.session).map(|session| session.result()));
                continue;
            }
            let (Some(session), Some((rtp, rtcp))) = (&mut own.session, own.remote) else { continue };
            while let Some((was_due, bytes)) = session.poll_packet(now) {
                self.late += u64::from(now.since(was_due) > LATE);
                self.unsent += u64::from(!own.rtp.send_one(rtp, &bytes));
            }
            if let Some(bytes) = session.poll_report(now) {
                own.rtcp.send_one(rtcp, &bytes);
            }
            // A call may be in the heap twice; only the entry with its current due time counts.
            if due <= now && own.until.is_none() {
                self.schedule(call);
            }
        }
    }

    /// Receives the waiting packets of all calls.
    pub fn receive(&mut self) {
        let Self { calls, clock, batch, .. } = self;
        calls.values_mut().for_each(|own| own.receive(clock, batch));
    }

    /// The descriptors to poll, each with whether to wait until it is writable.
    pub fn watched(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        // An RTCP packet that arrives before the session is set up waits in its socket, with its time stamp.
        self.calls.values().flat_map(|own| {
            let reports = own.session.is_some().then_some((own.rtcp.fd(), false));
            [(own.rtp.fd(), false)].into_iter().chain(reports)
        })
    }

    /// The size of a step of the wall clock since the previous call of this function; `None` if the clock was not
    /// stepped. Packets received around the step may have wrong times.
    pub fn take_clock_step(&mut self) -> Option<Duration> {
        self.batch.take_clock_step()
    }

    /// Whether no call is open.
    pub fn is_idle(&self) -> bool {
        self.calls.values().all(|own| own.session.is_none())
    }

    /// The results of all ended calls.
    pub fn report(&self) -> MediaReport {
        MediaReport {
            unsupported_calls: self.unsupported,
            without_port: self.without_port,
            late: self.late,
            unsent: self.unsent,
            dropped: self.dropped,
            ..MediaReport::of(self.order.codec.name(), &self.results)
        }
    }
}

impl EngineCall {
    fn receive(&mut self, clock: &Clock, batch: &mut DatagramBatch) {
        let Self { rtp, rtcp, session, early, is_echo, until, .. } = self;
        let Some(session) = session else {
            let _ = rtp.receive_stamped(batch, clock, |_, bytes, at| {
                if early.len() == MOST_EARLY {
                    early.pop_front();
                }
                early.push_back((at, Bytes::copy_from_slice(bytes)));
            });
            return;
        };
        let echoes = *is_echo && until.is_none();
        // Packets that are not received now wait for the next call of this function.
        let _ = rtp.receive_stamped(batch, clock, |from, bytes, at| {
            session.receive_packet(at, bytes);
            if echoes {
                rtp.send_one(from, bytes);
            }
        });
        let _ = rtcp.receive_stamped(batch, clock, |_, bytes, at| session.receive_report(at, bytes));
    }
}

/// The payloads of successive packets, which are repeated from the start.
fn payloads(codec: MediaCodec, source: &MediaSource) -> Vec<Bytes> {
    match source {
        MediaSource::Silence => vec![codec.silence().into()],
        MediaSource::Tone => vec![codec.tone().unwrap_or_else(|| codec.silence()).into()],
        MediaSource::File(bytes) => (0..bytes.len())
            .step_by(codec.packet_bytes())
            .map(|place| bytes.slice(place..(place + codec.packet_bytes()).min(bytes.len())))
            .collect(),
        MediaSource::Echo | MediaSource::Nothing => Vec::new(),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, reason = "the other end is a socket of the test")]
mod tests {
    use std::net::UdpSocket;

    use netrig_core::Seeds;
    use netrig_traffic::rtp::Packet;

    use super::*;

    /// More packets than a socket can hold arrive before the session is set up.
    #[test]
    fn media_before_the_answer_are_counted_with_the_session() {
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port() & !1;
        let clock = Clock::starting_in(Duration::ZERO);
        let order = MediaOrder { codec: MediaCodec::Pcmu, source: MediaSource::Nothing, share: 1.0 };
        let local = "127.0.0.1".parse().unwrap();
        let mut engine = MediaEngine::new(order, local, &clock, Seeds::new(1).stream("test"));
        engine.open(1, port);
        assert_eq!(engine.without_port, 0);
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        for number in 0..2000_u16 {
            let packet = Packet {
                marker: false,
                payload_type: 0,
                sequence: number,
                timestamp: u32::from(number) * 160,
                source: 7,
                payload: &[0; 160],
            };
            peer.send_to(&packet.encode(), (local, port)).unwrap();
            // A call of `receive` reads one batch of datagrams.
            if number % 16 == 0 {
                engine.receive();
            }
        }
        engine.receive();
        engine.begin(clock.now(), 1, peer.local_addr().unwrap(), true);
        engine.close(clock.now(), 1);
        engine.handle_timeout(clock.now() + LINGERS);
        let report = engine.report();
        assert_eq!((report.calls, report.received, report.expected, report.dropped), (1, 2000, 2000, 0));
    }

    #[test]
    fn calls_without_a_session_give_their_ports_back_and_may_come_in_any_order() {
        let clock = Clock::starting_in(Duration::ZERO);
        let order = MediaOrder { codec: MediaCodec::Pcmu, source: MediaSource::Nothing, share: 1.0 };
        let local = "127.0.0.1".parse().unwrap();
        let mut engine = MediaEngine::new(order, local, &clock, Seeds::new(1).stream("test"));
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port() & !1;
        for call in [3, 1, 2] {
            engine.open(call, port);
            assert!(engine.calls.contains_key(&call) && engine.without_port == 0, "{call}");
            engine.close(clock.now(), call);
        }
        assert!(engine.calls.is_empty() && engine.asked.is_empty());
    }
}
