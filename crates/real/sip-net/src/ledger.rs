//! Accounts of bytes for each address, which limit what a server sends to an unvalidated address.
//!
//! The source address of a datagram may be forged. A server sends an unvalidated address at most [`FACTOR`] times the
//! bytes that came from it, retransmissions included, as RFC 9000 section 8.1 requires of QUIC. An address is validated
//! (the code says proven) by valid digest credentials, by a request with a `To` tag that the server chose, by a
//! response with a branch that the server chose, or by a connection.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::net::{IpAddr, SocketAddr};

use netrig_core::{Duration, Instant};
use netrig_sip::server::has_computed_tag;
use netrig_sip::{Message, Method, Name, Response, Status};

/// Number of bytes that an unvalidated address may get for each byte that it sent.
pub const FACTOR: u64 = 3;

/// How long an address stays validated.
const PROOF: Duration = Duration::from_secs(120);

/// Capacity of each of the two generations of a [`RecentMap`].
const MOST: usize = 1 << 15;

/// Maximum number of secrets stored for an unvalidated address. The oldest is discarded first.
const MOST_SECRETS: usize = 16;

/// The byte accounts of unvalidated addresses, and the validated addresses. Memory: at most 2 × 32,768 accounts of
/// about 200 bytes, and as many validated addresses of 40 bytes each.
#[derive(Debug, Default)]
pub struct AmplificationLedger {
    accounts: RecentMap<IpAddr, ByteAccount>,
    /// The time at which the validation of an address expires. An entry with port 0 validates all ports of the host.
    proofs: RecentMap<SocketAddr, Instant>,
    hasher: RandomState,
}

/// The account of an unvalidated address.
#[derive(Debug, Default)]
struct ByteAccount {
    /// Remaining bytes.
    left: u64,
    /// Hashes of tags and branches that were sent to this address. A message that returns one validates the address.
    secrets: Vec<u64>,
}

/// Number of bytes that one received message may cause to be sent to unvalidated addresses.
#[derive(Debug, Default)]
pub struct Purse {
    left: u64,
    /// The sender, if its address is unvalidated. Bytes to third parties are then charged to the sender's account, so a
    /// datagram causes at most [`FACTOR`] times its length in total.
    payer: Option<IpAddr>,
}

/// A map that discards the least recently used entries: if the younger of two generations is full, the older is
/// dropped.
#[derive(Debug)]
struct RecentMap<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for RecentMap<K, V> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<K: Hash + Eq + Copy, V: Default> RecentMap<K, V> {
    fn get(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    fn of(&mut self, key: K) -> &mut V {
        if !self.young.contains_key(&key) {
            let known = self.old.remove(&key).unwrap_or_default();
            if self.young.len() >= MOST {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert(key, known);
        }
        self.young.entry(key).or_default()
    }
}

impl AmplificationLedger {
    /// Records bytes that arrived from an address.
    pub fn receive(&mut self, now: Instant, from: SocketAddr, bytes: usize) {
        if !self.is_proven(now, from) {
            self.credit(from.ip(), FACTOR * bytes as u64);
        }
    }

    /// Adds bytes to the account of an address.
    pub fn credit(&mut self, to: IpAddr, bytes: u64) {
        let account = self.accounts.of(to);
        account.left = account.left.saturating_add(bytes);
    }

    /// Records an accepted connection from this host, which validates all its ports.
    pub fn prove_host(&mut self, now: Instant, host: IpAddr) {
        self.prove(now, SocketAddr::new(host, 0));
    }

    /// The budget of a message of `bytes` bytes from `from`. A message that arrived over a connection
    /// (`has_connection`) has a validated sender.
    pub fn purse(&self, now: Instant, from: SocketAddr, bytes: usize, has_connection: bool) -> Purse {
        let payer = (!has_connection && !self.is_proven(now, from)).then(|| from.ip());
        Purse { left: FACTOR * bytes as u64, payer }
    }

    /// Credits `to` from the purse, if its account has less than `cost` bytes.
    fn pay(&mut self, purse: &mut Purse, to: IpAddr, cost: u64) {
        let missing = cost.saturating_sub(self.left(to));
        match purse.payer {
            // The rest of the budget is for retransmissions of the request.
            None => self.credit(to, std::mem::take(&mut purse.left)),
            Some(payer) if missing <= purse.left.min(self.left(payer)) => {
                purse.left -= missing;
                self.accounts.of(payer).left -= missing;
                self.credit(to, missing);
            }
            Some(_) => {}
        }
    }

    /// Validates an address.
    pub fn prove(&mut self, now: Instant, from: SocketAddr) {
        *self.proofs.of(from) = now + PROOF;
    }

    /// Whether the address is validated.
    pub fn is_proven(&self, now: Instant, address: SocketAddr) -> bool {
        let holds = |key: &SocketAddr| self.proofs.get(key).is_some_and(|until| *until > now);
        holds(&address) || holds(&SocketAddr::new(address.ip(), 0))
    }

    /// Remaining bytes of an unvalidated address. Nothing is charged.
    pub fn left(&self, to: IpAddr) -> u64 {
        self.accounts.get(&to).map_or(0, |account| account.left)
    }

    /// Charges bytes to an address. Returns false if its account has too few bytes left. A validated address has no
    /// limit.
    pub fn charge(&mut self, now: Instant, to: SocketAddr, bytes: usize) -> bool {
        if self.is_proven(now, to) {
            return true;
        }
        let account = self.accounts.of(to.ip());
        let left = account.left.checked_sub(bytes as u64);
        account.left = left.unwrap_or(account.left);
        left.is_some()
    }

    /// Validates the sender's address if the message contains a secret that was sent to this address.
    pub fn look(&mut self, now: Instant, from: SocketAddr, message: &Message) {
        if let Some((secret, name)) = secret_received(message) {
            self.look_at(now, from, (&secret, &name));
        }
    }

    /// As [`Self::look`], for a request with this tag of `To` and this Call-ID.
    pub fn look_at(&mut self, now: Instant, from: SocketAddr, texts: (&str, &str)) {
        let secret = self.hasher.hash_one(texts);
        let account = self.accounts.get(&from.ip());
        if account.is_some_and(|account| account.secrets.contains(&secret)) {
            self.prove(now, from);
        }
    }

    /// Whether a SIP message of `bytes` bytes may be sent to `to` now. If so, the account of `to` is charged. `purse`
    /// is the budget of the received message that caused this one. The tag of a forwarded response (`is_forwarded`) is
    /// not a secret, because another host chose it.
    pub fn admit(
        &mut self,
        now: Instant,
        to: SocketAddr,
        message: &Message,
        (bytes, is_forwarded): (usize, bool),
        purse: &mut Purse,
    ) -> bool {
        if self.is_proven(now, to) {
            return true;
        }
        match message {
            Message::Request(_) => {
                let cost = bytes as u64;
                if self.left(to.ip()) < cost {
                    self.pay(purse, to.ip(), cost);
                }
                if !self.charge(now, to, bytes) {
                    return false;
                }
            }
            Message::Response(response) => {
                if !self.charge_response(now, to, response.status, bytes) {
                    return false;
                }
            }
        }
        let secret = secret_sent(message).filter(|_| !is_forwarded || message.as_request().is_some());
        if let Some((secret, name)) = secret {
            self.remember(to, (&secret, &name));
        }
        true
    }

    /// As [`Self::admit`], for a response with this tag and Call-ID, whose tag this server chose at random.
    pub fn admit_response(
        &mut self,
        now: Instant,
        to: SocketAddr,
        status: Status,
        texts: (&str, &str),
        bytes: usize,
    ) -> bool {
        if self.is_proven(now, to) {
            return true;
        }
        let is_admitted = self.charge_response(now, to, status, bytes);
        if is_admitted {
            self.remember(to, texts);
        }
        is_admitted
    }

    /// Charges a response to an address. A provisional response may use at most half of the account; the rest is for
    /// the final response.
    fn charge_response(&mut self, now: Instant, to: SocketAddr, status: Status, bytes: usize) -> bool {
        let is_too_much = !status.is_final() && self.left(to.ip()) < 2 * bytes as u64;
        !is_too_much && self.charge(now, to, bytes)
    }

    /// Stores a secret that is sent to this address.
    fn remember(&mut self, to: SocketAddr, texts: (&str, &str)) {
        let secret = self.hasher.hash_one(texts);
        let secrets = &mut self.accounts.of(to.ip()).secrets;
        if !secrets.contains(&secret) {
            if secrets.len() >= MOST_SECRETS {
                secrets.remove(0);
            }
            secrets.push(secret);
        }
    }
}

/// The short response to an unvalidated address whose account does not suffice for the list of contacts in `response`.
/// `None` if `response` has no such list.
pub fn short_answer(response: &Response) -> Option<Response> {
    let is_list = response.headers.get(&Name::Contact).is_some();
    let cseq = response.headers.cseq().ok().flatten()?;
    let is_invitation = cseq.method == Method::Invite && response.status.code() < 300;
    if !is_list || is_invitation {
        return None;
    }
    // 513 is the closest status (RFC 3261 section 21.5.7). Over TCP, or with credentials, the client gets the whole
    // list.
    let mut short = Response { status: Status::new(513)?, ..response.clone() };
    short.reason = "Message Too Large".into();
    short.body = bytes::Bytes::new();
    short.headers = netrig_sip::Headers::default();
    for name in [Name::Via, Name::From, Name::To, Name::CallId, Name::CSeq] {
        for value in response.headers.all(&name) {
            short.headers.push(name.clone(), value);
        }
    }
    Some(short)
}

type Secret = (String, String);

/// The secret in a sent message: the tag of `To` and the Call-ID of a response, the branch of a request.
fn secret_sent(message: &Message) -> Option<Secret> {
    match message {
        // A tag computed from the request alone is not a secret: the sender of the request can compute it too.
        Message::Response(response) if has_computed_tag(response) => None,
        Message::Response(response) => {
            let tag = response.headers.to().ok()??.tag()?.to_owned();
            Some((tag, response.headers.call_id().ok()??.to_owned()))
        }
        Message::Request(request) => {
            Some((request.headers.top_via().ok()??.branch()?.to_owned(), String::new()))
        }
    }
}

fn secret_received(message: &Message) -> Option<Secret> {
    match message {
        Message::Request(request) => {
            let tag = request.headers.to().ok()??.tag()?.to_owned();
            Some((tag, request.headers.call_id().ok()??.to_owned()))
        }
        Message::Response(response) => {
            Some((response.headers.top_via().ok()??.branch()?.to_owned(), String::new()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resident memory of this process, bytes (proc(5): `VmRSS`).
    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    /// 65,536 accounts of about 200 bytes with their secrets, and as many proofs of 40 bytes: 16 MB, in tables that are
    /// at most half empty. The test sends from a million addresses.
    #[test]
    fn a_million_addresses_take_no_more_than_the_ledger_says() {
        let (mut ledger, before) = (AmplificationLedger::default(), resident());
        let message = |number: u32| {
            let text = format!(
                "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{number}\r\nFrom: <sip:a@b>;tag=1\r\n\
                 To: <sip:a@b>;tag=own{number}\r\nCall-ID: {number}\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
            );
            Message::parse(&bytes::Bytes::from(text)).unwrap()
        };
        for number in 0..1_000_000_u32 {
            let (now, from) = (Instant::ZERO, SocketAddr::new(IpAddr::from(number.to_be_bytes()), 5060));
            ledger.receive(now, from, 400);
            // A secret is stored for every sixteenth address only, because parsing takes time.
            if number % 16 == 0 {
                assert!(ledger.admit(now, from, &message(number), (300, false), &mut Purse::default()));
            }
            ledger.prove(now, SocketAddr::new(from.ip(), 5061));
        }
        let addresses = ledger.accounts.young.len() + ledger.accounts.old.len();
        assert!(addresses <= 2 * MOST, "{addresses}");
        let grown = resident() - before;
        assert!(grown < 32 << 20, "{grown} B");
    }

    const INVITE: &str = "INVITE sip:b@c SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bKown\r\nFrom: <sip:a@b>;tag=1\r\n\
                          To: <sip:b@c>\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n";

    fn read(text: String) -> Message {
        Message::parse(&bytes::Bytes::from(text)).unwrap()
    }

    /// A datagram of 100 bytes causes at most 300 bytes, to its sender and to third parties together.
    #[test]
    fn bytes_to_third_parties_are_charged_to_the_sender() {
        let (mut ledger, now) = (AmplificationLedger::default(), Instant::ZERO);
        let [from, first, second] =
            ["192.0.2.1:5060", "192.0.2.2:5060", "192.0.2.3:5060"].map(|text| text.parse().unwrap());
        let invite = read(INVITE.to_owned());
        ledger.receive(now, from, 100);
        let mut purse = ledger.purse(now, from, 100, false);
        assert!(ledger.admit(now, first, &invite, (120, true), &mut purse));
        assert!(!ledger.admit(now, second, &invite, (181, true), &mut purse));
        assert!(ledger.admit(now, second, &invite, (80, true), &mut purse));
        assert_eq!(ledger.left(from.ip()), 100);
        assert!(!ledger.charge(now, from, 101) && ledger.charge(now, from, 100));
    }

    /// The callee chooses the tag of a response that a proxy forwards, and could reveal it to an attacker.
    #[test]
    fn the_tag_of_a_forwarded_response_proves_no_address() {
        for is_forwarded in [false, true] {
            let (mut ledger, now) = (AmplificationLedger::default(), Instant::ZERO);
            let from: SocketAddr = "192.0.2.1:5060".parse().unwrap();
            ledger.receive(now, from, 400);
            let ringing = INVITE.replace("INVITE sip:b@c SIP/2.0", "SIP/2.0 180 Ringing");
            let ringing = read(ringing.replace("To: <sip:b@c>", "To: <sip:b@c>;tag=chosen"));
            assert!(ledger.admit(now, from, &ringing, (200, is_forwarded), &mut Purse::default()));
            ledger.look(now, from, &read(INVITE.replace("To: <sip:b@c>", "To: <sip:b@c>;tag=chosen")));
            assert_eq!(ledger.is_proven(now, from), !is_forwarded);
        }
    }

    #[test]
    fn memory_for_strangers_has_an_end() {
        let (mut ledger, now) = (AmplificationLedger::default(), Instant::ZERO);
        for number in 0..4 * MOST as u32 {
            let address = SocketAddr::new(IpAddr::V4(number.into()), 5060);
            ledger.receive(now, address, 100);
            ledger.prove(now, SocketAddr::new(address.ip(), 1));
        }
        let kept = |young: usize, old: usize| young <= MOST && old <= MOST;
        assert!(kept(ledger.accounts.young.len(), ledger.accounts.old.len()));
        assert!(kept(ledger.proofs.young.len(), ledger.proofs.old.len()));
    }

    #[test]
    fn a_stranger_has_three_bytes_for_each_and_a_proof_ends() {
        let (mut ledger, now) = (AmplificationLedger::default(), Instant::ZERO);
        let address: SocketAddr = "192.0.2.1:5060".parse().unwrap();
        assert!(!ledger.charge(now, address, 1));
        ledger.receive(now, address, 100);
        assert!(ledger.charge(now, address, 299));
        assert!(!ledger.charge(now, address, 2));
        assert!(ledger.charge(now, address, 1));
        ledger.prove(now, address);
        assert!(ledger.charge(now, address, 1 << 20));
        assert!(!ledger.charge(now, "192.0.2.1:5061".parse().unwrap(), 1), "another port has proved nothing");
        assert!(!ledger.charge(now + PROOF, address, 1));
        ledger.prove_host(now, address.ip());
        assert!(ledger.charge(now, "192.0.2.1:5061".parse().unwrap(), 1 << 20));
    }
}
