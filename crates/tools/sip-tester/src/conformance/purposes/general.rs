//! Rules for each server that answers requests (RFC 3261 sections 7, 8.2 and 18), in any role.
//!
//! Each procedure uses a request to which a correct server of this role responds with 2xx or 3xx.

use bytes::Bytes;
use netrig_core::Duration;
use netrig_sip::header::{Transport, Via};
use netrig_sip::{Host, Message, Name, Request, Response};

use super::super::case::TestCase;
use super::super::messages::{AnsweredRequest, ensure_code, line_of, tag_of};
use super::super::outcome::{
    PurposeOutcome, as_inconclusive, ensure, ensured, failure, inconclusive, required,
};
use super::super::target::{FIRST, SECOND};

/// A correct request, and how to recognise that the server accepts it.
#[derive(Clone, Copy)]
pub struct SubjectRequest {
    /// Makes the request.
    pub make: fn(&mut TestCase<'_>) -> PurposeOutcome<Request>,
    /// Whether a final response shows that the server understood the request. A server that does not understand it
    /// answers 400 or similar.
    pub takes: fn(&Response) -> bool,
}

impl SubjectRequest {
    fn make(self, case: &mut TestCase<'_>) -> PurposeOutcome<Request> {
        (self.make)(case)
    }

    /// Whether the server accepted the request.
    pub fn takes(self, response: &Response) -> bool {
        (self.takes)(response)
    }
}

/// Ends the purpose as inconclusive if the server does not accept the unchanged request: its response to a changed
/// request would show nothing.
pub fn requires_an_answer(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    let request = subject.make(case)?;
    let response = case.ask(&request).map_err(as_inconclusive)?.response;
    is_taken(subject, &response)
}

/// Carries out a procedure that uses `subject`, if the server accepts the unchanged request.
pub fn tried(
    case: &mut TestCase<'_>,
    subject: SubjectRequest,
    procedure: fn(&mut TestCase<'_>, SubjectRequest) -> PurposeOutcome,
) -> PurposeOutcome {
    requires_an_answer(case, subject)?;
    procedure(case, subject)
}

fn is_taken(subject: SubjectRequest, response: &Response) -> PurposeOutcome {
    required!(subject.takes(response), "a correct request was answered {}", line_of(response))
}

/// The request with the credentials that the server accepts. Sends the request once to receive the challenges.
fn authorized(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome<Request> {
    let request = subject.make(case)?;
    is_taken(subject, &case.ask(&request)?.response)?;
    let mut again = subject.make(case)?;
    case.authorize(FIRST, &mut again);
    Ok(again)
}

/// Sends a request with current credentials, changed as text by `change`. Returns the final response.
pub fn ask_changed(
    case: &mut TestCase<'_>,
    subject: SubjectRequest,
    change: impl Fn(String) -> String,
) -> PurposeOutcome<Response> {
    for _ in 0..3 {
        let request = authorized(case, subject)?;
        let text = Message::Request(request.clone()).to_bytes();
        let text = String::from_utf8_lossy(&text).into_owned();
        case.send_bytes(FIRST, &Bytes::from(change(text)))?;
        match final_response(case, &request)? {
            // The nonce may be valid for one request only.
            Some(response) if [401, 407].contains(&response.status.code()) => {
                case.with_credentials(FIRST, &request, &response)?;
            }
            Some(response) => return Ok(response),
            None => return Err(failure!("no response within {}", case.target().patience)),
        }
    }
    Err(inconclusive!("the server challenged the request repeatedly"))
}

/// The final response to a sent request; `None` if it does not arrive in time.
pub fn final_response(case: &mut TestCase<'_>, request: &Request) -> PurposeOutcome<Option<Response>> {
    let patience = case.target().patience;
    final_within(case, request, patience)
}

/// The final response to a sent request; `None` if the server sends no response for `wait`.
pub fn final_within(
    case: &mut TestCase<'_>,
    request: &Request,
    wait: Duration,
) -> PurposeOutcome<Option<Response>> {
    while let Some(response) = case.response(FIRST, request, wait)? {
        if response.status.is_final() {
            return Ok(Some(response));
        }
    }
    Ok(None)
}

/// The server accepts a request that `change` has written in another notation.
pub fn takes_changed(
    case: &mut TestCase<'_>,
    subject: SubjectRequest,
    change: impl Fn(String) -> String,
) -> PurposeOutcome {
    let response = ask_changed(case, subject, change)?;
    ensured!(subject.takes(&response), "the request was answered {}", line_of(&response))
}

/// RFC 3261 section 7.3.1: names of header fields are case-insensitive.
pub fn takes_names_in_any_case(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    takes_changed(case, subject, |text| {
        text.replace("Call-ID:", "cALL-iD:")
            .replace("CSeq:", "CSEQ:")
            .replace("From:", "from:")
            .replace("Via:", "VIA:")
    })
}

/// RFC 3261 section 7.3.3: compact forms.
pub fn takes_compact_names(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    takes_changed(case, subject, |text| {
        let short = [("Call-ID:", "i:"), ("From:", "f:"), ("To:", "t:"), ("Via:", "v:"), ("Contact:", "m:")];
        short
            .iter()
            .fold(text, |text, (long, short)| text.replace(&format!("\r\n{long}"), &format!("\r\n{short}")))
    })
}

/// RFC 3261 section 7.3.1: a header field continues on a line that begins with white space.
pub fn takes_folded_lines(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    takes_changed(case, subject, |text| {
        text.replace("\r\nMax-Forwards: 70", "\r\nSubject: one\r\n two\r\n\tthree\r\nMax-Forwards:\r\n 70")
    })
}

/// RFC 3261 section 25.1 (HCOLON, SEMI): white space around separators.
pub fn takes_white_space(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    takes_changed(case, subject, |text| {
        text.replace("\r\nTo: ", "\r\nTo  :   ")
            .replace("\r\nCSeq: ", "\r\nCSeq\t:  ")
            .replace(";tag=", " ; tag = ")
            .replace("\r\nMax-Forwards: ", "\r\nMax-Forwards :")
    })
}

/// RFC 3261 section 8.2.2: unknown header fields are ignored.
pub fn ignores_unknown_fields(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    takes_changed(case, subject, |text| {
        text.replace(
            "\r\nMax-Forwards:",
            "\r\nX-Netrig-Unknown: ;,\"=<>\r\nNewFangledHeader: a\r\n  b\r\nMax-Forwards:",
        )
    })
}

/// RFC 3261 section 7.3.1: unknown parameters are ignored.
pub fn ignores_unknown_parameters(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    takes_changed(case, subject, |text| {
        text.replace(";tag=", ";netrig-unknown=\"a;b\\\"c\";flag;tag=")
            .replace(";branch=", ";netrig=1;branch=")
    })
}

/// RFC 3261 section 8.2.6.2: the Via header fields of a response are those of the request, in the same order.
pub fn copies_vias(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    let mut request = subject.make(case)?;
    let branch = case.branch();
    let mut below = Via::new(Transport::Udp, Host::Name("below.example.invalid".to_owned()), None, &branch);
    below.parameters.push("netrig", Some("kept"));
    let vias = [request.headers.get(&Name::Via).unwrap_or_default().to_owned(), below.to_string()];
    request.headers.set_all(&Name::Via, vias);
    let AnsweredRequest { request, response, .. } = case.ask(&request)?;
    let [sent, came] = [&request.headers, &response.headers].map(|headers| headers.vias());
    let (Ok(sent), Ok(came)) = (sent, came) else {
        return Err(failure!("the Via of the response breaks the grammar"));
    };
    ensure!(
        came.len() == sent.len(),
        "the response has {} Via values, and the request {}",
        came.len(),
        sent.len()
    );
    for (sent, came) in sent.iter().zip(&came) {
        ensure!(
            sent.branch() == came.branch() && sent.host == came.host && sent.port == came.port,
            "the Via {came} of the response is not {sent}"
        );
    }
    let kept = came.last().and_then(|via| via.parameters.value("netrig")) == Some("kept");
    ensured!(kept, "a parameter of a Via below the topmost is not copied")
}

/// RFC 3261 section 8.2.6.2: From, Call-ID and CSeq of a response are those of the request.
pub fn copies_from_call_id_and_cseq(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    let request = subject.make(case)?;
    let AnsweredRequest { request, response, .. } = case.ask(&request)?;
    let same = |name: &Name| request.headers.get(name) == response.headers.get(name);
    ensure!(same(&Name::CallId), "Call-ID is {:?}", response.headers.get(&Name::CallId));
    let [sent, came] = [&request.headers, &response.headers].map(|headers| headers.cseq().ok().flatten());
    ensure!(came.is_some() && sent == came, "CSeq is {:?}", response.headers.get(&Name::CSeq));
    let [sent, came] = [&request.headers, &response.headers].map(|headers| headers.from().ok().flatten());
    let (Some(sent), Some(came)) = (sent, came) else {
        return Err(failure!("From of the response is missing, or breaks the grammar"));
    };
    ensured!(
        sent.tag() == came.tag() && sent.uri.is_equivalent(&came.uri),
        "From of the response is {came}, and of the request {sent}"
    )
}

/// RFC 3261 section 8.2.6.2: To of a response is that of the request, with a tag if the request has none.
pub fn adds_a_tag(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    let request = subject.make(case)?;
    let AnsweredRequest { request, response, .. } = case.ask(&request)?;
    let [sent, came] = [&request.headers, &response.headers].map(|headers| headers.to().ok().flatten());
    let (Some(sent), Some(came)) = (sent, came) else {
        return Err(failure!("To of the response is missing, or breaks the grammar"));
    };
    ensure!(came.uri.is_equivalent(&sent.uri), "To of the response is {came}, and of the request {sent}");
    ensured!(came.tag().is_some_and(|tag| !tag.is_empty()), "To of the {} has no tag", line_of(&response))
}

/// RFC 3261 sections 7 and 20: each message from the server follows the grammar.
pub fn writes_right_messages(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    let request = subject.make(case)?;
    let response = case.ask(&request)?.response;
    let violations = Message::Response(response).violations();
    let violations: Vec<String> = violations.iter().map(ToString::to_string).collect();
    ensured!(violations.is_empty(), "the response breaks rules: {}", violations.join("; "))
}

/// RFC 3261 section 8.2.2.3: an unknown required extension is refused with 420, and listed in Unsupported.
pub fn refuses_unknown_extensions(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    let mut request = subject.make(case)?;
    request.headers.set(Name::Require, "netrig-unknown");
    let response = case.ask(&request)?.response;
    ensure_code(&response, 420, "a request that requires an unknown extension")?;
    let named = response.headers.has_token(&Name::Unsupported, "netrig-unknown");
    ensured!(named, "the 420 does not name the extension in Unsupported")
}

/// RFC 3261 section 18.2.2: without `rport`, a response goes to the port of `sent-by`, not to the source port.
pub fn answers_to_sent_by(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    let port = case.local(SECOND)?.port();
    let mut request = subject.make(case)?;
    let mut via = own_via(&request)?;
    (via.port, via.parameters) = (Some(port), without_rport(&via));
    request.headers.set_all(&Name::Via, [via.to_string()]);
    case.send(&request)?;
    let patience = case.target().patience;
    let found = case.response(SECOND, &request, patience)?;
    acknowledged(case, &request, found.as_ref())?;
    let elsewhere = case.response(FIRST, &request, Duration::ZERO)?;
    acknowledged(case, &request, elsewhere.as_ref())?;
    ensure!(
        found.is_some() || elsewhere.is_none(),
        "the response went to the source port of the request, not to that of Via's sent-by"
    );
    ensured!(found.is_some(), "no response within {patience}")
}

/// RFC 3581 section 4: with `rport`, a response goes to the source port.
pub fn answers_to_rport(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    let port = case.local(SECOND)?.port();
    let mut request = subject.make(case)?;
    let mut via = own_via(&request)?;
    via.port = Some(port);
    request.headers.set_all(&Name::Via, [via.to_string()]);
    case.send(&request)?;
    let patience = case.target().patience;
    let found = case.response(FIRST, &request, patience)?;
    acknowledged(case, &request, found.as_ref())?;
    let elsewhere = case.response(SECOND, &request, Duration::ZERO)?;
    acknowledged(case, &request, elsewhere.as_ref())?;
    ensure!(
        elsewhere.is_none(),
        "the response went to the port of Via's sent-by, although rport in the request asks for its source port"
    );
    ensured!(found.is_some(), "no response within {patience}")
}

/// RFC 3581 section 4: `rport` gets the source port, and `received` the source address.
pub fn fills_in_rport(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    let request = subject.make(case)?;
    let local = case.local(FIRST)?;
    let response = case.ask(&request)?.response;
    let via = top_via(&response)?;
    ensure!(
        via.rport() == Some(Some(local.port())),
        "the response has {via}, but the source port of the request is {}",
        local.port()
    );
    ensured!(
        via.received() == Some(local.ip()),
        "the response has {via}: expected received={} beside rport",
        local.ip()
    )
}

/// RFC 3261 section 18.2.1: if the Via has a host name, `received` contains the source address.
pub fn adds_received(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    let mut request = subject.make(case)?;
    let mut via = own_via(&request)?;
    via.parameters = without_rport(&via);
    via.host = Host::Name("tester.example.invalid".to_owned());
    request.headers.set_all(&Name::Via, [via.to_string()]);
    let local = case.local(FIRST)?;
    let response = case.ask_plainly(FIRST, &request)?.response;
    let via = top_via(&response)?;
    ensured!(
        via.received() == Some(local.ip()),
        "the response has {via}, but the request came from {} with a host name in its Via",
        local.ip()
    )
}

/// RFC 3261 sections 8.2.7 and 17.2.2: a retransmitted request gets the same response.
pub fn answers_again_alike(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    let request = authorized(case, subject)?;
    let patience = case.target().patience;
    case.send(&request)?;
    let Some(response) = final_response(case, &request)? else {
        return Err(failure!("no response within {patience}"));
    };
    // The retransmission is sent before any ACK, because after an ACK the server absorbs an INVITE (RFC 3261 section
    // 17.2.1).
    case.send(&request)?;
    let again = final_response(case, &request)?;
    case.final_response(FIRST, &request, &response)?;
    let Some(again) = again else {
        return Err(failure!("a retransmitted request got no response"));
    };
    ensure!(
        again.status == response.status,
        "the request was answered {}, and its retransmission {}",
        line_of(&response),
        line_of(&again)
    );
    ensured!(tag_of(&again) == tag_of(&response), "the tag in To differs in the response to a retransmission")
}

/// RFC 3261 section 18.3: in a stream, Content-Length gives the end of a message, and the next message begins there.
pub fn reads_two_messages_at_once(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    let first = authorized(case, subject)?;
    let mut second = subject.make(case)?;
    case.authorize(FIRST, &mut second);
    let both: Vec<u8> = [&first, &second]
        .iter()
        .flat_map(|request| Message::Request((*request).clone()).to_bytes())
        .collect();
    case.send_bytes(FIRST, &Bytes::from(both))?;
    for (name, request) in [("first", &first), ("second", &second)] {
        let response = final_response(case, request)?;
        ensure!(response.is_some(), "of two requests in one segment, the {name} got no response");
    }
    Ok(())
}

/// RFC 3261 section 18.3: a message in a stream may arrive in pieces.
pub fn reads_a_message_in_pieces(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    let request = authorized(case, subject)?;
    let bytes = Message::Request(request.clone()).to_bytes();
    for piece in [bytes.slice(..20), bytes.slice(20..bytes.len() / 2), bytes.slice(bytes.len() / 2..)] {
        case.send_bytes(FIRST, &piece)?;
        case.pause(Duration::from_millis(60))?;
    }
    let response = final_response(case, &request)?;
    ensured!(response.is_some(), "a request in three segments got no response")
}

/// RFC 3261 section 18.2.2: a response uses the connection of its request.
pub fn answers_on_the_connection(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    let mut request = subject.make(case)?;
    let mut via = own_via(&request)?;
    // Nothing listens at this port: a response to it would be lost.
    via.port = Some(9);
    request.headers.set_all(&Name::Via, [via.to_string()]);
    case.send(&request)?;
    let patience = case.target().patience;
    let response = case.response(FIRST, &request, patience)?;
    acknowledged(case, &request, response.as_ref())?;
    ensured!(response.is_some(), "the response did not arrive on the connection of the request")
}

/// RFC 5626 section 4.4.1, RFC 3261 section 7.5: empty lines between messages are allowed.
pub fn keeps_a_connection_with_empty_lines(
    case: &mut TestCase<'_>,
    subject: SubjectRequest,
) -> PurposeOutcome {
    let request = subject.make(case)?;
    case.ask(&request)?;
    case.send_bytes(FIRST, &Bytes::from_static(b"\r\n\r\n"))?;
    case.pause(Duration::from_millis(200))?;
    ensure!(case.is_connected(FIRST), "the server closed the connection after an empty line");
    let request = subject.make(case)?;
    case.ask(&request).map(drop)
}

fn acknowledged(case: &mut TestCase<'_>, request: &Request, response: Option<&Response>) -> PurposeOutcome {
    match response {
        Some(response) if response.status.is_final() => case.final_response(FIRST, request, response),
        _ => Ok(()),
    }
}

fn own_via(request: &Request) -> PurposeOutcome<Via> {
    let via = request.headers.top_via().ok().flatten();
    via.ok_or_else(|| inconclusive!("the request has no Via"))
}

fn without_rport(via: &Via) -> netrig_sip::header::Parameters {
    let mut parameters = via.parameters.clone();
    parameters.remove("rport");
    parameters
}

/// The topmost Via of a response.
pub fn top_via(response: &Response) -> PurposeOutcome<Via> {
    let via = response.headers.top_via();
    let via = via.map_err(|error| failure!("the Via of the response breaks the grammar: {error}"))?;
    via.ok_or_else(|| failure!("the response has no Via"))
}
