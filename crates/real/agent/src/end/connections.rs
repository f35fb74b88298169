//! The connections of an end over any carrier: opening, accepting, turns, and reports.

use std::net::SocketAddr;

use netrig_core::{ConnectionEvent, Data, Instant, StreamId, quantity};
use netrig_traffic::{AppEvent, ConnId, ReadSchedule};

use super::{CarrierSockets, EndContext, FlowEnd};
use crate::AgentError;
use netrig_bulk::tcp_connection::{self, TurnOutcome};
use netrig_host::Watch;

/// Turns of an end's connections in a row before other ends get a turn.
const TURNS: usize = 64;

impl FlowEnd {
    /// Accepts the pending connections.
    pub(super) fn accept(&mut self, around: &mut EndContext) -> Result<(), AgentError> {
        while let CarrierSockets::Tcp(tcp) = &mut self.sockets
            && let Some(place) = tcp.accept().map_err(AgentError::kernel("accept"))?
        {
            self.enrol(place, around)?;
        }
        Ok(())
    }

    /// Registers a new connection with the poller, and gives it its first turn.
    fn enrol(&mut self, place: u32, around: &mut EndContext) -> Result<(), AgentError> {
        let key = self.key(place + 1);
        if let CarrierSockets::Tcp(tcp) = &mut self.sockets
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

    /// Lets an application with a read schedule read what is due.
    pub(super) fn take_steps(&mut self, now: Instant, around: &mut EndContext) -> Result<(), AgentError> {
        if self.order.reads.is_none() {
            return Ok(());
        }
        match &mut self.sockets {
            CarrierSockets::Udp(_) => {}
            CarrierSockets::Tcp(tcp) => tcp.take_steps(now, &mut self.turns),
            CarrierSockets::Sctp(sctp) => sctp.take_steps(around.clock, &mut self.turns)?,
        }
        Ok(())
    }

    /// Gives the queued connections their turns.
    pub(super) fn take_turns(&mut self, now: Instant, around: &mut EndContext) -> Result<(), AgentError> {
        for _ in 0..TURNS {
            let Some(place) = self.turns.pop_front() else { break };
            self.take_turn(now, place, around)?;
        }
        Ok(())
    }

    /// Gives the connection at `place` a turn, if it still exists.
    pub(super) fn take_turn(
        &mut self,
        now: Instant,
        place: u32,
        around: &mut EndContext,
    ) -> Result<(), AgentError> {
        let mut events = std::mem::take(&mut self.events);
        let id = match &mut self.sockets {
            CarrierSockets::Udp(_) => None,
            CarrierSockets::Tcp(tcp) => tcp.get(place).map(|conn| {
                if conn.take_turn(&mut self.buffer, &mut events) == TurnOutcome::GoesOn {
                    self.turns.push_back(place);
                }
                conn.id
            }),
            CarrierSockets::Sctp(sctp) => {
                let mut incidents = Vec::new();
                let id = sctp.take_events(place, &mut events, &mut incidents);
                self.report_incidents(now, &incidents, around);
                id
            }
        };
        for event in events.drain(..) {
            let Some(id) = id else { break };
            self.handle_event(now, place, id, event, around)?;
        }
        self.events = events;
        Ok(())
    }

    /// Handles an event of a connection.
    fn handle_event(
        &mut self,
        now: Instant,
        place: u32,
        id: ConnId,
        event: ConnectionEvent,
        around: &mut EndContext,
    ) -> Result<(), AgentError> {
        let sends = self.order.sends_data();
        match &event {
            ConnectionEvent::Connected { .. } if matches!(id, ConnId::Opened(_)) => {
                self.meter.mark(now, &quantity::ESTABLISHED, 0.0, around.samples);
            }
            ConnectionEvent::Received { data, .. } if !sends => {
                self.meter.received(data.size());
                // The packets of an association are counted where they arrive.
                if matches!(self.sockets, CarrierSockets::Tcp(_)) {
                    self.meter.data_arrived(now, around.samples);
                }
            }
            ConnectionEvent::Closed(reason) => {
                if sends {
                    self.meter.mark(now, &quantity::CLOSED, f64::from(*reason as u8), around.samples);
                }
                match &mut self.sockets {
                    CarrierSockets::Udp(_) => {}
                    CarrierSockets::Tcp(tcp) => tcp.forget(place, *reason),
                    CarrierSockets::Sctp(sctp) => sctp.forget(place, *reason),
                }
            }
            _ => {}
        }
        self.notify(now, AppEvent::Connection { conn: id, event }, around)
    }

    /// Opens a connection for the application, and gives it a turn.
    pub(super) fn connect(
        &mut self,
        id: ConnId,
        to: SocketAddr,
        around: &mut EndContext,
    ) -> Result<(), AgentError> {
        match &mut self.sockets {
            CarrierSockets::Udp(_) => Ok(()),
            CarrierSockets::Tcp(tcp) => {
                let place = tcp
                    .connect(id, to)
                    .map_err(|source| AgentError::Socket { flow: self.order.name.clone(), source })?;
                self.enrol(place, around)
            }
            CarrierSockets::Sctp(sctp) => {
                self.turns.extend(sctp.connect(id, around.clock)?);
                Ok(())
            }
        }
    }

    /// Sends data over a connection of the application, if it still exists, and gives it a turn.
    pub(super) fn send(
        &mut self,
        id: ConnId,
        stream: StreamId,
        data: Data,
        around: &EndContext,
    ) -> Result<(), AgentError> {
        let Some(place) = self.place_of(id) else { return Ok(()) };
        match &mut self.sockets {
            CarrierSockets::Udp(_) => {}
            CarrierSockets::Tcp(tcp) => {
                if let Some(conn) = tcp.get(place) {
                    conn.send(data);
                }
            }
            CarrierSockets::Sctp(sctp) => sctp.give(place, stream, data, around.clock)?,
        }
        self.queue_turn(place);
        Ok(())
    }

    /// Closes a connection of the application, if it still exists, and gives it a turn.
    pub(super) fn close(&mut self, id: ConnId, around: &EndContext) -> Result<(), AgentError> {
        let Some(place) = self.place_of(id) else { return Ok(()) };
        match &mut self.sockets {
            CarrierSockets::Udp(_) => {}
            CarrierSockets::Tcp(tcp) => {
                tcp.get(place).into_iter().for_each(tcp_connection::TcpConnection::close)
            }
            CarrierSockets::Sctp(sctp) => sctp.close(place, around.clock)?,
        }
        self.queue_turn(place);
        Ok(())
    }

    fn place_of(&self, id: ConnId) -> Option<u32> {
        match &self.sockets {
            CarrierSockets::Udp(_) => None,
            CarrierSockets::Tcp(tcp) => tcp.place_of(id),
            CarrierSockets::Sctp(sctp) => sctp.place_of(id),
        }
    }

    fn queue_turn(&mut self, place: u32) {
        if self.turns.back() != Some(&place) {
            self.turns.push_back(place);
        }
    }
}
