//! Bulk transfer over TCP connections, as fast as the path allows or at a given rate.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use netrig_core::{CloseReason, ConnectionEvent, Data, Duration, Instant, Rate};
use netrig_traffic::ConnId;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt;

use super::{Bucket, Effort};
use crate::tcp_connection::{ConnectionMode, TcpConnection, TurnOutcome};
use netrig_host::Watch;
use netrig_host::socket::has_hole;
use netrig_host::{Clock, Pacer, TcpInfo, monotonic_nanos};

/// Maximum data that is queued for a connection in one step, bytes, and the minimum when a [`ByteBudget`] is nearly
/// spent.
const BLOCK: u64 = 1 << 20;
const LEAST_BLOCK: u64 = 1 << 16;

/// Maximum number of bytes per read.
const READ: usize = 1 << 18;

/// Limit of a paced connection's unsent data in the kernel (`TCP_NOTSENT_LOWAT`), as a time at its rate, and its
/// minimum in bytes. The limit keeps the number of bytes passed to the kernel close to the number of bytes sent.
const UNSENT: Duration = Duration::from_millis(50);
const LEAST_UNSENT: i32 = 16 << 10;

/// Bytes that paced connections may read ahead of their rate.
const READ_AHEAD: u64 = BLOCK;

/// Interval at which a paced reader checks whether it may read.
const LOOK: Duration = Duration::from_millis(2);

/// Longest time until a request to stop is noticed.
const LONGEST_LOOK: Duration = Duration::from_millis(20);

/// Connects a non-blocking socket and waits at most `patience` for the connection. The connection stays non-blocking.
///
/// # Errors
/// The error of the kernel or the peer; [`io::ErrorKind::TimedOut`] if the peer does not answer in time;
/// [`io::ErrorKind::Interrupted`] if `cancel` was set.
pub fn connect(
    socket: OwnedFd,
    to: SocketAddr,
    patience: Duration,
    cancel: &AtomicBool,
) -> io::Result<TcpStream> {
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let deadline = monotonic_nanos() + patience.as_nanos();
    let look = Timespec { tv_sec: 0, tv_nsec: LONGEST_LOOK.as_nanos().cast_signed() };
    loop {
        if cancel.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match rustix::event::poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&look)) {
            Ok(0) | Err(Errno::INTR) if monotonic_nanos() > deadline => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => break,
            Err(error) => return Err(error.into()),
        }
    }
    sockopt::socket_error(&socket)??;
    Ok(TcpStream::from(socket))
}

/// A number of bytes that several connections send together. The connections may belong to several threads. A faster
/// connection sends a larger part.
#[derive(Clone, Debug)]
pub struct ByteBudget(Arc<AtomicU64>);

impl ByteBudget {
    /// A budget of `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    /// Takes a block from the budget and returns its size. The last blocks are shorter, so that the connections finish
    /// at about the same time.
    fn take(&self) -> u64 {
        let block = |left: u64| (left / 16).clamp(LEAST_BLOCK, BLOCK).min(left);
        let taken =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left - block(left)));
        taken.map_or(0, block)
    }

    fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// Direction of the data, as this end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferDirection {
    /// This end sends.
    Sends,
    /// This end receives.
    Receives,
    /// Both ends send over each connection.
    Both,
}

impl TransferDirection {
    pub(super) const fn sends(self) -> bool {
        matches!(self, Self::Sends | Self::Both)
    }
}

/// Parameters of a transfer over TCP connections.
#[derive(Clone, Debug)]
pub struct StreamOrder {
    /// Direction of the data.
    pub direction: TransferDirection,
    /// Time between two readings.
    pub every: Duration,
    /// Number of bytes to send; `None` if unlimited.
    pub bytes: Option<ByteBudget>,
    /// Maximum rate of each connection, B/s; `None` if unlimited. The kernel paces sent data (`SO_MAX_PACING_RATE`).
    /// Received data is read at the sum of the rates of all connections, so that flow control slows the senders down.
    pub pacing: Option<u32>,
    /// Maximum receive window that this end offers, bytes, enforced while data arrives. With `None`, the kernel chooses
    /// the window.
    pub window: Option<u32>,
}

/// Counts of one connection or association at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamCounts {
    /// For a connection, bytes that the kernel accepted from this end; some may still be unsent. For an association,
    /// bytes that were sent.
    pub sent: u64,
    /// For a connection, bytes that this end read from the kernel. For an association, bytes that arrived in any order,
    /// without duplicates.
    pub received: u64,
    /// Bytes that the peer acknowledged since the transfer started; `None` for an association.
    pub acknowledged: Option<u64>,
    /// The kernel's state of the connection, or netrig's own state of the association. After the end of the connection,
    /// the last known state.
    pub info: Option<TcpInfo>,
    /// Whether segments have arrived that cannot be read because an earlier segment is missing. After the end of the
    /// connection, the value of the last reading.
    pub has_hole: bool,
}

/// Counts of all connections at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Time of the reading, ns of `CLOCK_MONOTONIC`.
    pub at: u64,
    /// Counts of each connection or association, in the caller's order.
    pub connections: Vec<StreamCounts>,
    /// Processor time of the thread since its start.
    pub effort: Effort,
}

impl Reading {
    /// Bytes received and sent over all connections.
    pub fn bytes(&self) -> [u64; 2] {
        let sum = |of: fn(&StreamCounts) -> u64| self.connections.iter().map(of).sum();
        [sum(|counts| counts.received), sum(|counts| counts.sent)]
    }
}

/// Why a transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferEnd {
    /// The caller stopped it.
    Stopped,
    /// The kernel accepted all bytes of the order.
    Sent,
    /// All connections have ended: the peer closed them, or they failed.
    Gone,
}

/// A transfer over TCP connections.
#[derive(Debug)]
pub struct Streams {
    order: StreamOrder,
    until_closed: bool,
    members: Vec<CarriedStream>,
    clock: Clock,
    pacer: Pacer,
    turns: VecDeque<usize>,
}

#[derive(Debug)]
struct CarriedStream {
    conn: TcpConnection,
    sent: u64,
    received: u64,
    /// Value of the kernel's counter of acknowledged bytes before the transfer: the SYN and earlier data.
    before: u64,
    info: Option<TcpInfo>,
    has_hole: bool,
    over: Option<CloseReason>,
}

impl CarriedStream {
    fn read_info(&mut self) {
        self.info = TcpInfo::read(self.conn.fd()).ok().or(self.info);
    }
}

/// The address of the peer of a connection; the unspecified address if the connection has failed.
fn peer_of(socket: &TcpStream) -> io::Result<SocketAddr> {
    match socket.peer_addr() {
        Err(error) if error.kind() == io::ErrorKind::NotConnected => {
            Ok(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))
        }
        peer => peer,
    }
}

impl Streams {
    /// Prepares a transfer over open connections. Call this function on the thread that will run the transfer.
    ///
    /// # Errors
    /// The error of the kernel. A connection that has failed in the meantime is not an error.
    pub fn new(sockets: Vec<TcpStream>, order: StreamOrder) -> io::Result<Self> {
        let clock = Clock::starting_in(Duration::ZERO);
        let pacer = Pacer::new(clock, Duration::ZERO)?;
        let manner = ConnectionMode { clamp: order.window, ..ConnectionMode::default() };
        let mut members = Vec::with_capacity(sockets.len());
        for (place, socket) in sockets.into_iter().enumerate() {
            socket.set_nonblocking(true)?;
            let peer = peer_of(&socket)?;
            let socket = OwnedFd::from(socket);
            if let Some(rate) = order.pacing {
                hold_to(&socket, rate)?;
            }
            pacer.watch(&socket, place as u64, Watch::Both)?;
            let before = TcpInfo::read(&socket).map_or(0, |info| info.counts.bytes_sent) + 1;
            let conn = TcpConnection::new(ConnId::Accepted(place as u32), socket, peer, manner, None);
            let (sent, received, info, has_hole, over) = (0, 0, None, false, None);
            members.push(CarriedStream { conn, sent, received, before, info, has_hole, over });
        }
        let turns = (0..members.len()).collect();
        Ok(Self { order, until_closed: false, members, clock, pacer, turns })
    }

    /// Makes [`Streams::carry`] continue after all bytes of the order are sent: it closes each connection and waits
    /// until the peer has received everything and closes the connection too.
    #[must_use]
    pub fn until_closed(self) -> Self {
        Self { until_closed: true, ..self }
    }

    /// Transfers data until `stop` is set, all bytes are sent or all connections have ended. Passes a reading to `each`
    /// at every interval and at the end.
    ///
    /// # Errors
    /// The error of the kernel. A failed connection is not an error.
    pub fn carry(&mut self, stop: &AtomicBool, each: &mut dyn FnMut(&Reading)) -> io::Result<TransferEnd> {
        let mut buffer = vec![0; READ];
        let begun = self.clock.now();
        let all = self.order.pacing.map(|each| f64::from(each) * self.members.len() as f64);
        let mut bucket = all.map(|rate| Bucket::new(begun, rate, READ_AHEAD, Bucket::AWAY));
        let mut next = begun + self.order.every;
        let end = loop {
            if stop.load(Ordering::Relaxed) {
                break TransferEnd::Stopped;
            }
            if let Some(end) = self.end() {
                break end;
            }
            let now = self.clock.now();
            if now >= next {
                each(&self.reading());
                // If the thread was descheduled for several intervals, it gives only one reading for them.
                next = (next + self.order.every).max(now);
            }
            if bucket.as_mut().is_some_and(|bucket| bucket.left(now, self.received()) < 0.0) {
                self.pacer.rest(next.min(now + LOOK))?;
                continue;
            }
            match self.turns.pop_front() {
                Some(place) => {
                    self.take_turn(place, &mut buffer);
                    // While the peer accepts all data, the queue of turns is never empty, so readiness is polled here too.
                    if self.order.direction == TransferDirection::Both {
                        self.wait(now)?;
                    }
                }
                None => self.wait(next.min(now + LONGEST_LOOK))?,
            }
        };
        each(&self.reading());
        Ok(end)
    }

    /// Why each connection ended, in the caller's order; `None` for an open connection.
    pub fn over(&self) -> impl Iterator<Item = Option<CloseReason>> {
        self.members.iter().map(|member| member.over)
    }

    /// Aborts the connections and discards unsent data (`SO_LINGER` of zero).
    pub fn abort(self) {
        for member in &self.members {
            // A closed connection needs no abort.
            let _ = sockopt::set_socket_linger(member.conn.fd(), Some(std::time::Duration::ZERO));
        }
    }

    /// The sizes of the send and receive buffers of the first connection, bytes including the kernel's overhead, and
    /// the name of its congestion control.
    pub(super) fn settings(&self) -> (Option<[u64; 2]>, Option<String>) {
        let Some(socket) = self.members.first().map(|member| member.conn.fd()) else { return (None, None) };
        let congestion = sockopt::tcp_congestion(socket).ok();
        (buffers(socket), congestion.map(|name| String::from_utf8_lossy(name.as_ref()).into_owned()))
    }

    fn received(&self) -> u64 {
        self.members.iter().map(|member| member.received).sum()
    }

    fn end(&self) -> Option<TransferEnd> {
        let is_spent = self.order.bytes.as_ref().is_some_and(ByteBudget::is_spent);
        let is_sent = is_spent && self.order.direction.sends();
        if self.members.iter().all(|member| member.over.is_some()) {
            let is_finished = is_sent && self.over().all(|reason| reason == Some(CloseReason::Finished));
            return Some(if is_finished { TransferEnd::Sent } else { TransferEnd::Gone });
        }
        let is_queued = self.members.iter().any(|member| member.conn.unsent() > 0);
        (is_sent && !is_queued && !self.until_closed).then_some(TransferEnd::Sent)
    }

    fn wait(&mut self, until: Instant) -> io::Result<()> {
        for (place, _) in self.pacer.wait(until)? {
            let place = *place as usize;
            if let Some(member) = self.members.get_mut(place) {
                member.conn.is_ready();
                if !self.turns.contains(&place) {
                    self.turns.push_back(place);
                }
            }
        }
        Ok(())
    }

    fn take_turn(&mut self, place: usize, buffer: &mut [u8]) {
        let Some(member) = self.members.get_mut(place).filter(|member| member.over.is_none()) else { return };
        let mut events = Vec::with_capacity(4);
        let mut goes_on = member.conn.take_turn(buffer, &mut events) == TurnOutcome::GoesOn;
        for event in events {
            match event {
                ConnectionEvent::Connected { .. } | ConnectionEvent::Writable
                    if self.order.direction.sends() =>
                {
                    let block = self.order.bytes.as_ref().map_or(BLOCK, ByteBudget::take);
                    member.conn.send(Data::Fill(block));
                    if block == 0 && self.until_closed {
                        member.conn.close();
                    }
                    member.sent += block;
                    goes_on = true;
                }
                ConnectionEvent::Received { data, .. } => member.received += data.size(),
                // When the peer finishes, the receiver has read all data.
                ConnectionEvent::PeerFinished if self.order.direction == TransferDirection::Receives => {
                    member.over = Some(CloseReason::Finished);
                }
                ConnectionEvent::Closed(reason) => {
                    member.read_info();
                    member.over = Some(reason);
                }
                _ => {}
            }
        }
        if goes_on && member.over.is_none() {
            self.turns.push_back(place);
        }
    }

    fn reading(&mut self) -> Reading {
        let carried = |member: &mut CarriedStream| {
            if member.over.is_none() {
                member.read_info();
                member.has_hole = has_hole(member.conn.fd());
            }
            let sent = member.sent - member.conn.unsent();
            let acknowledged = member.info.map_or(0, |info| info.counts.bytes_acknowledged);
            StreamCounts {
                sent,
                received: member.received,
                acknowledged: Some(acknowledged.saturating_sub(member.before)),
                info: member.info,
                has_hole: member.has_hole,
            }
        };
        Reading {
            at: monotonic_nanos(),
            connections: self.members.iter_mut().map(carried).collect(),
            effort: Effort::of_this_thread(),
        }
    }
}

/// The sizes of the send and receive buffers of a socket, bytes including the kernel's overhead.
pub(super) fn buffers(socket: impl AsFd) -> Option<[u64; 2]> {
    let send = sockopt::socket_send_buffer_size(&socket).ok()?;
    Some([send as u64, sockopt::socket_recv_buffer_size(&socket).ok()? as u64])
}

/// Converts a rate to [`StreamOrder::pacing`], B/s: at least 1, and at most the largest value of 32 bits, the kernel's
/// limit.
pub fn pacing(rate: Rate) -> u32 {
    u32::try_from(rate.bits_per_s() / 8).unwrap_or(u32::MAX).max(1)
}

/// Paces a connection to `rate` B/s, and limits its unsent data in the kernel.
///
/// # Errors
/// The error of the kernel.
pub fn hold_to(socket: impl AsFd, rate: u32) -> io::Result<()> {
    let set = |level, name, value| netrig_host::sys::set_option_int(socket.as_fd(), level, name, value);
    set(libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, rate.cast_signed())?;
    let unsent = f64::from(rate) * UNSENT.as_secs_f64();
    set(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, (unsent as i32).max(LEAST_UNSENT))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration as StdDuration;

    use netrig_host::socket::{SocketBuilder, TcpOptions};

    use super::*;

    const EVERY: Duration = Duration::from_millis(20);

    /// Opens connections over loopback. Returns the connecting ends and the accepting ends.
    fn connections(count: usize) -> [Vec<TcpStream>; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pairs = (0..count).map(|_| {
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (near, listener.accept().unwrap().0)
        });
        let (near, far) = pairs.unzip();
        [near, far]
    }

    const fn order(direction: TransferDirection) -> StreamOrder {
        StreamOrder { direction, every: EVERY, bytes: None, pacing: None, window: None }
    }

    /// Why the transfer of an end ended, and the readings of that end.
    type Ended = (TransferEnd, Vec<Reading>);

    /// Runs both ends, each on its own thread, and stops the near end after the time `lasts`. The far end finishes by
    /// itself.
    fn carried(count: usize, near: StreamOrder, far: StreamOrder, lasts: Option<StdDuration>) -> [Ended; 2] {
        let [near_sockets, far_sockets] = connections(count);
        let (near_stop, far_stop) = (AtomicBool::new(false), AtomicBool::new(false));
        let end = |sockets, order, stop: &AtomicBool| {
            let mut readings = Vec::new();
            let mut streams = Streams::new(sockets, order).unwrap();
            let end = streams.carry(stop, &mut |reading| readings.push(reading.clone())).unwrap();
            (end, readings)
        };
        std::thread::scope(|scope| {
            let far = scope.spawn(|| end(far_sockets, far, &far_stop));
            let near = scope.spawn(|| end(near_sockets, near, &near_stop));
            if let Some(lasts) = lasts {
                std::thread::sleep(lasts);
                near_stop.store(true, Ordering::Relaxed);
            }
            let near = near.join().unwrap();
            [near, far.join().unwrap()]
        })
    }

    fn received(readings: &[Reading]) -> u64 {
        readings.last().unwrap().connections.iter().map(|carried| carried.received).sum()
    }

    /// Connections that the peer resets before the transfer count as ended, like connections that fail later.
    #[test]
    fn connections_that_broke_before_they_carry_are_gone() {
        for direction in [TransferDirection::Sends, TransferDirection::Receives] {
            let [near, far] = connections(2);
            for socket in &far {
                sockopt::set_socket_linger(socket, Some(StdDuration::ZERO)).unwrap();
            }
            drop(far);
            while near.iter().any(|socket| socket.peer_addr().is_ok()) {
                std::thread::sleep(StdDuration::from_millis(1));
            }
            let mut streams = Streams::new(near, order(direction)).unwrap();
            assert_eq!(streams.carry(&AtomicBool::new(false), &mut |_| ()).unwrap(), TransferEnd::Gone);
        }
    }

    /// Both ends use the requested segment size. If no socket listens, the connection is refused immediately.
    #[test]
    fn a_connection_has_its_options_from_the_first_segment_on() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let options = TcpOptions { max_segment: Some(536), ..TcpOptions::default() };
        let local = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let connected = || {
            let socket = SocketBuilder::tcp(&options, 0, local).and_then(SocketBuilder::bound).unwrap();
            connect(socket, to, Duration::from_secs(10), &AtomicBool::new(false))
        };
        let near = connected().unwrap();
        let far = listener.accept().unwrap().0;
        for socket in [&near, &far] {
            let segment = TcpInfo::read(socket).unwrap().segment;
            assert!((500..=536).contains(&segment), "{segment}");
        }
        drop(listener);
        let refused = connected().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn so_many_bytes_are_sent_and_not_one_more() {
        for count in [1, 3] {
            let bytes = 10 * BLOCK + 77;
            let sends =
                StreamOrder { bytes: Some(ByteBudget::new(bytes)), ..order(TransferDirection::Sends) };
            let [near, far] = carried(count, sends, order(TransferDirection::Receives), None);
            assert_eq!((near.0, far.0), (TransferEnd::Sent, TransferEnd::Gone));
            let sent: u64 = near.1.last().unwrap().connections.iter().map(|carried| carried.sent).sum();
            assert_eq!((sent, received(&far.1)), (bytes, bytes));
        }
    }

    #[test]
    fn data_goes_both_ways_over_each_connection() {
        let lasts = Some(StdDuration::from_millis(150));
        let [near, far] = carried(2, order(TransferDirection::Both), order(TransferDirection::Both), lasts);
        assert_eq!((near.0, far.0), (TransferEnd::Stopped, TransferEnd::Gone));
        for readings in [&near.1, &far.1] {
            assert!(readings.last().unwrap().connections.iter().all(|carried| carried.received > 0));
        }
    }

    #[test]
    fn readings_come_at_their_interval_and_never_run_backwards() {
        let lasts = Some(StdDuration::from_millis(300));
        let [near, far] =
            carried(2, order(TransferDirection::Sends), order(TransferDirection::Receives), lasts);
        for readings in [&near.1, &far.1] {
            assert!(readings.len() >= 3, "{}", readings.len());
            for pair in readings.windows(2) {
                assert!(pair[0].at < pair[1].at && pair[0].effort.ran <= pair[1].effort.ran);
                for (before, after) in pair[0].connections.iter().zip(&pair[1].connections) {
                    assert!(before.received <= after.received && before.sent <= after.sent);
                }
            }
        }
        // The kernel reports the state of an open connection.
        assert!(
            near.1[0].connections.iter().all(|carried| carried.info.is_some_and(|info| info.segment > 0))
        );
        // Bytes that the kernel accepted and the peer did not receive are still in the kernel's buffers.
        let sent: u64 = near.1.last().unwrap().connections.iter().map(|carried| carried.sent).sum();
        assert!(sent >= received(&far.1) && received(&far.1) > 0);
    }

    #[test]
    fn a_peer_that_goes_away_ends_it() {
        let [near, far] = connections(1);
        drop(far);
        let mut streams = Streams::new(near, order(TransferDirection::Sends)).unwrap();
        let end = streams.carry(&AtomicBool::new(false), &mut |_| {}).unwrap();
        assert_eq!(end, TransferEnd::Gone);
        assert!(streams.over().all(|reason| reason == Some(CloseReason::Aborted)));
    }

    #[test]
    fn what_is_paced_stays_below_its_rate() {
        let paced = |direction| StreamOrder { pacing: Some(1_000_000), ..order(direction) };
        let lasts = StdDuration::from_millis(400);
        let [_, far] =
            carried(1, paced(TransferDirection::Sends), order(TransferDirection::Receives), Some(lasts));
        let (first, last) = (&far.1[0], &far.1[far.1.len() - 2]);
        let bytes = last.connections[0].received - first.connections[0].received;
        // The kernel does not pace an initial burst, which the first reading contains.
        assert!(bytes as f64 <= 2e6 * (last.at - first.at) as f64 * 1e-9, "{bytes}");
        // A paced reader limits the transfer even if the peer is not paced.
        let [_, far] =
            carried(2, order(TransferDirection::Sends), paced(TransferDirection::Receives), Some(lasts));
        let last = &far.1[far.1.len() - 2];
        let bytes: u64 = last.connections.iter().map(|carried| carried.received).sum();
        let (since, most) = (far.1[0].at - EVERY.as_nanos(), 2e6);
        assert!(
            bytes as f64
                <= most * (last.at - since) as f64 * 1e-9 + (READ_AHEAD + BLOCK + 2 * READ as u64) as f64
        );
    }
}
