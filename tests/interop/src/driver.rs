//! netrig's end of an association in real time: one association over raw sockets, driven by one loop.

use std::fmt;
use std::sync::Arc;

use netrig_core::{
    ConnectionEvent, Data, Delivery, Dscp, Duration, Endpoint as _, EndpointOutput, Instant, Lane, Link as _,
    Seeds, StreamId, drain,
};
use netrig_link::{Line, LineSettings};
use netrig_transport::sctp::{Association, Config, Endpoints, Listener, ListenerResponse, out_of_the_blue};
use netrig_transport::{Connection as _, Packet, Payload};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::STREAMS;
use crate::network::{Network, Side};
use crate::record::{Outcome, PathTally};
use crate::socket::{RawSocket, Received};

/// The port of the end that listens. The other end has the next port.
const SERVER_PORT: u16 = 6000;

/// Time limit of an association. A longer one has failed.
const LONGEST: Duration = Duration::from_secs(150);

/// Maximum sleep of the loop, so that it notices events other than packets and timers.
const NAP: Duration = Duration::from_millis(10);

/// The actions of netrig's upper layer.
#[derive(Default)]
pub struct User {
    /// The data to send on each stream as soon as the association is established.
    pub sends: Vec<Arc<[u8]>>,
    /// Maximum length of a message, bytes.
    pub longest_message: usize,
    /// Whether the association is shut down after all data have been handed over.
    pub closes: bool,
    /// An additional action during the transfer.
    pub step: Option<Step>,
}

/// An action that is carried out once a number of bytes has been delivered or acknowledged.
pub struct Step {
    /// Bytes delivered here plus bytes acknowledged by the peer.
    pub after: u64,
    /// The action.
    pub then: Action,
}

/// An action during the transfer.
pub enum Action {
    /// Shuts the association down.
    Close,
    /// Aborts the association.
    Abort,
    /// Calls a function that acts outside of the association.
    Call(Box<dyn FnOnce()>),
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("streams", &self.sends.len()).finish_non_exhaustive()
    }
}

/// The SCTP state of netrig's end.
#[derive(Debug)]
enum Host {
    /// No peer has connected yet.
    Listening(Box<Listener>),
    /// There is an association.
    Associated(Box<Association>),
}

/// The socket of a path, and its two lines.
#[derive(Debug)]
struct Wire {
    socket: RawSocket,
    outward: Line<Packet>,
    inward: Line<Packet>,
}

/// netrig's end of an association in real time.
#[derive(Debug)]
pub struct Driver {
    host: Host,
    wires: Vec<Wire>,
    user: User,
    outcome: Outcome,
}

impl Driver {
    /// An end that initiates the association.
    pub fn client(network: &Network, config: &Config, line: &LineSettings, seed: u64, user: User) -> Self {
        let mut routes = network.routes();
        let alternates = routes.split_off(1);
        let endpoints = Endpoints {
            local_port: SERVER_PORT + 1,
            remote_port: SERVER_PORT,
            primary: routes[0],
            alternates,
            dscp: Dscp(0),
        };
        let seeds = Seeds::new(seed);
        let association = Association::new(config.clone(), &endpoints, seeds.stream("association"));
        Self::new(network, Host::Associated(Box::new(association)), line, seeds, user)
    }

    /// An end that waits for the peer to initiate an association.
    pub fn server(network: &Network, config: &Config, line: &LineSettings, seed: u64, user: User) -> Self {
        let seeds = Seeds::new(seed);
        let stream = seeds.stream("listener");
        let listener = Listener::new(config.clone(), SERVER_PORT, network.routes(), Dscp(0), stream);
        Self::new(network, Host::Listening(Box::new(listener)), line, seeds, user)
    }

    fn new(network: &Network, host: Host, line: &LineSettings, seeds: Seeds, user: User) -> Self {
        let line = |path: usize, direction: &str| {
            let name = format!("path{path}/{direction}");
            Line::new(line, &seeds, &name).expect("the test describes a line that can be")
        };
        let open = |address| RawSocket::open(address).expect("root may open a raw socket");
        let sockets: Vec<_> =
            network.namespace(Side::Netrig).within(|| network.addresses(Side::Netrig).map(open).collect());
        let wires = sockets.into_iter().enumerate().map(|(path, socket)| Wire {
            socket,
            outward: line(path, "outward"),
            inward: line(path, "inward"),
        });
        let outcome = Outcome {
            epoch: std::time::Instant::now(),
            closed: None,
            received: vec![Vec::new(); usize::from(STREAMS)],
            counters: Default::default(),
            paths: network.routes().into_iter().map(PathTally::new).collect(),
            incidents: Vec::new(),
            progress: Vec::new(),
            undecodable: Vec::new(),
            lateness: Duration::ZERO,
            step_at: None,
        };
        Self { host, wires: wires.collect(), user, outcome }
    }

    /// Runs until the association is over and `done` returns true. Until then the host still answers messages of a peer
    /// that has not yet received the end.
    ///
    /// # Panics
    /// If it takes too long, or a socket fails.
    pub fn run(mut self, mut done: impl FnMut() -> bool) -> Outcome {
        let mut buffer = vec![0; 65_536];
        let now = self.now();
        if let Host::Associated(association) = &mut self.host {
            association.open(now);
            self.begin(now);
        }
        while self.outcome.closed.is_none() || !done() {
            self.sleep();
            let now = self.now();
            assert!(now - Instant::ZERO < LONGEST, "not over after {LONGEST}:\n{}", self.outcome.log());
            self.read(now, &mut buffer);
            self.deliver(now);
            self.expire(now);
            self.follow_plan(now);
            self.write(now);
        }
        for (wire, tally) in self.wires.iter().zip(&self.outcome.paths) {
            for (line, counters) in [(&wire.outward, &tally.outward), (&wire.inward, &tally.inward)] {
                assert_eq!(counters.balance(line.inside(Lane::ONLY)), Ok(()));
            }
        }
        self.outcome
    }

    fn now(&self) -> Instant {
        Instant::ZERO + Duration::from(self.outcome.epoch.elapsed())
    }

    /// Hands over all data of the user, alternating between the streams, in messages of varying length.
    fn begin(&mut self, now: Instant) {
        let Host::Associated(association) = &mut self.host else { return };
        let mut left: Vec<_> = self.user.sends.iter().map(|data| &data[..]).collect();
        let streams = left.len();
        for number in 0.. {
            let Some(content) = left.get_mut(number % streams.max(1)) else { break };
            let length = (1 + number * 2741 % self.user.longest_message).min(content.len());
            let (message, rest) = content.split_at(length);
            *content = rest;
            association.send(now, StreamId((number % streams) as u16), Data::Bytes(message.into()));
            if left.iter().all(|content| content.is_empty()) {
                break;
            }
        }
        if self.user.closes {
            association.close(now);
        }
        self.settle(now);
    }

    /// Waits for a packet or a deadline.
    fn sleep(&mut self) {
        let association = match &self.host {
            Host::Associated(association) => association.poll_timeout(),
            Host::Listening(_) => None,
        };
        let lines =
            self.wires.iter().flat_map(|wire| [wire.outward.poll_timeout(), wire.inward.poll_timeout()]);
        let deadline = lines.chain([association]).flatten().min();
        let wait = deadline.map_or(NAP, |at| at.since(self.now()).min(NAP));
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait.as_nanos() as i64 };
        let mut fds: Vec<_> =
            self.wires.iter().map(|wire| PollFd::from_borrowed_fd(wire.socket.fd(), PollFlags::IN)).collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("waiting for packets: {error}"),
        }
        let late = deadline.map_or(Duration::ZERO, |at| self.now() - at);
        self.outcome.lateness = self.outcome.lateness.max(late);
    }

    /// Moves received packets from the sockets to the lines.
    fn read(&mut self, now: Instant, buffer: &mut [u8]) {
        for (wire, tally) in self.wires.iter_mut().zip(&mut self.outcome.paths) {
            while let Some(received) = wire.socket.receive(buffer).expect("a raw socket can be read") {
                match received {
                    Received::Packet(packet) => wire.inward.offer(now, Lane::ONLY, packet, &mut tally.inward),
                    Received::Undecodable(error) => self.outcome.undecodable.push(error),
                }
            }
        }
    }

    /// Moves packets from the lines to the association.
    fn deliver(&mut self, now: Instant) {
        for path in 0..self.wires.len() {
            loop {
                let (wire, tally) = (&mut self.wires[path], &mut self.outcome.paths[path]);
                let Some(Delivery { packet, .. }) = wire.inward.poll_deliver(now, &mut tally.inward) else {
                    break;
                };
                if packet.payload.carries_data() {
                    tally.data_received.push(now);
                }
                self.handle(now, packet);
            }
        }
    }

    /// Handles a received packet.
    fn handle(&mut self, now: Instant, packet: Packet) {
        match &mut self.host {
            Host::Listening(listener) => match listener.handle_packet(now, packet) {
                Some(ListenerResponse::Reply(reply)) => self.send(now, reply),
                Some(ListenerResponse::Accepted(association)) => {
                    self.host = Host::Associated(association);
                    self.settle(now);
                    self.begin(now);
                }
                None => {}
            },
            Host::Associated(_) if self.outcome.closed.is_some() => {
                let Payload::Sctp(sctp) = &packet.payload else { return };
                if let Some(reply) = out_of_the_blue(&packet.header, sctp) {
                    self.send(now, reply);
                }
            }
            Host::Associated(association) => {
                association.handle_packet(now, packet);
                self.settle(now);
            }
        }
    }

    fn expire(&mut self, now: Instant) {
        if let Host::Associated(association) = &mut self.host
            && association.poll_timeout().is_some_and(|at| at <= now)
        {
            association.handle_timeout(now);
            self.settle(now);
        }
    }

    /// Carries out the user's step if it is due.
    fn follow_plan(&mut self, now: Instant) {
        let Host::Associated(association) = &mut self.host else { return };
        let far = self.outcome.progress.last().map_or(0, |(_, bytes)| *bytes);
        let Some(step) = self.user.step.take_if(|step| step.after <= far) else { return };
        self.outcome.step_at = Some(now);
        match step.then {
            Action::Close => association.close(now),
            Action::Abort => association.abort(now),
            Action::Call(call) => call(),
        }
        self.settle(now);
    }

    /// Handles all output of the association.
    fn settle(&mut self, now: Instant) {
        let Host::Associated(association) = &mut self.host else { return };
        let (mut packets, mut events) = (Vec::new(), Vec::new());
        drain(&mut **association, now, |output| match output {
            EndpointOutput::Packet(packet) => packets.push(packet),
            EndpointOutput::Event(event) => events.push(event),
        });
        while let Some(incident) = association.poll_incident() {
            self.outcome.incidents.push((now, incident));
        }
        let counters = association.counters();
        let far = counters.bytes_acknowledged + counters.bytes_delivered;
        if self.outcome.progress.last().map_or(0, |(_, bytes)| *bytes) < far {
            self.outcome.progress.push((now, far));
        }
        self.outcome.counters = counters;
        packets.into_iter().for_each(|packet| self.send(now, packet));
        events.into_iter().for_each(|event| self.tell(event));
    }

    fn tell(&mut self, event: ConnectionEvent) {
        match event {
            ConnectionEvent::Received { stream, data: Data::Bytes(bytes) } => {
                self.outcome.received[usize::from(stream.0)].extend_from_slice(&bytes);
            }
            ConnectionEvent::Closed(reason) => self.outcome.closed = Some(reason),
            _ => {}
        }
    }

    /// Offers a packet to the line of its path.
    fn send(&mut self, now: Instant, packet: Packet) {
        let flow = packet.header.flow;
        let path = self.outcome.paths.iter().position(|path| path.addresses.local == flow.src).unwrap_or(0);
        self.wires[path].outward.offer(now, Lane::ONLY, packet, &mut self.outcome.paths[path].outward);
    }

    /// Moves packets from the lines to the sockets.
    fn write(&mut self, now: Instant) {
        for (wire, tally) in self.wires.iter_mut().zip(&mut self.outcome.paths) {
            while let Some(Delivery { packet, .. }) = wire.outward.poll_deliver(now, &mut tally.outward) {
                let sent = wire.socket.send(&packet).expect("a raw socket can be written");
                tally.refused += u64::from(!sent);
                if sent && packet.payload.carries_data() {
                    tally.data_sent.push(now);
                }
            }
        }
    }
}
