//! Hosts of URIs and `Via`s: names and addresses (RFC 3261 section 25.1).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::digits::Decimal;
use crate::error::ParseError;
use crate::grammar::Cursor;

/// A host: a name or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// `example.com`, which is case-insensitive.
    Name(String),
    /// `192.0.2.1`, or `[2001:db8::1]`.
    Address(IpAddr),
}

impl Host {
    /// Whether both are the same host, without regard to the case of names.
    pub fn is_equivalent(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Name(a), Self::Name(b)) => a.eq_ignore_ascii_case(b),
            (a, b) => a == b,
        }
    }
}

/// A host that borrows its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostView<'a> {
    Name(&'a str),
    Address(IpAddr),
}

impl<'a> HostView<'a> {
    /// Reads the `host` of a `hostport`.
    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self, ParseError> {
        if cursor.eat(b'[') {
            let start = *cursor;
            let address = cursor.take_until(b"]");
            let address: Ipv6Addr = address.parse().map_err(|_| start.error("an IPv6 address"))?;
            cursor.expect(b']', "`]` after an IPv6 address")?;
            return Ok(Self::Address(address.into()));
        }
        let start = *cursor;
        let name = cursor.take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
        if name.is_empty() {
            return Err(start.error("a host"));
        }
        if let Ok(address) = name.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        if is_hostname(name) { Ok(Self::Name(name)) } else { Err(start.error("a host name or address")) }
    }

    /// Appends the text of the host; an IPv6 address has brackets.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            HostView::Name(name) => out.extend_from_slice(name.as_bytes()),
            HostView::Address(ip @ IpAddr::V4(_)) => write_address(*ip, out),
            HostView::Address(ip) => {
                out.push(b'[');
                write_address(*ip, out);
                out.push(b']');
            }
        }
    }
}

/// Appends an address without brackets.
pub(crate) fn write_address(ip: IpAddr, out: &mut Vec<u8>) {
    let IpAddr::V4(ip) = ip else {
        out.extend_from_slice(ip.to_string().as_bytes());
        return;
    };
    for (place, octet) in ip.octets().into_iter().enumerate() {
        if place > 0 {
            out.push(b'.');
        }
        out.extend_from_slice(Decimal::new(octet.into()).as_bytes());
    }
}

impl From<HostView<'_>> for Host {
    fn from(view: HostView<'_>) -> Self {
        match view {
            HostView::Name(name) => Self::Name(name.to_owned()),
            HostView::Address(address) => Self::Address(address),
        }
    }
}

/// `hostname = *( domainlabel "." ) toplabel [ "." ]`: labels neither start nor end with a hyphen, and the last one starts
/// with a letter.
fn is_hostname(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let mut labels = name.split('.').peekable();
    let fits = |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
    while let Some(label) = labels.next() {
        let is_last = labels.peek().is_none();
        if !fits(label) || is_last && !label.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return false;
        }
    }
    true
}

/// Reads a port after its colon.
pub(crate) fn read_port(cursor: &mut Cursor<'_>) -> Result<u16, ParseError> {
    cursor.number("a port from 0 to 65535")
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Self::Address(address)
    }
}
