//! Composition of requests.

use bytes::Bytes;

use super::client::ManualClient;
use super::draft::{Draft, ManualClientConfig, RequestIdentity};
use super::step::Step;
use crate::dialog::{DialogState, MAX_FORWARDS};
use crate::header::{CSeq, NameAddr, Transport, Via};
use crate::sdp::{DISCARD, SDP_TYPE, SessionDescription};
use crate::transaction::ClientKey;
use crate::{Host, Name, Request, SipUri, Uri, Violation};

impl ManualClient {
    /// Composes a request. It draws random texts and counts the use of nonces, and changes no other state.
    ///
    /// # Errors
    /// If there is nothing to acknowledge, to cancel or to hang up, or if a rule forbids it.
    pub fn compose(&mut self, step: Step) -> Result<Draft, Violation> {
        let (mut request, dialog) = match step {
            Step::Ack => (self.acknowledgement()?, None),
            Step::Cancel => return Ok(Draft { step, request: self.cancellation()?, dialog: None }),
            Step::Bye | Step::ReInvite => {
                let dialog = self.dialog().filter(|dialog| dialog.state() != DialogState::Terminated);
                let none = || Violation::new("RFC 3261 section 12.2", "there is no call");
                let mut dialog = dialog.cloned().ok_or_else(none)?;
                (dialog.request(step.method())?, Some(dialog))
            }
            Step::Register | Step::Invite | Step::Options | Step::Message => (self.outside(step), None),
        };
        let branch = format!("{}{}", crate::header::MAGIC_COOKIE, self.drawn());
        let ManualClientConfig { local, transport, .. } = self.party;
        let mut via = Via::new(transport, Host::Address(local.ip()), Some(local.port()), &branch);
        via.parameters.push("rport", None);
        request.headers.push_front(Name::Via, via);
        match step {
            Step::Invite | Step::ReInvite => self.describe(&mut request),
            Step::Message => {
                request.headers.push(Name::ContentType, "text/plain");
                request.body = Bytes::from(self.party.text.clone());
            }
            _ => {}
        }
        if step != Step::Ack {
            self.prove(&mut request);
        }
        Ok(Draft { step, request, dialog })
    }

    /// Composes a request outside a dialog.
    fn outside(&mut self, step: Step) -> Request {
        let identity = match self.identities.get(&step) {
            Some(last) if last.goes_on => RequestIdentity { sequence: last.sequence + 1, ..last.clone() },
            _ => RequestIdentity {
                call_id: format!("{}@{}", self.drawn(), self.party.local.ip()),
                tag: self.drawn(),
                sequence: 1,
                goes_on: false,
            },
        };
        let party = &self.party;
        let (uri, to) = match step {
            Step::Register => (party.registrar.clone(), &party.from),
            _ => (party.target.clone(), &party.to),
        };
        let mut request = Request::new(step.method(), uri);
        let headers = &mut request.headers;
        headers.push(Name::MaxForwards, MAX_FORWARDS);
        headers.push(Name::From, NameAddr::new(party.from.clone()).with_tag(&identity.tag));
        headers.push(Name::To, NameAddr::new(to.clone()));
        headers.push(Name::CallId, &identity.call_id);
        headers.push(Name::CSeq, CSeq { number: identity.sequence, method: step.method() });
        // A Contact "MUST NOT" be in a MESSAGE (RFC 3428 section 4).
        if step != Step::Message {
            headers.push(Name::Contact, NameAddr::new(self.contact()));
        }
        if step == Step::Register {
            headers.push(Name::Expires, party.expires);
        }
        request
    }

    fn contact(&self) -> Uri {
        let ManualClientConfig { local, transport, from, .. } = &self.party;
        let mut uri = SipUri::new(Host::Address(local.ip()));
        uri.port = Some(local.port());
        if let Some(user) = from.as_sip().and_then(|from| from.user.as_deref()) {
            uri = uri.with_user(user);
        }
        if *transport != Transport::Udp {
            uri = uri.with_parameter("transport", Some(&transport.name().to_ascii_lowercase()));
        }
        Uri::Sip(uri)
    }

    fn describe(&mut self, request: &mut Request) {
        if self.party.description == 0 {
            return;
        }
        let id = self.random.below(1 << 31);
        let description =
            SessionDescription::audio(self.party.local.ip(), DISCARD, id).padded(self.party.description);
        request.headers.push(Name::ContentType, SDP_TYPE);
        request.body = Bytes::from(description.to_string());
    }

    /// Adds the credentials for the challenges so far.
    fn prove(&mut self, request: &mut Request) {
        let cnonce = self.drawn();
        let (method, uri, body) = (request.method.clone(), request.uri.to_string(), request.body.clone());
        let counts = (0, &mut self.nonces);
        let mut is_proved = false;
        for (name, answer) in self.digest.answers(&method, &uri, &body, &cnonce, counts) {
            request.headers.push(name.clone(), answer.write());
            is_proved = true;
        }
        self.proving = is_proved.then(|| ClientKey::of_answers_to(request).ok().flatten()).flatten();
    }

    /// A random text of 16 hexadecimal digits.
    fn drawn(&mut self) -> String {
        format!("{:016x}", self.random.bits())
    }
}
