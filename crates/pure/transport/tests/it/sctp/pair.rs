//! Two hosts connected by paths, with a common clock: a small simulator for the tests.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use netrig_core::{
    CloseReason, ConnectionEvent, Data, Dscp, Duration, Endpoint, EndpointOutput, Instant, Seeds, StreamId,
    drain,
};
use netrig_transport::sctp::packet::{Chunk, chunk};
use netrig_transport::sctp::{
    Association, Config, Endpoints, Listener, ListenerResponse, Packet, PathAddresses, out_of_the_blue,
};
use netrig_transport::{Connection, Incident, PathId, Payload, Profile, Serial};

pub const PORT: u16 = 9899;

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub fn at(span: Duration) -> Instant {
    Instant::ZERO + span
}

pub fn rfc() -> Config {
    Config::of(Profile::Rfc)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

/// A packet at the time at which its sender sent it.
#[derive(Clone, Debug)]
pub struct Crossing {
    pub at: Instant,
    pub from: Side,
    pub path: usize,
    pub ip_len: u32,
    pub packet: Packet,
}

impl Crossing {
    /// The names of the chunks, joined with `+`.
    pub fn names(&self) -> String {
        self.packet.chunks.iter().map(name_of).collect::<Vec<_>>().join("+")
    }

    pub fn data(&self) -> impl Iterator<Item = &chunk::Data> {
        self.packet.chunks.iter().filter_map(|chunk| match chunk {
            Chunk::Data(data) => Some(data),
            _ => None,
        })
    }

    pub fn sack(&self) -> Option<&chunk::Sack> {
        self.packet.chunks.iter().find_map(|chunk| match chunk {
            Chunk::Sack(sack) => Some(sack),
            _ => None,
        })
    }

    pub fn has(&self, name: &str) -> bool {
        self.packet.chunks.iter().any(|chunk| name_of(chunk) == name)
    }
}

/// The name of a chunk in the RFC.
pub const fn name_of(chunk: &Chunk) -> &'static str {
    match chunk {
        Chunk::Data(_) => "DATA",
        Chunk::Init(_) => "INIT",
        Chunk::InitAck(_) => "INIT ACK",
        Chunk::Sack(_) => "SACK",
        Chunk::Heartbeat(_) => "HEARTBEAT",
        Chunk::HeartbeatAck(_) => "HEARTBEAT ACK",
        Chunk::Abort(_) => "ABORT",
        Chunk::Shutdown(_) => "SHUTDOWN",
        Chunk::ShutdownAck => "SHUTDOWN ACK",
        Chunk::Error(_) => "ERROR",
        Chunk::CookieEcho(_) => "COOKIE ECHO",
        Chunk::CookieAck => "COOKIE ACK",
        Chunk::EcnEcho(_) => "ECNE",
        Chunk::Cwr(_) => "CWR",
        Chunk::ShutdownComplete { .. } => "SHUTDOWN COMPLETE",
        Chunk::Unknown(_) => "unknown",
    }
}

/// Treatment of a packet by the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    Drop,
    /// The packet arrives after an additional delay.
    Late(Duration),
    Twice,
}

/// One direction of a path: a line with a rate and a delay.
#[derive(Clone, Debug)]
pub struct Line {
    pub delay: Duration,
    /// Transmission time of a byte.
    pub per_byte: Duration,
    /// Whether the line is down. It then loses all packets on it and all new ones.
    pub down: bool,
    free_at: Instant,
}

/// The end of one host.
#[derive(Default)]
pub struct End {
    pub association: Option<Box<Association>>,
    pub events: Vec<(Instant, ConnectionEvent)>,
    pub incidents: Vec<(Instant, Incident)>,
    /// Received user data for each stream, in the order of delivery.
    pub received: BTreeMap<u16, Vec<Data>>,
    pub deadline: Option<Instant>,
}

impl End {
    pub fn bytes(&self) -> u64 {
        self.received.values().flatten().map(Data::size).sum()
    }

    pub fn closed(&self) -> Option<CloseReason> {
        self.events.iter().find_map(|(_, event)| match event {
            ConnectionEvent::Closed(reason) => Some(*reason),
            _ => None,
        })
    }

    pub fn connected(&self) -> Option<Instant> {
        let is = |event: &ConnectionEvent| matches!(event, ConnectionEvent::Connected { .. });
        self.events.iter().find(|(_, event)| is(event)).map(|(at, _)| *at)
    }
}

/// A packet in flight.
struct Flight {
    to: Side,
    path: usize,
    packet: netrig_transport::Packet,
}

type Rule = Box<dyn FnMut(&Crossing) -> Verdict>;

pub struct Pair {
    pub now: Instant,
    pub client: End,
    pub server: End,
    pub listener: Listener,
    /// For each path, the line from the client and the line from the server.
    pub lines: Vec<[Line; 2]>,
    pub log: Vec<Crossing>,
    rule: Rule,
    flying: BTreeMap<(Instant, u64), Flight>,
    count: u64,
    addresses: Vec<PathAddresses>,
    /// Whether every packet is encoded and decoded.
    pub over_wire: bool,
}

pub fn client_address(path: usize) -> IpAddr {
    [10, path as u8, 0, 1].into()
}

pub fn server_address(path: usize) -> IpAddr {
    [10, path as u8, 0, 2].into()
}

impl Pair {
    /// Two hosts with the same configuration.
    pub fn new(config: &Config, paths: usize, delay: Duration) -> Self {
        Self::with(config, config, paths, delay, 1)
    }

    pub fn with(client: &Config, server: &Config, paths: usize, delay: Duration, seed: u64) -> Self {
        let addresses: Vec<_> = (0..paths)
            .map(|i| PathAddresses { local: client_address(i), remote: server_address(i) })
            .collect();
        let endpoints = Endpoints {
            local_port: 1000,
            remote_port: PORT,
            primary: addresses[0],
            alternates: addresses[1..].to_vec(),
            dscp: Dscp(0),
        };
        let routes: Vec<_> =
            addresses.iter().map(|p| PathAddresses { local: p.remote, remote: p.local }).collect();
        let seeds = Seeds::new(seed);
        let line = Line { delay, per_byte: Duration::ZERO, down: false, free_at: Instant::ZERO };
        let association = Association::new(client.clone(), &endpoints, seeds.stream("client"));
        Self {
            now: Instant::ZERO,
            client: End { association: Some(Box::new(association)), ..End::default() },
            server: End::default(),
            listener: Listener::new(server.clone(), PORT, routes, Dscp(0), seeds.stream("server")),
            lines: vec![[line.clone(), line]; paths],
            log: Vec::new(),
            rule: Box::new(|_| Verdict::Pass),
            flying: BTreeMap::new(),
            count: 0,
            addresses,
            over_wire: false,
        }
    }

    /// A pair with an open association: both ends are connected, and all paths are confirmed.
    pub fn connected(config: &Config, paths: usize, delay: Duration) -> Self {
        let mut pair = Self::new(config, paths, delay);
        pair.open();
        pair.run_for(delay * 8);
        assert!(pair.client.connected().is_some() && pair.server.connected().is_some());
        pair.log.clear();
        pair
    }

    pub fn rule(&mut self, rule: impl FnMut(&Crossing) -> Verdict + 'static) {
        self.rule = Box::new(rule);
    }

    /// Loses the packets for which `lost` returns true.
    pub fn lose(&mut self, mut lost: impl FnMut(&Crossing) -> bool + 'static) {
        self.rule(move |crossing| if lost(crossing) { Verdict::Drop } else { Verdict::Pass });
    }

    /// Sets the rate of both lines of a path, bit/s.
    pub fn rate(&mut self, path: usize, bits_per_s: u64) {
        for line in &mut self.lines[path] {
            line.per_byte = Duration::from_nanos(8_000_000_000 / bits_per_s);
        }
    }

    /// Makes the path fail. All packets on it are lost.
    pub fn cut(&mut self, path: usize) {
        let now = self.now;
        self.flying.retain(|_, flight| flight.path != path);
        for line in &mut self.lines[path] {
            (line.down, line.free_at) = (true, now);
        }
    }

    /// Makes the path work again.
    pub fn mend(&mut self, path: usize) {
        self.lines[path].iter_mut().for_each(|line| line.down = false);
    }

    pub fn client(&mut self) -> &mut Association {
        self.client.association.as_mut().expect("the client has one from the start")
    }

    pub fn server(&mut self) -> &mut Association {
        self.server.association.as_mut().expect("a COOKIE ECHO arrived")
    }

    pub fn open(&mut self) {
        let now = self.now;
        self.client().open(now);
        self.settle(Side::Client);
    }

    pub fn send(&mut self, stream: u16, data: Data) {
        let now = self.now;
        self.client().send(now, StreamId(stream), data);
        self.settle(Side::Client);
    }

    pub fn fill(&mut self, bytes: u64) {
        self.send(0, Data::Fill(bytes));
    }

    /// Calls a function on one end, and sends the resulting packets.
    pub fn act(&mut self, side: Side, act: impl FnOnce(&mut Association, Instant)) {
        let now = self.now;
        match side {
            Side::Client => act(self.client(), now),
            Side::Server => act(self.server(), now),
        }
        self.settle(side);
    }

    /// Takes all packets and events of an end after it was called.
    pub fn settle(&mut self, side: Side) {
        let end = match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        let Some(association) = &mut end.association else { return };
        let mut packets = VecDeque::new();
        end.deadline = drain(association.as_mut(), self.now, |output| match output {
            EndpointOutput::Packet(packet) => packets.push_back(packet),
            EndpointOutput::Event(event) => {
                if let ConnectionEvent::Received { stream, data } = &event {
                    end.received.entry(stream.0).or_default().push(data.clone());
                }
                end.events.push((self.now, event));
            }
        });
        while let Some(incident) = association.poll_incident() {
            end.incidents.push((self.now, incident));
        }
        for packet in packets {
            self.transmit(side, packet);
        }
    }

    /// Sends a packet of `from` over its line.
    pub fn transmit(&mut self, from: Side, packet: netrig_transport::Packet) {
        let Payload::Sctp(body) = &packet.payload else { panic!("SCTP speaks SCTP") };
        assert_eq!(packet.header.ip_len, packet.encode(&mut Vec::new()), "length of {body:?}");
        let flow = packet.header.flow;
        let path = self.addresses.iter().position(|pair| match from {
            Side::Client => pair.local == flow.src && pair.remote == flow.dst,
            Side::Server => pair.remote == flow.src && pair.local == flow.dst,
        });
        // There is no line for other pairs of addresses.
        let Some(path) = path else { return };
        let line = &mut self.lines[path][usize::from(from == Side::Server)];
        let crossing =
            Crossing { at: self.now, from, path, ip_len: packet.header.ip_len, packet: (**body).clone() };
        if line.down {
            self.log.push(crossing);
            return;
        }
        line.free_at = line.free_at.max(self.now) + line.per_byte * u64::from(packet.header.ip_len);
        let arrival = line.free_at + line.delay;
        let verdict = (self.rule)(&crossing);
        self.log.push(crossing);
        let to = if from == Side::Client { Side::Server } else { Side::Client };
        let arrivals = match verdict {
            Verdict::Pass => vec![arrival],
            Verdict::Drop => vec![],
            Verdict::Late(by) => vec![arrival + by],
            Verdict::Twice => vec![arrival, arrival],
        };
        for arrival in arrivals {
            self.flying.insert((arrival, self.count), Flight { to, path, packet: packet.clone() });
            self.count += 1;
        }
    }

    /// Delivers a packet to an end, as the network would.
    pub fn deliver(&mut self, to: Side, mut packet: netrig_transport::Packet) {
        if self.over_wire {
            packet = through_bytes(packet);
        }
        let now = self.now;
        match to {
            Side::Client => self.client().handle_packet(now, packet),
            Side::Server => match &mut self.server.association {
                Some(association) => association.handle_packet(now, packet),
                None => match self.listener.handle_packet(now, packet) {
                    Some(ListenerResponse::Reply(reply)) => self.transmit(Side::Server, reply),
                    Some(ListenerResponse::Accepted(association)) => {
                        self.server.association = Some(association)
                    }
                    None => {}
                },
            },
        }
        self.settle(to);
    }

    /// Processes the next event, if it is not after `until`. Returns false if there is none.
    fn step(&mut self, until: Instant) -> bool {
        let arrival = self.flying.keys().next().map(|(at, _)| *at);
        let timers = [self.client.deadline, self.server.deadline];
        let Some(next) = timers.into_iter().chain([arrival]).flatten().min() else { return false };
        if next > until {
            return false;
        }
        self.now = self.now.max(next);
        if arrival == Some(next) {
            if let Some((_, Flight { to, packet, .. })) = self.flying.pop_first() {
                self.deliver(to, packet);
            }
            return true;
        }
        let side = if timers[0] == Some(next) { Side::Client } else { Side::Server };
        self.act(side, |association, now| association.handle_timeout(now));
        true
    }

    pub fn run_until(&mut self, until: Instant) {
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    pub fn run_for(&mut self, span: Duration) {
        self.run_until(self.now + span);
    }

    /// Runs while `goes_on` returns true, but not beyond `limit`. Returns the time.
    pub fn run_while(&mut self, limit: Instant, mut goes_on: impl FnMut(&Self) -> bool) -> Instant {
        while goes_on(self) && self.step(limit) {}
        self.now
    }

    /// The packets that a side sent, in order.
    pub fn sent_by(&self, side: Side) -> impl Iterator<Item = &Crossing> {
        self.log.iter().filter(move |crossing| crossing.from == side)
    }

    /// The packets with DATA that the client sent.
    pub fn data_packets(&self) -> impl Iterator<Item = &Crossing> {
        self.sent_by(Side::Client).filter(|crossing| crossing.packet.carries_data())
    }

    pub fn status(&mut self, path: u8) -> netrig_transport::PathStatus {
        self.client().path_status(PathId(path)).expect("a path")
    }

    /// The incidents of the client for which `pick` returns a value.
    pub fn incidents<T>(&self, pick: impl Fn(&Incident) -> Option<T>) -> Vec<(Instant, T)> {
        self.client.incidents.iter().filter_map(|(at, incident)| Some((*at, pick(incident)?))).collect()
    }

    /// The reply to `packet` of a host that has no association.
    pub fn stranger(packet: &Crossing, flow: netrig_core::FiveTuple) -> Option<netrig_transport::Packet> {
        let header =
            netrig_core::Header { flow, ip_len: packet.ip_len, dscp: Dscp(0), ecn: netrig_core::Ecn::NotEct };
        out_of_the_blue(&header, &packet.packet)
    }
}

/// The packet after it was encoded and decoded.
pub fn through_bytes(packet: netrig_transport::Packet) -> netrig_transport::Packet {
    let Payload::Sctp(body) = &packet.payload else { panic!("SCTP speaks SCTP") };
    let bytes = netrig_transport::sctp::wire::encode(body);
    assert_eq!(bytes.len() as u32, body.wire_len(), "{body:?}");
    let body = netrig_transport::sctp::wire::decode(&bytes).expect("own packets are well-formed");
    netrig_transport::Packet { payload: Payload::Sctp(Box::new(body)), ..packet }
}

/// A packet with any chunks from the remote end of a path to `to`, as a hostile peer may send it.
pub fn forged(to: Side, path: usize, tag: u32, chunks: Vec<Chunk>) -> netrig_transport::Packet {
    let ports = match to {
        Side::Client => (PORT, 1000),
        Side::Server => (1000, PORT),
    };
    let (src, dst) = match to {
        Side::Client => (server_address(path), client_address(path)),
        Side::Server => (client_address(path), server_address(path)),
    };
    let packet = Packet {
        src_port: ports.0,
        dst_port: ports.1,
        verification_tag: tag,
        chunks: chunks.into_iter().collect(),
    };
    let flow = netrig_core::FiveTuple {
        src,
        dst,
        src_port: ports.0,
        dst_port: ports.1,
        protocol: netrig_core::protocol::SCTP,
    };
    let header = netrig_core::Header {
        flow,
        ip_len: 20 + packet.wire_len(),
        dscp: Dscp(0),
        ecn: netrig_core::Ecn::NotEct,
    };
    netrig_transport::Packet { header, payload: Payload::Sctp(Box::new(packet)) }
}

/// Returns true only for the first packet for which `is` returns true.
pub fn first(is: impl Fn(&Crossing) -> bool) -> impl FnMut(&Crossing) -> bool {
    let mut done = false;
    move |crossing| {
        let hit = !done && is(crossing);
        done |= hit;
        hit
    }
}

/// A DATA chunk that contains a whole unordered message of `bytes` bytes.
pub fn message_chunk(tsn: Serial, bytes: u64) -> chunk::Data {
    chunk::Data {
        tsn,
        stream: StreamId(0),
        ssn: 0,
        ppid: 0,
        unordered: true,
        beginning: true,
        ending: true,
        immediate: false,
        data: Data::Fill(bytes),
    }
}
