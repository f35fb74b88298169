//! A session at its server.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_agent::bulk::datagram_socket;
use netrig_agent::control::ControlError;
use netrig_agent::random;
use netrig_core::{Duration, Instant, Rate};

use super::Shared;
use super::echo::Echoing;
use super::rooms::Arrival;
use crate::admission::{Admission, Answer, Household, Refusal, Ticket, Visitor};
use crate::carry::{Carrying, Live, Outcome, Role, Sockets};
use crate::protocol::greeting::{GreetingError, greet_client};
use crate::protocol::{
    Budget, Carrier, Counted, Deed, FromServer, Phase, Preamble, Session, Token, Violation, Way, clock_mark,
};
use crate::talk::{PATIENCE, Talk};

/// How often it looks at what has come beside words.
const LOOK: StdDuration = StdDuration::from_millis(5);

/// A client that was let in may think for so long between two phases.
const THINKING: StdDuration = StdDuration::from_secs(30);

/// How often who waits is told its place.
const PLACES: StdDuration = StdDuration::from_secs(1);

/// How often a client is told what has arrived of its connections' data.
const ARRIVED: Duration = Duration::from_millis(500);

/// A phase goes on for so much longer than was said before the server ends it by itself.
const SLACK: Duration = Duration::from_secs(5);

/// Why a session was broken off.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error("no TLS: {0}")]
    Tls(#[source] io::Error),
    #[error(transparent)]
    Greeting(#[from] GreetingError),
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error(transparent)]
    Violation(#[from] Violation),
    #[error("turned away: {0}")]
    Refused(Refusal),
    #[error("it took longer than a session may")]
    TooLong,
    #[error("it carried more than a session may")]
    TooMuch,
    #[error("it said nothing for {} s", THINKING.as_secs())]
    Silent,
    #[error("the connections of a phase did not come")]
    Missing,
    #[error("data could not be carried: {0}")]
    Carrying(#[source] io::Error),
}

/// Greets a client, lets it in when it is its turn, and carries out its phases.
pub(super) fn serve(socket: TcpStream, peer: SocketAddr, shared: &Shared) -> Result<(), SessionError> {
    let local = socket.local_addr().map_err(SessionError::Tls)?;
    let mut talk = Talk::answer(socket, shared.tls.clone()).map_err(SessionError::Tls)?;
    let binding = talk.binding().map_err(SessionError::Tls)?;
    greet_client(&mut talk, shared.key.as_ref(), &binding)?;
    let mut visit = Visit {
        shared,
        local,
        peer,
        talk,
        session: Session::new(),
        ticket: None,
        room: None,
        echoing: None,
        phase: None,
        carried: 0,
        heard: StdInstant::now(),
    };
    match visit.serve() {
        Ok(()) => Ok(()),
        Err(error) => {
            if !matches!(error, SessionError::Control(_)) {
                let why = error.to_string();
                // It may have gone.
                let _ = match &error {
                    SessionError::Refused(refusal) => visit.talk.say(&FromServer::Refused(*refusal)),
                    _ => visit.talk.say(&FromServer::Failed { why }),
                };
            }
            visit.talk.hang_up();
            Err(error)
        }
    }
}

/// A session that lasts.
struct Visit<'a> {
    shared: &'a Shared,
    local: SocketAddr,
    peer: SocketAddr,
    talk: Talk,
    session: Session,
    ticket: Option<Ticket>,
    room: Option<Room>,
    echoing: Option<Echoing>,
    phase: Option<Current>,
    /// Bytes so far.
    carried: u64,
    /// When the client said something last.
    heard: StdInstant,
}

/// Where what carries its data comes in.
struct Room {
    token: Token,
    arrivals: Receiver<Arrival>,
    until: Instant,
}

/// The phase that is prepared or lasts.
struct Current {
    phase: Phase,
    streams: BTreeMap<u32, TcpStream>,
    /// From where the client's datagrams come.
    address: Option<SocketAddr>,
    /// Once data flows.
    carrying: Option<Carrying>,
    ends: Instant,
    told: Instant,
    /// What had arrived and was sent when it was looked at last, bytes.
    bytes: [u64; 2],
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if let Some(room) = &self.room {
            self.shared.rooms.close(room.token);
        }
        if let Some(ticket) = self.ticket {
            self.admission().leave(self.shared.clock.now(), ticket);
        }
    }
}

impl Visit<'_> {
    fn serve(&mut self) -> Result<(), SessionError> {
        loop {
            match self.talk.hear(LOOK) {
                Ok(Some(word)) => {
                    self.heard = StdInstant::now();
                    if let Some(deed) = self.session.hear(word)? {
                        self.carry_out(deed)?;
                    }
                }
                Ok(None) => {}
                // It hangs up between two phases: it has what it wanted.
                Err(ControlError::Stream(_)) if self.phase.is_none() => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            if self.shared.stop.load(Ordering::Relaxed) {
                self.talk.say(&FromServer::Failed { why: "the server was told to end".to_owned() })?;
                return Ok(());
            }
            self.look_for_arrivals()?;
            self.look_at_phase()?;
            self.keep_to_budget()?;
        }
    }

    fn admission(&self) -> MutexGuard<'_, Admission> {
        // A thread that panicked has left it whole: nothing in it is half done between two calls.
        self.shared.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn carry_out(&mut self, deed: Deed) -> Result<(), SessionError> {
        match deed {
            Deed::Admit(rate) => self.wait_for_admission(rate),
            Deed::Prepare(phase) => self.prepare(phase),
            Deed::Begin => self.begin(),
            Deed::Pace(rate) => {
                if let Some(carrying) = self.phase.as_ref().and_then(|current| current.carrying.as_ref()) {
                    carrying.pace(rate);
                }
                Ok(())
            }
            Deed::End { sent } => self.end(sent),
        }
    }

    /// Waits in the queue, and tells the client its place, until it is let in.
    fn wait_for_admission(&mut self, rate: Option<Rate>) -> Result<(), SessionError> {
        let visitor = Visitor { household: Household::of(self.peer.ip()), key: None };
        let answer = self.admission().ask(self.shared.clock.now(), visitor, rate);
        let ticket = match answer {
            Answer::Refused(refusal) => return Err(SessionError::Refused(refusal)),
            Answer::Admitted(ticket) | Answer::Waits(ticket) => ticket,
        };
        self.ticket = Some(ticket);
        let mut told: Option<StdInstant> = None;
        let until = loop {
            let (until, place) = {
                let admission = self.admission();
                (admission.until(ticket), admission.place(ticket))
            };
            if let Some(until) = until {
                break until;
            }
            if let Some((before, of)) = place.filter(|_| told.is_none_or(|told| told.elapsed() >= PLACES)) {
                self.talk.say(&FromServer::Waits { before, of })?;
                told = Some(StdInstant::now());
            }
            // Whoever has gone stands in nobody's way: hearing finds that out.
            if let Some(word) = self.talk.hear(10 * LOOK)? {
                self.session.hear(word)?;
            }
            if self.shared.stop.load(Ordering::Relaxed) {
                return Err(SessionError::TooLong);
            }
        };
        let token = Token(random().map_err(SessionError::Carrying)?);
        let arrivals = self.shared.rooms.open(token, self.peer.ip());
        self.room = Some(Room { token, arrivals, until });
        self.session.admitted();
        self.heard = StdInstant::now();
        self.shared.tally.sessions.fetch_add(1, Ordering::Relaxed);
        let lasts_ns = until.since(self.shared.clock.now()).as_nanos();
        let bytes = self.admission().limits().bytes;
        let budget = Budget { token, lasts_ns, bytes, clock: clock_mark(token) };
        Ok(self.talk.say(&FromServer::Admitted(budget))?)
    }

    fn prepare(&mut self, phase: Phase) -> Result<(), SessionError> {
        let now = self.shared.clock.now();
        self.phase = Some(Current {
            ends: now + Duration::from_nanos(PATIENCE.as_nanos() as u64) + phase.lasts(),
            phase,
            streams: BTreeMap::new(),
            address: None,
            carrying: None,
            told: now,
            bytes: [0; 2],
        });
        Ok(self.talk.say(&FromServer::Ready)?)
    }

    /// Takes what has come for this session.
    fn look_for_arrivals(&mut self) -> Result<(), SessionError> {
        let Some(room) = &self.room else { return Ok(()) };
        for arrival in room.arrivals.try_iter() {
            let prepared = self.phase.as_mut().filter(|current| current.carrying.is_none());
            match arrival {
                Arrival::Echo(from) => {
                    if self.echoing.as_ref().is_none_or(|echoing| echoing.peer != from) {
                        let begun = Echoing::begin(self.local, from, room.token);
                        self.echoing = Some(begun.map_err(SessionError::Carrying)?);
                    }
                }
                Arrival::Stream(preamble, socket) => {
                    // What comes too late, or twice, is closed as it is dropped.
                    if let Some(current) = prepared
                        && preamble.phase == current.phase.number
                        && preamble.stream < u32::from(current.phase.streams())
                    {
                        current.streams.entry(preamble.stream).or_insert(socket);
                    }
                }
                Arrival::Knock(preamble, from) => {
                    if let Some(current) = prepared
                        && preamble.phase == current.phase.number
                        && matches!(current.phase.carrier, Carrier::Udp { .. })
                    {
                        current.address = Some(from);
                        answer(self.local, from, &preamble).map_err(SessionError::Carrying)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Lets data flow, once all that carries it has come.
    fn begin(&mut self) -> Result<(), SessionError> {
        let until = StdInstant::now() + PATIENCE;
        while !self.phase.as_ref().is_some_and(Current::is_complete) {
            if StdInstant::now() > until {
                return Err(SessionError::Missing);
            }
            std::thread::sleep(LOOK);
            self.look_for_arrivals()?;
        }
        let now = self.shared.clock.now();
        let Some(current) = &mut self.phase else { return Ok(()) };
        let sockets = match (&current.phase.carrier, current.address) {
            (Carrier::Tcp { .. }, _) => {
                Sockets::Tcp(std::mem::take(&mut current.streams).into_values().collect())
            }
            (Carrier::Udp { .. }, Some(address)) => {
                let socket = datagram_socket(self.local, address).map_err(io::Error::other);
                Sockets::Udp(socket.map_err(SessionError::Carrying)?)
            }
            _ => Sockets::None,
        };
        let carrying = Carrying::begin(&current.phase, Role::Server, sockets);
        current.carrying = Some(carrying.map_err(SessionError::Carrying)?);
        current.ends = now + current.phase.lasts() + SLACK;
        Ok(self.talk.say(&FromServer::Begun)?)
    }

    /// Tells the client what has arrived, and ends a phase whose time is over.
    fn look_at_phase(&mut self) -> Result<(), SessionError> {
        let now = self.shared.clock.now();
        let Some(current) = &mut self.phase else {
            return if self.ticket.is_some() && self.heard.elapsed() > THINKING {
                Err(SessionError::Silent)
            } else {
                Ok(())
            };
        };
        let mut words = Vec::new();
        let upwards = current.phase.way() == Some(Way::Up);
        while let Some(live) = current.carrying.as_ref().and_then(Carrying::poll_live) {
            match live {
                Live::Bytes { at_ns, received, sent } => {
                    current.bytes = [received, sent];
                    if upwards && now.since(current.told) >= ARRIVED {
                        current.told = now;
                        words.push(FromServer::Arrived { at_ns, bytes: received });
                    }
                }
                Live::Datagrams(heard) => {
                    current.bytes[0] = heard.bytes;
                    if upwards {
                        words.push(FromServer::Heard(heard));
                    }
                }
            }
        }
        let over = now > current.ends;
        for word in words {
            self.talk.say(&word)?;
        }
        if over {
            self.session.ended();
            self.end(None)?;
        }
        Ok(())
    }

    fn keep_to_budget(&mut self) -> Result<(), SessionError> {
        let Some(room) = &self.room else { return Ok(()) };
        let now = self.shared.clock.now();
        if now > room.until {
            return Err(SessionError::TooLong);
        }
        let here: u64 = self.phase.as_ref().map_or(0, |current| current.bytes.iter().sum());
        if self.carried + here > self.admission().limits().bytes {
            return Err(SessionError::TooMuch);
        }
        Ok(())
    }

    /// Ends the phase, and tells all that was counted.
    fn end(&mut self, sent: Option<u64>) -> Result<(), SessionError> {
        let Some(current) = self.phase.take() else { return Ok(()) };
        let outcome = match current.carrying {
            Some(carrying) => carrying.end(sent).map_err(SessionError::Carrying)?,
            None => Outcome::default(),
        };
        let bytes = received_and_sent(&outcome);
        self.carried += bytes.iter().sum::<u64>();
        for (all, more) in self.shared.tally.bytes.iter().zip(bytes) {
            all.fetch_add(more, Ordering::Relaxed);
        }
        self.shared.tally.phases.fetch_add(1, Ordering::Relaxed);
        for counted in outcome.counted.chunks(Counted::IN_A_FRAME) {
            self.talk.say(&FromServer::Counted(counted.to_vec()))?;
        }
        for heard in outcome.heard.chunks(Counted::IN_A_FRAME) {
            self.talk.say(&FromServer::HeardInAll(heard.to_vec()))?;
        }
        self.heard = StdInstant::now();
        Ok(self.talk.say(&FromServer::Report(Box::new(outcome.report)))?)
    }
}

impl Current {
    /// Whether all has come that carries its data.
    fn is_complete(&self) -> bool {
        match self.phase.carrier {
            Carrier::Idle => true,
            Carrier::Tcp { streams, .. } => self.streams.len() == usize::from(streams),
            Carrier::Udp { .. } => self.address.is_some(),
        }
    }
}

/// Answers a knock with the same bytes, from the port that it was sent to.
fn answer(local: SocketAddr, from: SocketAddr, preamble: &Preamble) -> io::Result<()> {
    let socket = datagram_socket(local, from).map_err(io::Error::other)?;
    socket.send(&preamble.encode()).map(drop)
}

/// Bytes of payload that a phase has carried.
fn received_and_sent(outcome: &Outcome) -> [u64; 2] {
    let mut last = BTreeMap::new();
    for counted in &outcome.counted {
        last.insert(counted.stream, [counted.received, counted.sent]);
    }
    let streams = last.into_values().fold([0; 2], |[a, b], [c, d]| [a + c, b + d]);
    let datagrams = outcome.heard.last().map_or(0, |heard| heard.bytes);
    [streams[0] + datagrams, streams[1]]
}
