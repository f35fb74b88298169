//! Cost of a server per message in memory: `server_bench uas|registrar|redirect NUMBER`, in release, to count its instructions.
//!
//! `uas` answers NUMBER calls of three plain requests each. `registrar` handles NUMBER registrations of two REGISTERs each, without
//! and with credentials (MD5). `redirect` answers NUMBER INVITEs with their ACKs. Requests are those of `netrig sip load`, and
//! responses are written as bytes.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a measurement of this machine, started by hand"
)]

use std::error::Error;
use std::hint::black_box;
use std::net::SocketAddr;

use bytes::Bytes;
use netrig_core::{Duration, Instant, Seeds};
use netrig_sip::digest::{Algorithm, DigestChallenge, DigestSession};
use netrig_sip::header::Transport;
use netrig_sip::server::{AnsweringPolicy, PlainResponses, Role, Server, ServerOrder, Source, User};
use netrig_sip::transaction::Timing;
use netrig_sip::{Message, Method, Name};

const DESCRIPTION: &str = "v=0\r\no=- 20 20 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
    m=audio 6000 RTP/AVP 0 8\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\n";
const PEER: &str = "127.0.0.1:5061";

/// A server and its output.
struct BenchServer {
    server: Box<dyn Server>,
    responses: PlainResponses,
    now: Instant,
    from: Source,
}

impl BenchServer {
    fn new(order: &ServerOrder) -> Result<Self, Box<dyn Error>> {
        let listens = [(Transport::Udp, "127.0.0.1:5060".parse::<SocketAddr>()?)];
        let from = Source { transport: Transport::Udp, address: PEER.parse()? };
        let now = Instant::ZERO + Duration::from_secs(1);
        Ok(Self { server: order.server(&listens)?, responses: PlainResponses::default(), now, from })
    }

    /// Handles a datagram as the sockets do. Returns the last response.
    fn give(&mut self, datagram: &str) -> Option<Bytes> {
        self.now += Duration::from_micros(30);
        let (now, mut last) = (self.now, None);
        if self.server.poll_timeout().is_some_and(|at| at <= now) {
            self.server.handle_timeout(now);
        }
        if self.server.handle_plain(now, datagram.as_bytes(), self.from, &mut self.responses).is_some() {
            last = self.responses.iter().last().map(|reply| Bytes::copy_from_slice(black_box(reply.bytes)));
            self.responses.clear();
        } else if let Ok(message) = Message::parse(&Bytes::copy_from_slice(datagram.as_bytes())) {
            self.server.handle(now, message, self.from);
        }
        while let Some((_, message)) = self.server.poll_transmit() {
            last = Some(black_box(message.to_bytes()));
        }
        last
    }
}

fn request(
    method: &str,
    number: usize,
    (branch, cseq): (&str, u32),
    to_tag: &str,
    more: &str,
    body: &str,
) -> String {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    format!(
        "{method} sip:user{number:06}@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP {PEER};rport;branch=z9hG4bKfeed0001{number:020x}{branch}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:user{number:06}@127.0.0.1>;tag=feed0001{number:020x}\r\nTo: <sip:user{number:06}@127.0.0.1>{to_tag}\r\n\
         Call-ID: feed0001{number:020x}\r\nCSeq: {cseq} {method}\r\nContact: <sip:user{number:06}@{PEER}>\r\n{more}{kind}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn order(role: Role, digest: Option<Algorithm>, users: usize) -> ServerOrder {
    let user =
        |number| User { name: format!("user{number:06}"), password: "zanzibar".to_owned(), contact: None };
    ServerOrder {
        role,
        domains: Vec::new(),
        users: Some((0..users).map(user).collect()),
        contact: None,
        digest,
        realm: None,
        most_transactions: 1 << 20,
        most_users: 1 << 20,
        timing: Timing::default(),
        seeds: Seeds::new(1),
    }
}

fn field(response: &Bytes, name: &Name) -> Option<String> {
    Message::parse(response).ok()?.headers().get(name).map(str::to_owned)
}

fn uas(number: usize) -> Result<(), Box<dyn Error>> {
    let media = "127.0.0.1:6000".parse()?;
    let mut served = BenchServer::new(&order(Role::UserAgent(AnsweringPolicy::new(media)), None, 0))?;
    for call in 0..number {
        let accepted =
            served.give(&request("INVITE", call, ("00", 1), "", "", DESCRIPTION)).ok_or("no response")?;
        let to = field(&accepted, &Name::To).ok_or("no To")?;
        let tag = to.rsplit_once(";tag=").map(|(_, tag)| format!(";tag={tag}")).ok_or("no tag")?;
        served.give(&request("ACK", call, ("01", 1), &tag, "", ""));
        served.give(&request("BYE", call, ("02", 2), &tag, "", "")).ok_or("no response")?;
    }
    Ok(())
}

fn registrar(number: usize) -> Result<(), Box<dyn Error>> {
    let mut served = BenchServer::new(&order(Role::Registrar, Some(Algorithm::MD5), number))?;
    for user in 0..number {
        let expires = "Expires: 3600\r\n";
        let challenge =
            served.give(&request("REGISTER", user, ("00", 1), "", expires, "")).ok_or("no response")?;
        let challenge =
            field(&challenge, &Name::WwwAuthenticate).and_then(|value| DigestChallenge::of_value(&value));
        let mut session =
            DigestSession::new(challenge.ok_or("no challenge")?, &format!("user{user:06}"), "zanzibar");
        let answer =
            session.answer(&Method::Register, &format!("sip:user{user:06}@127.0.0.1"), b"", "0a4f113b");
        let more = format!("{expires}Authorization: {}\r\n", answer.write());
        let done = served.give(&request("REGISTER", user, ("01", 2), "", &more, "")).ok_or("no response")?;
        if !done.starts_with(b"SIP/2.0 200") {
            return Err(String::from_utf8_lossy(&done).into());
        }
    }
    Ok(())
}

fn redirect(number: usize) -> Result<(), Box<dyn Error>> {
    let mut order = order(Role::Redirect, None, number);
    order.contact = Some("sip:{user}@127.0.0.1:5070".to_owned());
    let mut served = BenchServer::new(&order)?;
    for call in 0..number {
        let moved =
            served.give(&request("INVITE", call, ("00", 1), "", "", DESCRIPTION)).ok_or("no response")?;
        if !moved.starts_with(b"SIP/2.0 302") {
            return Err(String::from_utf8_lossy(&moved).into());
        }
        let to = field(&moved, &Name::To).ok_or("no To")?;
        let tag = to.rsplit_once(";tag=").map(|(_, tag)| format!(";tag={tag}")).ok_or("no tag")?;
        served.give(&request("ACK", call, ("00", 1), &tag, "", ""));
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["uas", number] => uas(number.parse()?),
        ["registrar", number] => registrar(number.parse()?),
        ["redirect", number] => redirect(number.parse()?),
        _ => Err("server_bench uas|registrar|redirect NUMBER".into()),
    }
}
