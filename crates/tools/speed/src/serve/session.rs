//! The server side of a session of netrig's own protocol.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_bulk::MeasuredHost;
use netrig_core::{Duration, Instant, Rate};
use netrig_host::frames::FrameError;
use netrig_host::{SlotRefusal, random};
use netrig_probe::control::boot;
use netrig_probe::greeting::{GreetingError, LONGEST_WORD};

use super::echo::EchoService;
use super::registry::SessionArrival;
use super::shared::{ServedConnection, ServerShared};
use super::slot::{BudgetExceeded, Slot};
use super::tally::{ClientProtocol, ServiceFailure};
use crate::admission::AdmissionRefusal;
use crate::carry::{Allowance, LiveReading, PhaseOutcome, PhaseSockets, RunningPhase};
use crate::control::{ControlConnection, PATIENCE};
use crate::protocol::{
    Budget, COUNTS_IN_A_FRAME, Carrier, DataDirection, FromServer, MOST_STREAMS, MeasurementPhase,
    PREAMBLE_LEN, Preamble, SPEED, SessionAction, SessionToken, SpeedSession, Violation, clock_mark,
};

/// Maximum wait for a control message before other events are checked.
const LOOK: StdDuration = StdDuration::from_millis(5);

/// Maximum pause of an admitted client between two phases.
const THINKING: StdDuration = StdDuration::from_secs(30);

/// Interval at which a waiting client is informed of its position in the queue.
const PLACES: StdDuration = StdDuration::from_secs(1);

/// Interval at which a client is informed of the number of bytes that have arrived over connections.
const ARRIVED: Duration = Duration::from_millis(500);

/// Time limit for sending messages during a phase and on failure. The budget and the stop flag are not checked in that
/// time.
const LISTENING: StdDuration = StdDuration::from_secs(1);

/// Time after the planned end of a phase before the server ends it.
const SLACK: Duration = Duration::from_secs(5);

/// Maximum number of arrivals that are handled before other events are checked.
const AT_ONCE: usize = 64;

/// Minimum time before another address of the client's host gets the echo service.
const ECHOES: StdDuration = StdDuration::from_millis(100);

/// Why a session failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error("no TLS: {0}")]
    Tls(#[source] io::Error),
    #[error(transparent)]
    Greeting(#[from] GreetingError),
    #[error(transparent)]
    Control(#[from] FrameError),
    #[error(transparent)]
    Violation(#[from] Violation),
    #[error("refused: {0}")]
    Refused(AdmissionRefusal),
    #[error(transparent)]
    Overrun(#[from] BudgetExceeded),
    #[error("the client sent nothing for {} s", THINKING.as_secs())]
    Silent,
    #[error("the server stops")]
    Ending,
    #[error("the connections of a phase did not arrive")]
    Missing,
    #[error("sending or receiving data failed: {0}")]
    Carrying(#[source] io::Error),
}

impl ServiceFailure for SessionError {
    fn kind(&self) -> &'static str {
        match self {
            Self::Tls(_) => "tls",
            Self::Greeting(_) => "greeting",
            Self::Control(_) => "gone",
            Self::Violation(_) => "violation",
            Self::Refused(_) => "refused",
            Self::Overrun(overrun) => overrun.kind(),
            Self::Silent | Self::Missing => "silent",
            Self::Ending => "ending",
            Self::Carrying(_) => "carrying",
        }
    }
}

/// Serves a client and counts its failure, if any.
pub(super) fn serve(socket: TcpStream, peer: SocketAddr, caller: &ServedConnection) {
    if let Err(error) = serve_session(socket, peer, caller) {
        caller.tally.failed(ClientProtocol::Netrig, &error);
    }
}

/// Greets a client, waits for its admission and runs its phases.
fn serve_session(socket: TcpStream, peer: SocketAddr, caller: &ServedConnection) -> Result<(), SessionError> {
    let shared: &ServerShared = caller;
    let local = socket.local_addr().map_err(SessionError::Tls)?;
    let mut control =
        ControlConnection::answer(socket, shared.tls.clone(), LONGEST_WORD).map_err(SessionError::Tls)?;
    let binding = control.binding().map_err(SessionError::Tls)?;
    let admitted = || Ok::<_, SlotRefusal>(());
    let key = SPEED.greet_client(&mut control, (&shared.keys, &binding), None, admitted)?;
    let mut session = NetrigSession {
        shared,
        local,
        peer,
        key,
        control,
        session: SpeedSession::new(),
        slot: None,
        registration: None,
        echoing: None,
        echoed: Arc::default(),
        phase: None,
        carried: [0; 2],
        heard: StdInstant::now(),
    };
    let proved = caller
        .prove()
        .map_err(|_| SessionError::Refused(shared.refuse(ClientProtocol::Netrig, AdmissionRefusal::Full)));
    match proved.and_then(|()| session.serve()) {
        Ok(()) => Ok(()),
        Err(error) => {
            // The slot is released before the client is informed, because the client may read slowly.
            session.break_off();
            if !matches!(error, SessionError::Control(_)) {
                let why = error.to_string();
                // The client may have closed the connection, and the server may be stopping, so the error of the write
                // is ignored.
                let message = match &error {
                    SessionError::Refused(refusal) => FromServer::Refused(*refusal),
                    _ => FromServer::Failed { why },
                };
                let _ = session.control.send_within(&message, LISTENING);
            }
            session.control.close();
            Err(error)
        }
    }
}

/// A running session.
struct NetrigSession<'a> {
    shared: &'a ServerShared,
    local: SocketAddr,
    peer: SocketAddr,
    /// The name of the key that the client has proved.
    key: Option<String>,
    control: ControlConnection,
    session: SpeedSession,
    slot: Option<Slot<'a>>,
    registration: Option<SessionRegistration>,
    echoing: Option<EchoService>,
    /// Number of bytes of the received echoes.
    echoed: Arc<AtomicU64>,
    phase: Option<CurrentPhase>,
    /// Bytes received and sent in earlier phases.
    carried: [u64; 2],
    /// Time of the last message of the client.
    heard: StdInstant,
}

/// The registration of a session, through which data connections and datagrams arrive.
struct SessionRegistration {
    token: SessionToken,
    arrivals: Receiver<SessionArrival>,
}

/// The prepared or running phase.
struct CurrentPhase {
    phase: MeasurementPhase,
    streams: BTreeMap<u32, TcpStream>,
    /// The source of the client's datagrams, and the socket that is connected to it. Datagrams that arrive before the
    /// start of the phase wait in this socket.
    datagrams: Option<(SocketAddr, UdpSocket)>,
    /// The running phase; `None` until the data flow starts.
    carrying: Option<RunningPhase>,
    ends: Instant,
    told: Instant,
}

impl Drop for NetrigSession<'_> {
    fn drop(&mut self) {
        if let Some(registration) = &self.registration {
            self.shared.sessions.close(&registration.token);
        }
    }
}

impl NetrigSession<'_> {
    fn serve(&mut self) -> Result<(), SessionError> {
        loop {
            match self.control.receive(LOOK) {
                Ok(Some(message)) => {
                    self.heard = StdInstant::now();
                    if let Some(action) = self.session.receive(message)? {
                        self.carry_out(action)?;
                    }
                }
                Ok(None) => {}
                // A session ends normally when the client closes the connection between two phases.
                Err(FrameError::Stream(_)) if self.phase.is_none() => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            self.look_for_arrivals()?;
            self.look_at_phase()?;
            self.keep_on()?;
        }
    }

    fn carry_out(&mut self, action: SessionAction) -> Result<(), SessionError> {
        match action {
            SessionAction::Admit(rate) => self.wait_for_admission(rate),
            SessionAction::Prepare(phase) => self.prepare(phase),
            SessionAction::Begin => self.begin(),
            SessionAction::Pace(rate) => {
                if let Some(carrying) = self.phase.as_ref().and_then(|current| current.carrying.as_ref()) {
                    carrying.pace(self.at_most(rate));
                }
                Ok(())
            }
            SessionAction::End { sent } => self.end(sent),
        }
    }

    /// Waits for the admission and informs the client of its position in the queue.
    fn wait_for_admission(&mut self, rate: Option<Rate>) -> Result<(), SessionError> {
        let slot = Slot::ask(self.shared, ClientProtocol::Netrig, self.peer, self.key.clone(), rate);
        let slot = self.slot.insert(slot.map_err(SessionError::Refused)?);
        let mut told: Option<StdInstant> = None;
        while !slot.is_admitted() {
            let place = slot.place().filter(|_| told.is_none_or(|told| told.elapsed() >= PLACES));
            if let Some((before, of)) = place {
                self.control.send(&FromServer::Waits { before, of })?;
                told = Some(StdInstant::now());
            }
            // If the client has closed the connection, the read fails, and the session leaves the queue.
            if let Some(message) = self.control.receive(10 * LOOK)? {
                self.session.receive(message)?;
            }
            if self.shared.stop.load(Ordering::Relaxed) {
                return Err(SessionError::Ending);
            }
        }
        let (lasts_ns, bytes) = (slot.left().as_nanos(), self.shared.limits.max_size.bytes());
        let token = SessionToken(random().map_err(SessionError::Carrying)?);
        let arrivals = self.shared.sessions.open(token, self.peer.ip(), 2 * u32::from(MOST_STREAMS));
        self.registration = Some(SessionRegistration { token, arrivals });
        self.session.admitted();
        self.heard = StdInstant::now();
        // A rate that the client has stated itself is not reported as a limit of the server.
        let bits_per_s = slot.held_to().filter(|_| rate.is_none()).map(Rate::bits_per_s);
        let clock = boot().and_then(|boot| clock_mark(token, &boot));
        let budget = Budget { token, lasts_ns, bytes, bits_per_s, clock };
        Ok(self.control.send(&FromServer::Admitted(budget))?)
    }

    fn prepare(&mut self, phase: MeasurementPhase) -> Result<(), SessionError> {
        let now = self.shared.clock.now();
        self.phase = Some(CurrentPhase {
            ends: now + Duration::from_nanos(PATIENCE.as_nanos() as u64) + phase.lasts(),
            phase,
            streams: BTreeMap::new(),
            datagrams: None,
            carrying: None,
            told: now,
        });
        Ok(self.control.send(&FromServer::Ready)?)
    }

    /// Handles the arrivals for this session.
    fn look_for_arrivals(&mut self) -> Result<(), SessionError> {
        let Some(registration) = &self.registration else { return Ok(()) };
        let mut echo = None;
        for arrival in registration.arrivals.try_iter().take(AT_ONCE) {
            let prepared = self.phase.as_mut().filter(|current| current.carrying.is_none());
            match arrival {
                SessionArrival::Echo(from) => echo = Some((from, registration.token)),
                SessionArrival::Stream(preamble, socket) => {
                    // Otherwise the connection is late or a duplicate, and is closed because it is dropped.
                    if let Some(current) = prepared
                        && preamble.phase == current.phase.number
                        && preamble.stream < u32::from(current.phase.streams())
                    {
                        current.streams.entry(preamble.stream).or_insert(socket);
                    }
                }
                SessionArrival::Datagrams(preamble, from) => {
                    if let Some(current) = prepared
                        && preamble.phase == current.phase.number
                        && current.phase.carrier.is_of_datagrams()
                    {
                        // The answer has the same bytes as the request. A repeated request keeps its socket, because
                        // data may wait there.
                        let stands = current.datagrams.take().filter(|(peer, _)| *peer == from);
                        let socket = match stands {
                            Some((_, socket)) => Ok(socket),
                            None => self.shared.datagram_socket(self.local, from),
                        };
                        let answered = socket.and_then(|socket| {
                            socket.send(&preamble.encode())?;
                            Ok((from, socket))
                        });
                        current.datagrams = Some(answered.map_err(SessionError::Carrying)?);
                    }
                }
            }
        }
        if let Some(current) = self.phase.as_mut().filter(|current| current.carrying.is_none()) {
            current.answer_again();
        }
        echo.map_or(Ok(()), |(from, token)| self.echo(from, token))
    }

    /// Starts the echo service for an address. It replaces the echo service for an earlier address.
    fn echo(&mut self, from: SocketAddr, token: SessionToken) -> Result<(), SessionError> {
        let stands = |echoing: &EchoService| echoing.peer == from || echoing.since.elapsed() < ECHOES;
        if self.echoing.as_ref().is_some_and(stands) {
            return Ok(());
        }
        let socket = self.shared.datagram_socket(self.local, from);
        let begun = socket.and_then(|socket| EchoService::begin(socket, from, token, &self.echoed));
        self.echoing = Some(begun.map_err(SessionError::Carrying)?);
        Ok(())
    }

    /// Waits until all connections have arrived, and starts the data flow.
    fn begin(&mut self) -> Result<(), SessionError> {
        let until = StdInstant::now() + PATIENCE;
        while !self.phase.as_ref().is_some_and(CurrentPhase::is_complete) {
            if StdInstant::now() > until {
                return Err(SessionError::Missing);
            }
            std::thread::sleep(LOOK);
            self.look_for_arrivals()?;
            self.keep_on()?;
        }
        let now = self.shared.clock.now();
        let Some(current) = &mut self.phase else { return Ok(()) };
        let sockets = match (&current.phase.carrier, current.datagrams.take()) {
            (Carrier::Tcp { .. }, _) => {
                let streams = std::mem::take(&mut current.streams).into_values().collect();
                PhaseSockets::Tcp { streams, window: None }
            }
            (Carrier::Udp { .. }, Some((_, socket))) => PhaseSockets::Udp(socket),
            (Carrier::Sctp { .. }, Some((_, socket))) => PhaseSockets::Sctp { socket, window: None },
            _ => PhaseSockets::None,
        };
        // One byte more than the budget is allowed, so that a session that exceeds it is detected.
        let had: u64 = self.carried.iter().sum();
        let bytes = Some(self.shared.limits.max_size.bytes().saturating_sub(had).saturating_add(1));
        let allowance = Allowance { rate: self.slot.as_ref().and_then(Slot::held_to), bytes };
        let carrying = RunningPhase::begin(&current.phase, MeasuredHost::Server, sockets, allowance);
        current.carrying = Some(carrying.map_err(SessionError::Carrying)?);
        current.ends = now + current.phase.lasts() + SLACK;
        Ok(self.control.send_within(&FromServer::Begun, LISTENING)?)
    }

    /// Reports received data to the client, and ends a phase that has exceeded its time.
    fn look_at_phase(&mut self) -> Result<(), SessionError> {
        let now = self.shared.clock.now();
        let Some(current) = &mut self.phase else {
            let is_silent = self.heard.elapsed() > THINKING;
            return if is_silent { Err(SessionError::Silent) } else { Ok(()) };
        };
        // Readings are totals, so only the last of several is needed.
        let (mut arrived, mut heard) = (None, None);
        let upwards = current.phase.way() == Some(DataDirection::Up);
        while let Some(live) = current.carrying.as_ref().and_then(RunningPhase::poll_live) {
            match live {
                LiveReading::Bytes { at_ns, received, .. } => {
                    if upwards && now.since(current.told) >= ARRIVED {
                        current.told = now;
                        arrived = Some(FromServer::Arrived { at_ns, bytes: received });
                    }
                }
                LiveReading::Datagrams(now) => heard = upwards.then_some(FromServer::Heard(now)),
            }
        }
        let over = now > current.ends;
        for message in arrived.into_iter().chain(heard) {
            self.control.send_within(&message, LISTENING)?;
        }
        if over {
            self.session.ended();
            self.end(None)?;
        }
        Ok(())
    }

    /// The lower of this rate and the rate limit of the session.
    fn at_most(&self, rate: Rate) -> Rate {
        self.slot.as_ref().and_then(Slot::held_to).map_or(rate, |most| most.min(rate))
    }

    /// Checks the budget of the session and the stop flag of the server.
    fn keep_on(&mut self) -> Result<(), SessionError> {
        let carrying = self.phase.as_ref().and_then(|current| current.carrying.as_ref());
        self.keep_on_with(carrying.map_or([0; 2], |carrying| carrying.transfer.counter().bytes()))
    }

    /// Like [`keep_on`](Self::keep_on), with the given numbers of bytes received and sent in this phase.
    fn keep_on_with(&mut self, here: [u64; 2]) -> Result<(), SessionError> {
        let echoed = self.echoed.load(Ordering::Relaxed);
        let all = [0, 1].map(|which| self.carried[which] + here[which] + echoed);
        self.slot.as_mut().map_or(Ok(()), |slot| slot.spend(all))?;
        if self.shared.stop.load(Ordering::Relaxed) { Err(SessionError::Ending) } else { Ok(()) }
    }

    /// Aborts the phase and releases the slot.
    fn break_off(&mut self) {
        let carrying = self.phase.take().and_then(|current| current.carrying);
        if let Some(counter) = carrying.as_ref().map(|carrying| carrying.transfer.counter()) {
            drop(carrying);
            self.carried.iter_mut().zip(counter.bytes()).for_each(|(all, more)| *all += more);
        }
        self.echoing = None;
        // This call only counts the bytes. Its error is ignored, because the reason for the end is already known.
        let _ = self.keep_on();
        self.slot = None;
    }

    /// Ends the phase and sends all counts.
    fn end(&mut self, sent: Option<u64>) -> Result<(), SessionError> {
        let Some(current) = self.phase.take() else { return Ok(()) };
        let outcome = match current.carrying {
            Some(carrying) => {
                let (counter, mut kept) = (carrying.transfer.counter(), Ok(()));
                let outcome = carrying.end(sent, &mut |bytes| {
                    kept = self.keep_on_with(bytes);
                    kept.is_ok()
                });
                self.carried.iter_mut().zip(counter.bytes()).for_each(|(all, more)| *all += more);
                kept?;
                outcome.map_err(SessionError::Carrying)?
            }
            None => PhaseOutcome::default(),
        };
        self.shared.tally.phases.fetch_add(1, Ordering::Relaxed);
        for counted in outcome.counted.chunks(COUNTS_IN_A_FRAME) {
            self.control.send(&FromServer::Counted(counted.to_vec()))?;
            self.keep_on()?;
        }
        for heard in outcome.heard.chunks(COUNTS_IN_A_FRAME) {
            self.control.send(&FromServer::HeardInAll(heard.to_vec()))?;
            self.keep_on()?;
        }
        self.heard = StdInstant::now();
        Ok(self.control.send(&FromServer::Report(Box::new(outcome.report)))?)
    }
}

impl CurrentPhase {
    /// Answers requests for datagrams that a client repeats because it has not received the answer. Other datagrams
    /// stay in the socket.
    fn answer_again(&self) {
        let Some((_, socket)) = &self.datagrams else { return };
        let mut bytes = [0; PREAMBLE_LEN + 1];
        while let Ok(len) = socket.peek(&mut bytes)
            && Preamble::decode(&bytes[..len]).is_some()
        {
            // If an answer is lost, the client repeats its request.
            let _ = socket.recv(&mut bytes).and_then(|len| socket.send(&bytes[..len]));
        }
    }

    /// Whether all connections of the phase have arrived.
    fn is_complete(&self) -> bool {
        match self.phase.carrier {
            Carrier::Idle => true,
            Carrier::Tcp { streams, .. } => self.streams.len() == usize::from(streams),
            Carrier::Udp { .. } | Carrier::Sctp { .. } => self.datagrams.is_some(),
        }
    }
}
