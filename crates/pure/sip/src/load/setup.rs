//! What all machines of one shard are told.

use std::net::SocketAddr;

use bytes::Bytes;
use netrig_core::{Duration, Instant};

use super::lookup::Located;
use super::output::LoadOutput;
use super::own_message::OwnMessage;
use super::text::InlineText;
use crate::Host;
use crate::deadline::Repetition;
use crate::digits::Decimal;
use crate::header::Transport;
use crate::server::LONGEST_OVER_UDP;
use crate::transaction::Timing;

/// Who tests what, and how.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Of this run, drawn at random: names of other runs are not mistaken for its own.
    pub run: u32,
    /// Which of the parts that share nothing, below 4096.
    pub shard: u16,
    /// Where all requests go.
    pub server: SocketAddr,
    /// Where they go instead, one after the other, when that one fails: seven at most (RFC 3263 section 4.3).
    pub others: Vec<SocketAddr>,
    /// Where requests within a dialog may go instead, if its route says so. Nothing else is ever sent to.
    pub peers: Vec<SocketAddr>,
    /// Where the machines are reached, as messages name it ([`in_messages`]): of `Via` and `Contact`.
    pub local: SocketAddr,
    /// Of `Via`.
    pub transport: Transport,
    /// The domain of all users, as it stands behind the `@`.
    pub domain: String,
    /// T1, T2 and T4.
    pub timing: Timing,
    /// What deadlines are rounded up to.
    pub resolution: Duration,
    /// The most calls at once, of each side.
    pub calls: u32,
    /// The session description of an INVITE. Empty: none.
    pub description: Bytes,
    /// That of its 200 and of a 183, if it is another.
    pub answer: Option<Bytes>,
    /// Header fields and bodies of the author's own for the messages of the scenarios.
    pub messages: Vec<OwnMessage>,
    /// Callers follow a 3xx to its contacts.
    pub follows_redirects: bool,
    /// How often a request that is refused with `Retry-After` is sent again, after that time.
    pub retries: u8,
    /// Requests that are too long for a datagram go over TCP.
    pub sends_large_over_tcp: bool,
    /// At how many places each user is registered, 1 at least: behind the name of all but the first stand `~` and a number.
    pub contacts: u8,
    /// How many provisional responses one who is called sends before it answers, evenly over the time for which it rings:
    /// 1 at least.
    pub provisionals: u16,
    /// The session interval that callers ask for, s (RFC 4028); 0 for none.
    pub session_expires: u32,
    /// How long a call may ring before it is given up.
    pub longest_ringing: Duration,
    /// How long one who was called waits for the other to hang up.
    pub longest_call: Duration,
}

impl Setup {
    /// Over UDP, with the timers of RFC 3261, 65,536 calls at once, deadlines to 100 µs, three minutes of ringing
    /// (timer C of RFC 3261 section 16.6) and an hour of call. The domain is the server's address, with its port if that is not
    /// 5060.
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
            messages: Vec::new(),
            follows_redirects: false,
            retries: 0,
            sends_large_over_tcp: false,
            contacts: 1,
            provisionals: 1,
            session_expires: 0,
            longest_ringing: Duration::from_secs(180),
            longest_call: Duration::from_secs(3600),
        }
    }

    /// The session description of a 200 to an INVITE, and of a 183. Empty: none.
    pub(super) const fn described_answer(&self) -> &Bytes {
        match &self.answer {
            Some(own) => own,
            None => &self.description,
        }
    }

    /// Whether a request may go over another transport than the others: over TCP, as it is too long for a datagram (RFC 3261 section
    /// 18.1.1).
    pub(super) fn has_two_transports(&self) -> bool {
        self.sends_large_over_tcp && self.transport == Transport::Udp
    }

    /// Has the request that was written last go over TCP if it is too long for a datagram. Whether it does.
    pub(super) fn send_large_over_tcp(&self, out: &mut LoadOutput) -> bool {
        let is_large = self.has_two_transports() && out.messages.last_len() > LONGEST_OVER_UDP;
        if is_large {
            out.messages.send_over_tcp();
        }
        is_large
    }

    /// The first timer of a request that is sent now: none over a transport that is reliable.
    pub(super) fn first_repetition(&self, now: Instant, is_over_tcp: bool) -> Repetition {
        if self.transport.is_reliable() || is_over_tcp {
            Repetition::default()
        } else {
            Repetition::after(now, self.timing.t1)
        }
    }

    /// What tells in a `Contact` that it is to be reached over a connection (RFC 3261 section 19.1.1).
    pub(super) const fn transport_parameter(&self) -> &'static str {
        match self.transport {
            Transport::Udp => "",
            Transport::Tls => ";transport=tls",
            _ => ";transport=tcp",
        }
    }

    /// The URI of a user's `Contact` at the first place, or at another (see [`Setup::contacts`]).
    pub(super) fn contact(&self, user: &str, place: u8) -> String {
        let Self { local, .. } = self;
        let behind = if place > 1 { format!("~{place}") } else { String::new() };
        format!("sip:{user}{behind}@{local}{}", self.transport_parameter())
    }

    /// The server that is asked when so many have failed; `None` if there are no more. Of an attempt that has looked for its
    /// own, one of those.
    pub(super) fn server(&self, located: Option<&Located>, failed: u8) -> Option<SocketAddr> {
        if let Some(own) = located {
            return own.servers.get(usize::from(failed)).copied();
        }
        match failed.checked_sub(1) {
            None => Some(self.server),
            Some(place) => self.others.get(usize::from(place)).copied(),
        }
    }

    /// The server with which an attempt is under way.
    pub(super) fn current(&self, located: Option<&Located>, failed: u8) -> SocketAddr {
        self.server(located, failed).unwrap_or(self.server)
    }

    /// Where a request of a dialog goes: what its first route says, or its target, if that is one of the peers or servers; else
    /// to the `server` with which the dialog was begun. A URI names an address of a link without its interface.
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

/// An address as a message names it: without the interface of an address of a link, which means something to this host only
/// (RFC 4007 section 6).
pub const fn in_messages(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

/// The address of a server as it stands in the URIs of its users: with its port, where it is not the one that is meant without
/// (RFC 3261 section 19.1.2), for another server may listen there.
fn domain_of(server: SocketAddr) -> String {
    let host = Host::Address(server.ip());
    if server.port() == Transport::Udp.default_port() {
        host.to_string()
    } else {
        format!("{host}:{}", server.port())
    }
}

/// Texts by users' numbers: their names, or their passwords.
#[derive(Clone, Debug)]
pub enum Directory {
    /// The same for all.
    Fixed(Box<[u8]>),
    /// A prefix and a number of so many digits: `user000042`.
    Pattern {
        /// Before the number.
        prefix: Box<[u8]>,
        /// Of the number, 20 at most; a longer number has its own.
        digits: u8,
    },
    /// One by one.
    List {
        /// All of them.
        bytes: Box<[u8]>,
        /// Where each ends.
        ends: Box<[u32]>,
    },
    /// Every so many of another's texts.
    Part {
        /// The other.
        of: Box<Self>,
        /// The number of the first user there.
        first: u32,
        /// From one user to the next there.
        step: u32,
    },
}

impl Directory {
    /// `prefix` and a number of `digits` digits.
    pub fn pattern(prefix: &str, digits: u8) -> Self {
        Self::Pattern { prefix: prefix.as_bytes().into(), digits }
    }

    /// Texts one by one, 4 GiB in all.
    pub fn list<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for text in texts {
            bytes.extend_from_slice(text.as_bytes());
            ends.push(bytes.len() as u32);
        }
        Self::List { bytes: bytes.into(), ends: ends.into() }
    }

    /// The texts of users `first`, `first + step` and so on, from 0 on.
    #[must_use]
    pub fn part(&self, first: u32, step: u32) -> Self {
        Self::Part { of: Box::new(self.clone()), first, step }
    }

    /// Whether no user has a text.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Fixed(text) => text.is_empty(),
            Self::Pattern { .. } => false,
            Self::List { bytes, .. } => bytes.is_empty(),
            Self::Part { of, .. } => of.is_empty(),
        }
    }

    /// The text of one user; empty beyond the end of a list.
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

    /// What others read has no interface of this host's, and what they write of an address of a link leads along its interface.
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

    /// Whatever a route says: nobody is sent to who was not named.
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
        // What an attempt has found for itself is what it may be sent to.
        let own: SocketAddr = "198.51.100.1:5060".parse().unwrap();
        let located = Located { servers: vec![own], took: Duration::ZERO };
        assert_eq!(setup.next_hop(b"sip:198.51.100.1:5060", Some(&located), server), own);
        assert_eq!(setup.next_hop(b"sip:192.0.2.2:5060", Some(&located), own), own);
        assert_eq!([0, 1].map(|failed| setup.server(Some(&located), failed)), [Some(own), None]);
    }
}
