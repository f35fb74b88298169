//! Whose message it is (RFC 3261 sections 17.1.3 and 17.2.3).

use std::hash::{Hash as _, Hasher};

use crate::digits::Decimal;
use crate::header::{MAGIC_COOKIE, Transport, ViaView};
use crate::host::HostView;
use crate::{Method, ParseError, Request, Response};

/// Which client transaction a response belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientKey {
    branch: String,
    method: Method,
}

/// Which server transaction a request belongs to. An ACK has that of its INVITE, a CANCEL one of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerKey {
    identity: TransactionIdentity,
    method: Method,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TransactionIdentity {
    /// The branch and who chose it: two senders may choose the same.
    Branch { branch: String, sent_by: String },
    /// Of a sender who follows RFC 2543, whose branches mean nothing: what stands in the request.
    Old { uri: String, from_tag: String, call_id: String, cseq: u32, via: String },
}

/// Branches are tokens, which have no case (RFC 3261 section 7.3.1).
fn folded(text: &str) -> String {
    text.to_ascii_lowercase()
}

impl ClientKey {
    /// Of a request that is to be sent.
    ///
    /// # Errors
    /// The topmost `Via` does not follow the grammar. `Ok(None)`: it has no branch.
    pub fn of_request(request: &Request) -> Result<Option<Self>, ParseError> {
        let via = request.headers.top_via()?;
        Ok(via
            .as_ref()
            .and_then(|via| via.branch())
            .map(|branch| Self { branch: folded(branch), method: request.method.clone() }))
    }

    /// Of the responses to a request as it stands, right or wrong: who answers it copies its CSeq (RFC 3261 section 8.2.6.2),
    /// whatever method that names.
    ///
    /// # Errors
    /// The topmost `Via` or the `CSeq` does not follow the grammar. `Ok(None)`: one of them is missing.
    pub fn of_answers_to(request: &Request) -> Result<Option<Self>, ParseError> {
        let key = Self::of_request(request)?;
        Ok(key.zip(request.headers.cseq()?).map(|(key, cseq)| Self { method: cseq.method, ..key }))
    }

    /// Of a response that came.
    ///
    /// # Errors
    /// The topmost `Via` or the `CSeq` does not follow the grammar. `Ok(None)`: one of them is missing.
    pub fn of_response(response: &Response) -> Result<Option<Self>, ParseError> {
        let (via, cseq) = (response.headers.top_via()?, response.headers.cseq()?);
        let branch = via.as_ref().and_then(|via| via.branch()).map(folded);
        Ok(branch.zip(cseq).map(|(branch, cseq)| Self { branch, method: cseq.method }))
    }
}

/// What tells the server transactions of RFC 3261 apart, beside their methods (section 17.2.3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct BranchKey<'a> {
    /// It begins with the magic cookie.
    branch: &'a str,
    host: HostView<'a>,
    /// 0 if neither `sent-by` nor the transport tells it.
    port: u16,
}

impl<'a> BranchKey<'a> {
    /// By a topmost `Via`; `None` if its branch does not begin with the magic cookie.
    pub(crate) fn of(via: &ViaView<'a>) -> Option<Self> {
        Self::of_branch(via, via.parameters.value("branch")?)
    }

    /// The same of a `Via` whose branch is known.
    pub(crate) fn of_branch(via: &ViaView<'a>, branch: &'a str) -> Option<Self> {
        let branch = Some(branch).filter(|own| own.starts_with(MAGIC_COOKIE))?;
        let port = via.port.or(via.transport.ok().map(Transport::default_port));
        Some(Self { branch, host: via.host, port: port.unwrap_or(0) })
    }

    /// The key with a method, which is no ACK.
    pub(crate) fn server_key(self, method: Method) -> ServerKey {
        let mut sent_by = Vec::with_capacity(32);
        self.host.write(&mut sent_by);
        sent_by.push(b':');
        sent_by.extend_from_slice(Decimal::new(self.port.into()).as_bytes());
        sent_by.make_ascii_lowercase();
        // It was made of texts.
        let sent_by = String::from_utf8(sent_by).unwrap_or_default();
        ServerKey { identity: TransactionIdentity::Branch { branch: folded(self.branch), sent_by }, method }
    }

    /// Hashes it: two keys that are one for [`BranchKey::server_key`] alike, and others by other bytes.
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

/// Hashes a text without its case, with its length.
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
    /// Of a request that came.
    ///
    /// # Errors
    /// A header field that it is made of does not follow the grammar. `Ok(None)`: there is no `Via`, or of a sender of
    /// RFC 2543 something else is missing.
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
            // The topmost alone: an ACK or CANCEL of the last hop has no other.
            via: via.to_string(),
        };
        Ok(Some(Self { identity, method }))
    }

    /// That of the INVITE, if the request is a CANCEL: what it is to end (RFC 3261 section 9.2).
    #[must_use]
    pub fn cancelled(&self) -> Self {
        Self { identity: self.identity.clone(), method: Method::Invite }
    }
}
