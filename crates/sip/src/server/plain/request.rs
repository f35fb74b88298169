//! A request as user agents write most of theirs, read where it stands.

use std::net::{IpAddr, SocketAddr};

use netrig_core::is_of_a_link;
use smallvec::SmallVec;

use super::super::Source;
use crate::digits::Decimal;
use crate::grammar::Cursor;
use crate::header::{NameAddrView, Transport, ViaView};
use crate::message::{head_length, line};
use crate::sdp::SDP_TYPE;
use crate::uri::{HostView, UriView};
use crate::{Headers, Method, Name, Scheme};

/// The longest that is read so, bytes: what it counts as in memory is known to be one request.
const LONGEST: usize = 2048;

/// The most header fields, for the same reason.
const MOST_FIELDS: usize = 32;

/// Header fields that a response repeats, as many as are kept without an allocation.
const COPIED: usize = 12;

/// An INVITE, ACK or BYE that follows the grammar in all that a user agent server reads, has nothing that asks for more than a plain
/// call, and whose response has the same header fields as they stand.
pub(in super::super) struct PlainRequest<'a> {
    pub method: Method,
    /// The topmost.
    pub via: ViaView<'a>,
    pub from_tag: &'a str,
    pub to: NameAddrView<'a>,
    pub to_tag: Option<&'a str>,
    pub call_id: &'a str,
    /// The number of `CSeq`.
    pub sequence: u32,
    /// It has one `Contact`, a SIP URI.
    pub has_contact: bool,
    /// The body is a session description.
    pub has_description: bool,
    pub body: &'a [u8],
    /// `Via`, `From`, `To`, `Call-ID`, `CSeq` and `Record-Route` in their order.
    copied: SmallVec<[(Name, &'a str); COPIED]>,
}

/// Reads the whole of a value.
fn whole<'a, T>(value: &'a str, read: impl FnOnce(&mut Cursor<'a>) -> Option<T>) -> Option<T> {
    let mut cursor = Cursor::new(value, "");
    let found = read(&mut cursor)?;
    cursor.is_at_end().then_some(found)
}

fn address(value: &str) -> Option<NameAddrView<'_>> {
    whole(value, |cursor| NameAddrView::read(cursor).ok())
}

/// `sip:`, and not `sips:`, a `tel:` or the like.
const fn is_sip(uri: &UriView<'_>) -> bool {
    matches!(uri, UriView::Sip(uri) if matches!(uri.scheme, Scheme::Sip))
}

impl<'a> PlainRequest<'a> {
    /// `None`: it is not plain, and may be anything else.
    pub(in super::super) fn read(datagram: &'a [u8]) -> Option<Self> {
        let length = head_length(datagram).filter(|_| datagram.len() <= LONGEST)?;
        let head = std::str::from_utf8(&datagram[..length]).ok()?;
        let (start, mut at) = line(head, 0).ok()?;
        let mut words = start.split(' ');
        let method = match words.next()? {
            "INVITE" => Method::Invite,
            "ACK" => Method::Ack,
            "BYE" => Method::Bye,
            _ => return None,
        };
        let uri = whole(words.next()?, |cursor| crate::uri::uri(cursor).ok())?;
        if words.next() != Some("SIP/2.0") || words.next().is_some() || !is_sip(&uri) {
            return None;
        }
        let mut fields = PlainFields::default();
        for _ in 0..=MOST_FIELDS {
            let (field, next) = line(head, at).ok()?;
            if field.is_empty() {
                return fields.request(method, &datagram[length..]);
            }
            // What goes on in the next line is unfolded elsewhere.
            if head[next..].starts_with([' ', '\t']) {
                return None;
            }
            let (name, value) = field.split_once(':')?;
            fields.take(Name::known(name)?, value.trim_matches([' ', '\t']))?;
            at = next;
        }
        None
    }

    /// Where a request that came from there is answered, if that follows from its address and `Via` alone.
    pub(in super::super) fn way_back(&self, from: Source) -> Option<Source> {
        let is_of_a_link = matches!(from.address.ip(), IpAddr::V6(ip) if is_of_a_link(&ip));
        let is_usual = self.via.transport == Ok(from.transport) && !is_of_a_link;
        match from.transport {
            _ if !is_usual || self.via.parameters.has("maddr") => None,
            Transport::Udp if !self.via.parameters.has("rport") => {
                let port = self.via.port.unwrap_or(from.transport.default_port());
                Some(Source { address: SocketAddr::new(from.address.ip(), port), ..from })
            }
            _ => Some(from),
        }
    }

    /// Writes what a response repeats; `To` has the tag if it had none. `from`: where the request came from.
    pub(in super::super) fn copy(&self, from: Source, tag: &str, out: &mut Vec<u8>) {
        let mut is_topmost = true;
        for (name, value) in self.copied.iter().filter(|(name, _)| *name != Name::RecordRoute) {
            out.extend_from_slice(name.as_str().as_bytes());
            out.extend_from_slice(b": ");
            match name {
                Name::Via if std::mem::take(&mut is_topmost) => self.via.write_stamped(from.address, out),
                Name::To if self.to_tag.is_none() => self.write_to(tag, out),
                _ => out.extend_from_slice(value.as_bytes()),
            }
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Writes the `Record-Route`s as they stand (RFC 3261 section 12.1.1).
    pub(in super::super) fn copy_routes(&self, out: &mut Vec<u8>) {
        for (_, value) in self.copied.iter().filter(|(name, _)| *name == Name::RecordRoute) {
            out.extend_from_slice(b"Record-Route: ");
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }

    fn write_to(&self, tag: &str, out: &mut Vec<u8>) {
        let NameAddrView { display, uri_text, parameters, .. } = &self.to;
        match display {
            Some(display) if display.starts_with('"') => {
                out.extend_from_slice(display.as_bytes());
                out.push(b' ');
            }
            Some(display) => {
                out.push(b'"');
                out.extend_from_slice(display.as_bytes());
                out.extend_from_slice(b"\" ");
            }
            None => {}
        }
        out.push(b'<');
        out.extend_from_slice(uri_text.as_bytes());
        out.push(b'>');
        out.extend_from_slice(parameters.text().as_bytes());
        out.extend_from_slice(b";tag=");
        out.extend_from_slice(tag.as_bytes());
    }
}

/// What has been read of the header fields.
#[derive(Default)]
struct PlainFields<'a> {
    via: Option<ViaView<'a>>,
    from_tag: Option<&'a str>,
    to: Option<NameAddrView<'a>>,
    call_id: Option<&'a str>,
    sequence: Option<(u32, &'a str)>,
    contact: Option<NameAddrView<'a>>,
    content_type: Option<&'a str>,
    content_length: Option<u32>,
    max_forwards: Option<u32>,
    copied: SmallVec<[(Name, &'a str); COPIED]>,
}

impl<'a> PlainFields<'a> {
    /// One more; `None` where it makes the request one that is not plain.
    fn take(&mut self, name: Name, value: &'a str) -> Option<()> {
        let is_new = match name {
            Name::Via => {
                let via = whole(value, |cursor| ViaView::read(cursor).ok())?;
                let count =
                    |name: &str| via.parameters.iter().filter(|own| own.0.eq_ignore_ascii_case(name)).count();
                let is_usual = self.via.is_some() || count("branch") == 1 && count("rport") <= 1;
                self.via.get_or_insert(via);
                is_usual
            }
            Name::From => {
                let from = address(value)?;
                self.from_tag.replace(from.parameters.value("tag")?).is_none()
            }
            Name::To => {
                let to = address(value)?;
                is_written_as_it_stands(&to, value) && self.to.replace(to).is_none()
            }
            Name::CallId => {
                Headers::read_call_id(value).ok()?;
                self.call_id.replace(value).is_none()
            }
            Name::CSeq => {
                let sequence = whole(value, |cursor| {
                    let number = crate::header::sequence_number(cursor).ok()?;
                    cursor.white().ok()?;
                    Some((number, cursor.token("").ok()?))
                })?;
                self.sequence.replace(sequence).is_none()
            }
            Name::Contact => {
                let contact = address(value).filter(|contact| is_sip(&contact.uri))?;
                self.contact.replace(contact).is_none()
            }
            Name::RecordRoute => whole(value, |cursor| {
                loop {
                    let route = NameAddrView::read(cursor).ok().filter(|route| is_sip(&route.uri))?;
                    if !cursor.eat_separator(b',') {
                        break Some(route);
                    }
                }
            })
            .is_some(),
            Name::MaxForwards => self.max_forwards.replace(number(value)?).is_none(),
            Name::ContentLength => self.content_length.replace(number(value)?).is_none(),
            Name::ContentType => self.content_type.replace(value).is_none(),
            Name::Accept => value == SDP_TYPE,
            // What these say changes nothing of a plain call.
            Name::Allow
            | Name::AllowEvents
            | Name::Date
            | Name::Subject
            | Name::Supported
            | Name::UserAgent => {
                return Some(());
            }
            _ => false,
        };
        if matches!(name, Name::Via | Name::From | Name::To | Name::CallId | Name::CSeq | Name::RecordRoute) {
            self.copied.push((name, value));
        }
        is_new.then_some(())
    }

    fn request(self, method: Method, body: &'a [u8]) -> Option<PlainRequest<'a>> {
        let (sequence, of_method) = self.sequence?;
        // Where no length stands the body is all that follows. What is left over is cut off elsewhere.
        let length = usize::try_from(self.content_length?).ok()?;
        let to = self.to?;
        (of_method == method.as_str() && length == body.len()).then_some(PlainRequest {
            method,
            via: self.via?,
            from_tag: self.from_tag?,
            to,
            to_tag: to.parameters.value("tag"),
            call_id: self.call_id?,
            sequence,
            has_contact: self.contact.is_some(),
            has_description: self.content_type == Some(SDP_TYPE) && !body.is_empty(),
            body,
            copied: self.copied,
        })
    }
}

fn number(value: &str) -> Option<u32> {
    whole(value, |cursor| cursor.number("").ok())
}

/// Whether the strict model writes the address as [`PlainRequest::write_to`] does, from the text that it was read from.
fn is_written_as_it_stands(to: &NameAddrView<'_>, value: &str) -> bool {
    let NameAddrView { display, uri, uri_text, parameters } = to;
    let UriView::Sip(uri) = uri else { return false };
    let has_port_as_written = uri.port.is_none_or(|port| {
        let Some((_, behind)) = uri_text.rsplit_once('@').unwrap_or(("", &uri_text[4..])).1.split_once(':')
        else {
            return false;
        };
        behind.as_bytes().starts_with(Decimal::new(port.into()).as_bytes())
    });
    value.contains('<')
        && uri_text.starts_with("sip:")
        && has_port_as_written
        && !matches!(uri.host, HostView::Address(IpAddr::V6(_)))
        && display.is_none_or(|display| !display.contains('\\'))
        && !parameters.text().contains([' ', '\t'])
}
