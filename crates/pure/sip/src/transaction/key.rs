//! Keys that match messages to transactions (RFC 3261 sections 17.1.3 and 17.2.3).

use std::hash::{Hash as _, Hasher};

use crate::digits::Decimal;
use crate::header::{MAGIC_COOKIE, Transport, ViaView};
use crate::host::HostView;
use crate::{Method, ParseError, Request, Response};

/// Key of a client transaction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientKey {
    branch: String,
    method: Method,
}

/// Key of a server transaction. An ACK has the key of its INVITE. A CANCEL has its own key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerKey {
    identity: TransactionIdentity,
    method: Method,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TransactionIdentity {
    /// The branch and its sender, because two senders may choose the same branch.
    Branch { branch: String, sent_by: String },
    /// Fields of a request of RFC 2543, whose branch is not unique.
    Old { uri: String, from_tag: String, call_id: String, cseq: u32, via: String },
}

/// Branches are tokens, which are case-insensitive (RFC 3261 section 7.3.1).
fn folded(text: &str) -> String {
    text.to_ascii_lowercase()
}

impl ClientKey {
    /// The key of an outgoing request.
    ///
    /// # Errors
    /// The topmost `Via` breaks the grammar. `Ok(None)`: it has no branch.
    pub fn of_request(request: &Request) -> Result<Option<Self>, ParseError> {
        let via = request.headers.top_via()?;
        Ok(via
            .as_ref()
            .and_then(|via| via.branch())
            .map(|branch| Self { branch: folded(branch), method: request.method.clone() }))
    }

    /// The key of the responses to a request, whose `CSeq` may have the wrong method on purpose: a server copies the
    /// `CSeq` unchanged (RFC 3261 section 8.2.6.2).
    ///
    /// # Errors
    /// The topmost `Via` or the `CSeq` breaks the grammar. `Ok(None)`: one of them is missing.
    pub fn of_answers_to(request: &Request) -> Result<Option<Self>, ParseError> {
        let key = Self::of_request(request)?;
        Ok(key.zip(request.headers.cseq()?).map(|(key, cseq)| Self { method: cseq.method, ..key }))
    }

    /// The key of a received response.
    ///
    /// # Errors
    /// The topmost `Via` or the `CSeq` breaks the grammar. `Ok(None)`: one of them is missing.
    pub fn of_response(response: &Response) -> Result<Option<Self>, ParseError> {
        let (via, cseq) = (response.headers.top_via()?, response.headers.cseq()?);
        let branch = via.as_ref().and_then(|via| via.branch()).map(folded);
        Ok(branch.zip(cseq).map(|(branch, cseq)| Self { branch, method: cseq.method }))
    }
}

/// The key of a server transaction of RFC 3261 without its method (section 17.2.3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct BranchKey<'a> {
    /// Begins with the magic cookie.
    branch: &'a str,
    host: HostView<'a>,
    /// 0 if `sent-by` has no port and the transport is unknown.
    port: u16,
}

impl<'a> BranchKey<'a> {
    /// The key of a topmost `Via`; `None` if the branch does not begin with the magic cookie.
    pub(crate) fn of(via: &ViaView<'a>) -> Option<Self> {
        Self::of_branch(via, via.parameters.value("branch")?)
    }

    /// As [`BranchKey::of`], for a `Via` whose branch is known.
    pub(crate) fn of_branch(via: &ViaView<'a>, branch: &'a str) -> Option<Self> {
        let branch = Some(branch).filter(|own| own.starts_with(MAGIC_COOKIE))?;
        let port = via.port.or(via.transport.ok().map(Transport::default_port));
        Some(Self { branch, host: via.host, port: port.unwrap_or(0) })
    }

    /// The key with a method other than ACK.
    pub(crate) fn server_key(self, method: Method) -> ServerKey {
        let mut sent_by = Vec::with_capacity(32);
        self.host.write(&mut sent_by);
        sent_by.push(b':');
        sent_by.extend_from_slice(Decimal::new(self.port.into()).as_bytes());
        sent_by.make_ascii_lowercase();
        // All parts are UTF-8.
        let sent_by = String::from_utf8(sent_by).unwrap_or_default();
        ServerKey { identity: TransactionIdentity::Branch { branch: folded(self.branch), sent_by }, method }
    }

    /// Hashes the key. Two keys hash the same bytes if and only if [`BranchKey::server_key`] makes equal keys.
    pub(crate) fn hash(self, hasher: &mut impl Hasher) {
        match self.host {
            HostView::Name(name) => {
                hasher.write_u8(0);
                hash_folded(name, hasher);
            }
            HostView::Address(address) => {
                hasher.write_u8(1);
                address.hash(hasher);
            }
        }
        hasher.write_u16(self.port);
        hash_folded(self.branch, hasher);
    }
}

/// Hashes a text in lower case with its length.
fn hash_folded(text: &str, hasher: &mut impl Hasher) {
    hasher.write_usize(text.len());
    for piece in text.as_bytes().chunks(32) {
        let mut folded = [0; 32];
        folded[..piece.len()].copy_from_slice(piece);
        folded.make_ascii_lowercase();
        hasher.write(&folded[..piece.len()]);
    }
}

impl ServerKey {
    /// The key of a received request.
    ///
    /// # Errors
    /// A header field of the key breaks the grammar. `Ok(None)`: there is no `Via`, or a request of RFC 2543 lacks another
    /// field of the key.
    pub fn of(request: &Request) -> Result<Option<Self>, ParseError> {
        let headers = &request.headers;
        let method = if request.method == Method::Ack { Method::Invite } else { request.method.clone() };
        if let Some(key) = headers.top_via_view().and_then(|via| BranchKey::of(&via)) {
            return Ok(Some(key.server_key(method)));
        }
        let Some(via) = headers.top_via()? else { return Ok(None) };
        let (Some(from), Some(call_id), Some(cseq)) = (headers.from()?, headers.call_id()?, headers.cseq()?)
        else {
            return Ok(None);
        };
        let identity = TransactionIdentity::Old {
            uri: request.uri.to_string(),
            from_tag: from.tag().unwrap_or_default().to_owned(),
            call_id: call_id.to_owned(),
            cseq: cseq.number,
            // Only the topmost `Via`: an ACK or CANCEL of the last hop has no other.
            via: via.to_string(),
        };
        Ok(Some(Self { identity, method }))
    }

    /// For a CANCEL: the key of the INVITE that it cancels (RFC 3261 section 9.2).
    #[must_use]
    pub fn cancelled(&self) -> Self {
        Self { identity: self.identity.clone(), method: Method::Invite }
    }
}
