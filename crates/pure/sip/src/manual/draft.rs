//! A request that was composed and not sent, and what it is composed from.

use std::net::SocketAddr;

use bytes::Bytes;

use super::step::Step;
use crate::dialog::Dialog;
use crate::fault::Fault;
use crate::header::Transport;
use crate::transaction::Timing;
use crate::{Message, Method, Request, Uri};

/// Who calls whom, and how.
#[derive(Clone, Debug)]
pub struct ManualClientConfig {
    /// Where the caller is reached.
    pub local: SocketAddr,
    /// Over what.
    pub transport: Transport,
    /// Who calls.
    pub from: Uri,
    /// Who is called.
    pub to: Uri,
    /// The Request-URI of what is asked of the one who is called, outside of a call.
    pub target: Uri,
    /// The Request-URI of registrations.
    pub registrar: Uri,
    /// Who answers challenges: a name and a password.
    pub credentials: Option<(String, String)>,
    /// The size of session descriptions, bytes; 0 for none.
    pub description: usize,
    /// The text of a MESSAGE.
    pub text: String,
    /// For how long is registered, s.
    pub expires: u32,
    /// T1, T2 and T4.
    pub timing: Timing,
}

/// A request that was composed and not sent.
#[derive(Clone, Debug)]
pub struct Draft {
    /// What it is.
    pub step: Step,
    /// As the rules want it.
    pub request: Request,
    /// What the dialog will be when it is sent.
    pub(super) dialog: Option<Dialog>,
}

/// What tells a request outside of a call from others.
#[derive(Clone, Debug)]
pub(super) struct RequestIdentity {
    pub call_id: String,
    pub tag: String,
    pub sequence: u32,
    /// The next of the same step goes on with it: a registration, and what was challenged.
    pub goes_on: bool,
}

impl Draft {
    /// As it would be sent.
    pub fn to_bytes(&self) -> Bytes {
        Message::from(self.request.clone()).to_bytes()
    }

    /// The same, wrong on purpose.
    pub fn spoiled(&self, fault: Fault) -> Bytes {
        fault.spoil(&Message::from(self.request.clone()))
    }

    /// Its method.
    pub const fn method(&self) -> &Method {
        &self.request.method
    }
}
