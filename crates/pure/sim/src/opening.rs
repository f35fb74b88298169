//! How connections come to be, at the end that opens and at the end that accepts.

use std::sync::Arc;

use netrig_core::{Dscp, Instant, Seeds, Size, protocol};
use netrig_experiment::{Carrier, Host};
use netrig_traffic::{ConnId, ReadSchedule};
use netrig_transport::sctp::{Association, Endpoints, Listener, ListenerResponse, PathAddresses};
use netrig_transport::{Packet, Payload, Serial, tcp};

use crate::agenda::{Actor, Appointment};
use crate::flow_end::{Conn, FlowEnd, Path, Side, TimerOwner, World, way_of};
use crate::party::Party;

/// Of IPv4 and TCP without options, bytes.
const HEADERS: u64 = 20 + 20;

/// The two ways in which an end answers a call, by its flow's transport.
pub(crate) enum Answering {
    Tcp(Arc<tcp::Config>),
    Sctp(Box<Listener>),
    /// Datagrams need no answer.
    Nothing,
}

impl FlowEnd {
    /// The application opens a connection.
    pub(crate) fn open(&mut self, now: Instant, id: ConnId, world: &mut World) {
        let ConnId::Opened(n) = id else { return };
        let conn = self.number_of(id);
        // Dynamic ports come round again after 16384 connections; the earliest are over by then.
        let ports = [self.plan.ports[0] + (n % 16_384) as u16, self.plan.ports[1]];
        let Some(mut party) = self.caller(conn, ports) else { return };
        party.open(now);
        self.enrol(now, conn, id, party, world);
        self.acted_upon(now, conn, world);
    }

    fn caller(&self, conn: u32, ports: [u16; 2]) -> Option<Party> {
        let mut random = self.stream(&format!("connection/{conn}"));
        Some(match &self.plan.carrier {
            Carrier::Tcp(config) => {
                let isn = Serial(random.label() as u32);
                let flow = self.five_tuple(0, protocol::TCP, ports);
                Party::Tcp(Box::new(self.told(tcp::Connection::connect(config.clone(), flow, isn))))
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
                Party::Sctp(Box::new(Association::new(config.clone(), &endpoints, random)))
            }
            // Datagrams need no connection, and a run with MPTCP is refused before it begins.
            Carrier::Udp { .. } | Carrier::Mptcp(_) => return None,
        })
    }

    /// A packet came that belongs to no connection yet. Whether there is one now that it is to be given to.
    pub(crate) fn answer(&mut self, now: Instant, conn: u32, packet: &mut Packet, world: &mut World) -> bool {
        let opened_by_peer = conn.is_multiple_of(2) == (self.plan.side == Side::Server);
        if !opened_by_peer {
            return false;
        }
        match &mut self.plan.answering {
            Answering::Tcp(config) => {
                let Payload::Tcp(segment) = &packet.payload else { return false };
                // Without a handshake the first data opens; otherwise only a SYN does, and what is left of an
                // earlier connection dies here.
                let opens =
                    segment.flags.contains(tcp::Flags::SYN) && !segment.flags.contains(tcp::Flags::ACK);
                if !opens && config.handshake != tcp::Handshake::None {
                    return false;
                }
                let config = config.clone();
                let isn = Serial(self.stream(&format!("connection/{conn}")).label() as u32);
                let party = self.told(tcp::Connection::accept(config, packet.header.flow.reversed(), isn));
                self.accepted(now, conn, Party::Tcp(Box::new(party)), world);
                true
            }
            Answering::Sctp(listener) => {
                match listener.handle_packet(now, packet.take()) {
                    None => {}
                    Some(ListenerResponse::Reply(reply)) => {
                        let mut carriage = world.network.vacant();
                        carriage.stop = way_of(&self.plan.paths, &reply.header.flow);
                        (carriage.packet, carriage.conn) = (reply, Some(conn));
                        world.network.send(now, carriage, world.sink);
                    }
                    Some(ListenerResponse::Accepted(association)) => {
                        self.accepted(now, conn, Party::Sctp(association), world);
                        self.settle(now, conn, world);
                    }
                }
                false
            }
            Answering::Nothing => false,
        }
    }

    /// A connection that is told what its flow and its host say of it.
    fn told(&self, connection: tcp::Connection) -> tcp::Connection {
        connection.with_dscp(self.plan.dscp).with_announced_mss(self.plan.announced_mss)
    }

    fn accepted(&mut self, now: Instant, conn: u32, party: Party, world: &mut World) {
        let id = ConnId::Accepted(self.accepted);
        self.accepted += 1;
        self.enrol(now, conn, id, party, world);
    }

    fn enrol(&mut self, now: Instant, conn: u32, id: ConnId, mut party: Party, world: &mut World) {
        if self.plan.application.ignores_data() {
            party.ignore_data();
        }
        let timer = world.timers.len() as u32;
        world.timers.push(TimerOwner { end: self.plan.id, conn });
        let reader = self.plan.reads.map(|reads| ReadSchedule::new(reads, now));
        if let Some(reader) = &reader {
            party.set_reading(false);
            world.network.agenda.enter(reader.next(), Actor::Reader(timer));
        }
        if self.conns.len() <= conn as usize {
            self.conns.resize_with(conn as usize + 1, || None);
        }
        self.open += 1;
        self.conns[conn as usize] =
            Some(Conn { id, party, closed: false, timer, appointment: Appointment::default(), reader });
    }
}

/// The addresses of an end's paths.
pub(crate) fn pairs(paths: &[Path]) -> Vec<PathAddresses> {
    paths.iter().map(|path| PathAddresses { local: path.local, remote: path.remote }).collect()
}

/// A flow's carrier as a host has it: it sends and takes no longer segments than its MTU leaves, and offers its window.
pub(crate) fn carrier_at(host: &Host, carrier: &Carrier) -> Carrier {
    let Carrier::Tcp(config) = carrier else { return carrier.clone() };
    if host.mtu.is_none() && host.window.is_none() {
        return carrier.clone();
    }
    // Of the least MTU, 68 B, 28 B are left; over IPv6 the transport takes off what its header is longer.
    let segment = host.mtu.map(|mtu| Size::from_bytes(mtu.bytes() - HEADERS));
    Carrier::Tcp(Arc::new(tcp::Config {
        mss: segment.map_or(config.mss, |segment| segment.min(config.mss)),
        receive_buffer: host.receive_buffer(config),
        ..(**config).clone()
    }))
}

/// How an end with these paths answers calls.
pub(crate) fn answering(
    carrier: &Carrier,
    (port, dscp): (u16, Dscp),
    paths: &[Path],
    seeds: &Seeds,
    name: &str,
) -> Answering {
    match carrier {
        Carrier::Tcp(config) => Answering::Tcp(config.clone()),
        Carrier::Sctp(config) => {
            let random = seeds.stream(&format!("flow/{name}/listener"));
            Answering::Sctp(Box::new(Listener::new(config.clone(), port, pairs(paths), dscp, random)))
        }
        Carrier::Udp { .. } | Carrier::Mptcp(_) => Answering::Nothing,
    }
}
