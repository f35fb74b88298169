//! A client of the sessions.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_core::{Duration, Instant};
use netrig_speed::iperf3::datagram::{self, Counter};
use netrig_speed::iperf3::{
    ClientEvent, ClientSession, Cookie, Cpu, Document, Parameters, Results, Role, SessionError, Start,
    Transport, stream_id,
};

use crate::flow::{self, Flow};

/// What came of a test.
#[derive(Debug)]
pub struct Ended {
    pub ours: Option<Results>,
    pub theirs: Option<Results>,
    pub outcome: Result<(), SessionError>,
    /// As `iperf3 -c -J` would print it.
    pub document: String,
}

enum Socket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

/// A server that was started a moment ago may not listen yet.
fn connect(server: SocketAddr) -> TcpStream {
    let until = StdInstant::now() + StdDuration::from_secs(20);
    loop {
        match TcpStream::connect(server) {
            Ok(stream) => return stream,
            Err(error) => assert!(StdInstant::now() < until, "{server}: {error}"),
        }
        std::thread::sleep(StdDuration::from_millis(20));
    }
}

fn open(server: SocketAddr, asked: &Parameters, cookie: Cookie, nth: u32) -> (Arc<Flow>, Arc<Socket>) {
    let (local, socket) = match asked.transport {
        Transport::Udp => {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(server).unwrap();
            socket.set_read_timeout(Some(StdDuration::from_secs(10))).unwrap();
            socket.send(&datagram::CONNECT).unwrap();
            let mut reply = [0; 4];
            let len = socket.recv(&mut reply).unwrap();
            assert!(datagram::is_reply(&reply[..len]), "{reply:?}");
            (socket.local_addr().unwrap(), Socket::Udp(socket))
        }
        _ => {
            let mut stream = TcpStream::connect(server).unwrap();
            stream.write_all(&cookie.bytes()).unwrap();
            (stream.local_addr().unwrap(), Socket::Tcp(stream))
        }
    };
    let flow = Flow::new((stream_id(nth), !asked.uploads(nth)), local, server);
    (Arc::new(flow), Arc::new(socket))
}

fn carry(flow: &Flow, socket: &Socket, asked: &Parameters) {
    match socket {
        Socket::Tcp(stream) => flow.carry(stream, asked),
        Socket::Udp(socket) if flow.receives => receive(flow, socket, asked.counter),
        Socket::Udp(socket) => flow.send_to(socket, flow.path.remote, asked),
    }
}

fn receive(flow: &Flow, socket: &UdpSocket, counter: Counter) {
    socket.set_read_timeout(Some(StdDuration::from_millis(500))).unwrap();
    let mut buffer = vec![0; 1 << 16];
    while let Ok(len) = socket.recv(&mut buffer) {
        flow.receive(counter, &buffer[..len]);
    }
}

/// A test from its beginning to its end.
pub fn run(server: SocketAddr, asked: &Parameters) -> Ended {
    let mut control = connect(server);
    control.set_nodelay(true).unwrap();
    control.set_read_timeout(Some(StdDuration::from_millis(5))).unwrap();
    let random = std::array::from_fn(|at| (control.local_addr().unwrap().port() >> (at % 12)) as u8);
    let (cookie, epoch) = (Cookie::new(random), StdInstant::now());
    let now = || Instant::ZERO + Duration::from(epoch.elapsed());
    let mut session = ClientSession::new(now(), cookie, asked.clone());
    let mut flows = Vec::new();
    let mut threads = Vec::new();
    let (mut began, mut warm, mut seconds) = (StdInstant::now(), asked.omit == 0, 0.0);
    let (mut ours, mut theirs) = (None, None);
    let mut buffer = vec![0; 4096];
    let outcome = loop {
        let mut stop = false;
        match session.poll_event() {
            Some(ClientEvent::Open) => {
                flows = (0..asked.streams()).map(|nth| open(server, asked, cookie, nth)).collect();
            }
            Some(ClientEvent::Start) => {
                began = StdInstant::now();
                let thread = |(flow, socket): &(Arc<Flow>, Arc<Socket>)| {
                    let (flow, socket, asked) = (Arc::clone(flow), Arc::clone(socket), asked.clone());
                    std::thread::spawn(move || carry(&flow, &socket, &asked))
                };
                threads = flows.iter().map(thread).collect();
            }
            Some(ClientEvent::TimeUp) => stop = true,
            Some(ClientEvent::Stop) => {
                // Receivers end when the server closes its streams, or nothing comes any more.
                flows.iter().for_each(|(flow, _)| flow.stop());
                threads.drain(..).for_each(|thread: std::thread::JoinHandle<()>| thread.join().unwrap());
                let found = flow::results(flows.iter().map(|(flow, _)| &**flow), asked, seconds);
                session.results(now(), &found);
                ours = Some(found);
            }
            Some(ClientEvent::Results(found)) => theirs = Some(*found),
            Some(ClientEvent::Over(outcome)) => {
                if let Some(bytes) = session.poll_transmit() {
                    let _ = control.write_all(&bytes);
                }
                break outcome;
            }
            None => {
                if let Some(bytes) = session.poll_transmit() {
                    control.write_all(&bytes).unwrap();
                }
                match control.read(&mut buffer) {
                    Ok(0) => session.handle_close(),
                    Ok(len) => session.handle_bytes(now(), &buffer[..len]),
                    Err(_) => {}
                }
                session.handle_timeout(now());
                let moved: u64 = flows.iter().map(|(flow, _)| flow.bytes()).sum();
                stop = asked.bytes > 0 && moved >= asked.bytes && !threads.is_empty();
            }
        }
        if !warm && !threads.is_empty() && began.elapsed().as_secs() >= asked.omit.into() {
            warm = true;
            began = StdInstant::now();
            flows.iter().for_each(|(flow, _)| flow.omit());
        }
        if stop && seconds == 0.0 {
            seconds = began.elapsed().as_secs_f64();
            flows.iter().filter(|(flow, _)| !flow.receives).for_each(|(flow, _)| flow.stop());
            std::thread::sleep(StdDuration::from_millis(20));
            session.stop(now());
        }
    };
    let flows = flows.iter().map(|(flow, _)| &**flow);
    let document = Document {
        start: Start {
            version: "iperf 3.12".into(),
            system: "Linux".into(),
            unix_seconds: 0,
            role: Role::Client { host: server.ip().to_string(), port: server.port() },
            cookie: cookie.to_string(),
            asked: asked.clone(),
            mss: 32768,
            send_buffer: 16384,
            receive_buffer: 131_072,
        },
        streams: flow::readings(flows, asked, seconds, theirs.as_ref()),
        cpu: ours.as_ref().map_or(Cpu::default(), |found: &Results| found.cpu),
        remote_cpu: theirs.as_ref().map_or(Cpu::default(), |found| found.cpu),
        congestion: ours.as_ref().and_then(|found| found.congestion.clone()),
        remote_congestion: theirs.as_ref().and_then(|found| found.congestion.clone()),
        server_output: theirs.as_ref().and_then(|found| found.server_output.clone()),
        error: outcome.as_ref().err().map(ToString::to_string),
    };
    Ended { ours, theirs, outcome, document: document.json() }
}
