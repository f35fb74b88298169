//! INVITE, ACK and BYE of the usual form, read in their receive buffer.

use std::net::{IpAddr, SocketAddr};

use netrig_core::is_of_a_link;
use smallvec::SmallVec;

use super::PlainRequestInfo;
use crate::grammar::{Cursor, is_a_token};
use crate::header::{NameAddrView, Transport, ViaView};
use crate::message::{head_length, line};
use crate::sdp::SDP_TYPE;
use crate::server::Source;
use crate::transaction::BranchKey;
use crate::uri::UriView;
use crate::{Headers, Method, Name, Scheme};

/// Longest message of the fast path, bytes. A longer message would weigh more than one transaction.
const LONGEST: usize = 2048;

/// Most header fields of a message of the fast path, for the same reason.
const MOST_FIELDS: usize = 32;

/// Most parameters of the topmost `Via` and of `To`, so that a response can add its own.
const MOST_PARAMETERS: usize = 32;

/// Number of copied header fields without an allocation.
const COPIED: usize = 12;

/// An INVITE, ACK or BYE of an ordinary call. All fields that a user agent server reads follow the grammar, and no
/// other field requires an extension.
pub(super) struct PlainRequest<'a> {
    pub method: Method,
    /// The topmost `Via`.
    via: PlainVia<'a>,
    pub from_tag: &'a str,
    pub to_tag: Option<&'a str>,
    pub call_id: &'a str,
    /// The number of `CSeq`.
    pub sequence: u32,
    /// There is one `Contact`, a SIP URI.
    pub has_contact: bool,
    /// The body is a session description.
    pub has_description: bool,
    pub body: &'a [u8],
    /// `Via`, `From`, `To`, `Call-ID`, `CSeq` and `Record-Route` in their order.
    copied: SmallVec<[(Name, &'a str); COPIED]>,
}

/// A topmost `Via` with its parameters.
#[derive(Clone, Copy)]
struct PlainVia<'a> {
    view: ViaView<'a>,
    branch: &'a str,
    has_rport: bool,
    has_maddr: bool,
}

impl<'a> PlainVia<'a> {
    /// Returns `None` without a branch, if `branch` or `rport` is repeated, or if there are too many parameters.
    fn read(view: ViaView<'a>) -> Option<Self> {
        let (mut branch, mut has_rport, mut has_maddr, mut count) = (None, false, false, 0);
        for (name, value) in view.parameters.iter() {
            count += 1;
            if name.eq_ignore_ascii_case("branch") {
                if branch.replace(value?).is_some() {
                    return None;
                }
            } else if name.eq_ignore_ascii_case("rport") {
                if std::mem::replace(&mut has_rport, true) {
                    return None;
                }
            } else {
                has_maddr |= name.eq_ignore_ascii_case("maddr");
            }
        }
        let branch = branch.filter(|_| count <= MOST_PARAMETERS)?;
        Some(Self { view, branch, has_rport, has_maddr })
    }
}

/// Header fields of bodies with a disposition or encoding. A message with one of these fields is not plain.
const CONTENT: [&str; 2] = ["Content-Disposition", "Content-Transfer-Encoding"];

/// Reads a value to its end.
fn whole<'a, T>(value: &'a str, read: impl FnOnce(&mut Cursor<'a>) -> Option<T>) -> Option<T> {
    let mut cursor = Cursor::new(value, "");
    let found = read(&mut cursor)?;
    cursor.is_at_end().then_some(found)
}

fn address(value: &str) -> Option<NameAddrView<'_>> {
    whole(value, |cursor| NameAddrView::read(cursor).ok())
}

/// Whether the scheme is `sip`.
const fn is_sip(uri: &UriView<'_>) -> bool {
    matches!(uri, UriView::Sip(uri) if matches!(uri.scheme, Scheme::Sip))
}

impl<'a> PlainRequest<'a> {
    /// Reads a message. Returns `None` if it is not plain.
    pub fn read(datagram: &'a [u8]) -> Option<Self> {
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
            // A folded field is left to the strict model.
            if head[next..].starts_with([' ', '\t']) {
                return None;
            }
            let colon = memchr::memchr(b':', field.as_bytes())?;
            let (name, value) = (&field[..colon], &field[colon + 1..]);
            let value = value.trim_matches([' ', '\t']);
            match Name::known(name) {
                Some(name) => fields.take(name, value)?,
                None if is_a_token(name) && !CONTENT.iter().any(|own| own.eq_ignore_ascii_case(name)) => {}
                None => return None,
            }
            at = next;
        }
        None
    }

    /// Destination of the responses to the request from `from`, if its `Via` names no other host.
    pub fn way_back(&self, from: Source) -> Option<Source> {
        let is_of_a_link = matches!(from.address.ip(), IpAddr::V6(ip) if is_of_a_link(&ip));
        let PlainVia { view, has_rport, has_maddr, .. } = self.via;
        match from.transport {
            _ if view.transport != Ok(from.transport) || is_of_a_link || has_maddr => None,
            Transport::Udp if !has_rport => {
                let port = view.port.unwrap_or(from.transport.default_port());
                Some(Source { address: SocketAddr::new(from.address.ip(), port), ..from })
            }
            _ => Some(from),
        }
    }

    /// The key of its transaction. `None` for a transaction of RFC 2543.
    pub fn branch_key(&self) -> Option<BranchKey<'a>> {
        BranchKey::of_branch(&self.via.view, self.via.branch)
    }

    /// The description of the request for the sockets.
    pub fn info(&self) -> PlainRequestInfo<'a> {
        let method = Method::known(self.method.as_str().as_bytes()).unwrap_or(&Method::Invite);
        PlainRequestInfo { method, dialog: self.to_tag.map(|tag| (tag, self.call_id)) }
    }

    /// Writes the header fields that a response copies (RFC 3261 section 8.2.6.2). If `To` has no tag, it gets `tag`. `from` is the
    /// sender of the request.
    pub fn write_copied(&self, from: Source, tag: &[u8; 16], out: &mut Vec<u8>) {
        let mut is_topmost = true;
        for (name, value) in self.copied.iter().filter(|(name, _)| *name != Name::RecordRoute) {
            out.extend_from_slice(name.as_str().as_bytes());
            out.extend_from_slice(b": ");
            match name {
                Name::Via if std::mem::take(&mut is_topmost) => {
                    self.via.view.write_stamped(from.address, out)
                }
                _ => out.extend_from_slice(value.as_bytes()),
            }
            if *name == Name::To && self.to_tag.is_none() {
                out.extend_from_slice(b";tag=");
                out.extend_from_slice(tag);
            }
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Writes the `Record-Route`s unchanged (RFC 3261 section 12.1.1).
    pub fn write_record_routes(&self, out: &mut Vec<u8>) {
        for (_, value) in self.copied.iter().filter(|(name, _)| *name == Name::RecordRoute) {
            out.extend_from_slice(b"Record-Route: ");
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// The header fields that have been read.
#[derive(Default)]
struct PlainFields<'a> {
    via: Option<PlainVia<'a>>,
    from_tag: Option<&'a str>,
    /// The optional tag, once `To` was read.
    to_tag: Option<Option<&'a str>>,
    call_id: Option<&'a str>,
    sequence: Option<(u32, &'a str)>,
    contact: Option<NameAddrView<'a>>,
    content_type: Option<&'a str>,
    content_length: Option<u32>,
    max_forwards: Option<u32>,
    copied: SmallVec<[(Name, &'a str); COPIED]>,
}

impl<'a> PlainFields<'a> {
    /// Reads a header field. Returns `None` if the request is not plain because of it.
    fn take(&mut self, name: Name, value: &'a str) -> Option<()> {
        let is_new = match name {
            Name::Via => {
                let via = whole(value, |cursor| ViaView::read(cursor).ok())?;
                if self.via.is_none() {
                    self.via = Some(PlainVia::read(via)?);
                }
                true
            }
            Name::From => {
                let from = address(value)?;
                self.from_tag.replace(from.parameters.value("tag")?).is_none()
            }
            Name::To => {
                let to = address(value)?;
                let (mut tag, mut count) = (None, 0);
                for (name, value) in to.parameters.iter() {
                    count += 1;
                    if tag.is_none() && name.eq_ignore_ascii_case("tag") {
                        // A tag without a value makes the request not plain.
                        tag = Some(value?);
                    }
                }
                count <= MOST_PARAMETERS && self.to_tag.replace(tag).is_none()
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
            // These fields do not change an ordinary call.
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
        // Bytes after the body are left to the strict model.
        let length = usize::try_from(self.content_length?).ok()?;
        (of_method == method.as_str() && length == body.len()).then_some(PlainRequest {
            method,
            via: self.via?,
            from_tag: self.from_tag?,
            to_tag: self.to_tag?,
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
