//! Ends the open session of a failed call: an INVITE by CANCEL, a session by BYE (RFC 3261 sections 9.1, 13.2.2.4 and 15).

use bytes::Bytes;
use netrig_sip::dialog::Dialog;
use netrig_sip::{Message, Method, Name, Request};

use super::super::received::ReceivedText;

/// The INVITE that started a session, and its state.
#[derive(Clone, Debug)]
pub(super) struct ScriptSession {
    invite: ReceivedText,
    is_caller: bool,
    /// The highest CSeq number of own requests.
    own_cseq: u32,
    state: InviteState,
}

/// The messages that end a session.
#[derive(Debug, Default)]
pub(super) struct SessionEnd {
    /// The messages in order.
    pub messages: Vec<Bytes>,
    /// The response that the first message acknowledges. If the response is retransmitted, the ACK is sent again.
    pub acknowledged: Option<ReceivedText>,
}

#[derive(Clone, Debug)]
enum InviteState {
    /// No final response yet. `tag` is the tag of To in the last provisional response.
    Asked { is_provisional: bool, is_cancelled: bool, tag: Option<String> },
    /// A final response other than 2xx.
    Refused { response: ReceivedText, is_acknowledged: bool },
    /// A 2xx.
    Accepted { response: ReceivedText, is_acknowledged: bool },
    /// There is nothing to end.
    Over,
}

/// Whether a request starts a session: an INVITE without a tag in To.
fn begins(message: &ReceivedText) -> bool {
    matches!(message.request(), Some(("INVITE", _))) && message.tag_of("To").is_none()
}

impl ScriptSession {
    /// Whether it is established.
    pub const fn is_accepted(&self) -> bool {
        matches!(self.state, InviteState::Accepted { .. })
    }

    /// Updates the state of the session by a sent or received message of the call.
    pub fn note(session: &mut Option<Self>, message: &ReceivedText, is_sent: bool) {
        if begins(message) {
            let state = InviteState::Asked { is_provisional: false, is_cancelled: false, tag: None };
            let own_cseq = message.cseq().filter(|_| is_sent).map_or(0, |(number, _)| number);
            *session = Some(Self { invite: message.clone(), is_caller: is_sent, own_cseq, state });
            return;
        }
        let Some(Self { invite, is_caller, own_cseq, state }) = session else { return };
        if is_sent
            && message.request().is_some()
            && let Some((number, _)) = message.cseq()
        {
            *own_cseq = number.max(*own_cseq);
        }
        let is_of_caller = is_sent == *is_caller;
        match (message.request(), message.status(), &mut *state) {
            (Some(("BYE", _)), ..) => *state = InviteState::Over,
            (Some(("CANCEL", _)), _, InviteState::Asked { is_cancelled, .. }) if is_of_caller => {
                *is_cancelled = true;
            }
            (
                Some(("ACK", _)),
                _,
                InviteState::Accepted { is_acknowledged, .. } | InviteState::Refused { is_acknowledged, .. },
            ) if is_of_caller => *is_acknowledged = true,
            (None, Some(status), InviteState::Asked { is_provisional, tag, .. }) if !is_of_caller => {
                if message.cseq() != invite.cseq() {
                    return;
                }
                let response = message.clone();
                match status {
                    ..200 => {
                        *is_provisional = true;
                        *tag = message.tag_of("To").map(str::to_owned).or(tag.take());
                    }
                    200..300 => *state = InviteState::Accepted { response, is_acknowledged: false },
                    _ => *state = InviteState::Refused { response, is_acknowledged: false },
                }
            }
            _ => {}
        }
    }

    /// The messages that end the session. `via` is the value of the Via header field of requests outside the INVITE's
    /// transaction.
    pub fn end(&mut self, via: &str) -> SessionEnd {
        let Self { invite, is_caller, own_cseq, state } = self;
        match state {
            InviteState::Asked { is_provisional: true, is_cancelled, .. } if *is_caller && !*is_cancelled => {
                *is_cancelled = true;
                let messages = vec![of_transaction(invite, "CANCEL", None)];
                SessionEnd { messages, acknowledged: None }
            }
            // Without a final response, the caller would wait for ever (RFC 3261 section 8.2).
            InviteState::Asked { is_cancelled, tag, .. } if !*is_caller => {
                let line = if *is_cancelled { "487 Request Terminated" } else { "500 Server Internal Error" };
                let messages = vec![invite.response(line, Some(tag.as_deref().unwrap_or("ended")))];
                *state = InviteState::Over;
                SessionEnd { messages, acknowledged: None }
            }
            InviteState::Refused { response, is_acknowledged: false } if *is_caller => {
                let messages = vec![of_transaction(invite, "ACK", Some(response))];
                let acknowledged = Some(response.clone());
                *state = InviteState::Over;
                SessionEnd { messages, acknowledged }
            }
            InviteState::Accepted { response, is_acknowledged } => {
                let owes = *is_caller && !*is_acknowledged;
                let messages = of_session(invite, response, (*is_caller, owes), *own_cseq, via);
                let acknowledged = owes.then(|| response.clone());
                *state = InviteState::Over;
                SessionEnd { messages, acknowledged }
            }
            _ => SessionEnd::default(),
        }
    }
}

/// A request with the branch of the INVITE: CANCEL, or the ACK of a response other than 2xx (RFC 3261 sections 9.1 and
/// 17.1.1.3).
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

/// The ACK of a 2xx if it was not sent, and the BYE. Empty if no dialog can be derived from the messages.
fn of_session(
    invite: &ReceivedText,
    response: &ReceivedText,
    (is_caller, owes_acknowledgement): (bool, bool),
    own_cseq: u32,
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
    if owes_acknowledgement {
        messages.push(written(dialog.acknowledgement(&invite), "-ack"));
    }
    if let Ok(mut bye) = dialog.request(Method::Bye) {
        // CSeq numbers of a dialog increase (RFC 3261 section 12.2.1.1), so the BYE has a higher number than the
        // requests of the script.
        let number = bye.headers.cseq().ok().flatten().map_or(1, |cseq| cseq.number);
        bye.headers.set(Name::CSeq, format!("{} BYE", number.max(own_cseq.saturating_add(1))));
        messages.push(written(bye, "-bye"));
    }
    messages
}
