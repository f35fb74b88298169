//! One INVITE and its dialogs: proxies fork it, and each who answers makes one (RFC 3261 section 13.2.2.4).

use std::collections::BTreeMap;

use netrig_core::Instant;

use super::{Dialog, DialogState};
use crate::deadline::Deadline;
use crate::transaction::Timing;
use crate::{Request, Response, Status, Violation};

/// The most dialogs that one INVITE may make; responses of more are refused.
pub const MOST_DIALOGS: usize = 64;

/// An INVITE outside of a dialog, as its sender sees it.
#[derive(Debug)]
pub struct Invitation {
    request: Request,
    timing: Timing,
    /// By the other's tag.
    dialogs: BTreeMap<String, Dialog>,
    /// 64·T1 after the first 2xx.
    end: Deadline,
    is_over: bool,
}

/// What a response to the INVITE means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvitationEvent {
    /// Somebody works on it; no dialog comes of that.
    Trying,
    /// An early dialog, of this tag of the other's.
    Early(String),
    /// A dialog is confirmed, or its 2xx came again: this ACK must be sent, with the answer in its body where the 2xx has an
    /// offer.
    Accepted(String, Box<Request>),
    /// Nobody takes it: all early dialogs are over.
    Refused,
}

impl Invitation {
    /// Of `request`, which was sent.
    pub fn new(request: Request, timing: Timing) -> Self {
        Self { request, timing, dialogs: BTreeMap::new(), end: Deadline::default(), is_over: false }
    }

    /// The INVITE.
    pub const fn request(&self) -> &Request {
        &self.request
    }

    /// The dialog with whoever has this tag.
    pub fn dialog(&mut self, tag: &str) -> Option<&mut Dialog> {
        self.dialogs.get_mut(tag)
    }

    /// All dialogs.
    pub fn dialogs(&self) -> impl Iterator<Item = &Dialog> {
        self.dialogs.values()
    }

    /// A response to it. A timeout is 408 (RFC 3261 section 8.1.3.1).
    ///
    /// # Errors
    /// No dialog can be made of it.
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
            // A provisional response makes a dialog if it has a tag and a Contact; some have none, and mean 180 all the same.
            if response.headers.get(&crate::Name::Contact).is_none() {
                return Ok(InvitationEvent::Trying);
            }
            self.begin(&tag, response)?;
        }
        Ok(InvitationEvent::Early(tag))
    }

    fn begin(&mut self, tag: &str, response: &Response) -> Result<(), Violation> {
        if self.dialogs.len() == MOST_DIALOGS {
            let what = format!("more than {MOST_DIALOGS} have answered one INVITE");
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

    /// Its deadline was reached: "At this point all the early dialogs that have not transitioned to established dialogs are
    /// terminated."
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.end.has_come(now) {
            self.end_early();
        }
    }

    /// When [`Invitation::handle_timeout`] wants to be called next: 64·T1 after the first 2xx.
    pub const fn poll_timeout(&self) -> Option<Instant> {
        self.end.at()
    }

    /// Whether no response can make a dialog any more.
    pub const fn is_over(&self) -> bool {
        self.is_over
    }
}
