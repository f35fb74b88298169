//! What an end does with its connections, whatever carries them: opening and accepting, turns, and what they report.

use std::net::SocketAddr;

use netrig_core::{ConnectionEvent, Data, Instant, StreamId, quantity};
use netrig_traffic::{AppEvent, ConnId, ReadSchedule};

use super::{FlowEnd, Sockets, Surroundings};
use crate::AgentError;
use crate::meter::Counted;
use netrig_bulk::tcp_connection::{self, TurnOutcome};
use netrig_host::Watch;

/// Turns that the connections of an end have in a row before the other ends are looked at.
const TURNS: usize = 64;

impl FlowEnd {
    /// Accepts the calls that wait.
    pub(super) fn accept(&mut self, around: &mut Surroundings) -> Result<(), AgentError> {
        while let Sockets::Tcp(tcp) = &mut self.sockets
            && let Some(place) = tcp.accept().map_err(AgentError::kernel("accept"))?
        {
            self.enrol(place, around)?;
        }
        Ok(())
    }

    /// A connection that was made gets its first turn, and is watched.
    fn enrol(&mut self, place: u32, around: &mut Surroundings) -> Result<(), AgentError> {
        let key = self.key(place + 1);
        if let Sockets::Tcp(tcp) = &mut self.sockets
            && let Some(conn) = tcp.get(place)
        {
            around.pacer.watch(conn.fd(), key, Watch::Both).map_err(AgentError::kernel("epoll_ctl"))?;
            if let Some(reads) = self.order.reads {
                conn.read_by(ReadSchedule::new(reads, around.clock.now()));
            }
        }
        self.turns.push_back(place);
        Ok(())
    }

    /// The application reads what is due, if it does not read at once.
    pub(super) fn take_steps(&mut self, now: Instant, around: &mut Surroundings) -> Result<(), AgentError> {
        if self.order.reads.is_none() {
            return Ok(());
        }
        match &mut self.sockets {
            Sockets::Udp(_) => {}
            Sockets::Tcp(tcp) => tcp.take_steps(now, &mut self.turns),
            Sockets::Sctp(sctp) => sctp.take_steps(around.clock, &mut self.turns)?,
        }
        Ok(())
    }

    /// Gives the connections that have something to do their turns.
    pub(super) fn take_turns(&mut self, now: Instant, around: &mut Surroundings) -> Result<(), AgentError> {
        for _ in 0..TURNS {
            let Some(place) = self.turns.pop_front() else { break };
            self.take_turn(now, place, around)?;
        }
        Ok(())
    }

    /// The turn of the connection at `place`, if it still is.
    pub(super) fn take_turn(
        &mut self,
        now: Instant,
        place: u32,
        around: &mut Surroundings,
    ) -> Result<(), AgentError> {
        let mut events = std::mem::take(&mut self.events);
        let id = match &mut self.sockets {
            Sockets::Udp(_) => None,
            Sockets::Tcp(tcp) => tcp.get(place).map(|conn| {
                if conn.take_turn(&mut self.buffer, &mut events) == TurnOutcome::GoesOn {
                    self.turns.push_back(place);
                }
                conn.id
            }),
            Sockets::Sctp(sctp) => {
                let mut incidents = Vec::new();
                let id = sctp.hear(place, &mut events, &mut incidents);
                self.tell_incidents(now, &incidents, around);
                id
            }
        };
        for event in events.drain(..) {
            let Some(id) = id else { break };
            self.hear(now, place, id, event, around)?;
        }
        self.events = events;
        Ok(())
    }

    /// A connection reports.
    fn hear(
        &mut self,
        now: Instant,
        place: u32,
        id: ConnId,
        event: ConnectionEvent,
        around: &mut Surroundings,
    ) -> Result<(), AgentError> {
        let sends = self.order.sends_data();
        match &event {
            ConnectionEvent::Connected { .. } if matches!(id, ConnId::Opened(_)) => {
                self.meter.mark(now, &quantity::ESTABLISHED, 0.0, around.samples);
            }
            ConnectionEvent::Received { data, .. } if !sends => {
                self.meter.count(Counted::ReceivedBytes, data.size());
                // An association's packets are seen themselves.
                if matches!(self.sockets, Sockets::Tcp(_)) {
                    self.meter.data_arrived(now, around.samples);
                }
            }
            ConnectionEvent::Closed(reason) => {
                if sends {
                    self.meter.mark(now, &quantity::CLOSED, f64::from(*reason as u8), around.samples);
                }
                match &mut self.sockets {
                    Sockets::Udp(_) => {}
                    Sockets::Tcp(tcp) => tcp.forget(place, *reason),
                    Sockets::Sctp(sctp) => sctp.forget(place, *reason),
                }
            }
            _ => {}
        }
        self.tell(now, AppEvent::Connection { conn: id, event }, around)
    }

    /// Opens a connection for the application; it gets a turn.
    pub(super) fn connect(
        &mut self,
        id: ConnId,
        to: SocketAddr,
        around: &mut Surroundings,
    ) -> Result<(), AgentError> {
        match &mut self.sockets {
            Sockets::Udp(_) => Ok(()),
            Sockets::Tcp(tcp) => {
                let place = tcp
                    .connect(id, to)
                    .map_err(|source| AgentError::Socket { flow: self.order.name.clone(), source })?;
                self.enrol(place, around)
            }
            Sockets::Sctp(sctp) => {
                self.turns.extend(sctp.connect(id, around.clock)?);
                Ok(())
            }
        }
    }

    /// Data for a connection of the application's, if it still is; it gets a turn.
    pub(super) fn send(
        &mut self,
        id: ConnId,
        stream: StreamId,
        data: Data,
        around: &Surroundings,
    ) -> Result<(), AgentError> {
        let Some(place) = self.place_of(id) else { return Ok(()) };
        match &mut self.sockets {
            Sockets::Udp(_) => {}
            Sockets::Tcp(tcp) => {
                if let Some(conn) = tcp.get(place) {
                    conn.send(data);
                }
            }
            Sockets::Sctp(sctp) => sctp.give(place, stream, data, around.clock)?,
        }
        self.has_something_to_do(place);
        Ok(())
    }

    /// A connection of the application's is closed, if it still is; it gets a turn.
    pub(super) fn close(&mut self, id: ConnId, around: &Surroundings) -> Result<(), AgentError> {
        let Some(place) = self.place_of(id) else { return Ok(()) };
        match &mut self.sockets {
            Sockets::Udp(_) => {}
            Sockets::Tcp(tcp) => tcp.get(place).into_iter().for_each(tcp_connection::TcpConnection::close),
            Sockets::Sctp(sctp) => sctp.close(place, around.clock)?,
        }
        self.has_something_to_do(place);
        Ok(())
    }

    fn place_of(&self, id: ConnId) -> Option<u32> {
        match &self.sockets {
            Sockets::Udp(_) => None,
            Sockets::Tcp(tcp) => tcp.place_of(id),
            Sockets::Sctp(sctp) => sctp.place_of(id),
        }
    }

    fn has_something_to_do(&mut self, place: u32) {
        if self.turns.back() != Some(&place) {
            self.turns.push_back(place);
        }
    }
}
