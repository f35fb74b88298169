//! The setup that all machines of one shard have in common.

use std::net::SocketAddr;

use bytes::Bytes;
use netrig_core::{Duration, Instant};

use super::lookup::Located;
use super::output::LoadOutput;
use super::text::InlineText;
use crate::Host;
use crate::deadline::Repetition;
use crate::digits::Decimal;
use crate::header::Transport;
use crate::server::LONGEST_OVER_UDP;
use crate::settings::UserOptions;
use crate::transaction::Timing;

/// Setup of the machines of one shard.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Number of this run. It must be random, so that names of other runs are not mistaken for its own.
    pub run: u32,
    /// Number of the shard, below 4096.
    pub shard: u16,
    /// Address that requests go to.
    pub server: SocketAddr,
    /// Servers that replace `server`, one after the other, when it fails: at most seven (RFC 3263 section 4.3).
    pub others: Vec<SocketAddr>,
    /// Addresses that requests within a dialog may go to, if the route says so. Requests go nowhere else.
    pub peers: Vec<SocketAddr>,
    /// Address of the machines in `Via` and `Contact`, as messages name it ([`in_messages`]).
    pub local: SocketAddr,
    /// Transport in `Via`.
    pub transport: Transport,
    /// The domain of all users, after the `@`.
    pub domain: String,
    /// T1, T2 and T4.
    pub timing: Timing,
    /// Deadlines are rounded up to a multiple of this time.
    pub resolution: Duration,
    /// The most concurrent calls of each side.
    pub calls: u32,
    /// Session description of an INVITE. Empty for none.
    pub description: Bytes,
    /// Session description of a 200 and of a 183, if it differs from `description`.
    pub answer: Option<Bytes>,
    /// Settings of the users, unchanged from the plan. In every contact of a user except the first, the name ends with
    /// `~` and a number.
    pub options: UserOptions,
    /// The longest time that a call may ring.
    pub longest_ringing: Duration,
    /// The longest time that a callee waits for BYE.
    pub longest_call: Duration,
}

impl Setup {
    /// A setup over UDP, with the timers of RFC 3261, 65,536 concurrent calls, a resolution of 100 µs, at most three
    /// minutes of ringing (timer C of RFC 3261 section 16.6) and calls of at most one hour. The domain is the server's
    /// address, with its port if that is not 5060.
    pub fn new(run: u32, local: SocketAddr, server: SocketAddr) -> Self {
        Self {
            run,
            shard: 0,
            server,
            others: Vec::new(),
            peers: Vec::new(),
            local: in_messages(local),
            transport: Transport::Udp,
            domain: domain_of(server),
            timing: Timing::default(),
            resolution: Duration::from_micros(100),
            calls: 1 << 16,
            description: Bytes::new(),
            answer: None,
            options: UserOptions::default(),
            longest_ringing: Duration::from_secs(180),
            longest_call: Duration::from_secs(3600),
        }
    }

    /// Session description of a 200 to an INVITE and of a 183. Empty for none.
    pub(super) const fn described_answer(&self) -> &Bytes {
        match &self.answer {
            Some(own) => own,
            None => &self.description,
        }
    }

    /// Whether requests may go over TCP in a load over UDP, because they are too long for a datagram (RFC 3261
    /// section 18.1.1).
    pub(super) fn has_two_transports(&self) -> bool {
        self.options.sends_large_over_tcp() && self.transport == Transport::Udp
    }

    /// Makes the last written request go over TCP if it is too long for a datagram. Returns whether it does.
    pub(super) fn send_large_over_tcp(&self, out: &mut LoadOutput) -> bool {
        let is_large = self.has_two_transports() && out.messages.last_len() > LONGEST_OVER_UDP;
        if is_large {
            out.messages.send_over_tcp();
        }
        is_large
    }

    /// The first retransmission timer of a request that is sent now. A reliable transport has none.
    pub(super) fn first_repetition(&self, now: Instant, is_over_tcp: bool) -> Repetition {
        if self.transport.is_reliable() || is_over_tcp {
            Repetition::default()
        } else {
            Repetition::after(now, self.timing.t1)
        }
    }

    /// The `transport` parameter of a `Contact` for a connection (RFC 3261 section 19.1.1).
    pub(super) const fn transport_parameter(&self) -> &'static str {
        match self.transport {
            Transport::Udp => "",
            Transport::Tls => ";transport=tls",
            _ => ";transport=tcp",
        }
    }

    /// The URI in the `Contact` with number `place` of a user, from 1 (see [`UserOptions::contacts`]).
    pub(super) fn contact(&self, user: &str, place: u8) -> String {
        let Self { local, .. } = self;
        let behind = if place > 1 { format!("~{place}") } else { String::new() };
        format!("sip:{user}{behind}@{local}{}", self.transport_parameter())
    }

    /// The server to use after `failed` servers have failed. `None` if there are no more. An attempt with a lookup uses
    /// the servers that it found.
    pub(super) fn server(&self, located: Option<&Located>, failed: u8) -> Option<SocketAddr> {
        if let Some(own) = located {
            return own.servers.get(usize::from(failed)).copied();
        }
        match failed.checked_sub(1) {
            None => Some(self.server),
            Some(place) => self.others.get(usize::from(place)).copied(),
        }
    }

    /// The server that an attempt uses now.
    pub(super) fn current(&self, located: Option<&Located>, failed: u8) -> SocketAddr {
        self.server(located, failed).unwrap_or(self.server)
    }

    /// The next hop of a request within a dialog: the address in its first route or target `uri`, if that is a peer
    /// or a server. Otherwise `server`, the server to which the first request was sent. A URI names a link-local
    /// address without its interface.
    pub(super) fn next_hop(&self, uri: &[u8], located: Option<&Located>, server: SocketAddr) -> SocketAddr {
        let host = uri.split(|byte| *byte == b'@').next_back().unwrap_or_default();
        let has_scheme = host.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"sip:"));
        let host = if has_scheme { &host[4..] } else { host };
        let end = host.iter().position(|byte| matches!(byte, b';' | b'?' | b'>')).unwrap_or(host.len());
        let text = std::str::from_utf8(&host[..end]).unwrap_or_default();
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        let with_default = || Some(SocketAddr::new(bare.parse().ok()?, self.transport.default_port()));
        let named: Option<SocketAddr> = text.parse().ok().or_else(with_default).map(in_messages);
        let is_named = |known: &&SocketAddr| named == Some(in_messages(**known));
        if is_named(&&server) {
            return server;
        }
        let of_servers = match located {
            Some(own) => own.servers.iter().find(is_named),
            None => std::iter::once(&self.server).chain(&self.others).find(is_named),
        };
        of_servers.or_else(|| self.peers.iter().find(is_named)).copied().unwrap_or(server)
    }
}

/// An address as a message names it: without the interface of a link-local address, which only this host knows (RFC
/// 4007 section 6).
pub const fn in_messages(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

/// The address of a server in the URIs of its users. It has the port unless that is the default one (RFC 3261 section
/// 19.1.2), because another server may listen there.
fn domain_of(server: SocketAddr) -> String {
    let host = Host::Address(server.ip());
    if server.port() == Transport::Udp.default_port() {
        host.to_string()
    } else {
        format!("{host}:{}", server.port())
    }
}

/// Texts of all users, by their numbers: names or passwords.
#[derive(Clone, Debug)]
pub enum Directory {
    /// The same text for all users.
    Fixed(Box<[u8]>),
    /// A prefix and a number with at least this many digits: `user000042`.
    Pattern {
        /// The text before the number.
        prefix: Box<[u8]>,
        /// The least number of digits, at most 20.
        digits: u8,
    },
    /// A text for each user.
    List {
        /// All texts without separators.
        bytes: Box<[u8]>,
        /// The end of each text in `bytes`.
        ends: Box<[u32]>,
    },
    /// Texts of another directory at regular intervals.
    Part {
        /// The other directory.
        of: Box<Self>,
        /// Number of the first user in it.
        first: u32,
        /// Distance from one user to the next in it.
        step: u32,
    },
}

impl Directory {
    /// `prefix` and a number of `digits` digits.
    pub fn pattern(prefix: &str, digits: u8) -> Self {
        Self::Pattern { prefix: prefix.as_bytes().into(), digits }
    }

    /// A text for each user. All texts together may have 4 GiB.
    pub fn list<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for text in texts {
            bytes.extend_from_slice(text.as_bytes());
            ends.push(bytes.len() as u32);
        }
        Self::List { bytes: bytes.into(), ends: ends.into() }
    }

    /// The texts of users `first`, `first + step` and so on, numbered from 0.
    #[must_use]
    pub fn part(&self, first: u32, step: u32) -> Self {
        Self::Part { of: Box::new(self.clone()), first, step }
    }

    /// Whether the texts of all users are empty.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Fixed(text) => text.is_empty(),
            Self::Pattern { .. } => false,
            Self::List { bytes, .. } => bytes.is_empty(),
            Self::Part { of, .. } => of.is_empty(),
        }
    }

    /// The text of one user. Empty after the end of a list.
    pub fn of(&self, user: u32) -> InlineText<46> {
        match self {
            Self::Fixed(text) => InlineText::of(text),
            Self::Pattern { prefix, digits } => {
                let number = Decimal::padded(user.into(), *digits);
                let number = number.as_bytes();
                if prefix.len() + number.len() > 46 {
                    return InlineText::of(&[prefix, number].concat());
                }
                let mut text = [0; 46];
                text[..prefix.len()].copy_from_slice(prefix);
                text[prefix.len()..prefix.len() + number.len()].copy_from_slice(number);
                InlineText::of(&text[..prefix.len() + number.len()])
            }
            Self::Part { of, first, step } => of.of(first.saturating_add(user.saturating_mul(*step))),
            Self::List { bytes, ends } => {
                let place = user as usize;
                let start = place.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
                InlineText::of(ends.get(place).map_or(&[], |end| &bytes[start as usize..*end as usize]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_their_names() {
        let name =
            |directory: &Directory, user| String::from_utf8(directory.of(user).as_bytes().into()).unwrap();
        assert_eq!(name(&Directory::pattern("user", 6), 42), "user000042");
        assert_eq!(name(&Directory::pattern(&"u".repeat(50), 1), 42), "u".repeat(50) + "42");
        let list = Directory::list(["alice", "", "bob"]);
        assert_eq!([0, 1, 2, 3].map(|user| name(&list, user)), ["alice", "", "bob", ""]);
        assert_eq!([0, 1].map(|user| name(&Directory::pattern("u", 1).part(3, 4), user)), ["u3", "u7"]);
        assert_eq!(name(&Directory::Fixed(b"secret"[..].into()), 9), "secret");
        assert!(
            !Directory::list(["", "secret"]).part(1, 1).is_empty() && !Directory::pattern("u", 1).is_empty()
        );
        assert!(Directory::list(["", ""]).is_empty() && Directory::Fixed(Box::new([])).is_empty());
    }

    /// Messages have no interface of this host, and a link-local address in a message is reached over the known
    /// interface.
    #[test]
    fn an_interface_is_in_no_message_and_is_kept_for_sending() {
        let [local, server, other] = ["[fe80::1%7]:5060", "[fe80::2%7]:5060", "[fe80::3%7]:5070"]
            .map(|text| text.parse::<SocketAddr>().unwrap());
        let setup = Setup { peers: vec![other], ..Setup::new(1, local, server) };
        assert_eq!(setup.contact("bob", 1), "sip:bob@[fe80::1]:5060");
        assert_eq!(setup.domain, "[fe80::2]");
        for (uri, hop) in [
            (&b"sip:bob@[fe80::2]:5060"[..], server),
            (b"sip:[fe80::2];lr", server),
            (b"sip:bob@[fe80::3]:5070", other),
            (b"sip:bob@[fe80::3%9]:5070", other),
            (b"sip:bob@[fe80::4]:5070", server),
        ] {
            assert_eq!(setup.next_hop(uri, None, server), hop);
        }
        let located = Located { servers: vec![other], took: Duration::ZERO };
        assert_eq!(setup.next_hop(b"sip:[fe80::3]:5070;lr", Some(&located), server), other);
    }

    /// Whatever a route says, requests go only to named addresses.
    #[test]
    fn only_who_was_named_is_sent_to() {
        let [local, server, peer] =
            ["192.0.2.1:5060", "192.0.2.2:5060", "192.0.2.3:5070"].map(|text| text.parse().unwrap());
        let setup = Setup {
            peers: vec![peer, "[2001:db8::1]:5060".parse().unwrap()],
            ..Setup::new(1, local, server)
        };
        assert_eq!(setup.next_hop(b"sip:bob@192.0.2.3:5070;transport=udp", None, server), peer);
        assert_eq!(setup.next_hop(b"sip:[2001:db8::1];lr", None, server), setup.peers[1]);
        for elsewhere in
            [&b"sip:198.51.100.1:5060"[..], b"sip:bob@example.com", b"", b"\xff", b"sip:bob@192.0.2.3"]
        {
            assert_eq!(setup.next_hop(elsewhere, None, server), server);
        }
        // An attempt may send to the servers of its own lookup.
        let own: SocketAddr = "198.51.100.1:5060".parse().unwrap();
        let located = Located { servers: vec![own], took: Duration::ZERO };
        assert_eq!(setup.next_hop(b"sip:198.51.100.1:5060", Some(&located), server), own);
        assert_eq!(setup.next_hop(b"sip:192.0.2.2:5060", Some(&located), own), own);
        assert_eq!([0, 1].map(|failed| setup.server(Some(&located), failed)), [Some(own), None]);
    }
}
