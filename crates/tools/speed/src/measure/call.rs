//! The client side of a session.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_bulk::{MeasuredHost, connect, datagram_socket};
use netrig_core::{Duration, Rate};
use netrig_host::socket::{Buffers, SocketBuilder, TcpOptions};
use netrig_host::{HostAddress, TcpCounts, TcpInfo, monotonic_nanos, shown_up_to};
use netrig_probe::control::boot;
use netrig_probe::stamp::HmacKey;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::error::SpeedError;
use crate::admission::AdmissionRefusal;
use crate::carry::{Allowance, LiveReading, PhaseOutcome, PhaseSockets, RunningPhase};
use crate::control::{ControlConnection, PATIENCE, request_datagrams};
use crate::meter::ArrivalCourse;
use crate::protocol::{
    Budget, Carrier, ConnectionCounts, DataDirection, DatagramCounts, EndReport, FromClient, FromServer,
    MeasurementPhase, Preamble, SPEED, clock_mark,
};

/// Maximum wait for a control message before other events are checked.
const LOOK: StdDuration = StdDuration::from_millis(5);

/// Time limit for opening a connection.
const WAIT: Duration = Duration::from_secs(10);

/// At the server, a phase may exceed the ordered duration by this time, until the server receives the end message.
const LONGER: Duration = Duration::from_secs(20);

/// Maximum length of a text from the server, characters, and maximum number of faults in its report.
const LONGEST_SENTENCE: usize = 240;
const MOST_FAULTS: usize = 8;

/// Interval at which a request for datagrams is repeated until the server answers.
const REQUEST_AGAIN: StdDuration = StdDuration::from_millis(200);

/// The order of a session: its server and its options.
#[derive(Clone, Debug)]
pub struct CallOrder {
    /// The address of the server.
    pub server: SocketAddr,
    /// The name that the server's certificate must match.
    pub name: ServerName<'static>,
    /// The TLS configuration with the trusted certificates.
    pub tls: Arc<ClientConfig>,
    /// The shared key, if the server requires one.
    pub key: Option<HmacKey>,
    /// Maximum rate in either direction. A server with a rate limit reserves this rate.
    pub rate: Option<Rate>,
    /// Socket options of the data connections.
    pub options: TcpOptions,
}

/// The name that the certificate of a server must match: the given host name, or the address.
pub fn server_name(host: &str, server: SocketAddr) -> ServerName<'static> {
    ServerName::try_from(host.to_owned()).unwrap_or_else(|_| server.ip().into())
}

/// Whether the server answered the handshake with [`TLS_ACCESS_DENIED`](crate::protocol::TLS_ACCESS_DENIED).
fn is_busy(error: &io::Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    matches!(error, Some(rustls::Error::AlertReceived(rustls::AlertDescription::AccessDenied)))
}

/// A finished phase.
#[derive(Clone, Debug, PartialEq)]
pub struct CarriedPhase {
    /// The phase.
    pub phase: MeasurementPhase,
    /// Begin and end of the data flow at this end, ns of `CLOCK_MONOTONIC`.
    pub span: [u64; 2],
    /// The counts of this end.
    pub near: PhaseOutcome,
    /// The counts of the server.
    pub far: PhaseOutcome,
    /// Traffic of the control connection during the phase. `None` for iperf3 servers.
    pub talked: Option<ControlTraffic>,
    /// Whether the phase ended early: its connections failed, or the user interrupted it.
    pub cut_short: bool,
}

/// Traffic of a control connection. The first value is towards the server, the second towards the client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControlTraffic {
    /// Number of segments of any kind in each direction.
    pub segments: [u64; 2],
    /// Payload in each direction, bytes.
    pub bytes: [u64; 2],
    /// Whether segments have time stamps (RFC 7323).
    pub timestamps: bool,
}

impl ControlTraffic {
    /// The traffic between two readings.
    pub(super) fn between(first: &TcpInfo, last: &TcpInfo) -> Self {
        let of = |count: fn(&TcpCounts) -> u64| count(&last.counts).saturating_sub(count(&first.counts));
        Self {
            segments: [of(|counts| counts.segments_sent), of(|counts| counts.segments_received)],
            bytes: [of(|counts| counts.bytes_sent), of(|counts| counts.bytes_received)],
            timestamps: last.has_timestamps,
        }
    }
}

impl CarriedPhase {
    /// Duration of the data flow, s. Never zero.
    pub fn lasted_s(&self) -> f64 {
        self.span[1].saturating_sub(self.span[0]).max(1) as f64 * 1e-9
    }

    /// The received data over time, of the connections in this direction.
    pub fn course(&self, way: DataDirection) -> ArrivalCourse {
        let receiver = if way == DataDirection::Up { &self.far } else { &self.near };
        ArrivalCourse::of_streams(&receiver.counted)
    }
}

/// An event of a running phase.
pub enum PhaseEvent<'a> {
    /// A reading of this end.
    Near(LiveReading),
    /// A reading of the server.
    Far(LiveReading),
    /// A regular event in which the observer can change the rate or end the phase.
    Tick(&'a mut PhaseSteering),
}

/// Requests of the observer of a phase.
#[derive(Debug, Default)]
pub struct PhaseSteering {
    /// The new rate of datagrams, regardless of which end sends them.
    pub rate: Option<Rate>,
    /// Whether the phase must end now.
    pub enough: bool,
}

/// An admitted session.
#[derive(Debug)]
pub struct SpeedCall {
    order: CallOrder,
    control: ControlConnection,
    local: SocketAddr,
    budget: Budget,
    number: u32,
    /// The kernel's information on the path after the handshake.
    path: TcpInfo,
    /// The phase in which the control connection failed, with the counts of this end.
    broken: Option<CarriedPhase>,
}

impl SpeedCall {
    /// Connects to a server and waits for admission. `waits` is called with the number of sessions before this one and
    /// the length of the queue.
    ///
    /// # Errors
    /// If the connection fails or the server refuses the session.
    pub fn connect(
        order: CallOrder,
        cancel: &AtomicBool,
        waits: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, SpeedError> {
        let server = order.server;
        let absent = |source| SpeedError::Connect { server, source };
        let options = TcpOptions { max_segment: Some(short_segment(server)), ..TcpOptions::default() };
        let socket = dial(server, &options).map_err(absent)?;
        let local = socket.local_addr().map_err(absent)?;
        let path = TcpInfo::read(&socket).unwrap_or_default();
        let mut control = ControlConnection::call(socket, Arc::clone(&order.tls), order.name.clone())
            .map_err(|source| match is_busy(&source) {
                true => SpeedError::Refused(AdmissionRefusal::Full),
                false => SpeedError::Tls { server, source },
            })?;
        let binding = control.binding().map_err(|source| SpeedError::Tls { server, source })?;
        SPEED
            .greet_server(&mut control, order.key.as_ref(), &binding)
            .map_err(|source| SpeedError::Greeting { server, source })?;
        control.send(&FromClient::Ask { bits_per_s: order.rate.map(Rate::bits_per_s) })?;
        // A server sends the position in the queue every second, so a server that is silent for longer has failed.
        let mut heard = StdInstant::now();
        loop {
            if cancel.load(Ordering::Relaxed) {
                return Err(SpeedError::Interrupted);
            }
            match control.receive(LOOK)? {
                Some(FromServer::Waits { before, of }) => {
                    heard = StdInstant::now();
                    waits(before, of);
                }
                Some(FromServer::Admitted(budget)) => {
                    return Ok(Self { order, control, local, budget, number: 0, path, broken: None });
                }
                Some(other) => return Err(unexpected(other)),
                None if heard.elapsed() > PATIENCE => return Err(SpeedError::Silent { server }),
                None => {}
            }
        }
    }

    /// The addresses of both ends.
    pub const fn ends(&self) -> [SocketAddr; 2] {
        [self.local, self.order.server]
    }

    /// The limits of the session.
    pub const fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Whether the server reads the same clock as this process.
    pub fn reads_our_clock(&self) -> bool {
        let ours = boot().and_then(|boot| clock_mark(self.budget.token, &boot));
        ours.is_some() && ours == self.budget.clock
    }

    /// The round-trip time of the handshake as measured by the kernel.
    pub const fn round_trip(&self) -> Option<Duration> {
        self.path.srtt
    }

    /// The path MTU that the kernel assumed after the handshake, bytes.
    pub const fn path_mtu(&self) -> Option<u32> {
        if self.path.path_mtu == 0 { None } else { Some(self.path.path_mtu) }
    }

    /// Runs a phase and reports its events to `watch`.
    ///
    /// # Errors
    /// If the server refuses the phase, or the control connection fails.
    pub fn carry(
        &mut self,
        mut phase: MeasurementPhase,
        cancel: &AtomicBool,
        watch: &mut dyn FnMut(PhaseEvent<'_>),
    ) -> Result<CarriedPhase, SpeedError> {
        self.number += 1;
        phase.number = self.number;
        phase.check().map_err(SpeedError::Phase)?;
        self.control.send(&FromClient::Prepare(phase.clone()))?;
        self.wait_for(&FromServer::Ready)?;
        let sockets = self.open(&phase)?;
        // Receivers must run before data are sent.
        let carrying = RunningPhase::begin(&phase, MeasuredHost::Client, sockets, Allowance::default());
        let carrying = carrying.map_err(SpeedError::Carrying)?;
        self.control.send(&FromClient::Begin)?;
        self.wait_for(&FromServer::Begun)?;
        self.watch(phase, carrying, cancel, watch)
    }

    /// Opens the sockets of a phase.
    fn open(&self, phase: &MeasurementPhase) -> Result<PhaseSockets, SpeedError> {
        let server = self.order.server;
        let failed = |source| SpeedError::Connect { server, source };
        let preamble = |stream| Preamble { token: self.budget.token, phase: phase.number, stream };
        match &phase.carrier {
            Carrier::Idle => Ok(PhaseSockets::None),
            Carrier::Tcp { streams, .. } => {
                let connect = |stream: u16| {
                    let socket = dial(server, &self.order.options)?;
                    io::Write::write_all(&mut &socket, &preamble(stream.into()).encode())?;
                    Ok(socket)
                };
                let streams = (0..*streams).map(connect).collect::<io::Result<_>>().map_err(failed)?;
                Ok(PhaseSockets::Tcp { streams, window: self.order.options.window_clamp })
            }
            Carrier::Udp { .. } | Carrier::Sctp { .. } => {
                let local = HostAddress::from(self.local).at(0);
                let socket = datagram_socket(local, server, self.order.options.buffers);
                let socket = socket.map_err(io::Error::other).map_err(failed)?;
                let request = preamble(0).encode();
                request_datagrams(&socket, &request, REQUEST_AGAIN, |answer| answer == request)
                    .map_err(|source| SpeedError::NoDatagrams { server, source })?;
                Ok(match phase.carrier {
                    Carrier::Sctp { .. } => {
                        PhaseSockets::Sctp { socket, window: self.order.options.window_clamp }
                    }
                    _ => PhaseSockets::Udp(socket),
                })
            }
        }
    }

    fn watch(
        &mut self,
        phase: MeasurementPhase,
        mut carrying: RunningPhase,
        cancel: &AtomicBool,
        watch: &mut dyn FnMut(PhaseEvent<'_>),
    ) -> Result<CarriedPhase, SpeedError> {
        let begun = monotonic_nanos();
        let before = self.control.info();
        let (mut far, mut told_of_far) = (PhaseOutcome::default(), PhaseOutcome::default());
        let told = self.follow(&phase, begun, &carrying, cancel, &mut |news| {
            if let PhaseEvent::Far(live) = &news {
                told_of_far.keep(live);
            }
            watch(news);
        });
        let ended = monotonic_nanos();
        let talked = before.and_then(|first| Ok(ControlTraffic::between(&first, &self.control.info()?))).ok();
        let settled = told.and_then(|over| {
            let sent = carrying.transfer.stop_sending().map_err(SpeedError::Carrying)?;
            self.control.send(&FromClient::End { sent })?;
            Ok((over, self.receive_report(&phase, &mut far)?))
        });
        let (over, report) = match settled {
            Ok(settled) => settled,
            Err(error) => {
                // The counts of this end and the readings received from the server are kept.
                let near = carrying.end(None, &mut |_| true).ok();
                self.broken = near.map(|near| CarriedPhase {
                    phase,
                    span: [begun, ended],
                    near,
                    far: told_of_far,
                    talked,
                    cut_short: true,
                });
                return Err(error);
            }
        };
        let sent_there = report.datagrams.map(|datagrams| datagrams.sent);
        let mut near = carrying.end(sent_there, &mut |_| true).map_err(SpeedError::Carrying)?;
        far.report = report;
        let Buffers { send, receive } = self.order.options.buffers;
        near.report.chosen_buffers = [send.is_some(), receive.is_some()];
        Ok(CarriedPhase { phase, span: [begun, ended], near, far, talked, cut_short: over })
    }

    /// Observes a phase until its end. Returns whether it ended early.
    fn follow(
        &mut self,
        phase: &MeasurementPhase,
        begun: u64,
        carrying: &RunningPhase,
        cancel: &AtomicBool,
        watch: &mut dyn FnMut(PhaseEvent<'_>),
    ) -> Result<bool, SpeedError> {
        let (mut steering, mut said) = (PhaseSteering::default(), 0);
        loop {
            if monotonic_nanos() - begun >= phase.lasts_ns || steering.enough {
                return Ok(false);
            }
            if cancel.load(Ordering::Relaxed) || carrying.transfer.is_over() {
                return Ok(true);
            }
            while let Some(live) = carrying.poll_live() {
                watch(PhaseEvent::Near(live));
            }
            if let Some(message) = self.control.receive::<FromServer>(LOOK)? {
                said += 1;
                if said > 2 * most_readings(phase) {
                    return Err(self.impossible(MORE_READINGS));
                }
                match message {
                    FromServer::Arrived { at_ns, bytes } => {
                        watch(PhaseEvent::Far(LiveReading::Bytes { at_ns, received: bytes, sent: 0 }));
                    }
                    FromServer::Heard(heard) => watch(PhaseEvent::Far(LiveReading::Datagrams(heard))),
                    other => return Err(unexpected(other)),
                }
            }
            watch(PhaseEvent::Tick(&mut steering));
            if let Some(rate) = steering.rate.take() {
                carrying.pace(rate);
                self.control.send(&FromClient::Rate { bits_per_s: rate.bits_per_s() })?;
            }
        }
    }

    /// Takes the phase in which the control connection failed, if any, with the counts of this end.
    pub fn take_broken(&mut self) -> Option<CarriedPhase> {
        self.broken.take()
    }

    /// Receives the server's report of a finished phase.
    fn receive_report(
        &mut self,
        phase: &MeasurementPhase,
        far: &mut PhaseOutcome,
    ) -> Result<EndReport, SpeedError> {
        let mut until = StdInstant::now() + PATIENCE;
        loop {
            let before = far.counted.len() + far.heard.len();
            check(phase, far).map_err(|what| self.impossible(what))?;
            // Other messages of the server do not extend the time limit.
            if StdInstant::now() > until {
                return Err(SpeedError::Silent { server: self.order.server });
            }
            match self.control.receive::<FromServer>(until.saturating_duration_since(StdInstant::now()))? {
                Some(FromServer::Counted(counted)) => far.counted.extend(counted),
                Some(FromServer::HeardInAll(heard)) => far.heard.extend(heard),
                Some(FromServer::Report(report)) => return Ok(fit_for_sentences(*report)),
                // The server sent these messages before it received the end of the phase.
                Some(FromServer::Arrived { .. } | FromServer::Heard(_)) => {}
                Some(other) => return Err(unexpected(other)),
                None => return Err(SpeedError::Silent { server: self.order.server }),
            }
            // On a slow line, the transfer of the counts takes long, so each extends the time limit. Their number is
            // bounded by the duration of the phase.
            if far.counted.len() + far.heard.len() > before {
                until = StdInstant::now() + PATIENCE;
            }
        }
    }

    fn impossible(&self, what: &'static str) -> SpeedError {
        SpeedError::Report { server: self.order.server, what }
    }

    fn wait_for(&mut self, message: &FromServer) -> Result<(), SpeedError> {
        match self.control.receive::<FromServer>(PATIENCE)? {
            Some(said) if said == *message => Ok(()),
            Some(other) => Err(unexpected(other)),
            None => Err(SpeedError::Silent { server: self.order.server }),
        }
    }

    /// Ends the session.
    pub fn close(mut self) {
        self.control.close();
    }
}

/// Opens a blocking connection with these options, which must be set before the handshake.
fn dial(to: SocketAddr, options: &TcpOptions) -> io::Result<TcpStream> {
    let any = HostAddress::unspecified_for(to).at(0);
    let socket = SocketBuilder::tcp(options, 0, any).and_then(SocketBuilder::bound);
    let stream = connect(socket.map_err(io::Error::other)?, to, WAIT, &AtomicBool::new(false))?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// The segment size that every path carries, bytes (RFC 9293 section 3.7.1; RFC 8200 section 5 without headers).
/// Control messages in such segments pass a path MTU black hole, so that it can be reported.
const fn short_segment(server: SocketAddr) -> u16 {
    if server.is_ipv4() { 536 } else { 1220 }
}

/// The error for an unexpected message of the server.
fn unexpected(message: FromServer) -> SpeedError {
    match message {
        FromServer::Refused(refusal) => SpeedError::Refused(refusal),
        FromServer::Failed { why } => SpeedError::Failed { why: shown_up_to(LONGEST_SENTENCE, &why) },
        _ => SpeedError::OutOfOrder,
    }
}

/// Texts about impossible readings of a server.
const MORE_READINGS: &str = "more readings than the phase allows";
const OUT_OF_TIME: &str = "a reading outside of the phase or out of order";
const LESS: &str = "a count that decreases";

/// Maximum duration of a phase at the server, ns.
const fn longest(phase: &MeasurementPhase) -> u64 {
    phase.lasts_ns.saturating_add(LONGER.as_nanos())
}

/// Maximum number of readings of each stream in a phase: the regular readings, one at the start and one at the end, and
/// one whenever a connection ends.
fn most_readings(phase: &MeasurementPhase) -> usize {
    let in_time = longest(phase) / phase.every_ns.max(1);
    usize::try_from(in_time).unwrap_or(usize::MAX).saturating_add(2 + usize::from(phase.streams().max(1)))
}

/// Checks the readings of a server, which may contain any numbers.
fn check(phase: &MeasurementPhase, far: &PhaseOutcome) -> Result<(), &'static str> {
    let streams = usize::from(phase.streams().max(1));
    let (most, lasts) = (most_readings(phase), longest(phase));
    if far.counted.len() > most.saturating_mul(streams) || far.heard.len() > most {
        return Err(MORE_READINGS);
    }
    let mut before = vec![ConnectionCounts::default(); streams];
    for now in &far.counted {
        let before = before.get_mut(usize::from(now.stream)).ok_or("a connection that does not exist")?;
        if !(before.at_ns..=lasts).contains(&now.at_ns) {
            return Err(OUT_OF_TIME);
        }
        if now.received < before.received || now.sent < before.sent {
            return Err(LESS);
        }
        *before = *now;
    }
    let mut before = DatagramCounts::default();
    for now in &far.heard {
        if !(before.at_ns..=lasts).contains(&now.at_ns) {
            return Err(OUT_OF_TIME);
        }
        if now.received < before.received || now.expected < before.expected || now.bytes < before.bytes {
            return Err(LESS);
        }
        before = *now;
    }
    Ok(())
}

/// Makes a report safe to print: no control characters, bounded texts, and only packet lengths that IP allows.
fn fit_for_sentences(mut report: EndReport) -> EndReport {
    report.faults.truncate(MOST_FAULTS);
    for len in [&mut report.segment, &mut report.path_mtu] {
        *len = len.filter(|bytes| *bytes <= u16::MAX.into());
    }
    for words in report.faults.iter_mut().chain(&mut report.congestion) {
        *words = shown_up_to(LONGEST_SENTENCE, words);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(streams: u16) -> MeasurementPhase {
        let carrier = Carrier::Tcp { way: DataDirection::Up, streams, congestion: None };
        MeasurementPhase { number: 1, carrier, lasts_ns: 1_000_000_000, every_ns: 100_000_000 }
    }

    fn counted(at_ms: u64, stream: u16) -> ConnectionCounts {
        ConnectionCounts { at_ns: at_ms * 1_000_000, stream, ..ConnectionCounts::default() }
    }

    /// A malicious server cannot make the client store more readings than a phase has, or accept impossible counts.
    #[test]
    fn readings_that_cannot_be_are_refused() {
        let of = |counted: Vec<ConnectionCounts>| PhaseOutcome { counted, ..PhaseOutcome::default() };
        let heard = |times: &[u64]| {
            let at = |at_ns: &u64| DatagramCounts { at_ns: *at_ns, ..DatagramCounts::default() };
            PhaseOutcome { heard: times.iter().map(at).collect(), ..PhaseOutcome::default() }
        };
        assert_eq!(check(&phase(2), &of(vec![counted(100, 0), counted(100, 1), counted(200, 0)])), Ok(()));
        assert_eq!(check(&phase(2), &heard(&[1, 1, 2])), Ok(()));
        for (outcome, what) in [
            (of(vec![counted(100, 2)]), "does not exist"),
            (of(vec![counted(200, 0), counted(100, 0)]), "outside of the phase"),
            (of(vec![counted(60_000, 0)]), "outside of the phase"),
            (of(vec![counted(100, 0); 1000]), "more readings"),
            (heard(&[2, 1]), "outside of the phase"),
            (heard(&[u64::MAX]), "outside of the phase"),
            (heard(&[1; 1000]), "more readings"),
            (
                of([2, 1].map(|received| ConnectionCounts { received, ..counted(100, 0) }).to_vec()),
                "decreases",
            ),
        ] {
            let why = check(&phase(2), &outcome).unwrap_err();
            assert!(why.contains(what), "{why}");
        }
    }

    #[test]
    fn what_a_server_says_moves_no_cursor() {
        let why = format!("gone\u{1b}[2J{}", "x".repeat(1000));
        let told = unexpected(FromServer::Failed { why }).to_string();
        assert!(!told.contains('\u{1b}') && told.chars().count() < 300, "{told}");
        let faults = vec!["a\nb".to_owned(); 100];
        let (segment, path_mtu) = (Some(u32::MAX), Some(1500));
        let report = fit_for_sentences(EndReport { faults, segment, path_mtu, ..EndReport::default() });
        assert_eq!((report.segment, report.path_mtu), (None, Some(1500)));
        assert_eq!((report.faults.len(), report.faults[0].as_str()), (8, "a\u{fffd}b"));
    }
}
