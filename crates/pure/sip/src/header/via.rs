//! `Via`: the path of a request, along which its response returns (RFC 3261 section 20.42).

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use netrig_core::named;

use super::parameters::{ParameterGrammar, Parameters, ParametersView};
use crate::digits::Decimal;
use crate::error::ParseError;
use crate::grammar::Cursor;
use crate::host::{Host, HostView, read_port, write_address};

named! {
    /// The transport protocol of a message.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Transport {
        /// UDP.
        Udp = "UDP",
        /// TCP.
        Tcp = "TCP",
        /// TLS over TCP.
        Tls = "TLS",
        /// SCTP (RFC 4168).
        Sctp = "SCTP",
        /// WebSocket (RFC 7118).
        Ws = "WS",
        /// WebSocket over TLS (RFC 7118).
        Wss = "WSS",
    }
}

impl Transport {
    /// Whether the transport is reliable, so that SIP does not retransmit (RFC 3261 section 17.1.1.2).
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Self::Udp)
    }

    /// Whether the transport uses TLS, as each hop of a SIPS URI must (RFC 3261 section 26.2.2).
    pub const fn is_secure(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }

    /// The port if none is given (RFC 3261 section 19.1.2, RFC 7118 section 8).
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Udp | Self::Tcp | Self::Sctp => 5060,
            Self::Tls => 5061,
            Self::Ws => 80,
            Self::Wss => 443,
        }
    }
}

/// `SIP/2.0/UDP host:port;branch=z9hG4bK…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Via {
    /// The transport; the original text of an unknown one.
    pub transport: Result<Transport, String>,
    /// Host of `sent-by`.
    pub host: Host,
    /// Port of `sent-by`.
    pub port: Option<u16>,
    /// `branch`, `received`, `rport` and others.
    pub parameters: Parameters,
}

/// The start of each branch of RFC 3261 (section 8.1.1.7).
pub const MAGIC_COOKIE: &str = "z9hG4bK";

impl Via {
    /// The `Via` of this element.
    pub fn new(transport: Transport, host: Host, port: Option<u16>, branch: &str) -> Self {
        let mut parameters = Parameters::default();
        parameters.push("branch", Some(branch));
        Self { transport: Ok(transport), host, port, parameters }
    }

    /// The branch of the transaction.
    pub fn branch(&self) -> Option<&str> {
        self.parameters.value("branch")
    }

    /// The source address of the request, if it differs from `sent-by` (RFC 3261 section 18.2.1). An IPv6 address may have
    /// brackets.
    pub fn received(&self) -> Option<IpAddr> {
        received(self.parameters.value("received")?)
    }

    /// `rport` (RFC 3581): `None` if the sender does not ask for it, `Some(None)` before the receiver fills it in.
    pub fn rport(&self) -> Option<Option<u16>> {
        self.parameters.get("rport").map(|value| value.and_then(|value| value.parse().ok()))
    }

    /// `via-parm = sent-protocol LWS sent-by *( SEMI via-params )`.
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self, ParseError> {
        ViaView::read(cursor).map(Self::from)
    }
}

/// A `Via` that borrows its text. Its grammar has been checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViaView<'a> {
    pub transport: Result<Transport, &'a str>,
    pub host: HostView<'a>,
    pub port: Option<u16>,
    pub parameters: ParametersView<'a>,
}

impl<'a> ViaView<'a> {
    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self, ParseError> {
        cursor.skip_white();
        let protocol = cursor.token("the protocol, `SIP`")?;
        slash(cursor)?;
        let before = *cursor;
        let version = cursor.token("the version, `2.0`")?;
        if !protocol.eq_ignore_ascii_case("SIP") || version != "2.0" {
            return Err(before.error("`SIP/2.0`"));
        }
        slash(cursor)?;
        let transport = cursor.token("a transport")?;
        let known = Transport::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(transport));
        cursor.white()?;
        let host = HostView::read(cursor)?;
        let port = if cursor.eat_separator(b':') { Some(read_port(cursor)?) } else { None };
        let parameters = ParametersView::read(cursor, ParameterGrammar::Field)?;
        Ok(Self { transport: known.ok_or(transport), host, port, parameters })
    }
}

impl ViaView<'_> {
    /// Writes the `Via` with the source of the request: "If the host portion of the "sent-by" parameter contains a domain name,
    /// or if it contains an IP address that differs from the packet source address, the server MUST add a "received" parameter"
    /// (RFC 3261 section 18.2.1). If there is an `rport`, "it MUST set the value of the parameter to the source port of the
    /// request", and write "received" "even if it is identical to the value of the "sent-by" component" (RFC 3581 section 4).
    /// The sender's own `received` is removed: it could direct the response to another host.
    pub(crate) fn write_stamped(&self, from: SocketAddr, out: &mut Vec<u8>) {
        let Self { transport, host, port, parameters } = self;
        let transport = match transport {
            Ok(known) => known.name(),
            Err(own) => own,
        };
        for part in ["SIP/2.0/", transport, " "] {
            out.extend_from_slice(part.as_bytes());
        }
        host.write(out);
        if let Some(port) = port {
            out.push(b':');
            out.extend_from_slice(Decimal::new(u64::from(*port)).as_bytes());
        }
        let mut asks_for_port = false;
        for (name, value) in parameters.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("received")) {
            out.push(b';');
            out.extend_from_slice(name.as_bytes());
            let is_port = !asks_for_port && name.eq_ignore_ascii_case("rport");
            if is_port {
                asks_for_port = true;
                out.push(b'=');
                out.extend_from_slice(Decimal::new(from.port().into()).as_bytes());
            } else if let Some(value) = value {
                out.push(b'=');
                out.extend_from_slice(value.as_bytes());
            }
        }
        if asks_for_port || *host != HostView::Address(from.ip()) {
            out.extend_from_slice(b";received=");
            write_address(from.ip(), out);
        }
    }

    /// As [`Via::rport`].
    pub(crate) fn rport(&self) -> Option<Option<u16>> {
        let mut all = self.parameters.iter().filter(|(name, _)| name.eq_ignore_ascii_case("rport"));
        all.next().map(|(_, value)| value.and_then(|value| value.parse().ok()))
    }

    /// As [`Via::received`].
    pub(crate) fn received(&self) -> Option<IpAddr> {
        received(self.parameters.value("received")?)
    }
}

/// Reads a `received`, whose IPv6 address may have brackets.
fn received(value: &str) -> Option<IpAddr> {
    value.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

impl From<ViaView<'_>> for Via {
    fn from(view: ViaView<'_>) -> Self {
        Self {
            transport: view.transport.map_err(str::to_owned),
            host: view.host.into(),
            port: view.port,
            parameters: view.parameters.into(),
        }
    }
}

fn slash(cursor: &mut Cursor<'_>) -> Result<(), ParseError> {
    if cursor.eat_separator(b'/') { Ok(()) } else { Err(cursor.error("`/`")) }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = self.transport.as_ref().map_or_else(String::as_str, |known| known.name());
        write!(f, "SIP/2.0/{transport} {}", self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        write!(f, "{}", self.parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Via, ParseError> {
        let mut cursor = Cursor::new(text, "");
        let found = Via::read(&mut cursor)?;
        cursor.end().map(|()| found)
    }

    #[test]
    fn its_parts_are_found() {
        let via = read(
            "SIP / 2.0 / UDP first.example.com: 4000;ttl=16 ;maddr=224.2.0.1 ;branch=z9hG4bKa7c6a8dlze.1",
        )
        .unwrap();
        assert_eq!((via.transport.clone(), via.port), (Ok(Transport::Udp), Some(4000)));
        assert_eq!(via.branch(), Some("z9hG4bKa7c6a8dlze.1"));
        assert_eq!(via.parameters.value("maddr"), Some("224.2.0.1"));
        assert_eq!(read("sip/2.0/tcp [2001:db8::9:1]").unwrap().to_string(), "SIP/2.0/TCP [2001:db8::9:1]");
        assert_eq!(read("SIP/2.0/CARRIER host").unwrap().transport, Err("CARRIER".into()));
    }

    #[test]
    fn what_the_far_end_filled_in() {
        let via = read("SIP/2.0/UDP h:5060;received=192.0.2.1;rport=9988;branch=x").unwrap();
        assert_eq!((via.received(), via.rport()), (Some([192, 0, 2, 1].into()), Some(Some(9988))));
        let via = read("SIP/2.0/UDP h;received=2001:db8::1;rport").unwrap();
        assert_eq!((via.received(), via.rport()), ("2001:db8::1".parse().ok(), Some(None)));
        assert_eq!(read("SIP/2.0/UDP h").unwrap().rport(), None);
    }

    #[test]
    fn an_invalid_via_is_reported_with_its_position() {
        for (text, at) in
            [("", 0), ("SIP/3.0/UDP h", 4), ("SIP/2.0/UDP", 11), ("SIP/2.0 UDP h", 7), ("SIP/2.0/UDP ;x", 12)]
        {
            assert_eq!(read(text).unwrap_err().at, at, "{text}");
        }
    }
}
