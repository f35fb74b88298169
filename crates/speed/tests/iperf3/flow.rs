//! Streams as threads: as little as makes the sessions' tests real.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration as StdDuration, Instant as StdInstant, SystemTime};

use netrig_core::Duration;
use netrig_speed::iperf3::datagram::{Counter, Header, Reception};
use netrig_speed::iperf3::{
    Cpu, End, Interval, Parameters, Path, Results, StreamReadings, StreamResult, TcpReadings, Transport,
    UdpReadings,
};

/// Nothing has come for so long: nothing more will.
const SILENCE: StdDuration = StdDuration::from_millis(100);

/// A stream, and what was counted of it.
pub struct Flow {
    pub id: u32,
    pub receives: bool,
    pub path: Path,
    bytes: AtomicU64,
    omitted_bytes: AtomicU64,
    packets: AtomicU64,
    omitted_packets: AtomicU64,
    reception: Mutex<Reception>,
    stop: AtomicBool,
}

/// By the clock that stands in datagrams.
fn clock() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().into()
}

fn nothing_came(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

impl Flow {
    pub fn new((id, receives): (u32, bool), local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            id,
            receives,
            path: Path { socket: 4 + id, local, remote },
            bytes: AtomicU64::new(0),
            omitted_bytes: AtomicU64::new(0),
            packets: AtomicU64::new(0),
            omitted_packets: AtomicU64::new(0),
            reception: Mutex::default(),
            stop: AtomicBool::new(false),
        }
    }

    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Without the warm-up.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed) - self.omitted_bytes.load(Relaxed)
    }

    pub fn omit(&self) {
        self.omitted_bytes.store(self.bytes.load(Relaxed), Relaxed);
        self.omitted_packets.store(self.packets.load(Relaxed), Relaxed);
        self.reception.lock().unwrap().omit();
    }

    /// Waits until the rate allows so many bytes more. Whether it goes on.
    fn pace(&self, began: StdInstant, asked: &Parameters) -> bool {
        while !self.stop.load(Relaxed) {
            let allowed = began.elapsed().as_secs_f64() * asked.rate as f64 / 8.0;
            if asked.rate == 0 || self.bytes.load(Relaxed) as f64 <= allowed {
                return true;
            }
            std::thread::sleep(StdDuration::from_millis(2));
        }
        false
    }

    /// Over TCP: sends until it is stopped, or receives until nothing comes.
    pub fn carry(&self, mut stream: &TcpStream, asked: &Parameters) {
        let (mut block, began) = (vec![0; asked.len as usize], StdInstant::now());
        stream.set_read_timeout(Some(SILENCE)).unwrap();
        stream.set_write_timeout(Some(SILENCE)).unwrap();
        loop {
            let moved = if self.receives {
                stream.read(&mut block)
            } else if self.pace(began, asked) {
                stream.write(&block)
            } else {
                return;
            };
            match moved {
                Ok(0) => return,
                Ok(bytes) => drop(self.bytes.fetch_add(bytes as u64, Relaxed)),
                Err(error) if nothing_came(&error) && !self.stop.load(Relaxed) => {}
                Err(_) => return,
            }
        }
    }

    /// A datagram has come.
    pub fn receive(&self, counter: Counter, datagram: &[u8]) {
        if let Some(header) = Header::read(counter, datagram) {
            self.reception.lock().unwrap().receive(header, datagram.len(), clock());
            self.bytes.fetch_add(datagram.len() as u64, Relaxed);
        }
    }

    /// Over UDP: sends until it is stopped.
    pub fn send_to(&self, socket: &UdpSocket, peer: SocketAddr, asked: &Parameters) {
        let (mut datagram, began) = (vec![0; asked.len as usize], StdInstant::now());
        while self.pace(began, asked) {
            let number = self.packets.fetch_add(1, Relaxed) + 1;
            assert!(Header { sent: clock(), number }.write(asked.counter, &mut datagram));
            socket.send_to(&datagram, peer).unwrap();
            self.bytes.fetch_add(datagram.len() as u64, Relaxed);
        }
    }

    /// What is told to the other end.
    fn result(&self, asked: &Parameters, seconds: f64) -> StreamResult {
        let reception = *self.reception.lock().unwrap();
        let omitted = reception.omitted();
        let sends_tcp = !self.receives && asked.transport == Transport::Tcp;
        let (packets, omitted_packets) = if self.receives {
            (reception.packets, omitted.packets)
        } else {
            (self.packets.load(Relaxed), self.omitted_packets.load(Relaxed))
        };
        StreamResult {
            id: self.id,
            bytes: self.bytes(),
            retransmits: sends_tcp.then_some(0),
            jitter: reception.jitter,
            errors: reception.errors,
            omitted_errors: Some(omitted.errors),
            packets,
            omitted_packets: Some(omitted_packets),
            seconds: Some(seconds),
        }
    }

    /// What the document tells: one interval for the warm-up, if there is one, and one for all the rest.
    fn readings(&self, asked: &Parameters, seconds: f64, remote: Option<&StreamResult>) -> StreamReadings {
        let local = self.result(asked, seconds);
        let tcp = local.retransmits.map(|_| TcpReadings::default());
        let warm_up = Interval {
            end: asked.omit.into(),
            omitted: true,
            bytes: self.omitted_bytes.load(Relaxed),
            tcp,
            ..Interval::default()
        };
        let measured =
            Interval { end: seconds, bytes: local.bytes, tcp, udp: udp(&local), ..Interval::default() };
        let end = |result: &StreamResult| End {
            seconds: result.seconds.unwrap_or(seconds),
            bytes: result.bytes,
            retransmits: result.retransmits,
            udp: udp(result),
        };
        StreamReadings {
            path: self.path,
            sends: !self.receives,
            intervals: (asked.omit > 0).then_some(warm_up).into_iter().chain([measured]).collect(),
            local: Some(end(&local)),
            remote: remote.map(end),
        }
    }
}

fn udp(result: &StreamResult) -> UdpReadings {
    UdpReadings {
        packets: result.packets.saturating_sub(result.omitted_packets.unwrap_or(0)),
        lost: result.errors.saturating_sub(result.omitted_errors.unwrap_or(0)),
        out_of_order: 0,
        jitter: result.jitter,
    }
}

/// What an end tells of all streams.
pub fn results<'a>(flows: impl Iterator<Item = &'a Flow>, asked: &Parameters, seconds: f64) -> Results {
    let streams: Vec<_> = flows.map(|flow| flow.result(asked, seconds)).collect();
    let tcp = asked.transport == Transport::Tcp;
    let sends = streams.iter().any(|stream| stream.retransmits.is_some());
    Results {
        cpu: Cpu { total: 1.5, user: 0.5, system: 1.0 },
        counts_retransmits: if tcp { sends.then_some(true) } else { Some(false) },
        congestion: tcp.then(|| "cubic".into()),
        streams,
        server_output: None,
    }
}

/// What the document tells of all streams.
pub fn readings<'a>(
    flows: impl Iterator<Item = &'a Flow>,
    asked: &Parameters,
    seconds: f64,
    remote: Option<&Results>,
) -> Vec<StreamReadings> {
    flows.map(|flow| flow.readings(asked, seconds, remote.and_then(|all| all.stream(flow.id)))).collect()
}
