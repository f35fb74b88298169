//! A relay between the tester and a server that plants one fault.
//!
//! For each address of the tester, the relay has a socket towards the server. It replaces addresses in messages, so
//! that messages of the server to a contact also pass the relay.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::faults::PlantedFault;
use super::passing::{FaultMemory, PassingMessage};

/// Interval between two checks of the stop flag.
const LOOK: Duration = Duration::from_millis(20);

/// The relay, which runs until it is dropped.
pub struct FaultyRelay {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl FaultyRelay {
    /// Starts a relay over UDP. Without a fault it forwards everything.
    pub fn over_datagrams(server: SocketAddr, fault: Option<&'static PlantedFault>) -> Self {
        let front = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = front.local_addr().unwrap();
        Self::start(address, move |stop| RelayedDatagrams::new(front, server, fault).run(stop))
    }

    /// Starts a relay over TCP for connections of the tester to the server.
    pub fn over_connections(server: SocketAddr, fault: &'static str) -> Self {
        let front = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        front.set_nonblocking(true).unwrap();
        let address = front.local_addr().unwrap();
        Self::start(address, move |stop| {
            std::thread::scope(|scope| {
                while !stop.load(Ordering::Relaxed) {
                    match front.accept() {
                        Ok((tester, _)) => {
                            scope.spawn(move || connection(tester, server, fault, stop));
                        }
                        Err(_) => std::thread::sleep(LOOK),
                    }
                }
            });
        })
    }

    fn start(address: SocketAddr, run: impl FnOnce(&AtomicBool) + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        Self { address, stop, threads: vec![std::thread::spawn(move || run(&flag))] }
    }
}

impl Drop for FaultyRelay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // An error is ignored: if the thread panicked, the test has failed.
            let _ = thread.join();
        }
    }
}

/// A message that waits for its time.
struct DelayedMessage {
    due: Instant,
    /// Index of the socket that sends the message; `None` for the socket towards the tester.
    from: Option<usize>,
    to: SocketAddr,
    bytes: Vec<u8>,
}

struct RelayedDatagrams {
    front: UdpSocket,
    server: SocketAddr,
    fault: Option<&'static PlantedFault>,
    /// The addresses of the tester, each with the relay's socket for it.
    ends: Vec<(SocketAddr, UdpSocket)>,
    waiting: Vec<DelayedMessage>,
    memory: FaultMemory,
}

impl RelayedDatagrams {
    fn new(front: UdpSocket, server: SocketAddr, fault: Option<&'static PlantedFault>) -> Self {
        front.set_nonblocking(true).unwrap();
        Self { front, server, fault, ends: Vec::new(), waiting: Vec::new(), memory: FaultMemory::default() }
    }

    fn run(mut self, stop: &AtomicBool) {
        let mut buffer = vec![0; 65_536];
        while !stop.load(Ordering::Relaxed) {
            let mut is_idle = true;
            while let Ok((len, tester)) = self.front.recv_from(&mut buffer) {
                is_idle = false;
                let end = self.end_of(tester);
                let text = self.towards_server(&latin1(&buffer[..len]));
                self.pass(end, false, text);
            }
            for end in 0..self.ends.len() {
                while let Ok((len, _)) = self.ends[end].1.recv_from(&mut buffer) {
                    is_idle = false;
                    self.pass(end, true, latin1(&buffer[..len]));
                }
            }
            let now = Instant::now();
            let (due, later) = self.waiting.drain(..).partition(|waiting| waiting.due <= now);
            self.waiting = later;
            let due: Vec<DelayedMessage> = due;
            for DelayedMessage { from, to, bytes, .. } in due {
                let socket = from.map_or(&self.front, |end| &self.ends[end].1);
                // An error is ignored: without a listener the message is lost, as it would be without the relay.
                let _ = socket.send_to(&bytes, to);
            }
            if is_idle {
                std::thread::sleep(Duration::from_micros(300));
            }
        }
    }

    fn end_of(&mut self, tester: SocketAddr) -> usize {
        self.ends.iter().position(|(known, _)| *known == tester).unwrap_or_else(|| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            socket.set_nonblocking(true).unwrap();
            self.ends.push((tester, socket));
            self.ends.len() - 1
        })
    }

    fn pass(&mut self, end: usize, to_tester: bool, text: String) {
        let tester = self.ends[end].0;
        let mut passing = PassingMessage {
            to_tester,
            tester,
            server: self.server,
            text,
            memory: &mut self.memory,
            is_dropped: false,
            delay: Duration::ZERO,
            to_next_port: false,
            copies: Vec::new(),
            to_caller: None,
            to_contact: None,
        };
        if let Some(fault) = self.fault {
            (fault.plant)(&mut passing);
        }
        let PassingMessage {
            text, is_dropped, delay, to_next_port, mut copies, to_caller, to_contact, ..
        } = passing;
        if !is_dropped {
            copies.push((delay, text));
        }
        let now = Instant::now();
        for (after, text) in copies {
            let (from, to, text) = if to_tester {
                let port = tester.port() + u16::from(to_next_port);
                (None, SocketAddr::new(tester.ip(), port), self.towards_tester(&text))
            } else {
                (Some(end), self.server, text)
            };
            self.waiting.push(DelayedMessage { due: now + after, from, to, bytes: bytes_of(&text) });
        }
        if let Some(text) = to_contact {
            let text = self.towards_tester(&text);
            if let Some(to) = text.split(' ').nth(1).and_then(|uri| address_in(&format!("{uri} "))) {
                self.waiting.push(DelayedMessage { due: now, from: None, to, bytes: bytes_of(&text) });
            }
        }
        if let Some(text) = to_caller {
            // Without the server's Via, the message is sent to the address of the tester in the last Via.
            let text = self.towards_tester(&text);
            let vias = text.match_indices("\r\nVia: ").map(|(place, _)| place).collect::<Vec<_>>();
            let caller = vias.last().and_then(|place| address_in(&text[*place..]));
            if let (Some(caller), [first, second, ..]) = (caller, &*vias) {
                let text = format!("{}{}", &text[..*first], &text[*second..]);
                self.waiting.push(DelayedMessage {
                    due: now,
                    from: None,
                    to: caller,
                    bytes: bytes_of(&text),
                });
            }
        }
    }

    /// Replaces addresses of the tester by those of the relay's sockets, and the address of the relay by that of the
    /// server.
    fn towards_server(&mut self, text: &str) -> String {
        let (front, server) = (self.front.local_addr().unwrap().port(), self.server.port());
        each_port(text, |port| {
            if port == front {
                return server;
            }
            if port == server {
                return port;
            }
            let end = self.end_of((Ipv4Addr::LOCALHOST, port).into());
            self.ends[end].1.local_addr().unwrap().port()
        })
    }

    fn towards_tester(&self, text: &str) -> String {
        let (front, server) = (self.front.local_addr().unwrap().port(), self.server.port());
        let of = |port: u16| {
            let end = self.ends.iter().find(|(_, socket)| socket.local_addr().unwrap().port() == port);
            end.map_or(port, |(tester, _)| tester.port())
        };
        let text = each_port(text, |port| if port == server { front } else { of(port) });
        each_number(&text, "rport=", of)
    }
}

/// Changes each port after 127.0.0.1 and after the tester's own host name. Ports in the `uri` of credentials stay,
/// because the digest covers them.
fn each_port(text: &str, mut change: impl FnMut(u16) -> u16) -> String {
    let mut out = String::with_capacity(text.len());
    for (place, part) in text.split("uri=\"").enumerate() {
        let (kept, rest) = match part.find('"') {
            Some(end) if place > 0 => part.split_at(end),
            _ => ("", part),
        };
        if place > 0 {
            out.push_str("uri=\"");
        }
        out.push_str(kept);
        let rest = each_number(rest, "127.0.0.1:", &mut change);
        out.push_str(&each_number(&rest, "tester.example.invalid:", &mut change));
    }
    out
}

fn each_number(text: &str, before: &str, mut change: impl FnMut(u16) -> u16) -> String {
    let mut parts = text.split(before);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
        let number = part[..digits]
            .parse()
            .map_or_else(|_| part[..digits].to_owned(), |port| change(port).to_string());
        out.push_str(before);
        out.push_str(&number);
        out.push_str(&part[digits..]);
    }
    out
}

fn address_in(text: &str) -> Option<SocketAddr> {
    let rest = text.split("127.0.0.1:").nth(1)?;
    let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
    Some((Ipv4Addr::LOCALHOST, rest[..digits].parse().ok()?).into())
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

fn bytes_of(text: &str) -> Vec<u8> {
    text.chars().filter_map(|letter| u8::try_from(u32::from(letter)).ok()).collect()
}

/// The length of the first message; `None` if it is incomplete.
fn end_of_first(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = latin1(&bytes[..head]);
    let length = text.split("Content-Length:").nth(1)?.lines().next()?.trim().parse::<usize>().ok()?;
    Some(bytes.len().min(head + length))
}

/// Forwards bytes between a connection of the tester and one to the server, with a fault.
fn connection(tester: TcpStream, server: SocketAddr, fault: &str, stop: &AtomicBool) {
    let Ok(towards) = TcpStream::connect(server) else { return };
    let mut ends = [tester, towards];
    for end in &ends {
        end.set_nonblocking(true).unwrap();
    }
    let mut buffer = vec![0; 65_536];
    while !stop.load(Ordering::Relaxed) {
        let mut is_idle = true;
        for from in 0..2 {
            let len = match ends[from].read(&mut buffer) {
                Ok(0) => return,
                Ok(len) => len,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                Err(_) => return,
            };
            is_idle = false;
            let mut bytes = &buffer[..len];
            let is_of_tester = from == 0;
            let is_between = bytes.iter().all(|byte| [b'\r', b'\n'].contains(byte));
            let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|place| place + 4);
            match fault {
                "first-message-only" if is_of_tester => bytes = &bytes[..end_of_first(bytes).unwrap_or(len)],
                // The Via of such a request has a port without a listener.
                "answers-leave-the-connection" if !is_of_tester && latin1(bytes).contains("127.0.0.1:9;") => {
                    continue;
                }
                "pieces-refused" if is_of_tester && end.is_none() && !is_between => return,
                "empty-lines-end-it" if is_of_tester && bytes.starts_with(b"\r\n") => return,
                _ => {}
            }
            ends[1 - from].set_nonblocking(false).unwrap();
            if ends[1 - from].write_all(bytes).is_err() {
                return;
            }
            ends[1 - from].set_nonblocking(true).unwrap();
            if fault == "connections-closed" && !is_of_tester {
                return;
            }
        }
        if is_idle {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
