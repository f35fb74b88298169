//! What a call that fails leaves behind, and how that is ended: an INVITE by CANCEL, a session by BYE (RFC 3261 sections 9.1, 13.2.2.4
//! and 15).

use bytes::Bytes;
use netrig_sip::dialog::Dialog;
use netrig_sip::{Message, Method, Name, Request};

use super::super::received::ReceivedText;

/// The INVITE that began a session, and how far it came.
#[derive(Clone, Debug)]
pub(super) struct ScriptSession {
    invite: ReceivedText,
    is_caller: bool,
    state: SessionState,
}

#[derive(Clone, Debug)]
enum SessionState {
    /// Without a final response.
    Asked { is_provisional: bool, is_cancelled: bool },
    /// With a final response that is no 2xx.
    Refused { response: ReceivedText, is_acknowledged: bool },
    /// With a 2xx.
    Accepted { response: ReceivedText, is_acknowledged: bool },
    /// There is nothing to end.
    Over,
}

/// Whether a request begins a session: an INVITE whose To has no tag.
fn begins(message: &ReceivedText) -> bool {
    matches!(message.request(), Some(("INVITE", _))) && message.tag_of("To").is_none()
}

impl ScriptSession {
    /// Whether it stands.
    pub const fn is_accepted(&self) -> bool {
        matches!(self.state, SessionState::Accepted { .. })
    }

    /// A message of the call was sent by it, or has come to it.
    pub fn note(session: &mut Option<Self>, message: &ReceivedText, is_sent: bool) {
        if begins(message) {
            let state = SessionState::Asked { is_provisional: false, is_cancelled: false };
            *session = Some(Self { invite: message.clone(), is_caller: is_sent, state });
            return;
        }
        let Some(Self { invite, is_caller, state }) = session else { return };
        let is_of_caller = is_sent == *is_caller;
        match (message.request(), message.status(), &mut *state) {
            (Some(("BYE", _)), ..) => *state = SessionState::Over,
            (Some(("CANCEL", _)), _, SessionState::Asked { is_cancelled, .. }) if is_of_caller => {
                *is_cancelled = true;
            }
            (
                Some(("ACK", _)),
                _,
                SessionState::Accepted { is_acknowledged, .. }
                | SessionState::Refused { is_acknowledged, .. },
            ) if is_of_caller => *is_acknowledged = true,
            (None, Some(status), SessionState::Asked { is_provisional, .. }) if !is_of_caller => {
                if message.cseq() != invite.cseq() {
                    return;
                }
                let response = message.clone();
                match status {
                    ..200 => *is_provisional = true,
                    200..300 => *state = SessionState::Accepted { response, is_acknowledged: false },
                    _ => *state = SessionState::Refused { response, is_acknowledged: false },
                }
            }
            _ => {}
        }
    }

    /// The messages that end what is open. `via` is the value of the Via header field of requests that are no part of the INVITE's
    /// transaction.
    pub fn end(&mut self, via: &str) -> Vec<Bytes> {
        let Self { invite, is_caller, state } = self;
        match state {
            SessionState::Asked { is_provisional: true, is_cancelled } if *is_caller && !*is_cancelled => {
                *is_cancelled = true;
                vec![of_transaction(invite, "CANCEL", None)]
            }
            SessionState::Refused { response, is_acknowledged: false } if *is_caller => {
                let acknowledgement = of_transaction(invite, "ACK", Some(response));
                *state = SessionState::Over;
                vec![acknowledgement]
            }
            SessionState::Accepted { response, is_acknowledged } => {
                let messages = of_session(invite, response, *is_caller, !*is_acknowledged, via);
                *state = SessionState::Over;
                messages
            }
            _ => Vec::new(),
        }
    }
}

/// A request of the INVITE's own transaction: CANCEL, or the ACK of a response that is no 2xx (RFC 3261 sections 9.1 and 17.1.1.3).
fn of_transaction(invite: &ReceivedText, method: &str, response: Option<&ReceivedText>) -> Bytes {
    let uri = invite.request().map_or("", |(_, uri)| uri);
    let mut text = format!("{method} {uri} SIP/2.0\r\n");
    let mut push = |line: &str| {
        text.push_str(line);
        text.push_str("\r\n");
    };
    invite.lines_of("Via").first().into_iter().for_each(|line| push(line));
    ["Route", "From"].iter().flat_map(|name| invite.lines_of(name)).for_each(&mut push);
    response.unwrap_or(invite).lines_of("To").into_iter().for_each(&mut push);
    invite.lines_of("Call-ID").into_iter().for_each(&mut push);
    push(&format!("CSeq: {} {method}", invite.cseq().map_or(1, |(number, _)| number)));
    push("Max-Forwards: 70");
    push("Content-Length: 0");
    push("");
    text.into()
}

/// The ACK of a 2xx, if it is owed, and the BYE. Nothing if the messages are none that a dialog can be read from.
fn of_session(
    invite: &ReceivedText,
    response: &ReceivedText,
    is_caller: bool,
    owes_acknowledgement: bool,
    via: &str,
) -> Vec<Bytes> {
    let parsed =
        |message: &ReceivedText| Message::parse(&Bytes::copy_from_slice(message.text.as_bytes())).ok();
    let (Some(Message::Request(invite)), Some(Message::Response(response))) =
        (parsed(invite), parsed(response))
    else {
        return Vec::new();
    };
    let dialog =
        if is_caller { Dialog::caller(&invite, &response) } else { Dialog::callee(&invite, &response) };
    let Ok(mut dialog) = dialog else { return Vec::new() };
    let written = |mut request: Request, suffix: &str| {
        request.headers.push_front(Name::Via, format!("{via}{suffix}"));
        Message::Request(request).to_bytes()
    };
    let mut messages = Vec::new();
    if is_caller && owes_acknowledgement {
        messages.push(written(dialog.acknowledgement(&invite), "-ack"));
    }
    if let Ok(bye) = dialog.request(Method::Bye) {
        messages.push(written(bye, "-bye"));
    }
    messages
}
