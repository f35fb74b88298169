//! The opening and accepting of connections.

use netrig_core::{Instant, protocol};
use netrig_experiment::Carrier;
use netrig_traffic::{ConnId, FlowSide, ReadSchedule};
use netrig_transport::sctp::{Association, Endpoints, ListenerResponse};
use netrig_transport::{Packet, Payload, Serial, tcp};

use crate::actor::Actor;
use crate::agenda::Appointment;
use crate::blueprint::{ConnectionAcceptor, pairs, way_of};
use crate::flow_end::{EndContext, FlowConnection, FlowEnd, TimerOwner};
use crate::transport_endpoint::TransportEndpoint;

impl FlowEnd {
    /// Opens a connection for the application.
    pub(crate) fn open(&mut self, now: Instant, id: ConnId, context: &mut EndContext) {
        let ConnId::Opened(n) = id else { return };
        let conn = self.number_of(id);
        // Dynamic ports are reused after 16384 connections. The oldest connections have been closed by then.
        let ports = [self.plan.ports[0] + (n % 16_384) as u16, self.plan.ports[1]];
        let Some(mut endpoint) = self.caller(conn, ports) else { return };
        endpoint.open(now);
        self.add_connection(now, conn, id, endpoint, context);
        self.acted_upon(now, conn, context);
    }

    fn caller(&self, conn: u32, ports: [u16; 2]) -> Option<TransportEndpoint> {
        let mut random = self.stream(&format!("connection/{conn}"));
        Some(match &self.plan.carrier {
            Carrier::Tcp(config) => {
                let isn = Serial(random.label() as u32);
                let flow = self.five_tuple(0, protocol::TCP, ports);
                TransportEndpoint::Tcp(Box::new(self.with_settings(tcp::Connection::connect(
                    config.clone(),
                    flow,
                    isn,
                ))))
            }
            Carrier::Sctp(config) => {
                let mut pairs = pairs(&self.plan.paths);
                let endpoints = Endpoints {
                    local_port: ports[0],
                    remote_port: ports[1],
                    primary: pairs.remove(0),
                    alternates: pairs,
                    dscp: self.plan.dscp,
                };
                TransportEndpoint::Sctp(Box::new(Association::new(config.clone(), &endpoints, random)))
            }
            // Datagrams need no connection, and `Simulator::check` refuses MPTCP.
            Carrier::Udp { .. } | Carrier::Mptcp(_) => return None,
        })
    }

    /// Handles a packet that belongs to no connection. Returns true if it created a connection that must still receive
    /// the packet.
    pub(crate) fn accept(
        &mut self,
        now: Instant,
        conn: u32,
        packet: &mut Packet,
        context: &mut EndContext,
    ) -> bool {
        let opened_by_peer = conn.is_multiple_of(2) == (self.plan.side == FlowSide::Server);
        if !opened_by_peer {
            return false;
        }
        match &mut self.plan.acceptor {
            ConnectionAcceptor::Tcp(config) => {
                let Payload::Tcp(segment) = &packet.payload else { return false };
                // If the TCP has no handshake, the first data segment opens a connection. Otherwise only a SYN does,
                // and late segments of an earlier connection are dropped here.
                let opens =
                    segment.flags.contains(tcp::Flags::SYN) && !segment.flags.contains(tcp::Flags::ACK);
                if !opens && config.handshake != tcp::Handshake::None {
                    return false;
                }
                let config = config.clone();
                let isn = Serial(self.stream(&format!("connection/{conn}")).label() as u32);
                let endpoint =
                    self.with_settings(tcp::Connection::accept(config, packet.header.flow.reversed(), isn));
                self.accepted(now, conn, TransportEndpoint::Tcp(Box::new(endpoint)), context);
                true
            }
            ConnectionAcceptor::Sctp(listener) => {
                match listener.handle_packet(now, packet.take()) {
                    None => {}
                    Some(ListenerResponse::Reply(reply)) => {
                        let mut carriage = context.network.vacant();
                        carriage.stop = way_of(&self.plan.paths, &reply.header.flow);
                        (carriage.packet, carriage.conn) = (reply, Some(conn));
                        context.network.send(now, carriage, context.sink);
                    }
                    Some(ListenerResponse::Accepted(association)) => {
                        self.accepted(now, conn, TransportEndpoint::Sctp(association), context);
                        self.settle(now, conn, context);
                    }
                }
                false
            }
            ConnectionAcceptor::Nothing => false,
        }
    }

    /// Applies the settings of the flow and the host to a connection.
    fn with_settings(&self, connection: tcp::Connection) -> tcp::Connection {
        connection.with_dscp(self.plan.dscp).with_announced_mss(self.plan.announced_mss)
    }

    fn accepted(&mut self, now: Instant, conn: u32, endpoint: TransportEndpoint, context: &mut EndContext) {
        let id = ConnId::Accepted(self.accepted.len() as u32);
        self.accepted.push(conn);
        self.add_connection(now, conn, id, endpoint, context);
    }

    fn add_connection(
        &mut self,
        now: Instant,
        conn: u32,
        id: ConnId,
        mut endpoint: TransportEndpoint,
        context: &mut EndContext,
    ) {
        if self.plan.application.ignores_data() {
            endpoint.ignore_data();
        }
        let timer = context.timers.len() as u32;
        context.timers.push(TimerOwner { end: self.plan.id, conn });
        let reader = self.plan.reads.map(|reads| ReadSchedule::new(reads, now));
        if let Some(reader) = &reader {
            endpoint.set_reading(false);
            context.network.agenda.enter(reader.next(), Actor::Reader(timer));
        }
        if self.conns.len() <= conn as usize {
            self.conns.resize_with(conn as usize + 1, || None);
        }
        self.open += 1;
        self.conns[conn as usize] = Some(FlowConnection {
            id,
            endpoint,
            closed: false,
            timer,
            appointment: Appointment::default(),
            reader,
        });
    }
}
