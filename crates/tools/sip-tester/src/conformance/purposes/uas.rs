//! Behaviour of a called user agent (RFC 3261 sections 8.2, 11 to 15; RFC 3262, 3264, 3311, 4028).

use bytes::Bytes;
use netrig_core::Duration;
use netrig_sip::header::{CSeq, NameAddr};
use netrig_sip::sdp::SessionDescription;
use netrig_sip::{Method, Name, Request, Response};

use super::super::case::{T1, TestCase};
use super::super::dialog::TestDialog;
use super::super::messages::{
    AnsweredRequest, cancel_of, ensure_code, ensure_status, ensure_success, line_of, line_or_silence, tag_of,
};
use super::super::outcome::{
    PurposeOutcome, as_inconclusive, ensure, ensured, failure, inconclusive, require, required,
};
use super::super::purpose::purposes;
use super::super::target::FIRST;
use super::general::{SubjectRequest, final_response, final_within};

/// How long a 2xx is retransmitted without an ACK (RFC 3261 section 13.3.1.4: 64 times T1), plus some time for the BYE.
pub(super) const GIVEN_UP: Duration = Duration::from_millis(64 * 500 + 3000);

/// Time for two retransmissions, the first of which is due after T1.
pub(super) const TWO_REPETITIONS: Duration = Duration::from_millis(2000);

purposes! {
    Uas "UAS";
    "calls" {
        "CALL-01" Must "RFC 3261 section 13.3.1.4" "An INVITE with an offer is answered with a 2xx." => |case| within_a_call(case, |_, _, _| Ok(())), in basic;
        "CALL-02" Must "RFC 3261 section 12.1.1" "The 2xx has one Contact." => has_a_contact, in basic;
        "CALL-03" Must "RFC 3261 section 12.1.1" "The Record-Route values of the INVITE are in the 2xx, in their order." => copies_record_routes;
        "CALL-04" Must "RFC 3261 section 13.3.1.4" "The 2xx to an offer has an answer." => |case| within_a_call(case, |_, answered, _| description(&answered.response.body, "the 2xx").map(drop)), in basic;
        "CALL-05" Must "RFC 3261 section 13.2.1" "The 2xx to an INVITE without an offer has an offer." => offers, in basic;
        "CALL-06" Must "RFC 3261 section 13.3.1.4" "The 2xx is retransmitted until its ACK arrives." => repeats_success;
        "CALL-07" Must "RFC 3261 section 13.3.1.4" "The ACK ends the retransmission of the 2xx and gets no response." => ends_with_the_ack, in basic;
        "CALL-08" Must "RFC 3261 section 15.1.2" "A BYE is answered with a 2xx." => answers_bye, in basic;
        "CALL-09" Should "RFC 3261 section 15.1.2" "A BYE of an ended dialog is answered 481." => refuses_a_second_bye;
        "CALL-10" Should "RFC 3261 section 15.1.2" "A BYE of a dialog that never existed is answered 481." => refuses_an_unknown_bye;
        "CALL-11" Must "RFC 3261 section 12.2.2" "An INVITE with a tag in To of a dialog that never existed is accepted or refused with 481." => refuses_an_unknown_invite;
        "CALL-12" Must "RFC 3261 section 17.2.1" "A retransmitted INVITE creates no second dialog." => absorbs_invites, over Datagrams;
        "CALL-13" Should "RFC 3261 section 8.2.2.2" "An INVITE that arrives on a second path is refused with 482." => refuses_merged_requests;
        "CALL-14" Should "RFC 3261 section 13.3.1.4" "The 2xx has Allow and Supported." => tells_what_it_can;
        "CALL-15" Must "RFC 3261 section 8.2.3" "A body of an unknown type is refused with 415, which lists the known types in Accept." => refuses_unknown_bodies;
        "CALL-16" Must "RFC 3261 section 17.2.1" "The ACK of a 4xx gets no response." => takes_the_ack_of_a_failure;
        "CALL-17" Must "RFC 3261 section 12.2.2" "A request in a dialog with a lower CSeq than the last one is refused with 500." => refuses_old_requests;
        "CALL-18" Should "RFC 3261 section 12.2.2" "A request in a dialog with a gap before its CSeq is accepted." => takes_gaps;
        "CALL-19" Must "RFC 3261 section 20.22" "A request with Max-Forwards: 0 is accepted, since its recipient does not forward it." => takes_the_last_hop;
    }
    "cancelling" {
        "CANCEL-01" Must "RFC 3261 section 9.2" "A CANCEL of a ringing call is answered 200." => answers_cancel, needs [Ringing], in basic;
        "CANCEL-02" Should "RFC 3261 section 9.2" "A cancelled INVITE is answered 487." => terminates_the_invite, needs [Ringing], in basic;
        "CANCEL-03" Should "RFC 3261 section 9.2" "The responses to CANCEL and INVITE have the same tag in To." => cancels_with_one_tag, needs [Ringing];
        "CANCEL-04" Should "RFC 3261 section 9.2" "A CANCEL that matches no transaction is answered 481." => refuses_an_unknown_cancel;
        "CANCEL-05" Must "RFC 3261 section 9.2" "A CANCEL after the 2xx ends no call." => keeps_answered_calls;
    }
    "ringing" {
        "RING-01" Must "RFC 3261 section 12.1.1" "A provisional response above 100 has a tag in To, and a Contact." => rings_with_a_tag, needs [Ringing], in basic;
        "RING-02" Must "RFC 3261 section 17.2.1" "A retransmitted INVITE gets the last provisional response again." => repeats_ringing, needs [Ringing], over Datagrams;
        "RING-03" Must "RFC 3261 section 8.2.6.2" "The 2xx has the tag of the provisional response." => answers_with_the_same_tag, needs [Ringing];
    }
}

/// OPTIONS, to which the server responds with a 2xx.
pub(super) const SUBJECT: SubjectRequest =
    SubjectRequest { make: options, takes: |response| response.status.is_success() };

pub(super) fn options(case: &mut TestCase<'_>) -> PurposeOutcome<Request> {
    case.request(Method::Options, case.callee_uri())
}

pub(super) fn invite(case: &mut TestCase<'_>) -> PurposeOutcome<Request> {
    case.invite_request(case.callee_uri())
}

/// An INVITE and its 2xx, without an ACK.
fn accepted(case: &mut TestCase<'_>) -> PurposeOutcome<AnsweredRequest> {
    let request = invite(case)?;
    let answered = case.ask(&request)?;
    ensure_success(&answered.response, "an INVITE")?;
    Ok(answered)
}

/// Ends the call that a response opens, if it is a 2xx.
pub(super) fn end_opened(case: &mut TestCase<'_>, request: &Request, response: &Response) -> PurposeOutcome {
    if response.status.is_success() {
        let mut dialog = TestDialog::of_caller(FIRST, request, response)?;
        case.acknowledge(&mut dialog)?;
        end(case, &mut dialog)?;
    }
    Ok(())
}

/// Acknowledges a response that opens a call, if it is a 2xx. The case ends the call at its end.
fn leave_open(case: &mut TestCase<'_>, request: &Request, response: &Response) -> PurposeOutcome {
    if response.status.is_success() {
        let mut dialog = TestDialog::of_caller(FIRST, request, response)?;
        case.acknowledge(&mut dialog)?;
        case.open_dialog(&dialog);
    }
    Ok(())
}

/// Makes a call, runs `look` within it, and ends it.
pub(super) fn within_a_call(
    case: &mut TestCase<'_>,
    look: impl FnOnce(&mut TestCase<'_>, &AnsweredRequest, &mut TestDialog) -> PurposeOutcome,
) -> PurposeOutcome {
    let (answered, mut dialog) = case.call_server()?;
    look(case, &answered, &mut dialog)?;
    end(case, &mut dialog)
}

/// Ends a call. Another purpose tests how the BYE is answered.
pub(super) fn end(case: &mut TestCase<'_>, dialog: &mut TestDialog) -> PurposeOutcome {
    let _ = case.hang_up(dialog);
    Ok(())
}

/// The session description of a message.
pub(super) fn description(body: &Bytes, what: &str) -> PurposeOutcome<SessionDescription> {
    let text = std::str::from_utf8(body).unwrap_or_default();
    ensure!(!text.is_empty(), "{what} has no session description");
    SessionDescription::parse(text)
        .map_err(|error| failure!("the session description of {what} breaks the grammar: {error}"))
}

fn has_a_contact(case: &mut TestCase<'_>) -> PurposeOutcome {
    within_a_call(case, |_, answered, _| {
        let contacts = answered.response.headers.addresses(&Name::Contact).unwrap_or_default();
        ensured!(
            contacts.len() == 1,
            "the 2xx has Contact {:?}",
            answered.response.headers.all(&Name::Contact).collect::<Vec<_>>()
        )
    })
}

fn copies_record_routes(case: &mut TestCase<'_>) -> PurposeOutcome {
    let mut request = invite(case)?;
    let routes = ["<sip:one.example.invalid;lr>", "<sip:two.example.invalid;lr;netrig=kept>"];
    for route in routes {
        request.headers.push(Name::RecordRoute, route);
    }
    let answered = case.ask(&request)?;
    ensure_success(&answered.response, "an INVITE with Record-Route")?;
    let mut dialog = TestDialog::of_caller(FIRST, &answered.request, &answered.response)?;
    // The hosts of the route set do not exist, so further requests go to the server itself.
    dialog.routes.clear();
    case.acknowledge(&mut dialog)?;
    end(case, &mut dialog)?;
    let came = answered.response.headers.addresses(&Name::RecordRoute).unwrap_or_default();
    let came: Vec<String> = came.iter().map(ToString::to_string).collect();
    ensured!(came == routes, "the Record-Route values {routes:?} are {came:?} in the 2xx")
}

fn offers(case: &mut TestCase<'_>) -> PurposeOutcome {
    let request = case.request(Method::Invite, case.callee_uri())?;
    let answered = case.ask(&request)?;
    ensure_success(&answered.response, "an INVITE without an offer")?;
    let mut dialog = TestDialog::of_caller(FIRST, &answered.request, &answered.response)?;
    let offer = description(&answered.response.body, "the 2xx to an INVITE without an offer");
    let mut ack = case.within(&mut dialog, Method::Ack)?;
    if let Ok(offer) = &offer {
        let local = case.local(FIRST)?;
        let formats: Vec<&str> =
            offer.media.iter().flat_map(|media| &media.formats).map(String::as_str).collect();
        ack.body = Bytes::from(offer.answer(local.ip(), 40_000, 1, &formats).to_string());
        ack.headers.set(Name::ContentType, "application/sdp");
    }
    case.send_bytes(FIRST, &netrig_sip::Message::Request(ack).to_bytes())?;
    end(case, &mut dialog)?;
    let offer = offer?;
    ensured!(!offer.media.is_empty(), "the offer of the 2xx has no medium")
}

fn repeats_success(case: &mut TestCase<'_>) -> PurposeOutcome {
    let answered = accepted(case)?;

    let again = case.response(FIRST, &answered.request, TWO_REPETITIONS)?;
    end_opened(case, &answered.request, &answered.response)?;
    ensured!(again.is_some(), "a 2xx without an ACK was not retransmitted within {TWO_REPETITIONS}")
}

fn ends_with_the_ack(case: &mut TestCase<'_>) -> PurposeOutcome {
    within_a_call(case, |case, answered, _| {
        let again = case.response(FIRST, &answered.request, TWO_REPETITIONS)?;
        ensure!(again.is_none(), "after its ACK, {} was received", line_or_silence(again.as_ref()));
        let acks = case.count(FIRST, |arrival| {
            let cseq = arrival.response().and_then(|response| response.headers.cseq().ok().flatten());
            cseq.is_some_and(|cseq| cseq.method == Method::Ack)
        });
        ensured!(acks == 0, "an ACK was answered")
    })
}

fn answers_bye(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (_, mut dialog) = case.call_server()?;
    let answered = case.hang_up(&mut dialog)?;
    ensure_success(&answered.response, "a BYE")
}

fn refuses_a_second_bye(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (_, mut dialog) = case.call_server()?;
    case.hang_up(&mut dialog)?;
    let bye = case.within(&mut dialog, Method::Bye)?;
    let response = case.ask(&bye)?.response;
    ensure_code(&response, 481, "a BYE of an ended dialog")
}

/// The final response to a request within a dialog that never existed.
pub(super) fn of_no_dialog(case: &mut TestCase<'_>, method: Method) -> PurposeOutcome<Response> {
    let uri = case.callee_uri();
    let mut request = case.request(method, uri.clone())?;
    let tag = case.token();
    request.headers.set(Name::To, NameAddr::new(uri).with_tag(&tag));
    if request.method == Method::Invite {
        case.describe(FIRST, &mut request)?;
    }
    let AnsweredRequest { request, response, .. } = case.ask(&request)?;
    if request.method == Method::Invite {
        end_opened(case, &request, &response)?;
    }
    Ok(response)
}

fn refuses_an_unknown_bye(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = of_no_dialog(case, Method::Bye)?;
    ensure_code(&response, 481, "a BYE of a dialog that never existed")
}

fn refuses_an_unknown_invite(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = of_no_dialog(case, Method::Invite)?;
    takes_or_refuses_with_481(&response, "an INVITE")
}

/// RFC 3261 section 12.2.2: a server may recreate an unknown dialog. If it does not, it answers 481.
pub(super) fn takes_or_refuses_with_481(response: &Response, what: &str) -> PurposeOutcome {
    ensured!(
        response.status.is_success() || response.status.code() == 481,
        "{what} of a dialog that never existed was refused with {}",
        line_of(response)
    )
}

fn absorbs_invites(case: &mut TestCase<'_>) -> PurposeOutcome {
    let answered = accepted(case)?;

    let bytes = netrig_sip::Message::Request(answered.request.clone()).to_bytes();
    case.send_bytes(FIRST, &bytes)?;
    let mut again = Vec::new();
    let until = case.now() + Duration::from_millis(1200);
    while let Some(response) = case.response(FIRST, &answered.request, until.since(case.now()))? {
        again.push(response);
    }
    end_opened(case, &answered.request, &answered.response)?;
    require!(!again.is_empty(), "the retransmitted INVITE was not answered, and the 2xx was not repeated");
    let is_of_another =
        |response: &&Response| response.status.code() > 100 && tag_of(response) != tag_of(&answered.response);
    let other = again.iter().find(is_of_another);
    ensured!(other.is_none(), "a retransmitted INVITE got {} with another tag", line_or_silence(other))
}

fn refuses_merged_requests(case: &mut TestCase<'_>) -> PurposeOutcome {
    let answered = accepted(case)?;

    let mut merged = answered.request.clone();
    case.renew_branch(FIRST, &mut merged)?;
    let second = case.ask_plainly(FIRST, &merged);
    end_opened(case, &answered.request, &answered.response)?;
    let second = second?.response;
    ensure_code(&second, 482, "an INVITE that arrived on a second path")
}

fn tells_what_it_can(case: &mut TestCase<'_>) -> PurposeOutcome {
    within_a_call(case, |_, answered, _| {
        for name in [Name::Allow, Name::Supported] {
            ensure!(answered.response.headers.get(&name).is_some(), "the 2xx has no {name}");
        }
        Ok(())
    })
}

fn refuses_unknown_bodies(case: &mut TestCase<'_>) -> PurposeOutcome {
    let mut request = invite(case)?;
    request.headers.set(Name::ContentType, "application/netrig-unknown");
    let response = case.ask(&request)?.response;
    end_opened(case, &request, &response)?;
    ensure_code(&response, 415, "a body of an unknown type")?;
    ensured!(response.headers.get(&Name::Accept).is_some(), "the 415 has no Accept")
}

fn takes_the_ack_of_a_failure(case: &mut TestCase<'_>) -> PurposeOutcome {
    let mut request = invite(case)?;
    request.headers.set(Name::Require, "netrig-unknown");
    let answered = case.ask(&request)?;
    ensure_status(&answered.response, 300..700, "the INVITE").map_err(as_inconclusive)?;
    let again = case.response(FIRST, &answered.request, TWO_REPETITIONS)?;
    ensured!(again.is_none(), "after the ACK of a failure, {} was received", line_or_silence(again.as_ref()))
}

fn refuses_old_requests(case: &mut TestCase<'_>) -> PurposeOutcome {
    let mut request = invite(case)?;
    request.headers.set(Name::CSeq, CSeq { number: 10, method: Method::Invite });
    let (_, mut dialog) = case.call_server_with(&request)?;
    // The old request is a BYE: a server may process an OPTIONS outside the dialog, where the order of CSeq does not
    // matter.
    let mut old = case.within(&mut dialog, Method::Bye)?;
    old.headers.set(Name::CSeq, CSeq { number: 5, method: Method::Bye });
    let response = case.ask_plainly(FIRST, &old)?.response;
    end(case, &mut dialog)?;
    ensure_code(&response, 500, "a BYE with a lower CSeq")
}

fn takes_gaps(case: &mut TestCase<'_>) -> PurposeOutcome {
    within_a_call(case, |case, _, dialog| {
        dialog.number += 100;
        let request = case.within(dialog, Method::Options)?;
        let response = case.ask(&request)?.response;
        ensure_success(&response, "a request after a gap of CSeq")
    })
}

fn takes_the_last_hop(case: &mut TestCase<'_>) -> PurposeOutcome {
    let mut request = options(case)?;
    request.headers.set(Name::MaxForwards, 0);
    let response = case.ask(&request)?.response;
    ensure_success(&response, "an OPTIONS with Max-Forwards: 0")
}

/// Sends an INVITE, answers challenges, and waits until the call rings. Returns the INVITE as last sent, and the
/// provisional response.
pub(super) fn ringing(case: &mut TestCase<'_>, request: Request) -> PurposeOutcome<(Request, Response)> {
    let mut request = request;
    for _ in 0..3 {
        case.send(&request)?;
        let end = case.now() + case.target().patience;
        loop {
            let left = end.since(case.now());
            let Some(response) = case.response(FIRST, &request, left)? else {
                return Err(inconclusive!("the call did not ring"));
            };
            if response.status.is_final() {
                case.final_response(FIRST, &request, &response)?;
                let Some(next) = case.with_credentials(FIRST, &request, &response)? else {
                    leave_open(case, &request, &response)?;
                    return Err(inconclusive!("the call did not ring: {}", line_of(&response)));
                };
                request = next;
                break;
            }
            if response.status.code() > 100 {
                return Ok((request, response));
            }
        }
    }
    Err(inconclusive!("the server challenged the request repeatedly"))
}

/// Ends a ringing INVITE: by a CANCEL, or by a BYE if it was answered.
pub(super) fn give_up(case: &mut TestCase<'_>, request: &Request) -> PurposeOutcome {
    let cancel = cancel_of(request);
    let _ = case.ask_plainly(FIRST, &cancel);
    if let Some(response) = final_within(case, request, Duration::from_secs(1))? {
        case.final_response(FIRST, request, &response)?;
        end_opened(case, request, &response)?;
    }
    Ok(())
}

/// The responses of a call that rang and was cancelled: the provisional response, the response to the CANCEL, and the
/// final response to the INVITE.
pub(super) struct Cancelled {
    pub(super) ringing: Response,
    pub(super) of_cancel: Response,
    pub(super) last: Option<Response>,
}

pub(super) fn cancelled(case: &mut TestCase<'_>) -> PurposeOutcome<Cancelled> {
    let request = invite(case)?;
    let (request, ringing) = ringing(case, request)?;
    let cancel = cancel_of(&request);
    let of_cancel = case.ask_plainly(FIRST, &cancel)?.response;
    let last = final_response(case, &request)?;
    if let Some(response) = &last {
        case.final_response(FIRST, &request, response)?;
        leave_open(case, &request, response)?;
    }
    Ok(Cancelled { ringing, of_cancel, last })
}

fn answers_cancel(case: &mut TestCase<'_>) -> PurposeOutcome {
    let cancelled = cancelled(case)?;
    ensure_code(&cancelled.of_cancel, 200, "a CANCEL")
}

fn terminates_the_invite(case: &mut TestCase<'_>) -> PurposeOutcome {
    let cancelled = cancelled(case)?;
    let code = cancelled.last.as_ref().map(|response| response.status.code());
    ensured!(code == Some(487), "a cancelled INVITE got {}", line_or_silence(cancelled.last.as_ref()))
}

fn cancels_with_one_tag(case: &mut TestCase<'_>) -> PurposeOutcome {
    let cancelled = cancelled(case)?;
    ensure_code(&cancelled.of_cancel, 200, "a CANCEL").map_err(as_inconclusive)?;
    let (own, of_invite) = (tag_of(&cancelled.of_cancel), tag_of(&cancelled.ringing));
    ensured!(
        own == of_invite,
        "the tag of the response to CANCEL is {own:?}, that of the INVITE's response is {of_invite:?}"
    )
}

fn refuses_an_unknown_cancel(case: &mut TestCase<'_>) -> PurposeOutcome {
    let request = invite(case)?;
    let cancel = cancel_of(&request);
    let response = case.ask_plainly(FIRST, &cancel)?.response;
    ensure_code(&response, 481, "a CANCEL without a transaction")
}

fn keeps_answered_calls(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (answered, mut dialog) = case.call_server()?;
    let cancel = cancel_of(&answered.request);
    let _ = case.ask_plainly(FIRST, &cancel)?;
    while let Some(response) = case.response(FIRST, &answered.request, T1)? {
        ensure_success(&response, "after a late CANCEL, the INVITE")?;
    }
    // An OPTIONS would be answered even without the call.
    let response = case.hang_up(&mut dialog)?.response;
    ensure!(
        response.status.code() != 481,
        "after a late CANCEL, the call has ended: the BYE was answered {}",
        line_of(&response)
    );
    required!(response.status.is_success(), "the BYE was answered {}", line_of(&response))
}

fn rings_with_a_tag(case: &mut TestCase<'_>) -> PurposeOutcome {
    let cancelled = cancelled(case)?;
    ensure!(tag_of(&cancelled.ringing).is_some(), "a {} has no tag in To", line_of(&cancelled.ringing));
    let has_contact = cancelled.ringing.headers.get(&Name::Contact).is_some();
    ensured!(has_contact, "a {} has a tag in To but no Contact", line_of(&cancelled.ringing))
}

fn repeats_ringing(case: &mut TestCase<'_>) -> PurposeOutcome {
    let request = invite(case)?;
    let (request, ringing) = ringing(case, request)?;
    let mut last = ringing;
    while let Some(newer) = case.response(FIRST, &request, Duration::ZERO)? {
        last = newer;
    }
    require!(!last.status.is_final(), "the call was answered {} at once", line_of(&last));
    let bytes = netrig_sip::Message::Request(request.clone()).to_bytes();
    case.send_bytes(FIRST, &bytes)?;
    let again = provisional_again(case, &request, &last);
    give_up(case, &request)?;
    again
}

/// After a retransmitted INVITE, the server repeats the last provisional response within T1. A later response may have
/// another cause.
fn provisional_again(case: &mut TestCase<'_>, request: &Request, last: &Response) -> PurposeOutcome {
    let until = case.now() + T1;
    while let Some(again) = case.response(FIRST, request, until.since(case.now()))? {
        if again.status == last.status {
            return Ok(());
        }
        if again.status.is_final() {
            case.final_response(FIRST, request, &again)?;
            leave_open(case, request, &again)?;
            return Err(inconclusive!(
                "the call was answered {} within {T1} after the retransmission",
                line_of(&again)
            ));
        }
    }
    Err(failure!("a retransmitted INVITE did not get the {} again within {T1}", line_of(last)))
}

fn answers_with_the_same_tag(case: &mut TestCase<'_>) -> PurposeOutcome {
    let answered = accepted(case)?;

    end_opened(case, &answered.request, &answered.response)?;
    let ringing = answered.provisional.iter().filter(|response| response.status.code() > 100);
    for ringing in ringing {
        ensure!(
            tag_of(ringing) == tag_of(&answered.response),
            "the tag of the {} is not that of the 2xx",
            line_of(ringing)
        );
    }
    Ok(())
}
