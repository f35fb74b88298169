//! Replaces the addresses, hosts and users of a trace by pseudonyms, so that it can be shared.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::Bytes;

use crate::trace::{SipTrace, TracedMessage};

/// The replacements so far. An address, host or user has the same replacement everywhere.
///
/// An IPv4 address becomes one of 198.18.0.0/15 (RFC 2544), an IPv6 address one of 2001:db8::/32 (RFC 3849), a host name `host1.example`
/// (RFC 2606) and a user `user1`. Ports, tags, branches and all other values stay.
#[derive(Debug, Default)]
pub struct TraceMask {
    addresses: BTreeMap<IpAddr, IpAddr>,
    hosts: BTreeMap<String, String>,
    users: BTreeMap<String, String>,
}

/// Header fields whose value begins with a display name or a URI (RFC 3261 section 20, RFC 3325, RFC 3892, RFC 5806), with their compact
/// forms.
const NAME_ADDRESSES: [&str; 15] = [
    "from",
    "f",
    "to",
    "t",
    "contact",
    "m",
    "route",
    "record-route",
    "reply-to",
    "refer-to",
    "r",
    "referred-by",
    "p-asserted-identity",
    "p-preferred-identity",
    "diversion",
];

impl TraceMask {
    /// The trace with replaced addresses, hosts and users.
    pub fn trace(&mut self, trace: &SipTrace) -> SipTrace {
        let messages = trace.messages.iter().map(|message| self.message(message)).collect();
        SipTrace { messages, ..trace.clone() }
    }

    fn message(&mut self, message: &TracedMessage) -> TracedMessage {
        let text = String::from_utf8_lossy(&message.bytes);
        TracedMessage {
            from: self.socket(message.from),
            to: self.socket(message.to),
            bytes: Bytes::from(self.text(&text)),
            ..message.clone()
        }
    }

    fn socket(&mut self, address: SocketAddr) -> SocketAddr {
        SocketAddr::new(self.address(address.ip()), address.port())
    }

    fn address(&mut self, address: IpAddr) -> IpAddr {
        let number = self.addresses.len() as u32 + 1;
        *self.addresses.entry(address).or_insert_with(|| match address {
            IpAddr::V4(_) => {
                Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 0).to_bits() + (number & 0x1_FFFF)).into()
            }
            IpAddr::V6(_) => Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(number)).into(),
        })
    }

    /// The replacement of a host in a URI: a name, an IPv4 address, or an IPv6 address in brackets.
    fn host(&mut self, host: &str) -> String {
        if let Ok(address) = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            let masked = self.address(address);
            return if host.starts_with('[') { format!("[{masked}]") } else { masked.to_string() };
        }
        let number = self.hosts.len() + 1;
        self.hosts.entry(host.to_ascii_lowercase()).or_insert_with(|| format!("host{number}.example")).clone()
    }

    fn user(&mut self, user: &str) -> String {
        let number = self.users.len() + 1;
        self.users.entry(user.to_owned()).or_insert_with(|| format!("user{number}")).clone()
    }

    /// The message with replacements. Content-Length is the length of the new body.
    fn text(&mut self, text: &str) -> String {
        let (head, empty, body) = ["\r\n\r\n", "\n\n"]
            .iter()
            .find_map(|empty| text.split_once(empty).map(|(head, body)| (head, *empty, body)))
            .unwrap_or((text, "", ""));
        let masked_body: String = body.split_inclusive('\n').map(|line| self.body_line(line)).collect();
        let mut masked = String::with_capacity(text.len());
        for (place, line) in head.split_inclusive('\n').enumerate() {
            match line.split_once(':').filter(|_| place > 0 && !line.starts_with([' ', '\t'])) {
                Some((name, value)) => {
                    masked.push_str(name);
                    masked.push(':');
                    masked.push_str(&self.value(name.trim(), value, masked_body.len()));
                }
                // The start line or a continuation line.
                None => masked.push_str(&self.uris(line)),
            }
        }
        masked + empty + &masked_body
    }

    fn value(&mut self, name: &str, value: &str, body_len: usize) -> String {
        let name = name.to_ascii_lowercase();
        let bare = value.trim();
        match name.as_str() {
            "content-length" | "l" => {
                value.replacen(bare, &body_len.to_string(), usize::from(!bare.is_empty()))
            }
            "via" | "v" => self.via(value),
            "call-id" | "i" | "in-reply-to" => match value.split_once('@') {
                Some((id, host)) => format!("{id}@{}", self.first_host(host)),
                None => value.to_owned(),
            },
            "authorization" | "proxy-authorization" => {
                let value = self.quoted(value, "username=\"", Self::user);
                let value = self.quoted(&value, "realm=\"", Self::host);
                self.uris(&value)
            }
            "www-authenticate" | "proxy-authenticate" => self.quoted(value, "realm=\"", Self::host),
            "warning" => match value.trim_start().splitn(3, ' ').collect::<Vec<_>>()[..] {
                [code, agent, text] => format!(" {code} {} {text}", self.host_and_port(agent)),
                _ => value.to_owned(),
            },
            known if NAME_ADDRESSES.contains(&known) => self.name_address(value),
            _ => self.uris(value),
        }
    }

    /// The value of a header field with a name-addr or addr-spec. A display name before `<` is replaced by a user name.
    fn name_address(&mut self, value: &str) -> String {
        let Some((display, rest)) =
            value.split_once('<').filter(|(display, _)| !display.contains(['@', ':']))
        else {
            return self.uris(value);
        };
        let bare = display.trim().trim_matches('"');
        let display = if bare.is_empty() { display.to_owned() } else { format!(" \"{}\" ", self.user(bare)) };
        display + "<" + &self.uris(rest)
    }

    /// The value of a Via: `SIP/2.0/UDP host:port;…;received=address`, or several of them.
    fn via(&mut self, value: &str) -> String {
        let one = |via: &str, mask: &mut Self| {
            let begins = via.len() - via.trim_start().len();
            let Some(gap) = via[begins..].find([' ', '\t']).map(|gap| begins + gap) else {
                return via.to_owned();
            };
            let (protocol, rest) = via.split_at(gap);
            let bare = rest.trim_start();
            let end = bare.find([';', '\r', '\n']).unwrap_or(bare.len());
            let sent_by = mask.host_and_port(bare[..end].trim_end());
            let mut parameters = String::new();
            for parameter in bare[end..].split_inclusive(';') {
                match parameter
                    .split_once('=')
                    .filter(|(name, _)| ["received", "maddr"].contains(&name.trim()))
                {
                    Some((name, host)) => {
                        parameters += name;
                        parameters.push('=');
                        parameters += &mask.first_host(host);
                    }
                    None => parameters += parameter,
                }
            }
            format!("{protocol} {sent_by}{parameters}")
        };
        value.split(',').map(|via| one(via, self)).collect::<Vec<_>>().join(",")
    }

    /// Replaces the host in `host` or `host:port`.
    fn host_and_port(&mut self, text: &str) -> String {
        let port =
            text.rfind(':').filter(|colon| text[colon + 1..].bytes().all(|byte| byte.is_ascii_digit()));
        match port.filter(|colon| !text[..*colon].contains(':') || text[..*colon].ends_with(']')) {
            Some(colon) => self.host(&text[..colon]) + &text[colon..],
            None => self.host(text),
        }
    }

    /// Replaces the host at the start of `text`. It ends before the first character that a host cannot contain.
    fn first_host(&mut self, text: &str) -> String {
        let is_host =
            |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '[' | ']' | '_');
        let is_bracketed = text.starts_with('[');
        let bare_v6 = text.find(|letter: char| !(letter.is_ascii_hexdigit() || matches!(letter, ':' | '.')));
        let bare_v6 = bare_v6.unwrap_or(text.len());
        let end = if is_bracketed {
            text.find(']').map_or(text.len(), |bracket| bracket + 1)
        } else if text[..bare_v6].parse::<Ipv6Addr>().is_ok() {
            bare_v6
        } else {
            text.find(|letter| !is_host(letter)).unwrap_or(text.len())
        };
        if end == 0 { text.to_owned() } else { self.host(&text[..end]) + &text[end..] }
    }

    /// Replaces every value between `begin` and the next quotation mark by the result of `mask`.
    fn quoted(&mut self, text: &str, begin: &str, mask: impl Fn(&mut Self, &str) -> String) -> String {
        let mut masked = String::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once(begin) {
            let (value, behind) = behind.split_once('"').unwrap_or((behind, ""));
            masked += before;
            masked += begin;
            masked += &mask(self, value);
            masked.push('"');
            rest = behind;
        }
        masked + rest
    }

    /// Replaces the users and hosts in every URI of the schemes sip, sips and tel.
    fn uris(&mut self, text: &str) -> String {
        let mut masked = String::new();
        let mut rest = text;
        while let Some((at, scheme)) = first_scheme(rest) {
            let behind = at + scheme.len();
            masked += &rest[..behind];
            rest = &rest[behind..];
            let end = rest.find(['>', ';', '?', ',', '"', ' ', '\t', '\r', '\n']).unwrap_or(rest.len());
            let (uri, more) = rest.split_at(end);
            masked += &match uri.rsplit_once('@') {
                _ if scheme == "tel:" => self.user(uri),
                Some((user, host)) => format!("{}@{}", self.user(user), self.host_and_port(host)),
                None => self.host_and_port(uri),
            };
            rest = more;
        }
        masked + rest
    }

    /// A line of a body with replacements in SDP's origin and connection (RFC 8866), and in the URIs of any line.
    fn body_line(&mut self, line: &str) -> String {
        let bare = line.trim_end();
        let end = &line[bare.len()..];
        let words: Vec<&str> = bare.split(' ').collect();
        match words[..] {
            [user, id, version, net, kind, host] if user.starts_with("o=") => {
                let name = &user[2..];
                let name = if name == "-" { "-".to_owned() } else { self.user(name) };
                format!("o={name} {id} {version} {net} {kind} {}{end}", self.host(host))
            }
            [net @ "c=IN", kind, host] => format!("{net} {kind} {}{end}", self.first_host(host)),
            _ => self.uris(line),
        }
    }
}

/// The position of the first URI with a known scheme, and the scheme with its colon.
fn first_scheme(text: &str) -> Option<(usize, &'static str)> {
    let lower = text.to_ascii_lowercase();
    // A scheme is at the start or after a character that is not alphanumeric.
    let begins = |at: usize| !lower[..at].ends_with(|before: char| before.is_ascii_alphanumeric());
    let found = ["sip:", "sips:", "tel:"].into_iter().filter_map(|scheme| {
        lower.match_indices(scheme).map(|(at, _)| at).find(|at| begins(*at)).map(|at| (at, scheme))
    });
    found.min()
}

#[cfg(test)]
mod tests {
    use netrig_sip::header::Transport;

    use super::*;

    const INVITE: &str = "INVITE sip:bob@biloxi.com:5070 SIP/2.0\r\n\
        Via: SIP/2.0/UDP pc33.atlanta.com:5060;branch=z9hG4bK776;received=192.0.2.1\r\n\
        v: SIP/2.0/TCP [2001:db8:1::9]:5061;branch=z9hG4bK9\r\n\
        From: \"Alice Liddell\" <sip:alice@atlanta.com>;tag=1928\r\n\
        To: <sip:bob@biloxi.com>\r\n\
        Call-ID: a84b4c76e66710@pc33.atlanta.com\r\n\
        CSeq: 314159 INVITE\r\n\
        Contact: <sip:alice@192.0.2.1:5060;transport=udp>\r\n\
        Authorization: Digest username=\"alice\", realm=\"biloxi.com\", uri=\"sip:biloxi.com\", nonce=\"4\"\r\n\
        User-Agent: netrig\r\n\
        Content-Type: application/sdp\r\n\
        Content-Length: 80\r\n\
        \r\n\
        v=0\r\no=alice 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n";

    #[test]
    fn nothing_that_names_a_host_or_a_user_stays() {
        let message = TracedMessage {
            at_ns: 5,
            from: "192.0.2.1:5060".parse().unwrap(),
            to: "192.0.2.77:5060".parse().unwrap(),
            transport: Transport::Udp,
            bytes: Bytes::from_static(INVITE.as_bytes()),
        };
        let trace = SipTrace { messages: vec![message], ..SipTrace::default() };
        let masked = TraceMask::default().trace(&trace);
        let text = String::from_utf8(masked.messages[0].bytes.to_vec()).unwrap();
        for word in ["alice", "Alice", "Liddell", "bob", "biloxi", "atlanta", "192.0.2", "2001:db8:1::9"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
        for kept in [
            "branch=z9hG4bK776",
            "tag=1928",
            "CSeq: 314159 INVITE",
            "User-Agent: netrig",
            ":5070",
            "m=audio 4000",
        ] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{text}");
        assert!(netrig_sip::Message::parse(&masked.messages[0].bytes).is_ok(), "{text}");
        // Equal values have equal replacements everywhere.
        let address = masked.messages[0].from.ip().to_string();
        assert_eq!(text.matches(&address).count(), 4, "{address}: {text}");
        assert_eq!(text.matches("user1@").count(), text.matches("sip:user1@").count());
    }
}
