//! Session descriptions (RFC 8866), and the offer/answer model (RFC 3264).
//!
//! Start from [`SessionDescription::parse`] or [`SessionDescription::audio`], the offer of a telephone.
//! [`SessionDescription::answer`] makes the answer to an offer.

use std::fmt;
use std::net::IpAddr;

use netrig_core::named;

/// The port of the Discard Protocol (RFC 863), for media that no one receives.
pub const DISCARD: u16 = 9;

/// Content-Type of a session description (RFC 8866 section 8.1).
pub const SDP_TYPE: &str = "application/sdp";

/// A text is not a session description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected {expected} (RFC 8866 section {section})")]
pub struct SdpError {
    /// Line number, from 1.
    pub line: usize,
    /// The element that the grammar requires there.
    pub expected: &'static str,
    /// Section of RFC 8866 with the grammar.
    pub section: &'static str,
}

/// A session description: the media that one side receives, and their addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDescription {
    /// `o=`.
    pub origin: SessionOrigin,
    /// `s=`; `-` means no name.
    pub name: String,
    /// `c=` for all media without their own.
    pub connection: Option<ConnectionData>,
    /// Lines of the session that netrig does not interpret (`i=`, `u=`, `e=`, `p=`, `b=`, `k=`), unchanged.
    pub informative: Vec<(char, String)>,
    /// `t=` with `r=` and `z=`, unchanged; at least one.
    pub times: Vec<(char, String)>,
    /// `a=` of the session.
    pub attributes: Vec<Attribute>,
    /// `m=` with the lines of each medium.
    pub media: Vec<Media>,
}

/// `o=username id version IN IP4 address`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOrigin {
    /// User name; `-` means none.
    pub username: String,
    /// Session identifier, constant during the session.
    pub id: u64,
    /// Version of the description, incremented with each change.
    pub version: u64,
    /// Address of the creator.
    pub address: ConnectionData,
}

/// `IN IP4 192.0.2.1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionData {
    /// `IP4` or `IP6`.
    pub address_type: String,
    /// An address, a host name, or a multicast address with its scope.
    pub address: String,
}

/// `a=name` or `a=name:value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The text before the colon.
    pub name: String,
    /// The text after the colon, if there is one.
    pub value: Option<String>,
}

/// `m=audio 49170 RTP/AVP 0 8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// Media type: `audio`, `video`.
    pub kind: String,
    /// Port of the receiver; 0 refuses the medium (RFC 3264 section 6).
    pub port: u16,
    /// Number of consecutive ports, if given.
    pub ports: Option<u16>,
    /// Transport protocol: `RTP/AVP`.
    pub protocol: String,
    /// Payload types in order of preference.
    pub formats: Vec<String>,
    /// `i=`, `b=` and `k=`, unchanged.
    pub informative: Vec<(char, String)>,
    /// `c=` of the medium.
    pub connection: Option<ConnectionData>,
    /// `a=` of the medium.
    pub attributes: Vec<Attribute>,
}

named! {
    /// Direction of a medium, as seen by the sender of the description (RFC 8866 section 6.7).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum MediaDirection {
        /// Both sides send.
        #[default]
        SendRecv = "sendrecv",
        /// Only this side sends.
        SendOnly = "sendonly",
        /// Only the other side sends.
        RecvOnly = "recvonly",
        /// Neither side sends.
        Inactive = "inactive",
    }
}

impl MediaDirection {
    /// The direction that an attribute of this name means, if any.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.name() == name)
    }

    /// The direction as seen by the other side.
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Self::SendOnly => Self::RecvOnly,
            Self::RecvOnly => Self::SendOnly,
            other => other,
        }
    }
}

impl ConnectionData {
    /// The connection data of an address.
    pub fn new(address: IpAddr) -> Self {
        let address_type = if address.is_ipv4() { "IP4" } else { "IP6" };
        Self { address_type: address_type.into(), address: address.to_string() }
    }
}

impl Attribute {
    /// `a=name` or `a=name:value`.
    pub fn new(name: &str, value: Option<&str>) -> Self {
        Self { name: name.into(), value: value.map(str::to_owned) }
    }
}

impl Media {
    /// The direction of the medium's own attributes, if there is one.
    pub fn direction(&self) -> Option<MediaDirection> {
        self.attributes.iter().rev().find_map(direction)
    }
}

fn direction(attribute: &Attribute) -> Option<MediaDirection> {
    MediaDirection::named(&attribute.name).filter(|_| attribute.value.is_none())
}

impl SessionDescription {
    /// The offer of a telephone: G.711 with A-law and µ-law, and DTMF, at `port` of `address` (RFC 3551, RFC 4733).
    pub fn audio(address: IpAddr, port: u16, id: u64) -> Self {
        let attribute = |value: &str| Attribute::new("rtpmap", Some(value));
        let media = vec![Media {
            kind: "audio".into(),
            port,
            ports: None,
            protocol: "RTP/AVP".into(),
            formats: ["0", "8", "101"].map(str::to_owned).into(),
            informative: Vec::new(),
            connection: None,
            attributes: ["0 PCMU/8000", "8 PCMA/8000", "101 telephone-event/8000"].map(attribute).into(),
        }];
        Self::session(address, id, vec![('t', "0 0".into())], media)
    }

    /// The first version of a session without attributes of its own.
    fn session(address: IpAddr, id: u64, times: Vec<(char, String)>, media: Vec<Media>) -> Self {
        let connection = ConnectionData::new(address);
        let origin = SessionOrigin { username: "-".into(), id, version: 1, address: connection.clone() };
        Self {
            origin,
            name: "-".into(),
            connection: Some(connection),
            informative: Vec::new(),
            times,
            attributes: Vec::new(),
            media,
        }
    }

    /// Adds attributes without a meaning up to a length of `size` bytes. If the missing bytes are too few for an attribute, the
    /// description is unchanged.
    #[must_use]
    pub fn padded(mut self, size: usize) -> Self {
        /// Length of an attribute without its value.
        const START: usize = "a=x-netrig:".len() + "\r\n".len();
        /// The longest line.
        const LINE: usize = 200;
        let least = START + 1;
        let mut missing = size.saturating_sub(self.to_string().len());
        while missing >= least {
            // The rest must be long enough for another line, or empty.
            let line =
                if missing > LINE && missing - LINE < least { LINE - least } else { missing.min(LINE) };
            self.attributes.push(Attribute::new("x-netrig", Some(&"x".repeat(line - START))));
            missing -= line;
        }
        self
    }

    /// The direction of a medium: its own, else that of the session, else `sendrecv`.
    pub fn direction(&self, media: &Media) -> MediaDirection {
        let own = media.direction().or_else(|| self.attributes.iter().rev().find_map(direction));
        own.unwrap_or_default()
    }

    /// The answer to this offer from a receiver at `address` that supports `formats` (RFC 3264 section 6). It has the media of
    /// the offer in their order, and the supported formats in the offer's order of preference. The first medium has
    /// `port`, and each further port is higher by two. A medium without a supported format, or beyond the last port, is
    /// refused.
    #[must_use]
    pub fn answer(&self, address: IpAddr, port: u16, id: u64, formats: &[&str]) -> Self {
        let media = |(place, media): (usize, &Media)| {
            let port = u16::try_from(place * 2).ok().and_then(|by| port.checked_add(by));
            let taken: Vec<String> =
                media.formats.iter().filter(|own| formats.contains(&own.as_str())).cloned().collect();
            let port = port.filter(|_| !taken.is_empty() && media.port != 0).unwrap_or(0);
            let refused = port == 0;
            let is_of_taken = |attribute: &&Attribute| {
                let format = attribute.value.as_deref().and_then(|value| value.split(' ').next());
                matches!(attribute.name.as_str(), "rtpmap" | "fmtp")
                    && format.is_some_and(|format| taken.iter().any(|own| own == format))
            };
            let mut attributes: Vec<Attribute> =
                media.attributes.iter().filter(is_of_taken).cloned().collect();
            let direction = self.direction(media).reversed();
            if direction != MediaDirection::default() {
                attributes.push(Attribute::new(direction.name(), None));
            }
            Media {
                kind: media.kind.clone(),
                port,
                ports: None,
                protocol: media.protocol.clone(),
                // A refused medium keeps its formats: the grammar requires at least one.
                formats: if refused { media.formats.clone() } else { taken },
                informative: Vec::new(),
                connection: None,
                attributes: if refused { Vec::new() } else { attributes },
            }
        };
        Self::session(address, id, self.times.clone(), self.media.iter().enumerate().map(media).collect())
    }

    /// Parses a body of `application/sdp`. Lines may end without CR (RFC 8866 section 5).
    ///
    /// # Errors
    /// A line breaks the grammar, or is out of order.
    pub fn parse(text: &str) -> Result<Self, SdpError> {
        Lines::new(text).description()
    }
}

/// A reader of the lines of a description.
struct Lines<'a> {
    lines: std::iter::Peekable<std::str::Lines<'a>>,
    number: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        Self { lines: text.lines().peekable(), number: 1 }
    }

    fn error(&self, expected: &'static str, section: &'static str) -> SdpError {
        SdpError { line: self.number, expected, section }
    }

    /// Reads the value of the next line, if it is of `kind`.
    fn take(&mut self, kind: char) -> Option<&'a str> {
        let value = self.lines.peek()?.strip_prefix(kind)?.strip_prefix('=')?;
        self.lines.next();
        self.number += 1;
        Some(value)
    }

    fn need(
        &mut self,
        kind: char,
        expected: &'static str,
        section: &'static str,
    ) -> Result<&'a str, SdpError> {
        self.take(kind).ok_or_else(|| self.error(expected, section))
    }

    /// Reads any number of lines of each of `kinds`, in their order.
    fn several(&mut self, kinds: &[char]) -> Vec<(char, String)> {
        let mut found = Vec::new();
        for kind in kinds {
            while let Some(value) = self.take(*kind) {
                found.push((*kind, value.to_owned()));
            }
        }
        found
    }

    fn description(mut self) -> Result<SessionDescription, SdpError> {
        if self.need('v', "`v=0`", "5.1")? != "0" {
            self.number -= 1;
            return Err(self.error("`v=0`", "5.1"));
        }
        let origin = self.need('o', "`o=` after `v=`", "5.2")?;
        let origin =
            read_origin(origin).ok_or_else(|| self.before("`o=user id version IN IP4 address`", "5.2"))?;
        let name = self.need('s', "`s=` after `o=`", "5.3")?.to_owned();
        let mut informative = self.several(&['i', 'u', 'e', 'p']);
        let connection = self.connection()?;
        informative.extend(self.several(&['b']));
        let mut times = Vec::new();
        while let Some(time) = self.take('t') {
            times.push(('t', time.to_owned()));
            times.extend(self.several(&['r']));
        }
        if times.is_empty() {
            return Err(self.error("`t=`", "5.9"));
        }
        times.extend(self.several(&['z']));
        informative.extend(self.several(&['k']));
        let attributes = self.attributes()?;
        let mut media = Vec::new();
        while let Some(line) = self.take('m') {
            let found =
                read_media(line).ok_or_else(|| self.before("`m=kind port protocol format`", "5.14"))?;
            media.push(self.media(found)?);
        }
        match self.lines.peek() {
            None => {
                Ok(SessionDescription { origin, name, connection, informative, times, attributes, media })
            }
            Some(_) => Err(self.error("a line that is allowed here", "5")),
        }
    }

    /// An error in the previous line.
    fn before(&self, expected: &'static str, section: &'static str) -> SdpError {
        SdpError { line: self.number - 1, expected, section }
    }

    fn media(&mut self, found: Media) -> Result<Media, SdpError> {
        let mut informative = self.several(&['i']);
        let connection = self.connection()?;
        // "Multiple connection fields" of a medium are for hierarchical encoding over several groups. The first one is used.
        while self.take('c').is_some() {}
        informative.extend(self.several(&['b', 'k']));
        Ok(Media { informative, connection, attributes: self.attributes()?, ..found })
    }

    fn connection(&mut self) -> Result<Option<ConnectionData>, SdpError> {
        let Some(line) = self.take('c') else { return Ok(None) };
        let mut words = line.split(' ');
        let found = read_connection(&mut words).filter(|_| words.next().is_none());
        found.map(Some).ok_or_else(|| self.before("`c=IN IP4 address`", "5.7"))
    }

    fn attributes(&mut self) -> Result<Vec<Attribute>, SdpError> {
        let mut found = Vec::new();
        while let Some(line) = self.take('a') {
            let (name, value) =
                line.split_once(':').map_or((line, None), |(name, value)| (name, Some(value)));
            if name.is_empty() {
                return Err(self.before("the name of an attribute", "5.13"));
            }
            found.push(Attribute::new(name, value));
        }
        Ok(found)
    }
}

fn read_connection<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<ConnectionData> {
    words.next().filter(|network| *network == "IN")?;
    let address_type = words.next().filter(|kind| matches!(*kind, "IP4" | "IP6"))?.to_owned();
    let address = words.next().filter(|address| !address.is_empty())?.to_owned();
    Some(ConnectionData { address_type, address })
}

fn read_origin(line: &str) -> Option<SessionOrigin> {
    let mut words = line.split(' ');
    let username = words.next().filter(|name| !name.is_empty())?.to_owned();
    let (id, version) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let address = read_connection(&mut words)?;
    words.next().is_none().then_some(SessionOrigin { username, id, version, address })
}

fn read_media(line: &str) -> Option<Media> {
    let mut words = line.split(' ').filter(|word| !word.is_empty());
    let kind = words.next()?.to_owned();
    let port = words.next()?;
    let (port, ports) = match port.split_once('/') {
        Some((port, ports)) => (port, Some(ports.parse().ok()?)),
        None => (port, None),
    };
    let (port, protocol) = (port.parse().ok()?, words.next()?.to_owned());
    let formats: Vec<String> = words.map(str::to_owned).collect();
    let (informative, attributes) = (Vec::new(), Vec::new());
    (!formats.is_empty()).then_some(Media {
        kind,
        port,
        ports,
        protocol,
        formats,
        informative,
        connection: None,
        attributes,
    })
}

impl fmt::Display for ConnectionData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IN {} {}", self.address_type, self.address)
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "a={}:{value}\r\n", self.name),
            None => write!(f, "a={}\r\n", self.name),
        }
    }
}

fn lines(f: &mut fmt::Formatter<'_>, lines: &[(char, String)], kinds: &[char]) -> fmt::Result {
    let wanted = lines.iter().filter(|(kind, _)| kinds.contains(kind));
    wanted.into_iter().try_for_each(|(kind, value)| write!(f, "{kind}={value}\r\n"))
}

fn connection(f: &mut fmt::Formatter<'_>, connection: Option<&ConnectionData>) -> fmt::Result {
    connection.map_or(Ok(()), |connection| write!(f, "c={connection}\r\n"))
}

impl fmt::Display for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = self.ports.map_or(String::new(), |ports| format!("/{ports}"));
        write!(f, "m={} {}{ports} {} {}\r\n", self.kind, self.port, self.protocol, self.formats.join(" "))?;
        lines(f, &self.informative, &['i'])?;
        connection(f, self.connection.as_ref())?;
        lines(f, &self.informative, &['b', 'k'])?;
        self.attributes.iter().try_for_each(|attribute| attribute.fmt(f))
    }
}

impl fmt::Display for SessionDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SessionOrigin { username, id, version, address } = &self.origin;
        write!(f, "v=0\r\no={username} {id} {version} {address}\r\ns={}\r\n", self.name)?;
        lines(f, &self.informative, &['i', 'u', 'e', 'p'])?;
        connection(f, self.connection.as_ref())?;
        lines(f, &self.informative, &['b'])?;
        lines(f, &self.times, &['t', 'r', 'z'])?;
        lines(f, &self.informative, &['k'])?;
        self.attributes.iter().try_for_each(|attribute| attribute.fmt(f))?;
        self.media.iter().try_for_each(|media| media.fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8866 section 5.
    const EXAMPLE: &str = "v=0\r\no=jdoe 3724394400 3724394405 IN IP4 198.51.100.1\r\ns=Call to John Smith\r\n\
        i=SDP Offer #1\r\nu=http://www.jdoe.example.com/home.html\r\ne=Jane Doe <jane@jdoe.example.com>\r\n\
        p=+1 617 555-6011\r\nc=IN IP4 198.51.100.1\r\nt=0 0\r\nm=audio 49170 RTP/AVP 0\r\n\
        m=audio 49180 RTP/AVP 0\r\nm=video 51372 RTP/AVP 99\r\nc=IN IP6 2001:db8::2\r\na=rtpmap:99 h263-1998/90000\r\n";

    #[test]
    fn the_example_of_the_rfc_comes_back_as_it_was() {
        let description = SessionDescription::parse(EXAMPLE).unwrap();
        assert_eq!(description.to_string(), EXAMPLE);
        assert_eq!(description.media.len(), 3);
        assert_eq!(SessionDescription::parse(&EXAMPLE.replace("\r\n", "\n")).unwrap(), description);
    }

    #[test]
    fn what_is_none_says_where() {
        for (from, to, line) in [
            ("v=0", "v=1", 1),
            ("o=jdoe", "o=", 2),
            ("s=", "x=", 3),
            ("t=0 0\r\n", "", 9),
            ("m=audio 49170", "m=audio 70000", 10),
            ("RTP/AVP 99", "RTP/AVP", 12),
            ("IP6 2001", "IP5 2001", 13),
            ("a=rtpmap", "a=:", 14),
            ("a=rtpmap", "y=rtpmap", 14),
        ] {
            assert_eq!(
                SessionDescription::parse(&EXAMPLE.replacen(from, to, 1)).unwrap_err().line,
                line,
                "{from} {to}"
            );
        }
        assert_eq!(SessionDescription::parse("").unwrap_err().line, 1);
    }

    #[test]
    fn an_answer_takes_what_it_knows() {
        let here = [192, 0, 2, 1].into();
        let mut offer = SessionDescription::parse(EXAMPLE).unwrap();
        offer.media[0] = SessionDescription::audio(here, 4000, 7).media.remove(0);
        offer.media[0].attributes.push(Attribute::new("sendonly", None));
        let answer = offer.answer(here, 6000, 1, &["8", "0"]);
        let ports: Vec<u16> = answer.media.iter().map(|media| media.port).collect();
        assert_eq!(ports, [6000, 6002, 0]);
        assert_eq!(answer.media[0].formats, ["0", "8"]);
        assert_eq!(answer.media[0].direction(), Some(MediaDirection::RecvOnly));
        assert_eq!(answer.media[0].attributes.len(), 3);
        assert_eq!(SessionDescription::parse(&answer.to_string()).unwrap(), answer);
    }

    /// The number of media in an offer is unlimited.
    #[test]
    fn an_answer_ends_with_the_ports() {
        let here = [192, 0, 2, 1].into();
        let mut offer = SessionDescription::audio(here, 4000, 7);
        offer.media = vec![offer.media[0].clone(); 40_000];
        let answer = offer.answer(here, 65_530, 1, &["0"]);
        let ports: Vec<u16> = answer.media.iter().map(|media| media.port).collect();
        assert_eq!((&ports[..4], ports.len()), (&[65_530, 65_532, 65_534, 0][..], 40_000));
        assert!(ports[4..].iter().all(|port| *port == 0));
    }

    #[test]
    fn a_description_is_as_long_as_wanted() {
        for address in ["127.0.0.1", "2001:db8::1"] {
            let offer = SessionDescription::audio(address.parse().unwrap(), DISCARD, 1);
            let least = offer.to_string().len();
            // Sizes just above the shortest leave no room for a line.
            for size in (0..least + 20).chain([400, 401, 600, 1000, 1400, 4096, 9001]) {
                let padded = offer.clone().padded(size);
                let text = padded.to_string();
                let expected = if size < least + 14 { least } else { size };
                assert_eq!(text.len(), expected, "{size}");
                assert_eq!(SessionDescription::parse(&text).unwrap(), padded);
                assert!(text.lines().all(|line| line.len() <= 200), "{text}");
            }
        }
    }
}
