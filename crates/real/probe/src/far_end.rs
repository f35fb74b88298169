//! `probe reflect`: the far end of all probes that need one.
//!
//! A STAMP reflector answers UDP packets without a connection. Each packet gets at most one answer, which is never
//! longer than the packet. Only listed addresses get answers. Streams of netrig's own protocol need a TCP connection
//! first, with a key if the address can be reached from other hosts. Their UDP packets go only to the host of that
//! connection.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_core::setting::AboveZero;
use netrig_core::{Dscp, Duration, Instant, Prefix, Rate, settings};
use rustix::net::{SocketType, ipproto};

use super::control::{
    self, FromFarEnd, FromProbe, PROBE, RECORDS, StreamDirection, StreamRequest, StreamSummary,
};
use super::error::{ProbeError, ProbeResult};
use super::greeting::{GreetingError, LONGEST_WORD};
use super::one_way::source_faults;
use super::pacing::watching;
use super::path_mtu;
use super::receiver::{self, MOST_BYTES_TOGETHER};
use super::socket::ProbeSocket;
use super::stamp::reflect::ReflectorSessions;
use super::stamp::{self, ErrorEstimate, Format, HmacKey, Ingress, PacketError, Reflector, Unanswered};
use super::stream::{StreamEnd, StreamLog};
use super::stream_packet::LEAST;
use netrig_host::frames::{FrameError, read_frame_within, write_frame};
use netrig_host::socket::SocketError;
use netrig_host::socket::{LONGEST_DATAGRAM, SocketBuilder, refused};
use netrig_host::sys::KernelClock;
use netrig_host::{
    Clock, ConnectionLimits, DescriptorShortage, HostAddress, InterruptibleStream, MemoryBudget, Reasons,
    SlotLimits, ThreadSlot, ThreadSlotError, ThreadSlots, connections_within, is_readable,
    loopback_addresses, realtime_nanos,
};

/// Maximum number of probes that are served at the same time. Another probe is rejected as busy.
pub const MOST_PROBES: usize = 16;

/// Maximum number of connections that have not proved the key yet. Each has a thread for at most ten seconds.
const STRANGERS: usize = 64;

/// Maximum number of connections from one address, and from a /24 of IPv4 or a /48 of IPv6.
const PER_ADDRESS: usize = 24;
const PER_GROUP: usize = 48;

/// File descriptors per served probe, and file descriptors for all other purposes.
const DESCRIPTORS_OF_ONE: u64 = 4;
const OTHER_DESCRIPTORS: u64 = 24;

/// Pause after a failed accept, in which other connections may close.
const RESPITE: StdDuration = StdDuration::from_millis(1);

/// Length of the accept queue. The kernel limits it to net.core.somaxconn.
const BACKLOG: i32 = 1024;

/// Maximum duration of an accepted stream.
pub const LONGEST_STREAM: Duration = Duration::from_secs(3600);

/// Time limit for each message of a probe. All messages until the proof of the key have this time limit together.
const PATIENCE: StdDuration = StdDuration::from_secs(10);

/// Time for clock exchanges and pauses, in addition to the duration of the stream.
const SLACK: Duration = Duration::from_secs(30);

/// After `cancel` is set, packets that have already arrived are read for at most this time.
const LAST: StdDuration = StdDuration::from_millis(200);

/// Interval at which the connection of a served probe is checked.
const TICK: Duration = Duration::from_millis(20);

settings! {
    /// The settings of a far end.
    #[derive(Clone, Debug)]
    pub struct FarEndSettings with defaults {
        /// Addresses of this host to listen at, separated by commas; a link-local one with its interface:
        /// `fe80::1%eth0`. By default the loopback addresses. Other addresses need a key.
        listen: Vec<HostAddress> { value_name: "ADDRESS[,..]", is_list: true };
        /// UDP port for STAMP.
        stamp_port: u16 { value_name: "PORT" } = stamp::PORT;
        /// TCP port for netrig's own probes; the system chooses their UDP ports.
        control_port: u16 { value_name: "PORT" } = control::PORT;
        /// Senders whose STAMP packets are answered, separated by commas. By default this host.
        allow: Vec<Prefix> { value_name: "PREFIX[,..]", is_list: true };
        /// Code points that a STAMP sender may ask for, separated by commas. By default all.
        allow_dscp: Vec<Dscp> { value_name: "DSCP[,..]", is_list: true };
        /// Number the STAMP answers, so that senders can measure the loss of each direction (RFC 8762: stateful).
        stateful: bool {};
        /// Authenticate STAMP with the key, too; packets that are not authenticated get no answer.
        authenticated: bool {};
        /// Format of this end's STAMP time stamps.
        timestamps: Format { value_name: "TIMESTAMPS" };
        /// Highest rate at which this end sends if a probe requests it.
        max_rate: Rate as AboveZero {} = Rate::from_bits_per_s(100_000_000);
    }
}

impl FarEndSettings {
    /// The order for a far end with these settings and this key.
    pub fn order(&self, key: Option<HmacKey>, connections: ConnectionLimits) -> FarEndOrder {
        FarEndOrder { settings: self.clone(), key, slots: connections.of(FarEndOrder::SLOTS) }
    }

    fn addresses(&self) -> Vec<HostAddress> {
        if self.listen.is_empty() { loopback_addresses() } else { self.listen.clone() }
    }
}

/// The order of a far end.
#[derive(Clone, Debug)]
pub struct FarEndOrder {
    /// Its settings.
    pub settings: FarEndSettings,
    /// The key of the probes. It is required if an address is not a loopback address.
    pub key: Option<HmacKey>,
    /// Limits on connections; [`FarEndOrder::SLOTS`] by default.
    pub slots: SlotLimits,
}

impl FarEndOrder {
    /// The default limits on connections.
    pub const SLOTS: SlotLimits = SlotLimits {
        strangers: STRANGERS,
        known: MOST_PROBES,
        total: STRANGERS + MOST_PROBES,
        per_address: PER_ADDRESS,
        per_group: PER_GROUP,
        on_loopback: false,
    };
}

/// Counters of a far end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FarEndTally {
    /// STAMP packets answered.
    pub answered: u64,
    /// STAMP packets that were not answered, by reason.
    pub unanswered: Reasons,
    /// Completed streams and transfers.
    pub streams: u64,
    /// Rejected or failed probes, by reason.
    pub failures: Reasons,
}

/// A far end with open sockets.
pub struct FarEnd {
    order: FarEndOrder,
    stamps: Vec<(ProbeSocket, SocketAddr)>,
    listeners: Vec<(TcpListener, SocketAddr)>,
    shortage: Option<DescriptorShortage>,
}

impl FarEnd {
    /// Opens the sockets.
    ///
    /// Fails if an address can be reached from other hosts and there is no key, or if a port cannot be bound.
    pub fn open(mut order: FarEndOrder) -> ProbeResult<Self> {
        let (settings, addresses) = (&order.settings, order.settings.addresses());
        let open = addresses.iter().find(|address| !address.ip().is_loopback());
        if let (Some(address), None) = (open, &order.key) {
            return Err(ProbeError::Request(format!(
                "{address} can be reached from other hosts: give the key that the probes also have, with --key FILE or \
                 --key-env NAME"
            )));
        }
        if settings.authenticated && order.key.is_none() {
            return Err(ProbeError::Request(
                "authenticated STAMP needs a key: --key FILE or --key-env NAME".into(),
            ));
        }
        let (mut stamps, mut listeners) = (Vec::new(), Vec::new());
        for address in &addresses {
            let stamp = address.at(settings.stamp_port);
            let socket = ProbeSocket::udp(stamp, 0).map_err(|error| unbound(stamp, "--stamp-port", error))?;
            let bound = socket.local().map_err(ProbeError::kernel("getsockname"))?;
            stamps.push((socket, bound));
            let control = address.at(settings.control_port);
            let listener = listen(control).map_err(|error| unbound(control, "--control-port", error))?;
            let bound = listener.local_addr().map_err(ProbeError::kernel("getsockname"))?;
            listeners.push((listener, bound));
        }
        let known = order.slots.known as u64 * DESCRIPTORS_OF_ONE;
        let others = OTHER_DESCRIPTORS + known + 4 * listeners.len() as u64;
        let (strangers, shortage) = connections_within(order.slots.strangers, 2, others);
        // At least one unauthenticated connection must be possible.
        order.slots.strangers = strangers.max(1);
        Ok(Self { order, stamps, listeners, shortage })
    }

    /// The shortage of file descriptors, if the limit on open files is too low for the permitted number of connections.
    pub const fn shortage(&self) -> Option<DescriptorShortage> {
        self.shortage
    }

    /// UDP addresses of the STAMP reflector.
    pub fn stamp_addresses(&self) -> Vec<SocketAddr> {
        self.stamps.iter().map(|(_, address)| *address).collect()
    }

    /// TCP addresses of the control protocol.
    pub fn control_addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().map(|(_, address)| *address).collect()
    }

    /// Serves until `cancel` is set.
    ///
    /// Fails if a system call fails that normally succeeds.
    pub fn serve(self, cancel: &AtomicBool) -> ProbeResult<FarEndTally> {
        let Self { order, stamps, listeners, .. } = self;
        let (order, tally) = (&order, &Mutex::new(FarEndTally::default()));
        let served =
            &Served { slots: ThreadSlots::new(order.slots), memory: MemoryBudget::of(MOST_BYTES_TOGETHER) };
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (socket, address) in stamps {
                threads.push(scope.spawn(move || reflect(socket, address.port(), order, tally, cancel)));
            }
            for (listener, _) in listeners {
                threads.push(scope.spawn(move || accept(scope, &listener, order, served, tally, cancel)));
            }
            let mut ended = Ok(());
            for thread in threads {
                let result = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                ended = ended.and(result);
            }
            ended
        })?;
        Ok(std::mem::take(&mut locked(tally)))
    }
}

/// Resources that all served probes share.
struct Served {
    slots: Arc<ThreadSlots>,
    memory: MemoryBudget,
}

fn locked(tally: &Mutex<FarEndTally>) -> MutexGuard<'_, FarEndTally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unbound(address: SocketAddr, option: &str, error: SocketError) -> ProbeError {
    let SocketError::Refused { source, .. } = &error else { return error.into() };
    let advice = match source.raw_os_error() {
        Some(libc::EACCES) => format!("ports below 1024 are root's: choose a higher one with {option}"),
        Some(libc::EADDRINUSE) => {
            format!("another program has the port: choose a different one with {option}")
        }
        Some(libc::EADDRNOTAVAIL) => "this host has no such address: see `ip address`".into(),
        _ => return error.into(),
    };
    ProbeError::Request(format!("cannot listen at {address}: {source}; {advice}"))
}

/// A listening socket in non-blocking mode.
fn listen(address: SocketAddr) -> Result<TcpListener, SocketError> {
    let making = SocketBuilder::open(SocketType::STREAM, Some(ipproto::TCP), address)?;
    // A path MTU search reads the MSS of the saved SYN.
    making.number("TCP_SAVE_SYN", libc::IPPROTO_TCP, libc::TCP_SAVE_SYN, 1)?;
    let socket = making.bound()?;
    rustix::net::listen(&socket, BACKLOG).map_err(|error| refused("listen", address, error))?;
    Ok(socket.into())
}

/// Answers STAMP packets until `cancel` is set.
fn reflect(
    mut socket: ProbeSocket,
    port: u16,
    order: &FarEndOrder,
    tally: &Mutex<FarEndTally>,
    cancel: &AtomicBool,
) -> ProbeResult {
    let FarEndSettings { allow, allow_dscp, stateful, authenticated, timestamps, .. } = &order.settings;
    let mut reflector = Reflector {
        key: order.key.clone().filter(|_| *authenticated),
        allowed: if allow.is_empty() { Prefix::LOOPBACK.to_vec() } else { allow.clone() },
        dscps: (!allow_dscp.is_empty()).then(|| allow_dscp.iter().map(|dscp| dscp.0).collect()),
        port,
        sessions: stateful.then(ReflectorSessions::default),
    };
    let mut pacer = watching(socket.fd(), Clock::starting_in(Duration::ZERO), Duration::ZERO)?;
    let (mut arrived, mut more) = (Vec::new(), false);
    let mut ends: Option<StdInstant> = None;
    loop {
        // Packets that arrived before the end are counted, too.
        if ends.is_none() && cancel.load(Ordering::Relaxed) {
            ends = Some(StdInstant::now() + LAST);
        }
        if !more && ends.is_none() {
            // The wait ends after at most 50 ms, so that `cancel` is checked.
            pacer.wait(Instant::NEVER).map_err(ProbeError::kernel("ppoll"))?;
        }
        // Each batch is answered before the next is received. If packets arrive faster than they are answered, they
        // stay in the socket's buffer. The kernel counts those that it drops.
        let took = socket.receive(|incoming| {
            let received = incoming.stamp.unwrap_or_else(realtime_nanos);
            // RFC 5357 section 4.2.1: 255 if the TTL is not known.
            let ttl = incoming.ttl.unwrap_or(255);
            let ingress = Ingress { from: incoming.from, received, ttl, class: incoming.class.unwrap_or(0) };
            arrived.push((incoming.head.to_vec(), ingress));
        });
        more = took.map_err(ProbeError::kernel("recvmmsg"))?;
        if !arrived.is_empty() {
            answer(&mut socket, &mut reflector, *timestamps, arrived.drain(..), &mut locked(tally));
        }
        // Transmit time stamps are discarded, because the answers with these numbers have already been sent.
        socket.transmit_stamps(|_| {}).map_err(ProbeError::kernel("the error queue"))?;
        if ends.is_some_and(|ends| !more || StdInstant::now() >= ends) {
            break;
        }
    }
    let drops = socket.drops().map_err(ProbeError::kernel("SO_MEMINFO"))?;
    if drops > 0 {
        let why = "they arrived faster than they were answered, and the socket had no room for them";
        locked(tally).unanswered.add(why, drops.into());
    }
    Ok(())
}

/// Answers a batch of STAMP packets.
fn answer(
    socket: &mut ProbeSocket,
    reflector: &mut Reflector,
    format: Format,
    arrived: impl Iterator<Item = (Vec<u8>, Ingress)>,
    tally: &mut FarEndTally,
) {
    let clock = KernelClock::read();
    let error = ErrorEstimate::new(clock.synchronised, format, clock.error_ns);
    for (packet, ingress) in arrived {
        let sent = match reflector.reflect(&packet, &ingress, realtime_nanos(), error) {
            Err(why) => Err(reason(&why)),
            Ok(reply) => socket
                .set_dscp(reply.dscp)
                .and_then(|()| socket.send(ingress.from, &reply.bytes))
                .map_err(|error| format!("it could not be sent: {error}")),
        };
        match sent {
            Ok(()) => tally.answered += 1,
            Err(why) => tally.unanswered.count(why),
        }
    }
}

/// The reason why a packet was not answered, as text without variable numbers. This bounds the number of distinct
/// texts.
fn reason(why: &Unanswered) -> String {
    match why {
        Unanswered::Packet(PacketError::TooShort { least, .. }) => {
            format!("it has fewer than {least} octets")
        }
        other => other.to_string(),
    }
}

/// Accepts control connections until `cancel` is set.
fn accept<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    listener: &TcpListener,
    order: &'scope FarEndOrder,
    served: &'scope Served,
    tally: &'scope Mutex<FarEndTally>,
    cancel: &'scope AtomicBool,
) -> ProbeResult {
    let mut pacer = watching(listener, Clock::starting_in(Duration::ZERO), Duration::ZERO)?;
    while !cancel.load(Ordering::Relaxed) {
        pacer.wait(Instant::NEVER).map_err(ProbeError::kernel("ppoll"))?;
        // A failed connection of one peer must not end the loop.
        loop {
            let (control, from) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    locked(tally).failures.count(format!("it was not accepted: {error}"));
                    std::thread::sleep(RESPITE);
                    break;
                }
            };
            let slot = match served.slots.enter(&control, from.ip()) {
                Ok(slot) => slot,
                Err(why) => {
                    turn_away(control, &why);
                    locked(tally).failures.count(format!("there was no room: {why}"));
                    continue;
                }
            };
            scope.spawn(move || {
                let done = serve(control, from, order, &slot, &served.memory, cancel);
                drop(slot);
                let mut tally = locked(tally);
                match done {
                    Ok(streams) => tally.streams += streams,
                    Err(why) => tally.failures.count(why.to_string()),
                }
            });
        }
    }
    Ok(())
}

/// Rejects a probe as busy. The write does not block, because the socket is still empty.
fn turn_away(mut control: TcpStream, why: &ThreadSlotError) {
    if let ThreadSlotError::Busy(busy) = why {
        // The peer may already have closed the connection, so the error is ignored.
        let _ = write_frame(&mut control, &FromFarEnd::Busy { why: busy.to_string() });
    }
}

/// Why the service of a probe failed.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error(transparent)]
    Greeting(#[from] GreetingError),
    #[error(transparent)]
    Control(#[from] FrameError),
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error("a probe requested more than is granted: {0}")]
    Refused(String),
}

/// Serves one probe. Returns the number of completed streams.
fn serve(
    mut control: TcpStream,
    from: SocketAddr,
    order: &FarEndOrder,
    slot: &ThreadSlot,
    memory: &MemoryBudget,
    cancel: &AtomicBool,
) -> Result<u64, ServeError> {
    control.set_nodelay(true).map_err(FrameError::from)?;
    let mut wire = InterruptibleStream::new(&control, cancel, PATIENCE).map_err(FrameError::from)?;
    // A peer that has not proved the key holds a slot for at most this time.
    wire.until = Some(StdInstant::now() + PATIENCE);
    let keys = order.key.clone().into();
    PROBE
        .greet_client(&mut wire, (&keys, &[]), Some(control::boot().unwrap_or_default()), || slot.prove())?;
    wire.until = None;
    let stream = match read_frame_within(&mut wire, LONGEST_WORD)? {
        Some(FromProbe::Stream(stream)) => stream,
        Some(FromProbe::Media) => return Ok(receiver::serve(&control, from.ip(), memory, cancel)?),
        Some(FromProbe::PathMtu { token }) => {
            blocking(&control).map_err(FrameError::from)?;
            path_mtu::serve(&mut control, token, from, cancel)?;
            return Ok(1);
        }
        // The peer connected only to check the key.
        None => return Ok(0),
        _ => return Err(PROBE.unexpected().into()),
    };
    blocking(&control).map_err(FrameError::from)?;
    let room = check(&stream, order)
        .and_then(|()| memory.reserve(remembered(&stream)).map_err(|error| error.to_string()));
    let _kept = match room {
        Ok(kept) => kept,
        Err(why) => {
            write_frame(&mut control, &FromFarEnd::Refused { why: why.clone() })?;
            return Err(ServeError::Refused(why));
        }
    };
    let local = HostAddress::from(control.local_addr().map_err(FrameError::from)?).at(0);
    let socket = ProbeSocket::udp(local, stream.dscp).map_err(ProbeError::from)?;
    let port = socket.local().map_err(ProbeError::kernel("getsockname"))?.port();
    write_frame(&mut control, &FromFarEnd::Ready { port })?;
    let served = carry_out(&mut control, &stream, StreamEnd::listening(socket, stream.token, from), cancel);
    if let Err(ServeError::Probe(error)) = &served {
        // If the connection itself failed, this write fails too, so its error is ignored.
        let _ = write_frame(&mut control, &FromFarEnd::Refused { why: error.to_string() });
    }
    served.map(|()| 1)
}

/// Puts a connection into blocking mode with time-outs.
fn blocking(control: &TcpStream) -> io::Result<()> {
    control.set_nonblocking(false)?;
    control.set_read_timeout(Some(PATIENCE))?;
    control.set_write_timeout(Some(PATIENCE))
}

/// Checks a stream against the limits of this far end.
fn check(stream: &StreamRequest, order: &FarEndOrder) -> Result<(), String> {
    stream.plan().check().map_err(|error| error.to_string())?;
    if !(LEAST..=LONGEST_DATAGRAM).contains(&stream.size) {
        return Err(format!("packets of {} B: expected {LEAST} B to {LONGEST_DATAGRAM} B", stream.size));
    }
    if stream.dscp > 63 {
        return Err(format!("a DSCP of {}: expected 0 to 63", stream.dscp));
    }
    if stream.lasts() > LONGEST_STREAM {
        return Err(format!(
            "{} s of packets: expected at most {} s",
            stream.lasts().as_secs_f64(),
            LONGEST_STREAM.as_secs_f64()
        ));
    }
    let rate = stream.size as f64 * 8.0 * 1e9 / stream.gap_ns as f64;
    if stream.direction == StreamDirection::Back && rate > order.settings.max_rate.bits_per_s() as f64 {
        return Err(format!(
            "{rate:.0} bit/s: the far end sends at most {} (--max-rate)",
            order.settings.max_rate
        ));
    }
    Ok(())
}

/// Maximum number of recorded arrivals: each packet and one copy of it.
const fn arrivals(stream: &StreamRequest) -> usize {
    2 * stream.count as usize
}

/// Memory of a stream until its records are sent, bytes: a record of each arrival, a record of each sent packet, and a
/// copy of the arrival records that exists while they are sent.
const fn remembered(stream: &StreamRequest) -> usize {
    2 * arrivals(stream) * size_of::<(u32, u64)>() + stream.count as usize * size_of::<u64>()
}

/// Serves a stream and sends its report.
fn carry_out(
    control: &mut TcpStream,
    stream: &StreamRequest,
    mut end: StreamEnd,
    cancel: &AtomicBool,
) -> Result<(), ServeError> {
    let plan = stream.plan();
    let mut log = StreamLog { most: arrivals(stream), ..StreamLog::default() };
    let deadline = Clock::starting_in(stream.lasts() + plan.wait + SLACK);
    let over = |control: &TcpStream| {
        is_readable(control) || cancel.load(Ordering::Relaxed) || deadline.left_until(Instant::ZERO).is_zero()
    };
    loop {
        end.linger(TICK, &mut log, || over(control))?;
        if !over(control) {
            continue;
        }
        if !is_readable(control) {
            return Err(ServeError::Refused("the stream did not end in time".into()));
        }
        match read_frame_within(control, LONGEST_WORD)? {
            Some(FromProbe::Begin) if stream.direction == StreamDirection::Back => {
                let sent = end.stream(plan, stream.size, &mut log, || over(control))?;
                let numbers = 0..sent.at.len() as u32;
                send_records(control, numbers.zip(sent.at.iter().copied()))?;
                let faults = source_faults(&sent, plan.gaps, "the far end");
                let done = StreamSummary {
                    faults,
                    stamped: sent.stamped,
                    source: Some(Box::new(sent.source)),
                    ..StreamSummary::default()
                };
                write_frame(control, &FromFarEnd::Done(done))?;
            }
            Some(FromProbe::Finish) if stream.direction == StreamDirection::There => {
                send_records(control, log.arrivals.iter().copied())?;
                let drops = end.drops()?;
                let lost =
                    format!("{drops} packets reached the far end, and its socket had no room for them");
                let faults = (drops > 0).then_some(lost).into_iter().collect();
                let StreamLog { stamped, dscps, ttls, .. } = log;
                write_frame(
                    control,
                    &FromFarEnd::Done(StreamSummary { faults, stamped, dscps, ttls, source: None }),
                )?;
                return Ok(());
            }
            Some(FromProbe::Finish) | None => return Ok(()),
            Some(_) => return Err(PROBE.unexpected().into()),
        }
    }
}

/// Sends records in frames of bounded length.
fn send_records(
    control: &mut TcpStream,
    records: impl Iterator<Item = (u32, u64)>,
) -> Result<(), FrameError> {
    let records: Vec<_> = records.collect();
    records.chunks(RECORDS).try_for_each(|chunk| {
        let (numbers, at) = chunk.iter().copied().unzip();
        write_frame(control, &FromFarEnd::Packets { numbers, at })
    })
}
