//! Machines on both ends of a network in memory with delay and loss.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use netrig_core::{Duration, Instant, Stream};
use netrig_sip::Message;
use netrig_sip::load::{
    Callee, CalleeAction, Caller, Directory, LoadOutput, Owner, Recipient, Record, Registrant, Scan,
    Scenario, Setup,
};

pub const RUN: u32 = 0xfeed_0001;
pub const DELAY: Duration = Duration::from_millis(1);

pub fn here() -> SocketAddr {
    "192.0.2.1:5060".parse().unwrap()
}

pub fn there() -> SocketAddr {
    "192.0.2.2:5060".parse().unwrap()
}

pub fn setup() -> Setup {
    let description = Bytes::from_static(
        b"v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nt=0 0\r\n\
        m=audio 6000 RTP/AVP 0\r\n",
    );
    Setup { description, longest_call: Duration::from_secs(300), ..Setup::new(RUN, here(), there()) }
}

/// The fate of datagrams.
pub trait Network {
    /// The arrival of a datagram; `None` if it is lost. `number` counts the datagrams of both directions from 0.
    fn carry(&mut self, now: Instant, number: usize, message: &Message) -> Option<Instant>;
}

impl<F: FnMut(Instant, usize, &Message) -> Option<Instant>> Network for F {
    fn carry(&mut self, now: Instant, number: usize, message: &Message) -> Option<Instant> {
        self(now, number, message)
    }
}

/// Each datagram is lost with this probability.
pub fn lossy(mut luck: Stream, probability: f64) -> impl Network {
    move |now: Instant, _: usize, _: &Message| (!luck.chance(probability)).then(|| now + DELAY)
}

pub fn perfect() -> impl Network {
    |now: Instant, _: usize, _: &Message| Some(now + DELAY)
}

/// Callers with these users.
pub fn caller(setup: Setup) -> Caller {
    let (names, passwords) = directories();
    Caller::new(setup, names, passwords).unwrap()
}

/// Names and passwords.
fn directories() -> (Directory, Directory) {
    (Directory::pattern("user", 4), Directory::Fixed(b"secret"[..].into()))
}

/// A line of the log of sent messages: time in ms, and message.
pub type Sent = (u64, String);

pub struct Pair<N> {
    pub caller: Caller,
    pub callee: Callee,
    pub registrant: Registrant,
    pub records: Vec<Record>,
    /// Requests that no scenario expects.
    pub unrequested: Vec<(&'static str, u16)>,
    pub sent: Vec<Sent>,
    /// The last message sent.
    pub last: Message,
    pub now: Instant,
    network: N,
    number: usize,
    /// Messages in transit by arrival and order: source, destination, bytes.
    flying: BTreeMap<(Instant, usize), (SocketAddr, SocketAddr, Vec<u8>)>,
}

impl<N: Network> Pair<N> {
    pub fn new(network: N, ringing: Duration) -> Self {
        let (names, passwords) = directories();
        let far = Setup { local: there(), server: here(), ..setup() };
        Self {
            caller: caller(setup()),
            registrant: Registrant::new(setup(), names, passwords, 4).unwrap(),
            callee: Callee::new(far, CalleeAction::Answer, ringing, [7; 16]).unwrap(),
            records: Vec::new(),
            unrequested: Vec::new(),
            sent: Vec::new(),
            last: netrig_sip::Request::new(netrig_sip::Method::Ack, "sip:a".parse().unwrap()).into(),
            now: Instant::ZERO,
            network,
            number: 0,
            flying: BTreeMap::new(),
        }
    }

    pub fn start(&mut self, scenario: Scenario) {
        let mut out = LoadOutput::default();
        self.caller.start(self.now, self.now, scenario, (1, 2), None, &mut out).unwrap();
        self.carry(here(), &mut out);
    }

    pub fn register(&mut self, expires: u32) {
        let mut out = LoadOutput::default();
        self.registrant.register(self.now, self.now, 3, expires, &mut out).unwrap();
        self.carry(here(), &mut out);
    }

    /// Sends a message of the server that a test made.
    pub fn inject(&mut self, message: &Message) {
        self.inject_bytes(&message.to_bytes());
    }

    /// Sends bytes that may not be a message.
    pub fn inject_bytes(&mut self, bytes: &[u8]) {
        self.flying.insert((self.now + DELAY, self.number), (there(), here(), bytes.to_vec()));
        self.number += 1;
    }

    /// Asserts that a sent message breaks no rule.
    pub fn carry(&mut self, from: SocketAddr, out: &mut LoadOutput) {
        for (to, bytes) in out.messages.iter() {
            let message = Message::parse(&Bytes::copy_from_slice(bytes)).unwrap();
            assert_eq!(message.violations(), [], "{message}");
            let what = match &message {
                Message::Request(request) => request.method.to_string(),
                Message::Response(response) => response.status.to_string(),
            };
            self.sent.push((self.now.as_nanos() / 1_000_000, what));
            if let Some(at) = self.network.carry(self.now, self.number, &message) {
                self.flying.insert((at, self.number), (from, to, bytes.to_vec()));
            }
            self.number += 1;
            self.last = message;
        }
        out.messages.clear();
        self.records.append(&mut out.records);
        self.unrequested.append(&mut out.unrequested);
    }

    /// Lets time pass until the last event, or until `end`.
    pub fn run(&mut self, end: Instant) {
        let mut out = LoadOutput::default();
        loop {
            let arrival = self.flying.keys().next().map(|(at, _)| *at);
            let timers = [
                self.caller.next_deadline(),
                self.callee.next_deadline(),
                self.registrant.next_deadline(),
                arrival,
            ];
            let Some(next) = timers.into_iter().flatten().min().filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            if arrival == Some(next) {
                let (_, (from, to, bytes)) = self.flying.pop_first().unwrap();
                self.deliver(from, &bytes, &mut out);
                self.carry(to, &mut out);
                continue;
            }
            self.caller.handle_timeout(self.now, &mut out);
            self.registrant.handle_timeout(self.now, &mut out);
            self.carry(here(), &mut out);
            self.callee.handle_timeout(self.now, &mut out);
            self.carry(there(), &mut out);
        }
        self.now = self.now.max(end);
    }

    fn deliver(&mut self, from: SocketAddr, bytes: &[u8], out: &mut LoadOutput) {
        let scan = Scan::of(bytes);
        match Recipient::of(&scan, RUN, 0).expect("it is of this run") {
            Recipient::Response(token, transaction) if token.owner == Owner::Registration => {
                self.registrant.handle_response(self.now, &scan, (token, transaction), out);
            }
            Recipient::Response(token, transaction) if token.owner == Owner::Callee => {
                self.callee.handle_response(self.now, &scan, (token, transaction), out);
            }
            Recipient::Response(token, transaction) => {
                self.caller.handle_response(self.now, &scan, (token, transaction), out);
            }
            Recipient::Caller(token) => self.caller.handle_request(self.now, from, &scan, token, out),
            Recipient::Callee => self.callee.handle_request(self.now, from, &scan, out),
        }
    }

    pub fn record(&self, side: netrig_sip::load::Side) -> Record {
        let own: Vec<_> = self.records.iter().filter(|record| record.side == side).collect();
        assert_eq!(own.len(), 1, "{own:?}");
        *own[0]
    }
}
