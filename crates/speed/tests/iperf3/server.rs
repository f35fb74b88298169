//! A server of the sessions: one port of TCP and UDP, any number of clients.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_core::{Duration, Instant};
use netrig_speed::iperf3::datagram::{self, Counter};
use netrig_speed::iperf3::{
    Cookie, Document, Limits, Opening, Parameters, Results, Role, ServerEvent, ServerOutput, ServerSession,
    SessionError, Start, Transport, Turns,
};

use crate::flow::{self, Flow};

/// What came of a session.
#[derive(Debug)]
pub struct Ended {
    pub asked: Option<Parameters>,
    pub ours: Option<Results>,
    pub theirs: Option<Results>,
    pub outcome: Result<(), SessionError>,
    /// As `iperf3 -s -J` would print it.
    pub document: Option<String>,
}

/// A stream that belongs to a session.
enum Arrival {
    Tcp(TcpStream),
    Udp(SocketAddr),
}

type Datagrams = BTreeMap<SocketAddr, (Arc<Flow>, Counter)>;

struct Shared {
    limits: Limits,
    busy: bool,
    sessions: Mutex<BTreeMap<Cookie, Sender<Arrival>>>,
    turns: Mutex<Turns<Cookie>>,
    datagrams: Mutex<Datagrams>,
    udp: UdpSocket,
    ended: Sender<Ended>,
    over: AtomicBool,
}

/// A server that runs until it is dropped.
pub struct Server {
    pub address: SocketAddr,
    pub ended: Receiver<Ended>,
    shared: Arc<Shared>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.over.store(true, Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

impl Server {
    pub fn start(limits: Limits, busy: bool) -> Self {
        let (listener, udp) = loop {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            if let Ok(udp) = UdpSocket::bind(listener.local_addr().unwrap()) {
                break (listener, udp);
            }
        };
        let address = listener.local_addr().unwrap();
        let (sender, ended) = channel();
        let shared = Arc::new(Shared {
            limits,
            busy,
            sessions: Mutex::default(),
            turns: Mutex::default(),
            datagrams: Mutex::default(),
            udp,
            ended: sender,
            over: AtomicBool::new(false),
        });
        let of_datagrams = Arc::clone(&shared);
        std::thread::spawn(move || of_datagrams.read_datagrams());
        let of_connections = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if of_connections.over.load(Relaxed) {
                    return;
                }
                let shared = Arc::clone(&of_connections);
                std::thread::spawn(move || shared.connection(stream.unwrap()));
            }
        });
        Self { address, ended, shared }
    }

    /// What came of the next session that ends.
    pub fn next(&self) -> Ended {
        self.ended.recv_timeout(StdDuration::from_secs(60)).unwrap()
    }
}

impl Shared {
    fn read_datagrams(&self) {
        self.udp.set_read_timeout(Some(StdDuration::from_millis(100))).unwrap();
        let mut buffer = vec![0; 1 << 16];
        while !self.over.load(Relaxed) {
            let Ok((len, from)) = self.udp.recv_from(&mut buffer) else { continue };
            let datagram = &buffer[..len];
            let known = self.datagrams.lock().unwrap().get(&from).cloned();
            match (known, datagram::reply(datagram)) {
                (Some(_), Some(reply)) => drop(self.udp.send_to(&reply, from)),
                (Some((flow, counter)), None) => flow.receive(counter, datagram),
                (None, Some(_)) => {
                    let session = self.turns.lock().unwrap().of(from.ip());
                    let sessions = self.sessions.lock().unwrap();
                    session.and_then(|cookie| sessions.get(&cookie)).map(|to| to.send(Arrival::Udp(from)));
                }
                (None, None) => {}
            }
        }
    }

    /// Whose it is, its first bytes tell.
    fn connection(&self, mut stream: TcpStream) {
        let mut bytes = [0; netrig_speed::iperf3::COOKIE_LEN];
        if stream.read_exact(&mut bytes).is_err() {
            return;
        }
        let Opening::Cookie(cookie) = Cookie::open(&bytes) else { return };
        let (sender, arrivals) = channel();
        {
            let mut sessions = self.sessions.lock().unwrap();
            if let Some(session) = sessions.get(&cookie) {
                session.send(Arrival::Tcp(stream)).unwrap();
                return;
            }
            sessions.insert(cookie, sender);
        }
        let ended = Control::new(self, cookie, stream).run(&arrivals);
        self.sessions.lock().unwrap().remove(&cookie);
        let _ = self.ended.send(ended);
    }
}

/// A session and what belongs to it.
struct Control<'a> {
    shared: &'a Shared,
    cookie: Cookie,
    stream: TcpStream,
    peer: SocketAddr,
    epoch: StdInstant,
    session: ServerSession,
    asked: Option<Parameters>,
    waits: bool,
    flows: Vec<(Arc<Flow>, Option<Arc<TcpStream>>)>,
    threads: Vec<std::thread::JoinHandle<()>>,
    began: StdInstant,
    warm: bool,
    seconds: f64,
    ours: Option<Results>,
    theirs: Option<Results>,
}

impl<'a> Control<'a> {
    fn new(shared: &'a Shared, cookie: Cookie, stream: TcpStream) -> Self {
        let peer = stream.peer_addr().unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(StdDuration::from_millis(5))).unwrap();
        Self {
            shared,
            cookie,
            stream,
            peer,
            epoch: StdInstant::now(),
            session: ServerSession::new(Instant::ZERO, shared.limits),
            asked: None,
            waits: false,
            flows: Vec::new(),
            threads: Vec::new(),
            began: StdInstant::now(),
            warm: true,
            seconds: 0.0,
            ours: None,
            theirs: None,
        }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + Duration::from(self.epoch.elapsed())
    }

    fn run(mut self, arrivals: &Receiver<Arrival>) -> Ended {
        let mut buffer = vec![0; 4096];
        loop {
            while let Some(event) = self.session.poll_event() {
                if let ServerEvent::Over(outcome) = event {
                    self.flush();
                    return self.end(outcome);
                }
                self.handle(event);
            }
            self.flush();
            match self.stream.read(&mut buffer) {
                Ok(0) => self.session.handle_close(),
                Ok(len) => self.session.handle_bytes(self.now(), &buffer[..len]),
                Err(_) => {}
            }
            arrivals.try_iter().for_each(|arrival| self.open(arrival));
            if self.waits && self.shared.turns.lock().unwrap().of(self.peer.ip()) == Some(self.cookie) {
                self.waits = false;
                self.session.admit(self.now());
            }
            if let Some(asked) = self.asked.as_ref().filter(|_| !self.warm && !self.threads.is_empty())
                && self.began.elapsed().as_secs() >= asked.omit.into()
            {
                self.warm = true;
                self.began = StdInstant::now();
                self.flows.iter().for_each(|(flow, _)| flow.omit());
            }
            self.session.handle_timeout(self.now());
        }
    }

    fn flush(&mut self) {
        while let Some(bytes) = self.session.poll_transmit() {
            let _ = self.stream.write_all(&bytes);
        }
    }

    fn open(&mut self, arrival: Arrival) {
        let Some(place) = self.session.open_stream(self.now()) else { return };
        let (remote, stream) = match arrival {
            Arrival::Tcp(stream) => (stream.peer_addr().unwrap(), Some(Arc::new(stream))),
            Arrival::Udp(from) => (from, None),
        };
        let flow = Arc::new(Flow::new(place, self.stream.local_addr().unwrap(), remote));
        if stream.is_none() {
            let counter = self.asked.as_ref().unwrap().counter;
            self.shared.datagrams.lock().unwrap().insert(remote, (Arc::clone(&flow), counter));
            let reply = datagram::reply(&datagram::CONNECT).unwrap();
            self.shared.udp.send_to(&reply, remote).unwrap();
        }
        self.flows.push((flow, stream));
    }

    fn handle(&mut self, event: ServerEvent) {
        match event {
            ServerEvent::Asked(asked) => {
                let udp = asked.transport == Transport::Udp;
                self.warm = asked.omit == 0;
                self.asked = Some(*asked);
                if self.shared.busy {
                    self.session.deny();
                } else if udp && !self.shared.turns.lock().unwrap().ask(self.peer.ip(), self.cookie) {
                    self.waits = true;
                } else {
                    self.session.admit(self.now());
                }
            }
            ServerEvent::Start => {
                self.shared.turns.lock().unwrap().done(self.peer.ip(), self.cookie);
                self.began = StdInstant::now();
                self.threads =
                    self.flows.iter().filter_map(|(flow, stream)| self.carry(flow, stream.clone())).collect();
            }
            ServerEvent::Stop => self.stop(),
            ServerEvent::Results(theirs) => self.theirs = Some(*theirs),
            ServerEvent::Over(_) => {}
        }
    }

    fn carry(&self, flow: &Arc<Flow>, stream: Option<Arc<TcpStream>>) -> Option<std::thread::JoinHandle<()>> {
        let (flow, asked) = (Arc::clone(flow), self.asked.clone().unwrap());
        let udp = self.shared.udp.try_clone().unwrap();
        match stream {
            Some(stream) => Some(std::thread::spawn(move || flow.carry(&stream, &asked))),
            None if flow.receives => Some(std::thread::spawn(|| {})),
            None => Some(std::thread::spawn(move || flow.send_to(&udp, flow.path.remote, &asked))),
        }
    }

    fn stop(&mut self) {
        self.seconds = self.began.elapsed().as_secs_f64();
        self.flows.iter().for_each(|(flow, _)| flow.stop());
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        // A client that receives waits for that.
        self.flows.iter_mut().for_each(|(_, stream)| *stream = None);
        // Datagrams that are still on their way through the kernel.
        std::thread::sleep(StdDuration::from_millis(50));
        let asked = self.asked.as_ref().unwrap();
        let flows = self.flows.iter().map(|(flow, _)| &**flow);
        let mut ours = flow::results(flows, asked, self.seconds);
        if asked.server_output {
            ours.server_output = Some(ServerOutput::Text("what a server of netrig would print\n".into()));
        }
        self.session.results(self.now(), ours.clone());
        self.ours = Some(ours);
    }

    fn end(self, outcome: Result<(), SessionError>) -> Ended {
        self.shared.turns.lock().unwrap().done(self.peer.ip(), self.cookie);
        self.flows.iter().for_each(|(flow, _)| flow.stop());
        let document = self.asked.as_ref().zip(self.ours.as_ref()).map(|(asked, ours)| {
            let flows = self.flows.iter().map(|(flow, _)| &**flow);
            // At that point iperf3's server does not know what its client found.
            Document {
                start: Start {
                    version: "iperf 3.12".into(),
                    system: "Linux".into(),
                    unix_seconds: 0,
                    role: Role::Server { client: self.peer },
                    cookie: self.cookie.to_string(),
                    asked: asked.clone(),
                    mss: 32768,
                    send_buffer: 16384,
                    receive_buffer: 131_072,
                },
                streams: flow::readings(flows, asked, self.seconds, None),
                cpu: ours.cpu,
                remote_cpu: netrig_speed::iperf3::Cpu::default(),
                congestion: ours.congestion.clone(),
                remote_congestion: None,
                server_output: None,
                error: None,
            }
            .json()
        });
        Ended { asked: self.asked, ours: self.ours, theirs: self.theirs, outcome, document }
    }
}
