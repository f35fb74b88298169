//! Speed of one core with messages and calls in memory: `load_bench [SECONDS]`, in release. `load_bench messages NUMBER` only
//! scans that number of responses and writes that number of requests, to count their instructions.
//!
//! Prints rates per second of CPU time, the best of five: messages scanned, messages written, calls from INVITE to the 200 of
//! their BYE between a caller and a callee of one process (six messages written and scanned, 180 included), registrations of a
//! million users. Prints the memory of the registrations too.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a measurement of this machine, started by hand"
)]

use std::hint::black_box;
use std::net::SocketAddr;

use bytes::Bytes;
use netrig_core::{Duration, Instant};
use netrig_sip::Message;
use netrig_sip::load::{
    Callee, CalleeAction, Caller, Directory, Hole, HoleValues, LoadOutput, Recipient, Registrant, Scan,
    Scenario, Setup, Template,
};

const DESCRIPTION: &[u8] = b"v=0\r\no=- 20 20 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
    m=audio 6000 RTP/AVP 0 8\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\n";

/// A 200 that has passed one proxy.
const RESPONSE: &[u8] = b"SIP/2.0 200 OK\r\n\
    Via: SIP/2.0/UDP 127.0.0.1:5061;rport=5061;received=127.0.0.1;branch=z9hG4bKfeed000100010000000000000012340001\r\n\
    Record-Route: <sip:127.0.0.1;lr;ftag=feed00010001000000000000001234>\r\n\
    From: <sip:user000017@example.com>;tag=feed00010001000000000000001234\r\n\
    To: <sip:user000018@example.com>;tag=feed00010004000000000000004321\r\n\
    Call-ID: feed00010001000000000000001234\r\nCSeq: 1 INVITE\r\n\
    Contact: <sip:user000018@127.0.0.1:5062>\r\nContent-Type: application/sdp\r\nContent-Length: 3\r\n\r\nv=0";

/// CPU time of this process, s.
fn on_core() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).map_or(0.0, |nanos| nanos / 1e9)
}

/// Rate per second, the best of five.
fn best(what: &str, seconds: f64, mut some: impl FnMut() -> usize) {
    let rates = (0..5).map(|_| {
        let (start, mut done) = (on_core(), 0);
        loop {
            done += some();
            let spent = on_core() - start;
            if spent >= seconds / 5.0 {
                return done as f64 / spent;
            }
        }
    });
    println!("{what}: {:.0}/s", rates.fold(0.0, f64::max));
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let template = Template::new(&Message::parse(&Bytes::from(invite()))?)?;
    let mut out = Vec::new();
    let scan = |number: usize| {
        for _ in 0..number {
            black_box(Scan::of(black_box(RESPONSE)));
        }
        number
    };
    let mut write = |number: usize| {
        for _ in 0..number {
            out.clear();
            template.write(black_box(&values()), &mut out);
            black_box(&out);
        }
        number
    };
    if let [what, number] = &arguments[..]
        && what == "messages"
    {
        let number = number.parse()?;
        scan(number);
        write(number);
        return Ok(());
    }
    let seconds: f64 = arguments.first().map_or(Ok(5.0), |text| text.parse())?;
    best("scanned", seconds, || scan(10_000));
    best("written", seconds, || write(10_000));
    let mut pair = Pair::new()?;
    best("calls", seconds, || pair.calls(1000));
    println!("records: {}, of them failed: {}", pair.records, pair.failed);
    drop(pair);
    register_a_million()
}

/// Registers each user once, at a registrar that grants all.
fn register_a_million() -> Result<(), Box<dyn std::error::Error>> {
    const USERS: u32 = 1_000_000;
    let before = resident()?;
    let mut pair = Pair::new()?;
    let setup = Setup::new(0xfeed_0001, "127.0.0.1:5061".parse()?, "127.0.0.1:5062".parse()?);
    let names = Directory::pattern("user", 7);
    let mut registrant = Registrant::new(setup, names, Directory::Fixed(Box::new([])), USERS)?;
    let start = on_core();
    let [asked, answered] = &mut pair.flying;
    let from = SocketAddr::from(([127, 0, 0, 1], 5061));
    for user in 0..USERS {
        let now = Instant::ZERO + Duration::from_micros(u64::from(user) * 10);
        registrant.register(now, now, user, 3600, asked)?;
        for (_, bytes) in asked.messages.iter() {
            pair.callee.handle_request(now, from, &Scan::of(bytes), answered);
        }
        asked.messages.clear();
        for (_, bytes) in answered.messages.iter() {
            let scan = Scan::of(bytes);
            if let Some(Recipient::Response(token, transaction)) = Recipient::of(&scan, 0xfeed_0001, 0) {
                registrant.handle_response(now, &scan, (token, transaction), asked);
            }
        }
        answered.messages.clear();
        asked.records.clear();
    }
    let rate = f64::from(USERS) / (on_core() - start);
    let grown = resident()? - before;
    println!("registrations: {rate:.0}/s; {} users registered: {grown:.0} MiB", registrant.registered());
    Ok(())
}

/// Memory of this process, MiB.
fn resident() -> Result<f64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}

fn invite() -> String {
    let [user, peer, id, tag, branch, cseq, lines] =
        [Hole::User, Hole::Peer, Hole::CallId, Hole::Tag, Hole::Branch, Hole::CSeq, Hole::Authorization]
            .map(Hole::name);
    format!(
        "INVITE sip:{peer}@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5061;rport;branch={branch}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:{user}@example.com>;tag={tag}\r\nTo: <sip:{peer}@example.com>\r\n\
         Call-ID: {id}\r\nCSeq: {cseq} INVITE\r\nContact: <sip:{user}@127.0.0.1:5061>\r\n\
         Authorization: {lines}\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{}",
        DESCRIPTION.len(),
        String::from_utf8_lossy(DESCRIPTION)
    )
}

fn values() -> HoleValues<'static> {
    HoleValues::default()
        .with(Hole::User, b"user000017")
        .with(Hole::Peer, b"user000018")
        .with(Hole::CallId, b"feed00010001000000000000001234")
        .with(Hole::Tag, b"feed00010001000000000000001234")
        .with(Hole::Branch, b"z9hG4bKfeed000100010000000000000012340001")
        .with(Hole::CSeq, b"1")
}

/// Both ends of calls. The time advances by 20 µs with each: 50,000 calls/s.
struct Pair {
    caller: Caller,
    callee: Callee,
    now: Instant,
    /// Messages in transit, filled by both ends.
    flying: [LoadOutput; 2],
    user: u32,
    records: usize,
    failed: usize,
}

impl Pair {
    fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let [here, there]: [SocketAddr; 2] = ["127.0.0.1:5061".parse()?, "127.0.0.1:5062".parse()?];
        let near = Setup {
            description: Bytes::from_static(DESCRIPTION),
            calls: 1 << 20,
            ..Setup::new(0xfeed_0001, here, there)
        };
        let far = Setup { local: there, server: here, ..near.clone() };
        Ok(Self {
            caller: Caller::new(near, Directory::pattern("user", 6), Directory::Fixed(Box::new([])))?,
            callee: Callee::new(far, CalleeAction::Answer, Duration::from_micros(200), [7; 16])?,
            now: Instant::ZERO,
            flying: Default::default(),
            user: 0,
            records: 0,
            failed: 0,
        })
    }

    fn calls(&mut self, calls: usize) -> usize {
        for _ in 0..calls {
            self.now += Duration::from_micros(20);
            self.user = (self.user + 1) % 100_000;
            let scenario = Scenario::Call { hold: Duration::from_millis(1) };
            let users = (self.user, self.user + 100_000);
            let started = self.caller.start(self.now, self.now, scenario, users, None, &mut self.flying[0]);
            assert!(started.is_ok());
            self.exchange();
        }
        calls
    }

    /// Runs both ends until they have no output.
    fn exchange(&mut self) {
        let from = SocketAddr::from(([127, 0, 0, 1], 5061));
        self.caller.handle_timeout(self.now, &mut self.flying[0]);
        self.callee.handle_timeout(self.now, &mut self.flying[0]);
        while !self.flying[0].messages.is_empty() {
            let [arriving, leaving] = &mut self.flying;
            for (_, bytes) in arriving.messages.iter() {
                let scan = Scan::of(bytes);
                match Recipient::of(&scan, 0xfeed_0001, 0) {
                    Some(Recipient::Response(token, transaction)) => {
                        self.caller.handle_response(self.now, &scan, (token, transaction), leaving);
                    }
                    Some(Recipient::Callee) => self.callee.handle_request(self.now, from, &scan, leaving),
                    _ => unreachable!("nothing else is sent"),
                }
            }
            arriving.messages.clear();
            for record in arriving.records.drain(..).chain(leaving.records.drain(..)) {
                self.records += 1;
                self.failed += usize::from(record.failure.is_some());
            }
            self.flying.swap(0, 1);
        }
    }
}
