//! A request that was composed and not sent, and the settings that it is composed from.

use std::net::SocketAddr;

use bytes::Bytes;

use super::step::Step;
use crate::dialog::Dialog;
use crate::fault::Fault;
use crate::header::Transport;
use crate::transaction::Timing;
use crate::{Message, Method, Request, Uri};

/// Settings of a manual client.
#[derive(Clone, Debug)]
pub struct ManualClientConfig {
    /// Address of the caller in `Via` and `Contact`.
    pub local: SocketAddr,
    /// Transport of the requests.
    pub transport: Transport,
    /// URI of the caller.
    pub from: Uri,
    /// URI of the callee.
    pub to: Uri,
    /// Request-URI of requests to the callee outside a dialog.
    pub target: Uri,
    /// Request-URI of registrations.
    pub registrar: Uri,
    /// Name and password to answer challenges.
    pub credentials: Option<(String, String)>,
    /// Size of the session descriptions, bytes. 0 for none.
    pub description: usize,
    /// Text of a MESSAGE.
    pub text: String,
    /// Duration of a registration, s.
    pub expires: u32,
    /// T1, T2 and T4.
    pub timing: Timing,
}

/// A request that was composed and not sent.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The kind of request.
    pub step: Step,
    /// The request as the rules require it.
    pub request: Request,
    /// The dialog after the request is sent.
    pub(super) dialog: Option<Dialog>,
}

/// Identity of a request outside a dialog.
#[derive(Clone, Debug)]
pub(super) struct RequestIdentity {
    pub call_id: String,
    pub tag: String,
    pub sequence: u32,
    /// Whether the next request of the same kind has this identity too: a registration, or a request that was
    /// challenged.
    pub goes_on: bool,
}

impl Draft {
    /// The bytes of the request.
    pub fn to_bytes(&self) -> Bytes {
        Message::from(self.request.clone()).to_bytes()
    }

    /// The bytes of the request with a deliberate fault.
    pub fn spoiled(&self, fault: Fault) -> Bytes {
        fault.spoil(&Message::from(self.request.clone()))
    }

    /// The method of the request.
    pub const fn method(&self) -> &Method {
        &self.request.method
    }
}
