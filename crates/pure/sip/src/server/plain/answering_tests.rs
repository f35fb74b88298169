//! An answering machine with the fast path, and one with the strict model alone, have the same output at every step.

use std::fmt::Write as _;

use bytes::Bytes;
use netrig_core::{Duration, Instant, Seeds, Stream};

use super::super::answering::AnsweringMachine;
use super::super::answering_policy::ProgressResponse;
use super::super::transactions::Transactions;
use super::super::{AnsweringPolicy, Destination, Domain, Server, Source};
use super::{PlainCalls, PlainResponses};
use crate::header::Transport;
use crate::transaction::Timing;
use crate::{Host, Message, Status};

const LOCAL: &str = "192.0.2.9:5060";
const PEERS: [&str; 2] = ["192.0.2.1:5070", "192.0.2.2:5070"];
const LONGEST: Duration = Duration::from_secs(60);

fn machine(is_plain: bool, most: usize, progress: &[u16]) -> AnsweringMachine {
    let local = LOCAL.parse().unwrap();
    let listens = vec![(Transport::Udp, local), (Transport::Tcp, local)];
    let domain = Domain { names: vec![Host::Name("biloxi.com".into())], listens };
    let at_once = |status: &u16| ProgressResponse {
        after: Duration::ZERO,
        status: Status::new(*status).unwrap(),
        media: false,
    };
    let progress = progress.iter().map(at_once).collect();
    let manners = AnsweringPolicy {
        longest: LONGEST,
        progress,
        ..AnsweringPolicy::new("192.0.2.9:6000".parse().unwrap())
    };
    let timing = Timing::default();
    let mut machine = AnsweringMachine::new(domain, manners, most, timing, Seeds::new(1).stream("plain"));
    // Transactions of plain calls have less weight.
    machine.transactions = Transactions::of_user_agent(usize::MAX, timing);
    // Both machines draw the same number of random values before their first tag.
    machine.plain = Some(PlainCalls::new(timing, LONGEST, &mut machine.random));
    machine.is_plain = is_plain;
    machine
}

/// The caller's state of a call.
#[derive(Clone, Default)]
struct DrawnCall {
    number: u32,
    cseq: u32,
    branch: u32,
    tag: Option<String>,
    sent: Vec<(String, Source)>,
    transport: Option<Transport>,
}

/// A pair of machines and their history.
struct StrictPair {
    plain: AnsweringMachine,
    strict: AnsweringMachine,
    now: Instant,
    random: Stream,
    calls: Vec<DrawnCall>,
    /// Log, shown if the test fails.
    log: String,
    strays: u32,
    taken: u32,
    sent_count: u32,
}

type SentMessages = Vec<(Destination, Bytes)>;

fn drained(machine: &mut AnsweringMachine) -> SentMessages {
    std::iter::from_fn(|| machine.poll_transmit()).map(|(to, message)| (to, message.to_bytes())).collect()
}

impl StrictPair {
    fn new(seed: u64, most: usize) -> Self {
        let progress = [&[180][..], &[], &[181, 182, 180]][seed as usize % 3];
        Self {
            plain: machine(true, most, progress),
            strict: machine(false, most, progress),
            now: Instant::ZERO + Duration::from_secs(1),
            random: Seeds::new(seed).stream("steps"),
            calls: Vec::new(),
            log: String::new(),
            strays: 0,
            taken: 0,
            sent_count: 0,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.bits() % bound
    }

    fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    fn give(&mut self, text: &str, from: Source) -> SentMessages {
        let _ = writeln!(self.log, "{:?} {} {from:?}", self.now, text.replace("\r\n", "|"));
        let bytes = Bytes::from(text.to_owned());
        let Ok(message) = Message::parse(&bytes) else {
            let mut responses = PlainResponses::default();
            assert!(
                self.plain.handle_plain(self.now, &bytes, from, &mut responses).is_none(),
                "{}",
                self.log
            );
            return Vec::new();
        };
        self.strict.handle(self.now, message.clone(), from);
        let strict = drained(&mut self.strict);
        let mut responses = PlainResponses::default();
        let plain = if self.plain.handle_plain(self.now, &bytes, from, &mut responses).is_some() {
            self.taken += 1;
            responses
                .iter()
                .map(|own| (Destination::Address(own.to), Bytes::copy_from_slice(own.bytes)))
                .collect()
        } else {
            self.plain.handle(self.now, message, from);
            drained(&mut self.plain)
        };
        self.compare(&plain, &strict);
        strict
    }

    fn compare(&mut self, plain: &SentMessages, strict: &SentMessages) {
        let shown = |sent: &SentMessages| -> Vec<String> {
            sent.iter().map(|(to, bytes)| format!("{to:?} {}", String::from_utf8_lossy(bytes))).collect()
        };
        assert_eq!(shown(plain), shown(strict), "after:\n{}", self.log);
        assert_eq!(self.plain.calls(), self.strict.calls(), "after:\n{}", self.log);
        self.sent_count += strict.len() as u32;
    }

    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        let _ = writeln!(self.log, "{:?} waits {span:?}", self.now);
        loop {
            let next =
                [&self.plain, &self.strict].map(|machine| machine.poll_timeout()).into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            self.now = next.max(self.now);
            let sent = [&mut self.plain, &mut self.strict].map(|machine| {
                machine.handle_timeout(next);
                let mut sent = drained(machine);
                sent.sort_by(|a, b| a.1.cmp(&b.1));
                sent
            });
            self.compare(&sent[0], &sent[1]);
        }
        self.now = until;
    }

    fn source(&mut self, transport: Transport) -> Source {
        let port = if self.one_in(8) { 5071 } else { 5070 };
        let peer = PEERS[usize::from(self.one_in(8))];
        Source { transport, address: (peer.parse::<std::net::SocketAddr>().unwrap().ip(), port).into() }
    }

    /// A request of a call, in one of several spellings.
    fn write(&mut self, call: usize, method: &str, cseq: u32, branch: u32, is_within: bool) -> String {
        let DrawnCall { number, tag, transport, .. } = self.calls[call].clone();
        let transport = transport.unwrap_or(Transport::Udp).name();
        let pick =
            |random: &mut Stream, all: &[&str]| all[(random.bits() % all.len() as u64) as usize].to_owned();
        // Most requests are ordinary.
        let mut usually = |all: &[&str]| {
            if self.random.bits().is_multiple_of(4) { pick(&mut self.random, all) } else { all[0].to_owned() }
        };
        let host = usually(&[
            "192.0.2.1:5070",
            "192.0.2.1",
            "pc33.atlanta.com",
            "192.0.2.77:5072",
            "[2001:db8::1]:5070",
        ]);
        let rport =
            usually(&[";rport", "", ";rport=9", ";x", ";received=192.0.2.5;rport", ";maddr=192.0.2.3"]);
        let via = usually(&["Via", "v", "VIA"]);
        let below = usually(&[
            "",
            "Via: SIP/2.0/TCP 192.0.2.66;branch=z9hG4bKbelow\r\n",
            "Via: SIP/2.0/UDP a.example, SIP/2.0/UDP b.example\r\n",
        ]);
        let from = usually(&[
            "<sip:alice@atlanta.com>",
            "\"A. Lice\" <sip:alice@atlanta.com>",
            "sip:alice@atlanta.com",
            "Alice <sips:alice@atlanta.com;x=y>",
        ]);
        let to = usually(&[
            "<sip:bob@biloxi.com>",
            "sut <sip:bob@192.0.2.9:5060>",
            "\"B \\\"o\\\" b\" <sip:bob@biloxi.com>",
            "sip:bob@biloxi.com",
            "<sip:bob@biloxi.com:05060>",
            "<SIP:bob@biloxi.com;transport=udp>;p=1",
            "<sip:bob@biloxi.com>;tag",
            "Bob the  Builder <sip:b%6fb@Biloxi.com>",
        ]);
        let to_tag = tag.filter(|_| is_within).map_or_else(String::new, |tag| format!(";tag={tag}"));
        let uri = usually(&[
            "sip:bob@192.0.2.9:5060",
            "sip:bob@biloxi.com;transport=udp",
            "sips:bob@biloxi.com",
            "tel:+1",
        ]);
        let max = usually(&["Max-Forwards: 70\r\n", "", "Max-Forwards: 0\r\n", "Max-Forwards: many\r\n"]);
        let more = usually(&[
            "",
            "User-Agent: t\r\n",
            "Supported: timer, 100rel\r\n",
            "Require: 100rel\r\n",
            "Record-Route: <sip:192.0.2.50;lr>\r\n",
            "Record-Route: <sip:a.example;lr>, <sip:b.example;lr>\r\nRecord-Route: \"x\" <sip:c.example>\r\n",
            "X-Own: 1\r\nP-Asserted-Identity: <sip:a@b>\r\n",
            "Content-Disposition: render\r\n",
            "No token: 1\r\n",
            "Session-Expires: 1800\r\nSupported: timer\r\n",
            "Accept: application/sdp\r\n",
            "Accept: text/plain\r\n",
            "Expires: 5\r\n",
            "Subject: a\r\n b\r\n",
            "Date: now\r\nAllow: INVITE, UPDATE\r\n",
        ]);
        let contact = usually(&[
            "Contact: <sip:alice@192.0.2.1:5070>\r\n",
            "m: sip:alice@192.0.2.1:5070\r\n",
            "",
            "Contact: <sips:alice@192.0.2.1>\r\n",
        ]);
        let offer = usually(&[
            "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\nm=audio 6000 RTP/AVP 0 8\r\n",
            "",
            "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\nm=audio 6002 RTP/AVP 8\r\na=sendonly\r\n",
            "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\nm=video 6002 RTP/AVP 31\r\n",
            "garbage",
        ]);
        let body = if method == "INVITE" { offer } else { String::new() };
        let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
        let contact = if method == "INVITE" { contact } else { String::new() };
        let id = usually(&["call", "CALL"]);
        let case = usually(&["z9hG4bKa", "z9hG4bKA"]);
        format!(
            "{method} {uri} SIP/2.0\r\n{via}: SIP/2.0/{transport} {host};branch={case}{number}x{branch}{rport}\r\n{below}{max}\
             From: {from};tag=f{number}\r\nTo: {to}{to_tag}\r\nCall-ID: {id}{number}@192.0.2.1\r\nCSeq: {cseq} {method}\r\n{contact}{more}{kind}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    fn send(&mut self, call: usize, method: &str, is_within: bool, (cseq, branch): (u32, u32)) {
        let text = self.write(call, method, cseq, branch, is_within);
        let transport = self.calls[call].transport.unwrap_or(Transport::Udp);
        let from = self.source(transport);
        self.calls[call].sent.push((text.clone(), from));
        for (_, bytes) in self.give(&text, from) {
            let Ok(Message::Response(response)) = Message::parse(&bytes) else { continue };
            let tag = response.headers.to().ok().flatten().and_then(|to| to.tag().map(str::to_owned));
            if response.status.is_success()
                && method == "INVITE"
                && !is_within
                && response.status == Status::OK
            {
                self.calls[call].tag = tag;
            }
        }
    }

    fn step(&mut self) {
        if self.calls.is_empty() || self.one_in(5) && self.calls.len() < 6 {
            let number = self.calls.len() as u32;
            let transport = if self.one_in(4) { Transport::Tcp } else { Transport::Udp };
            self.calls.push(DrawnCall {
                number,
                cseq: 1,
                transport: Some(transport),
                ..DrawnCall::default()
            });
            return self.send(number as usize, "INVITE", false, (1, 0));
        }
        let call = self.below(self.calls.len() as u64) as usize;
        let DrawnCall { cseq, branch, .. } = self.calls[call];
        match self.below(20) {
            0..=2 | 4 => self.send(call, "ACK", true, (cseq, branch + 1000)),
            5..=7 => {
                self.calls[call].cseq += 1;
                self.calls[call].branch += 1;
                self.send(call, "BYE", true, (cseq + 1, branch + 1));
            }
            8..=11 => {
                let count = self.calls[call].sent.len() as u64;
                let place = self.below(count) as usize;
                let (text, from) = self.calls[call].sent[place].clone();
                self.give(&text, from);
            }
            12 => self.send(call, "ACK", false, (cseq, branch)),
            13 => self.send(call, "CANCEL", false, (1, 0)),
            14 => self.send(call, "INVITE", false, (1, branch + 500)),
            15 => {
                self.calls[call].cseq += 1;
                self.calls[call].branch += 1;
                let method = ["INVITE", "OPTIONS", "UPDATE", "INFO"][self.below(4) as usize];
                self.send(call, method, true, (cseq + 1, branch + 1));
            }
            // A request outside of a dialog, with the `CSeq` number of the INVITE.
            3 => self.send(call, "OPTIONS", false, (1, 7000)),
            // The branch is new, because a retransmission repeats the whole BYE.
            16 => {
                self.strays += 1;
                let branch = 2000 + self.strays;
                self.send(call, "BYE", true, (cseq, branch));
            }
            17 => self.wait(Duration::from_millis(600)),
            18 => {
                let span = [1, 5, 33, 70][self.below(4) as usize];
                self.wait(Duration::from_secs(span));
            }
            _ => self.wait(Duration::from_millis(7)),
        }
    }
}

#[test]
fn plain_requests_get_the_responses_of_the_strict_model() {
    let (mut taken, mut sent_count) = (0, 0);
    for seed in 0..400 {
        // Some pairs have room for few calls.
        let most = if seed % 4 == 0 { 3 } else { 100 };
        let mut pair = StrictPair::new(seed, most);
        for _ in 0..80 {
            pair.step();
        }
        pair.wait(Duration::from_secs(200));
        assert_eq!(
            (pair.plain.calls(), pair.plain.poll_timeout()),
            (0, None),
            "{seed}: all is forgotten:\n{}",
            pair.log
        );
        assert!(pair.plain.plain.is_some_and(|plain| plain.calls.is_empty()), "{seed}:\n{}", pair.log);
        taken += pair.taken;
        sent_count += pair.sent_count;
    }
    // Both paths were used often enough.
    assert!(
        taken > 2000 && sent_count > 8000,
        "{taken} requests were taken as plain, {sent_count} messages were sent"
    );
}

const OFFER: &str =
    "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\nm=audio 6000 RTP/AVP 0\r\n";

/// A request of the usual form, in a transaction and a call of this number.
fn usual(method: &str, number: u32, transport: Transport, tag: &str) -> String {
    let (kind, body) = match method {
        "INVITE" => ("Contact: <sip:a@192.0.2.1>\r\nContent-Type: application/sdp\r\n", OFFER),
        _ => ("", ""),
    };
    let cseq = 1 + u32::from(method == "BYE");
    format!(
        "{method} sip:bob@192.0.2.9 SIP/2.0\r\nVia: SIP/2.0/{} 192.0.2.1:5070;branch=z9hG4bK{method}{number}\r\n\
         From: <sip:a@atlanta.com>;tag=1\r\nTo: <sip:bob@biloxi.com>{tag}\r\nCall-ID: c{number}\r\nCSeq: {cseq} {method}\r\n{kind}\
         Content-Length: {}\r\n\r\n{body}",
        transport.name(),
        body.len()
    )
}

/// The call must be removed with its BYE, because no transaction ends later: the transaction of the INVITE has ended,
/// and a BYE over a reliable transport has none (RFC 3261 section 17.2.2).
#[test]
fn a_plain_call_over_tcp_that_outlasts_its_transaction_is_removed_with_its_bye() {
    let mut machine = machine(true, 100, &[]);
    let from = Source { transport: Transport::Tcp, address: PEERS[0].parse().unwrap() };
    let mut ask = |at: u64, method: &str, tag: &str| {
        let (now, text) = (Instant::ZERO + Duration::from_secs(at), usual(method, 1, from.transport, tag));
        let mut responses = PlainResponses::default();
        machine.handle_timeout(now);
        assert!(machine.handle_plain(now, text.as_bytes(), from, &mut responses).is_some(), "{text}");
        (format!(";tag={}", responses.dialog().0), machine.plain.as_ref().map(|plain| plain.calls.len()))
    };
    let (tag, calls) = ask(1, "INVITE", "");
    assert_eq!(calls, Some(1));
    ask(1, "ACK", &tag);
    assert_eq!(ask(41, "BYE", &tag).1, Some(0));
}

/// Eight transactions of plain calls take the room of one of the strict model.
#[test]
fn plain_transactions_take_an_eighth_of_the_room() {
    let mut machine = machine(true, 100, &[]);
    machine.transactions = Transactions::of_user_agent(2, Timing::default());
    let from = Source { transport: Transport::Udp, address: PEERS[0].parse().unwrap() };
    let now = Instant::ZERO + Duration::from_secs(1);
    let mut responses = PlainResponses::default();
    let mut takes = |number| {
        let text = usual("INVITE", number, from.transport, "");
        machine.handle_plain(now, text.as_bytes(), from, &mut responses).is_some()
    };
    // The room is that of two transactions. The first eight plain transactions count as one.
    assert!((1..=9).all(&mut takes) && !takes(10));
    machine.handle(now, Message::parse(&Bytes::from(usual("INVITE", 10, from.transport, ""))).unwrap(), from);
    let Some((_, Message::Response(response))) = machine.poll_transmit() else { panic!("no response") };
    assert_eq!(response.status, Status::SERVICE_UNAVAILABLE);
}
