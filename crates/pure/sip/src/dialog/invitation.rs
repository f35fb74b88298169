//! An INVITE and its dialogs. If proxies fork the INVITE, each callee makes a dialog (RFC 3261 section 13.2.2.4).

use std::collections::BTreeMap;

use netrig_core::Instant;

use super::{Dialog, DialogState};
use crate::deadline::Deadline;
use crate::transaction::Timing;
use crate::{Request, Response, Status, Violation};

/// Most dialogs of one INVITE. Responses of further callees are refused.
pub const MOST_DIALOGS: usize = 64;

/// The caller's state of an INVITE outside of a dialog.
#[derive(Debug)]
pub struct Invitation {
    request: Request,
    timing: Timing,
    /// Dialogs by the tag of the callee.
    dialogs: BTreeMap<String, Dialog>,
    /// Expires 64·T1 after the first 2xx.
    end: Deadline,
    is_over: bool,
}

/// The effect of a response to the INVITE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvitationEvent {
    /// A provisional response without a dialog.
    Trying,
    /// An early dialog with the callee of this tag.
    Early(String),
    /// A 2xx confirmed the dialog with the callee of this tag, or was retransmitted. The caller must send this ACK. If the 2xx
    /// has an offer, the body of the ACK must have the answer.
    Accepted(String, Box<Request>),
    /// The INVITE was refused: all early dialogs have ended.
    Refused,
}

impl Invitation {
    /// The state after `request` was sent.
    pub fn new(request: Request, timing: Timing) -> Self {
        Self { request, timing, dialogs: BTreeMap::new(), end: Deadline::default(), is_over: false }
    }

    /// The INVITE.
    pub const fn request(&self) -> &Request {
        &self.request
    }

    /// The dialog with the callee of this tag.
    pub fn dialog(&mut self, tag: &str) -> Option<&mut Dialog> {
        self.dialogs.get_mut(tag)
    }

    /// All dialogs.
    pub fn dialogs(&self) -> impl Iterator<Item = &Dialog> {
        self.dialogs.values()
    }

    /// Handles a response to the INVITE. The caller passes a timeout as a 408 response (RFC 3261 section 8.1.3.1).
    ///
    /// # Errors
    /// The response lacks a field that a dialog needs.
    pub fn handle_response(
        &mut self,
        now: Instant,
        response: &Response,
    ) -> Result<InvitationEvent, Violation> {
        if response.status.is_final() && !response.status.is_success() {
            // "if a request outside of a dialog generates a non-2xx final response, any early dialogs created through
            // provisional responses to that request are terminated" (RFC 3261 section 12.3).
            self.end_early();
            return Ok(InvitationEvent::Refused);
        }
        let tag = response.headers.to().ok().flatten().and_then(|to| to.tag().map(str::to_owned));
        let is_provisional = !response.status.is_final();
        let Some(tag) = tag.filter(|_| response.status != Status::TRYING) else {
            if is_provisional {
                return Ok(InvitationEvent::Trying);
            }
            return Err(Violation::new("RFC 3261 section 12.1.1", "To of the 2xx has no tag"));
        };
        if is_provisional {
            return self.early(tag, response);
        }
        if !self.dialogs.contains_key(&tag) {
            self.begin(&tag, response)?;
        }
        if self.end.at().is_none() && !self.is_over {
            self.end = Deadline::after(now, self.timing.patience());
        }
        let Some(dialog) = self.dialogs.get_mut(&tag) else { return Ok(InvitationEvent::Trying) };
        dialog.confirm(response)?;
        // "The UAC core MUST generate an ACK request for each 2xx received from the transaction layer."
        Ok(InvitationEvent::Accepted(tag, Box::new(dialog.acknowledgement(&self.request))))
    }

    fn early(&mut self, tag: String, response: &Response) -> Result<InvitationEvent, Violation> {
        if !self.dialogs.contains_key(&tag) {
            // A provisional response makes a dialog only with a tag and a Contact. Some servers omit the Contact.
            if response.headers.get(&crate::Name::Contact).is_none() {
                return Ok(InvitationEvent::Trying);
            }
            self.begin(&tag, response)?;
        }
        Ok(InvitationEvent::Early(tag))
    }

    fn begin(&mut self, tag: &str, response: &Response) -> Result<(), Violation> {
        if self.dialogs.len() == MOST_DIALOGS {
            let what = format!("more than {MOST_DIALOGS} callees answered one INVITE");
            return Err(Violation::new("RFC 3261 section 13.2.2.4", what));
        }
        self.dialogs.insert(tag.to_owned(), Dialog::caller(&self.request, response)?);
        Ok(())
    }

    fn end_early(&mut self) {
        self.is_over = true;
        for dialog in self.dialogs.values_mut().filter(|dialog| dialog.state() == DialogState::Early) {
            dialog.terminate();
        }
    }

    /// Handles the deadline: "At this point all the early dialogs that have not transitioned to established dialogs are
    /// terminated."
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.end.has_come(now) {
            self.end_early();
        }
    }

    /// The time of the next call of [`Invitation::handle_timeout`]: 64·T1 after the first 2xx.
    pub const fn poll_timeout(&self) -> Option<Instant> {
        self.end.at()
    }

    /// Whether no further response can make a dialog.
    pub const fn is_over(&self) -> bool {
        self.is_over
    }
}
