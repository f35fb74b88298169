//! The fields of a message that a load needs, found in one pass.
//!
//! [`Scan::of`] allocates and copies nothing and checks no grammar. The fields are slices of the datagram; a missing
//! one is `None`. Names of header fields may be compact and in any case, lines may be folded and end with LF alone.
//! If the strict [`Message::parse`](crate::Message::parse) accepts a message, the scan finds the same fields. Its time
//! grows only with the length of the datagram.

use std::borrow::Cow;

use memchr::memchr;

use crate::digits::decimal as number;
use crate::grammar::unescaped;

/// The fields of a datagram.
#[derive(Clone, Debug)]
pub struct Scan<'a> {
    /// Method and Request-URI, or the status code.
    pub start: Option<Start<'a>>,
    /// The topmost `Via`, without later values of the same field.
    pub via: Option<&'a [u8]>,
    /// The branch of the topmost `Via`.
    pub branch: Option<&'a [u8]>,
    /// `Call-ID`.
    pub call_id: Option<&'a [u8]>,
    /// `CSeq`.
    pub cseq: Option<CSeq<'a>>,
    /// The whole value of `From`.
    pub from: Option<&'a [u8]>,
    /// The tag of `From`.
    pub from_tag: Option<&'a [u8]>,
    /// The whole value of `To`.
    pub to: Option<&'a [u8]>,
    /// The tag of `To`.
    pub to_tag: Option<&'a [u8]>,
    /// The URI of the first `Contact`, without `<` and `>`. `None` for `*`.
    pub contact: Option<&'a [u8]>,
    /// `RSeq`.
    pub rseq: Option<u32>,
    /// Whether `Require` has `100rel`: the response must be acknowledged by PRACK (RFC 3262).
    pub requires_100rel: bool,
    /// The first `WWW-Authenticate`.
    pub www_authenticate: Option<&'a [u8]>,
    /// The first `Proxy-Authenticate`.
    pub proxy_authenticate: Option<&'a [u8]>,
    /// `Expires`, s.
    pub expires: Option<u32>,
    /// `Min-Expires`, s.
    pub min_expires: Option<u32>,
    /// The first `Session-Expires`.
    pub session_expires: Option<&'a [u8]>,
    /// `Content-Length`, bytes.
    pub content_length: Option<u32>,
    /// The body, limited by `Content-Length`.
    pub body: &'a [u8],
    /// Whether the empty line after the header fields is present.
    pub is_complete: bool,
    /// From the second line to the body.
    fields: &'a [u8],
}

/// A start line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start<'a> {
    /// `INVITE sip:bob@biloxi.com SIP/2.0`.
    Request {
        /// The method, which is case-sensitive.
        method: &'a [u8],
        /// The Request-URI.
        uri: &'a [u8],
    },
    /// The status code, 100 to 699.
    Status(u16),
}

/// `CSeq: 4711 INVITE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CSeq<'a> {
    /// The sequence number of the request.
    pub number: u32,
    /// The method of the request.
    pub method: &'a [u8],
}

/// Header fields that a scan can find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `Via`.
    Via,
    /// `From`.
    From,
    /// `To`.
    To,
    /// `Call-ID`.
    CallId,
    /// `CSeq`.
    CSeq,
    /// `Contact`.
    Contact,
    /// `Record-Route`.
    RecordRoute,
    /// `Route`.
    Route,
    /// `RSeq`.
    RSeq,
    /// `RAck`.
    RAck,
    /// `Require`.
    Require,
    /// `Event`.
    Event,
    /// `Subscription-State`.
    SubscriptionState,
    /// `WWW-Authenticate`.
    WwwAuthenticate,
    /// `Proxy-Authenticate`.
    ProxyAuthenticate,
    /// `Authentication-Info`.
    AuthenticationInfo,
    /// `Expires`.
    Expires,
    /// `Min-Expires`.
    MinExpires,
    /// `Session-Expires`.
    SessionExpires,
    /// `Min-SE`.
    MinSe,
    /// `Supported`.
    Supported,
    /// `Allow`.
    Allow,
    /// `Retry-After`.
    RetryAfter,
    /// `Content-Length`.
    ContentLength,
}

impl Field {
    /// Finds a field by the length of its name first, so that a name is compared only once or twice.
    fn of(name: &[u8]) -> Option<Self> {
        let among = |known: &[(&[u8], Self)]| {
            known.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, field)| *field)
        };
        match name.len() {
            1 => match name[0] | 0x20 {
                b'v' => Some(Self::Via),
                b'f' => Some(Self::From),
                b't' => Some(Self::To),
                b'i' => Some(Self::CallId),
                b'm' => Some(Self::Contact),
                b'l' => Some(Self::ContentLength),
                b'o' => Some(Self::Event),
                b'x' => Some(Self::SessionExpires),
                b'k' => Some(Self::Supported),
                _ => None,
            },
            2 => among(&[(b"To", Self::To)]),
            3 => among(&[(b"Via", Self::Via)]),
            4 => among(&[
                (b"From", Self::From),
                (b"CSeq", Self::CSeq),
                (b"RSeq", Self::RSeq),
                (b"RAck", Self::RAck),
            ]),
            5 => among(&[(b"Event", Self::Event), (b"Allow", Self::Allow), (b"Route", Self::Route)]),
            6 => among(&[(b"Min-SE", Self::MinSe)]),
            7 => among(&[
                (b"Call-ID", Self::CallId),
                (b"Contact", Self::Contact),
                (b"Require", Self::Require),
                (b"Expires", Self::Expires),
            ]),
            9 => among(&[(b"Supported", Self::Supported)]),
            11 => among(&[(b"Min-Expires", Self::MinExpires), (b"Retry-After", Self::RetryAfter)]),
            12 => among(&[(b"Record-Route", Self::RecordRoute)]),
            14 => among(&[(b"Content-Length", Self::ContentLength)]),
            15 => among(&[(b"Session-Expires", Self::SessionExpires)]),
            16 => among(&[(b"WWW-Authenticate", Self::WwwAuthenticate)]),
            18 => among(&[
                (b"Proxy-Authenticate", Self::ProxyAuthenticate),
                (b"Subscription-State", Self::SubscriptionState),
            ]),
            19 => among(&[(b"Authentication-Info", Self::AuthenticationInfo)]),
            _ => None,
        }
    }
}

impl<'a> Scan<'a> {
    /// Scans a datagram. Empty lines before the message are skipped (RFC 3261 section 7.5).
    pub fn of(datagram: &'a [u8]) -> Self {
        let skipped = datagram.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let mut lines = Lines { bytes: datagram, at: skipped, is_complete: false };
        let start = lines.line().and_then(Start::of);
        let mut found = Self::empty(start, &datagram[lines.at..]);
        for (field, value) in &mut lines {
            found.take(field, value);
        }
        found.contact = found.contact.filter(|uri| *uri != b"*");
        let body = &datagram[lines.at..];
        let stated = found.content_length.and_then(|length| usize::try_from(length).ok());
        found.body = &body[..stated.unwrap_or(body.len()).min(body.len())];
        found.is_complete = lines.is_complete;
        found
    }

    const fn empty(start: Option<Start<'a>>, fields: &'a [u8]) -> Self {
        Self {
            start,
            via: None,
            branch: None,
            call_id: None,
            cseq: None,
            from: None,
            from_tag: None,
            to: None,
            to_tag: None,
            contact: None,
            rseq: None,
            requires_100rel: false,
            www_authenticate: None,
            proxy_authenticate: None,
            expires: None,
            min_expires: None,
            session_expires: None,
            content_length: None,
            body: &[],
            is_complete: false,
            fields,
        }
    }

    /// Takes one field. Of fields that may appear once, the first counts.
    fn take(&mut self, field: Field, value: &'a [u8]) {
        let first = |place: &mut Option<&'a [u8]>| {
            let is_first = place.is_none();
            if is_first {
                *place = Some(value);
            }
            is_first
        };
        match field {
            Field::Via if self.via.is_none() => {
                let (via, branch) = top_via(value);
                (self.via, self.branch) = (Some(via), branch);
            }
            Field::From if first(&mut self.from) => self.from_tag = Address::of(value).parameter(b"tag"),
            Field::To if first(&mut self.to) => self.to_tag = Address::of(value).parameter(b"tag"),
            Field::CallId => {
                first(&mut self.call_id);
            }
            Field::CSeq if self.cseq.is_none() => self.cseq = CSeq::of(value),
            Field::Contact if self.contact.is_none() && !value.is_empty() => {
                self.contact = Some(Address::of(value).uri);
            }
            Field::RSeq if self.rseq.is_none() => self.rseq = number(value),
            Field::Require => {
                self.requires_100rel |=
                    value.split(|byte| *byte == b',').any(|tag| trimmed(tag).eq_ignore_ascii_case(b"100rel"));
            }
            Field::WwwAuthenticate => {
                first(&mut self.www_authenticate);
            }
            Field::ProxyAuthenticate => {
                first(&mut self.proxy_authenticate);
            }
            Field::SessionExpires => {
                first(&mut self.session_expires);
            }
            Field::Expires if self.expires.is_none() => self.expires = number(value),
            Field::MinExpires if self.min_expires.is_none() => self.min_expires = number(value),
            Field::ContentLength if self.content_length.is_none() => self.content_length = number(value),
            _ => {}
        }
    }

    /// The status code of a response.
    pub fn status(&self) -> Option<u16> {
        match self.start? {
            Start::Status(code) => Some(code),
            Start::Request { .. } => None,
        }
    }

    /// Whether the body is shorter than `Content-Length`: "this is considered an error. If the message is a response,
    /// it MUST be discarded" (RFC 3261 section 18.3).
    pub fn is_cut(&self) -> bool {
        self.content_length.is_some_and(|length| (self.body.len() as u64) < u64::from(length))
    }

    /// The method of the request, or that in the `CSeq` of the response.
    pub fn method(&self) -> Option<&'a [u8]> {
        match self.start? {
            Start::Request { method, .. } => Some(method),
            Start::Status(_) => self.cseq.map(|cseq| cseq.method),
        }
    }

    /// The values of all header fields of one name, in their order and with their folds.
    pub fn all(&self, wanted: Field) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let lines = Lines { bytes: self.fields, at: 0, is_complete: false };
        lines.filter(move |(field, _)| *field == wanted).map(|(_, value)| value)
    }

    /// Whether a list has this token, in any case.
    pub fn lists(&self, wanted: Field, token: &[u8]) -> bool {
        let mut tokens = self.all(wanted).flat_map(|value| value.split(|byte| *byte == b','));
        tokens.any(|own| own.trim_ascii().eq_ignore_ascii_case(token))
    }

    /// The addresses of all `Record-Route` fields, the topmost first.
    pub fn record_routes(&self) -> impl Iterator<Item = Address<'a>> + use<'a> {
        self.all(Field::RecordRoute).flat_map(Addresses)
    }

    /// The time after which the request may be sent again, s: the number of `Retry-After` (RFC 3261 section 20.33).
    pub fn retry_after(&self) -> Option<u32> {
        let value = self.all(Field::RetryAfter).next()?;
        let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
        number(&value[..digits])
    }

    /// The addresses of all `Contact` fields.
    pub fn contacts(&self) -> impl Iterator<Item = Address<'a>> + use<'a> {
        self.all(Field::Contact).flat_map(Addresses)
    }
}

impl<'a> Start<'a> {
    fn of(line: &'a [u8]) -> Option<Self> {
        let line = trimmed(line);
        if let Some((version, rest)) = line.split_at_checked(8)
            && version.eq_ignore_ascii_case(b"SIP/2.0 ")
        {
            let (digits, reason) = rest.trim_ascii_start().split_at_checked(3)?;
            return number(digits)
                .filter(|_| !reason.first().is_some_and(u8::is_ascii_digit))
                .and_then(|code| u16::try_from(code).ok())
                .filter(|code| (100..=699).contains(code))
                .map(Self::Status);
        }
        let (rest, version) = line.split_at_checked(line.len().checked_sub(8)?)?;
        let space = memchr(b' ', rest)?;
        let (method, uri) = (&rest[..space], trimmed(&rest[space..]));
        let is_whole = version.eq_ignore_ascii_case(b" SIP/2.0") && !method.is_empty() && !uri.is_empty();
        is_whole.then_some(Self::Request { method, uri })
    }
}

impl<'a> CSeq<'a> {
    fn of(value: &'a [u8]) -> Option<Self> {
        let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let method = trimmed(&value[digits..]);
        let is_apart = value.get(digits).copied().is_some_and(is_white);
        Some(Self { number: number(&value[..digits])?, method }).filter(|_| is_apart && !method.is_empty())
    }
}

/// Iterator over the known header fields, up to the end of the head.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    is_complete: bool,
}

impl<'a> Lines<'a> {
    /// The next line with its continuation lines (RFC 3261 section 7.3.1), without its end. `None` at the empty line
    /// and at the end.
    fn line(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        if start == self.bytes.len() {
            return None;
        }
        loop {
            let rest = &self.bytes[self.at..];
            let Some(end) = memchr(b'\n', rest) else {
                self.at = self.bytes.len();
                return Some(&self.bytes[start..]);
            };
            self.at += end + 1;
            let line = &self.bytes[start..self.at - 1];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                self.is_complete = true;
                return None;
            }
            if !matches!(self.bytes.get(self.at), Some(b' ' | b'\t')) {
                return Some(line);
            }
        }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = (Field, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let line = self.line()?;
            // The colon is near the start of the line, so a search by machine words would not be faster.
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let name = &line[..colon];
            let name = if name.ends_with(b" ") || name.ends_with(b"\t") { trimmed(name) } else { name };
            if let Some(field) = Field::of(name) {
                return Some((field, trimmed(&line[colon + 1..])));
            }
        }
    }
}

/// An address of a header field: `"Name" <uri>;parameters`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    /// The URI, without `<` and `>`.
    pub uri: &'a [u8],
    /// From the display name to the last parameter.
    pub whole: &'a [u8],
    parameters: &'a [u8],
}

impl<'a> Address<'a> {
    /// The first address of a value.
    pub fn of(value: &'a [u8]) -> Self {
        Self::first(value).0
    }

    /// All addresses of a value.
    pub(crate) fn all(value: &'a [u8]) -> impl Iterator<Item = Self> + use<'a> {
        Addresses(value)
    }

    /// The first address of a value, and the text after its comma.
    fn first(value: &'a [u8]) -> (Self, &'a [u8]) {
        let mut at = 0;
        let mut uri = None;
        while let Some(byte) = value.get(at) {
            match byte {
                b'"' => at = behind_quoted(value, at),
                b'<' => {
                    let length = memchr(b'>', &value[at..]).unwrap_or(value.len() - at);
                    uri = Some(&value[at + 1..at + length]);
                    at += length;
                    break;
                }
                b';' | b',' => break,
                _ => at += 1,
            }
        }
        // Without `<` and `>`, parameters belong to the header field (RFC 3261 section 20).
        let uri = uri.unwrap_or_else(|| trimmed(&value[..at]));
        let (parameters, rest) = split_list(&value[at..]);
        (Self { uri, whole: trimmed(&value[..at + parameters.len()]), parameters }, rest)
    }

    /// The value of the first parameter with this name, in any case.
    pub fn parameter(&self, name: &[u8]) -> Option<&'a [u8]> {
        parameter(self.parameters, name)
    }
}

/// The addresses of a value.
struct Addresses<'a>(&'a [u8]);

impl<'a> Iterator for Addresses<'a> {
    type Item = Address<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let (address, rest) = Address::first(self.0);
        self.0 = rest;
        Some(address)
    }
}

/// The user of a URI, without escapes and without the password. Empty if there is none.
pub(crate) fn user_of_uri(uri: &[u8]) -> Cow<'_, [u8]> {
    let behind = memchr(b':', uri).map_or(&[][..], |colon| &uri[colon + 1..]);
    let user = memchr(b'@', behind).map_or(&[][..], |at| &behind[..at]);
    let user = memchr(b':', user).map_or(user, |colon| &user[..colon]);
    if memchr(b'%', user).is_none() {
        return user.into();
    }
    unescaped(&String::from_utf8_lossy(user)).into_bytes().into()
}

/// The first `Via` of a value, and its branch.
fn top_via(value: &[u8]) -> (&[u8], Option<&[u8]>) {
    let via = trimmed(split_list(value).0);
    let parameters = memchr(b';', via).map_or(&[][..], |at| &via[at..]);
    (via, parameter(parameters, b"branch"))
}

/// Whether the URI of a route has `lr`, so that its router is a loose one (RFC 3261 section 16.4).
pub(super) fn is_loose(uri: &[u8]) -> bool {
    let behind_user = uri.rsplit(|byte| *byte == b'@').next().unwrap_or(uri);
    let own = behind_user.split(|byte| *byte == b'?').next().unwrap_or_default();
    let names = own.split(|byte| *byte == b';').skip(1).map(|own| own.split(|byte| *byte == b'=').next());
    names.flatten().any(|name| name.eq_ignore_ascii_case(b"lr"))
}

/// Splits a value at the first comma outside quotes.
fn split_list(value: &[u8]) -> (&[u8], &[u8]) {
    let mut at = 0;
    while let Some(byte) = value.get(at) {
        match byte {
            b'"' => at = behind_quoted(value, at),
            b',' => return (&value[..at], &value[at + 1..]),
            _ => at += 1,
        }
    }
    (value, &[])
}

/// A parameter of a header field.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldParameter<'a> {
    /// The whole parameter with its `;`.
    pub whole: &'a [u8],
    name: &'a [u8],
    value: Option<&'a [u8]>,
}

impl FieldParameter<'_> {
    /// Whether it has this name, in any case.
    pub fn is(&self, name: &[u8]) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// Iterator over the parameters of `;name=value;name`.
pub(super) struct FieldParameters<'a>(pub &'a [u8]);

impl<'a> Iterator for FieldParameters<'a> {
    type Item = FieldParameter<'a>;

    fn next(&mut self) -> Option<FieldParameter<'a>> {
        let text = &self.0[memchr(b';', self.0)?..];
        let mut at = 1;
        let mut equals = None;
        while let Some(byte) = text.get(at) {
            match byte {
                b'"' => at = behind_quoted(text, at),
                b';' => break,
                b'=' if equals.is_none() => {
                    equals = Some(at);
                    at += 1;
                }
                _ => at += 1,
            }
        }
        self.0 = &text[at..];
        let name = trimmed(&text[1..equals.unwrap_or(at)]);
        let value = equals.map(|equals| trimmed(&text[equals + 1..at]));
        Some(FieldParameter { whole: &text[..at], name, value })
    }
}

/// The value of the first parameter with this name in `;name=value;name`.
fn parameter<'a>(parameters: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    FieldParameters(parameters).find(|own| own.is(name))?.value
}

/// The position after the quoted string that begins at `at`, or the end if it is not closed.
fn behind_quoted(value: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(byte) = value.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    value.len()
}

/// White space within a value. A line end within a value is a fold, which counts as a space.
const fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

const fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = value
        && is_white(*first)
    {
        value = rest;
    }
    while let [rest @ .., last] = value
        && is_white(*last)
    {
        value = rest;
    }
    value
}
