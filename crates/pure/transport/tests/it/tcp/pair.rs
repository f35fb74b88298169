//! Two TCP endpoints and a network between them: a small simulator for the tests.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use netrig_core::{
    CloseReason, ConnectionEvent, Data, Duration, Ecn, Endpoint, EndpointOutput, FiveTuple, Instant, Rate,
    StreamId, drain, protocol,
};
use netrig_transport::tcp::{Config, Connection, Segment};
use netrig_transport::{Connection as _, Incident, Packet, Payload, Profile, Serial, tcp};

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    Client,
    Server,
}

/// Treatment of a packet by the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Pass,
    Drop,
    Late(Duration),
    Twice,
    Mark,
}

/// A packet as it was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    pub at: Instant,
    pub from: Side,
    /// Number of the packet among all packets of this side, from 1.
    pub ordinal: u64,
    /// Number of the packet among the packets with data of this side, from 1. A packet without data has the number of
    /// the last packet with data.
    pub data_ordinal: u64,
    pub ip_len: u32,
    pub ecn: Ecn,
    pub segment: Segment,
}

impl Sent {
    /// Number of a segment of the client, from 1, if all segments have 1000 bytes.
    pub fn number(&self) -> u64 {
        u64::from(self.segment.seq.0.wrapping_sub(ISS.0.wrapping_add(1))) / 1000 + 1
    }
}

/// The initial sequence number of the client. It is chosen so that sequence numbers wrap around soon.
pub const ISS: Serial = Serial(u32::MAX - 2000);

type Network = Box<dyn FnMut(&Sent) -> Fate>;

/// The line in one direction: packets leave one after another at `rate`, and arrive `delay` later.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub delay: Duration,
    pub rate: Option<Rate>,
    /// Queue limit, packets. Packets beyond it are dropped.
    pub queue: usize,
    free_at: Instant,
}

pub struct Pair {
    pub client: Connection,
    pub server: Connection,
    pub now: Instant,
    pub lines: [Line; 2],
    pub network: Network,
    pub log: Vec<Sent>,
    /// For each side: the received data.
    pub received: [Vec<u8>; 2],
    pub received_len: [u64; 2],
    pub arrivals: [Vec<(Instant, u64)>; 2],
    pub connected: [Option<Instant>; 2],
    pub closed: [Option<(Instant, CloseReason)>; 2],
    pub finished: [bool; 2],
    /// Whether an end closes as soon as the other end has closed.
    pub follows: bool,
    pub writable: [u64; 2],
    pub incidents: [Vec<(Instant, Incident)>; 2],
    flying: BTreeMap<(Instant, u64), (Side, Packet)>,
    waiting: [VecDeque<Instant>; 2],
    sequence: u64,
    counts: [(u64, u64); 2],
    /// Whether the encoded length of packets is checked. The lengths of ns-2 differ from the encoded ones.
    counts_as_wire: bool,
}

pub const MS: fn(u64) -> Duration = Duration::from_millis;

pub fn at_ms(ms: u64) -> Instant {
    Instant::ZERO + MS(ms)
}

pub fn flow() -> FiveTuple {
    FiveTuple {
        src: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        dst: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
        src_port: 49_152,
        dst_port: 80,
        protocol: protocol::TCP,
    }
}

/// RFC behaviour with exactly predictable results: no delayed acknowledgements, no timestamps, and an MSS of 1000.
pub fn plain() -> Config {
    Config {
        ack_every: 1,
        timestamps: false,
        mss: netrig_core::Size::from_bytes(1000),
        ecn: tcp::EcnMode::Off,
        ..Config::of(Profile::Rfc)
    }
}

impl Pair {
    /// A client and a server with the same configuration and a one-way delay of 50 ms.
    pub fn new(config: &Config) -> Self {
        Self::between(config, config)
    }

    pub fn between(client: &Config, server: &Config) -> Self {
        let line = Line { delay: MS(50), rate: None, queue: usize::MAX, free_at: Instant::ZERO };
        let as_wire = |config: &Config| {
            config.option_bytes == tcp::OptionBytes::Counted && config.framing == tcp::Framing::Stream
        };
        Self {
            counts_as_wire: as_wire(client) && as_wire(server),
            client: Connection::connect(client.clone(), flow(), ISS),
            server: Connection::accept(server.clone(), flow().reversed(), Serial(7)),
            now: Instant::ZERO,
            lines: [line; 2],
            network: Box::new(|_| Fate::Pass),
            log: Vec::new(),
            received: Default::default(),
            received_len: [0; 2],
            arrivals: Default::default(),
            connected: [None; 2],
            closed: [None; 2],
            finished: [false; 2],
            follows: true,
            writable: [0; 2],
            incidents: Default::default(),
            flying: BTreeMap::new(),
            waiting: Default::default(),
            sequence: 0,
            counts: [(0, 0); 2],
        }
    }

    pub fn with_network(mut self, network: impl FnMut(&Sent) -> Fate + 'static) -> Self {
        self.network = Box::new(network);
        self
    }

    /// Drops the client's data packets with these data ordinals.
    pub fn dropping(self, ordinals: &'static [u64]) -> Self {
        self.with_network(move |sent| {
            let listed = sent.from == Side::Client
                && sent.segment.carries_data()
                && ordinals.contains(&sent.data_ordinal);
            if listed { Fate::Drop } else { Fate::Pass }
        })
    }

    pub fn with_rate(mut self, rate: &str, queue: usize) -> Self {
        for line in &mut self.lines {
            (line.rate, line.queue) = (Some(rate.parse().expect("a rate")), queue);
        }
        self
    }

    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.lines.iter_mut().for_each(|line| line.delay = delay);
        self
    }

    pub fn end(&mut self, side: Side) -> &mut Connection {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// Calls a function on one end, and sends the resulting packets.
    pub fn act(&mut self, side: Side, action: impl FnOnce(&mut Connection, Instant)) {
        let now = self.now;
        action(self.end(side), now);
        self.settle(side);
    }

    pub fn open(&mut self) {
        self.act(Side::Client, |client, now| client.open(now));
    }

    pub fn send(&mut self, side: Side, data: Data) {
        self.act(side, |end, now| end.send(now, StreamId(0), data));
    }

    pub fn send_bytes(&mut self, side: Side, bytes: &[u8]) {
        self.send(side, Data::Bytes(Arc::from(bytes)));
    }

    pub fn close(&mut self, side: Side) {
        self.act(side, |end, now| end.close(now));
    }

    fn settle(&mut self, side: Side) {
        let now = self.now;
        let mut packets = Vec::new();
        let mut events = Vec::new();
        drain(self.end(side), now, |output| match output {
            EndpointOutput::Packet(packet) => packets.push(packet),
            EndpointOutput::Event(event) => events.push(event),
        });
        while let Some(incident) = self.end(side).poll_incident() {
            self.incidents[side as usize].push((now, incident));
        }
        packets.into_iter().for_each(|packet| self.offer(side, packet));
        let finished = self.finished[side as usize];
        events.into_iter().for_each(|event| self.note(side, event));
        if self.follows && finished != self.finished[side as usize] && self.closed[side as usize].is_none() {
            self.close(side);
        }
    }

    fn note(&mut self, side: Side, event: ConnectionEvent) {
        let i = side as usize;
        assert!(self.closed[i].is_none(), "{event:?} after the end");
        match event {
            ConnectionEvent::Connected { .. } => self.connected[i] = Some(self.now),
            ConnectionEvent::Writable => self.writable[i] += 1,
            ConnectionEvent::Received { data, .. } => {
                self.received_len[i] += data.size();
                self.arrivals[i].push((self.now, data.size()));
                match data {
                    Data::Fill(n) => self.received[i].extend(std::iter::repeat_n(0, n.min(1 << 16) as usize)),
                    Data::Bytes(bytes) => self.received[i].extend_from_slice(&bytes),
                }
            }
            ConnectionEvent::PeerFinished => self.finished[i] = true,
            ConnectionEvent::Closed(reason) => self.closed[i] = Some((self.now, reason)),
        }
    }

    fn offer(&mut self, from: Side, mut packet: Packet) {
        let Payload::Tcp(segment) = &packet.payload else { panic!("not TCP") };
        if self.counts_as_wire {
            assert_eq!(packet.header.ip_len, packet.encode(&mut Vec::new()), "length of {segment:?}");
        }
        let (count, data_count) = &mut self.counts[from as usize];
        *count += 1;
        *data_count += u64::from(segment.carries_data());
        let sent = Sent {
            at: self.now,
            from,
            ordinal: *count,
            data_ordinal: *data_count,
            ip_len: packet.header.ip_len,
            ecn: packet.header.ecn,
            segment: segment.clone(),
        };
        let fate = (self.network)(&sent);
        self.log.push(sent);
        let extra = match fate {
            Fate::Drop => return,
            Fate::Late(by) => by,
            Fate::Mark => {
                if packet.header.ecn != Ecn::NotEct {
                    packet.header.ecn = Ecn::Ce;
                }
                Duration::ZERO
            }
            Fate::Twice => {
                self.fly(from, packet.clone(), Duration::ZERO);
                Duration::ZERO
            }
            Fate::Pass => Duration::ZERO,
        };
        self.fly(from, packet, extra);
    }

    fn fly(&mut self, from: Side, packet: Packet, extra: Duration) {
        let line = &mut self.lines[from as usize];
        let waiting = &mut self.waiting[from as usize];
        let leaves = match line.rate {
            None => self.now,
            Some(rate) => {
                while waiting.front().is_some_and(|begun| *begun <= self.now) {
                    waiting.pop_front();
                }
                if waiting.len() >= line.queue {
                    return;
                }
                let begins = line.free_at.max(self.now);
                if begins > self.now {
                    waiting.push_back(begins);
                }
                line.free_at = begins + rate.time_for(packet.header.ip_len.into());
                line.free_at
            }
        };
        self.sequence += 1;
        let to = if from == Side::Client { Side::Server } else { Side::Client };
        self.flying.insert((leaves + line.delay + extra, self.sequence), (to, packet));
    }

    /// Loses all packets in flight, including those in queues.
    pub fn lose_everything(&mut self) {
        self.flying.clear();
        self.waiting.iter_mut().for_each(VecDeque::clear);
    }

    fn next(&self) -> Option<Instant> {
        let packet = self.flying.keys().next().map(|(at, _)| *at);
        [packet, self.client.poll_timeout(), self.server.poll_timeout()].into_iter().flatten().min()
    }

    /// Advances to the next event. Returns false if there is none up to `until`.
    pub fn step(&mut self, until: Instant) -> bool {
        let Some(next) = self.next().filter(|next| *next <= until) else { return false };
        assert!(next >= self.now, "time ran backwards from {} to {next}", self.now);
        self.now = next;
        if let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 == next) {
            let (side, packet) = entry.remove();
            self.end(side).handle_packet(next, packet);
            self.settle(side);
            return true;
        }
        for side in [Side::Client, Side::Server] {
            if self.end(side).poll_timeout().is_some_and(|at| at <= next) {
                self.end(side).handle_timeout(next);
                self.settle(side);
            }
        }
        true
    }

    /// Runs until there are no more events, or until `until`.
    pub fn run_until(&mut self, until: Instant) {
        let mut steps = 0u64;
        while self.step(until) {
            steps += 1;
            assert!(steps < 20_000_000, "no end at {}", self.now);
        }
        self.now = self.now.max(until);
    }

    /// Runs for `span`.
    pub fn run(&mut self, span: Duration) {
        self.run_until(self.now + span);
    }

    /// Opens the connection, and runs until both ends are connected.
    pub fn connect(&mut self) {
        self.open();
        while self.connected.iter().any(Option::is_none) {
            assert!(self.step(at_ms(600_000)), "not connected");
        }
    }

    /// The packets of one side that satisfy a condition.
    pub fn sent(&self, from: Side, condition: impl Fn(&Sent) -> bool) -> Vec<&Sent> {
        self.log.iter().filter(|sent| sent.from == from && condition(sent)).collect()
    }

    /// Number of the client's data packets in each round trip of duration `round`, from `start`.
    pub fn per_round(&self, start: Instant, round: Duration, rounds: usize) -> Vec<usize> {
        let mut counts = vec![0; rounds];
        for sent in self.sent(Side::Client, |sent| sent.segment.carries_data() && sent.at >= start) {
            let n = (sent.at.since(start).as_nanos() / round.as_nanos()) as usize;
            if let Some(count) = counts.get_mut(n) {
                *count += 1;
            }
        }
        counts
    }
}
