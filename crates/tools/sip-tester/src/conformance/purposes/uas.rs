//! What a user agent does that is called (RFC 3261 sections 8.2, 11 to 15; RFC 3262, 3264, 3311, 4028).

use bytes::Bytes;
use netrig_core::Duration;
use netrig_sip::header::{CSeq, NameAddr, RAck};
use netrig_sip::sdp::SessionDescription;
use netrig_sip::{Method, Name, Request, Response, Uri};

use super::super::case::{T1, TestCase};
use super::super::dialog::TestDialog;
use super::super::messages::{AnsweredRequest, line_of, line_or_silence};
use super::super::outcome::{PurposeEnd, PurposeOutcome, ensure, require};
use super::super::purpose::purposes;
use super::super::target::TestAgent;
use super::general::SubjectRequest;

const FIRST: TestAgent = TestAgent::First;

/// How long a 2xx is repeated without an ACK (RFC 3261 section 13.3.1.4: 64 times T1), and a little more for the BYE.
const GIVEN_UP: Duration = Duration::from_millis(64 * 500 + 3000);

/// Two repetitions by T1.
const TWO_REPETITIONS: Duration = Duration::from_millis(2000);

purposes! {
    Uas "UAS";
    "calls" {
        "CALL-01" Must "RFC 3261 section 13.3.1.4" "An INVITE with an offer is answered with a 2xx." => answers, in basic;
        "CALL-02" Must "RFC 3261 section 12.1.1" "The 2xx has one Contact." => has_a_contact, in basic;
        "CALL-03" Must "RFC 3261 section 12.1.1" "The Record-Route values of the INVITE are in the 2xx, in their order." => copies_record_routes;
        "CALL-04" Must "RFC 3261 section 13.3.1.4" "The 2xx to an offer has an answer." => has_an_answer, in basic;
        "CALL-05" Must "RFC 3261 section 13.2.1" "The 2xx to an INVITE without an offer has an offer." => offers, in basic;
        "CALL-06" Must "RFC 3261 section 13.3.1.4" "The 2xx is sent again until its ACK has come." => repeats_success;
        "CALL-07" Must "RFC 3261 section 13.3.1.4" "The ACK ends that, and gets no response." => ends_with_the_ack, in basic;
        "CALL-08" Must "RFC 3261 section 15.1.2" "A BYE is answered with a 2xx." => answers_bye, in basic;
        "CALL-09" Should "RFC 3261 section 15.1.2" "A BYE of a dialog that is over is answered 481." => refuses_a_second_bye;
        "CALL-10" Should "RFC 3261 section 15.1.2" "A BYE of a dialog that never was is answered 481." => refuses_an_unknown_bye;
        "CALL-11" Must "RFC 3261 section 12.2.2" "An INVITE with a tag in To of a dialog that never was is taken, or refused with 481." => refuses_an_unknown_invite;
        "CALL-12" Must "RFC 3261 section 17.2.1" "An INVITE that is sent again begins no second dialog." => absorbs_invites, over Datagrams;
        "CALL-13" Should "RFC 3261 section 8.2.2.2" "An INVITE that comes along a second way is refused with 482." => refuses_merged_requests;
        "CALL-14" Should "RFC 3261 section 13.3.1.4" "The 2xx has Allow and Supported." => tells_what_it_can;
        "CALL-15" Must "RFC 3261 section 8.2.3" "A body of a type that is not known is refused with 415, which names those that are in Accept." => refuses_unknown_bodies;
        "CALL-16" Must "RFC 3261 section 17.2.1" "A status of class 4 that is refused with stays refused: its ACK gets no response." => takes_the_ack_of_a_failure;
        "CALL-17" Must "RFC 3261 section 12.2.2" "A request of a dialog with a lower CSeq than the last is refused with 500." => refuses_old_requests;
        "CALL-18" Should "RFC 3261 section 12.2.2" "A request of a dialog whose CSeq has a gap is taken." => takes_gaps;
        "CALL-19" Must "RFC 3261 section 20.22" "A request with Max-Forwards: 0 is taken: its recipient forwards it no more." => takes_the_last_hop;
    }
    "cancelling" {
        "CANCEL-01" Must "RFC 3261 section 9.2" "A CANCEL of a call that rings is answered 200." => answers_cancel, needs [Ringing], in basic;
        "CANCEL-02" Should "RFC 3261 section 9.2" "The INVITE is answered 487 then." => terminates_the_invite, needs [Ringing], in basic;
        "CANCEL-03" Should "RFC 3261 section 9.2" "The tag in To of the CANCEL's response is that of the INVITE's." => cancels_with_one_tag, needs [Ringing];
        "CANCEL-04" Should "RFC 3261 section 9.2" "A CANCEL that fits no transaction is answered 481." => refuses_an_unknown_cancel;
        "CANCEL-05" Must "RFC 3261 section 9.2" "A CANCEL after the 2xx ends no call." => keeps_answered_calls;
    }
    "ringing" {
        "RING-01" Must "RFC 3261 section 12.1.1" "A provisional response above 100 has a tag in To, and a Contact." => rings_with_a_tag, needs [Ringing], in basic;
        "RING-02" Must "RFC 3261 section 17.2.1" "An INVITE that is sent again gets the last provisional response again." => repeats_ringing, needs [Ringing], over Datagrams;
        "RING-03" Must "RFC 3261 section 8.2.6.2" "The 2xx has the tag of the provisional response." => answers_with_the_same_tag, needs [Ringing];
    }
    "descriptions" {
        "SDP-01" Must "RFC 3264 section 6" "The answer has as many media as the offer, in their order." => answers_each_medium, in basic;
        "SDP-02" Must "RFC 3264 section 6.1" "An offer of sendonly is answered recvonly or inactive." => answers_sendonly;
        "SDP-03" Must "RFC 3264 section 6.1" "An offer of inactive is answered inactive." => answers_inactive;
        "SDP-04" Must "RFC 3264 section 6" "A medium that is offered with port 0 is answered with port 0." => answers_port_zero;
        "SDP-05" Must "RFC 3264 section 6.1" "The answer has a format of the offer." => answers_with_offered_formats, in basic;
        "SDP-06" Must "RFC 3264 section 6" "A medium that is not known is answered with port 0 beside one that is taken." => refuses_unknown_media;
        "SDP-07" Must "RFC 3264 section 6" "A medium of which no format is known is not taken: the INVITE is refused, or the medium is answered with port 0." => refuses_unknown_formats;
        "SDP-08" Must "RFC 4566 section 5" "The description keeps to the grammar." => describes_rightly, in basic;
        "SDP-09" Should "RFC 3261 section 13.3.1.3" "An INVITE whose offer is refused is refused with 488." => refuses_offers_with_488;
    }
    "changes" {
        "MOD-01" Must "RFC 3261 section 14.2" "An INVITE within a call is answered with a 2xx, which has an answer." => takes_a_reinvite, needs [Reinvite];
        "MOD-02" Must "RFC 3264 section 8" "The version of the description rises if it has changed, and stays if not." => counts_versions, needs [Reinvite];
        "MOD-03" Must "RFC 3261 section 12.2.2" "After an INVITE within a call with another Contact the server sends its requests there." => follows_the_target, needs [Reinvite];
        "MOD-04" Must "RFC 3261 section 14.2" "A call that is held by an INVITE stands, and is resumed by another." => holds_and_resumes, needs [Reinvite];
        "MOD-05" Must "RFC 3311 section 5.2" "An UPDATE within a call is answered with a 2xx." => takes_an_update, needs [Update];
        "MOD-06" Must "RFC 3261 section 12.2.2" "An UPDATE of a dialog that never was is taken, or refused with 481." => refuses_an_unknown_update, needs [Update];
    }
    "options" {
        "OPT-01" Must "RFC 3261 section 11.2" "OPTIONS is answered as an INVITE would be: 200." => answers_options, in basic;
        "OPT-02" Should "RFC 3261 section 11.2" "The response to OPTIONS has Allow, Accept and Supported." => tells_options;
        "OPT-03" Must "RFC 3261 section 11.2" "OPTIONS within a call does not change it." => answers_options_in_a_call;
    }
    "reliability" {
        "REL-01" Must "RFC 3262 section 3" "An INVITE that requires 100rel gets reliable provisional responses only, with RSeq and Require." => rings_reliably, needs [ReliableProvisional];
        "REL-02" Must "RFC 3262 section 3" "A reliable provisional response is sent again until its PRACK has come." => repeats_reliably, needs [ReliableProvisional], over Datagrams;
        "REL-03" Must "RFC 3262 section 3" "Its PRACK is answered with a 2xx." => answers_prack, needs [ReliableProvisional];
        "REL-04" Must "RFC 3262 section 3" "A PRACK that fits no response is answered 481." => refuses_an_unknown_prack, needs [ReliableProvisional];
        "REL-05" Must "RFC 3262 section 3" "A caller without 100rel gets no reliable provisional response." => rings_plainly, needs [Ringing];
    }
    "timers" {
        "TIMER-01" Must "RFC 4028 section 9" "A 2xx to an INVITE with Session-Expires has Session-Expires with a refresher." => tells_the_interval, needs [SessionTimer];
        "TIMER-02" Must "RFC 4028 section 9" "A 422 to an interval that is too small tells the least in Min-SE." => refuses_short_intervals, needs [SessionTimer];
        "TIMER-03" Must "RFC 4028 section 9" "The interval is not lengthened." => keeps_the_interval, needs [SessionTimer];
        "TIMER-04" Must "RFC 4028 section 9" "If the caller refreshes, the 2xx requires timer." => requires_timer, needs [SessionTimer];
        "TIMER-05" Must "RFC 4028 section 9" "A caller that does not know timers gets no Require: timer." => spares_old_callers, needs [SessionTimer];
    }
}

/// OPTIONS, which is answered with a 2xx.
pub(super) const SUBJECT: SubjectRequest =
    SubjectRequest { make: options, takes: |response| response.status.is_success() };

fn options(case: &mut TestCase<'_>) -> Result<Request, PurposeEnd> {
    let uri = case.callee_uri();
    case.request(Method::Options, uri)
}

fn invite(case: &mut TestCase<'_>) -> Result<Request, PurposeEnd> {
    let uri = case.callee_uri();
    case.invite_request(uri)
}

fn success(response: &Response, what: &str) -> PurposeOutcome {
    ensure!(response.status.is_success(), "{what} was answered {}", line_of(response));
    Ok(())
}

/// A call, ended after `look`.
fn within_a_call(
    case: &mut TestCase<'_>,
    look: impl FnOnce(&mut TestCase<'_>, &AnsweredRequest, &mut TestDialog) -> PurposeOutcome,
) -> PurposeOutcome {
    let (answered, mut dialog) = case.call_server()?;
    look(case, &answered, &mut dialog)?;
    end(case, &mut dialog)
}

/// Hangs up; how the BYE is answered is another purpose's affair.
fn end(case: &mut TestCase<'_>, dialog: &mut TestDialog) -> PurposeOutcome {
    let _ = case.hang_up(dialog);
    Ok(())
}

/// The description of a message.
fn description(body: &Bytes, what: &str) -> Result<SessionDescription, PurposeEnd> {
    let text = std::str::from_utf8(body).unwrap_or_default();
    ensure!(!text.is_empty(), "{what} has no session description");
    SessionDescription::parse(text).map_err(|error| {
        PurposeEnd::Fail(format!("the session description of {what} breaks the grammar: {error}"))
    })
}

fn answers(case: &mut TestCase<'_>) -> PurposeOutcome {
    within_a_call(case, |_, _, _| Ok(()))
}

fn has_a_contact(case: &mut TestCase<'_>) -> PurposeOutcome {
    within_a_call(case, |_, answered, _| {
        let contacts = answered.response.headers.addresses(&Name::Contact).unwrap_or_default();
        ensure!(
            contacts.len() == 1,
            "the 2xx has Contact {:?}",
            answered.response.headers.all(&Name::Contact).collect::<Vec<_>>()
        );
        Ok(())
    })
}

fn copies_record_routes(case: &mut TestCase<'_>) -> PurposeOutcome {
    let mut request = invite(case)?;
    let routes = ["<sip:one.example.invalid;lr>", "<sip:two.example.invalid;lr;netrig=kept>"];
    for route in routes {
        request.headers.push(Name::RecordRoute, route);
    }
    let answered = case.ask(&request)?;
    success(&answered.response, "an INVITE with Record-Route")?;
    let mut dialog = TestDialog::of_caller(FIRST, &answered.request, &answered.response)?;
    // The routes lead nowhere: what follows goes to the server itself.
    dialog.routes.clear();
    case.acknowledge(&mut dialog)?;
    end(case, &mut dialog)?;
    let came = answered.response.headers.addresses(&Name::RecordRoute).unwrap_or_default();
    let came: Vec<String> = came.iter().map(ToString::to_string).collect();
    ensure!(came == routes, "the Record-Route values {routes:?} are {came:?} in the 2xx");
    Ok(())
}

fn has_an_answer(case: &mut TestCase<'_>) -> PurposeOutcome {
    within_a_call(case, |_, answered, _| description(&answered.response.body, "the 2xx").map(drop))
}

fn offers(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = case.callee_uri();
    let request = case.request(Method::Invite, uri)?;
    let answered = case.ask(&request)?;
    success(&answered.response, "an INVITE without an offer")?;
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
    ensure!(!offer.media.is_empty(), "the offer of the 2xx has no medium");
    Ok(())
}

fn repeats_success(case: &mut TestCase<'_>) -> PurposeOutcome {
    let request = invite(case)?;
    let answered = case.ask(&request)?;
    success(&answered.response, "an INVITE")?;
    let again = case.response(FIRST, &answered.request, TWO_REPETITIONS)?;
    let mut dialog = TestDialog::of_caller(FIRST, &answered.request, &answered.response)?;
    case.acknowledge(&mut dialog)?;
    end(case, &mut dialog)?;
    ensure!(again.is_some(), "a 2xx without an ACK was not sent again within {TWO_REPETITIONS}");
    Ok(())
}

fn ends_with_the_ack(case: &mut TestCase<'_>) -> PurposeOutcome {
    within_a_call(case, |case, answered, _| {
        let again = case.response(FIRST, &answered.request, TWO_REPETITIONS)?;
        ensure!(again.is_none(), "after its ACK {} came", line_or_silence(again.as_ref()));
        let acks = case.count(FIRST, |arrival| {
            let cseq = arrival.response().and_then(|response| response.headers.cseq().ok().flatten());
            cseq.is_some_and(|cseq| cseq.method == Method::Ack)
        });
        ensure!(acks == 0, "an ACK was answered");
        Ok(())
    })
}

fn answers_bye(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (_, mut dialog) = case.call_server()?;
    let answered = case.hang_up(&mut dialog)?;
    success(&answered.response, "a BYE")
}

fn refuses_a_second_bye(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (_, mut dialog) = case.call_server()?;
    case.hang_up(&mut dialog)?;
    let bye = case.within(&mut dialog, Method::Bye)?;
    let response = case.ask(&bye)?.response;
    ensure!(
        response.status.code() == 481,
        "a BYE of a dialog that is over was answered {}",
        line_of(&response)
    );
    Ok(())
}

/// A request of a dialog that never was.
fn of_no_dialog(case: &mut TestCase<'_>, method: Method) -> Result<Response, PurposeEnd> {
    let uri = case.callee_uri();
    let mut request = case.request(method, uri.clone())?;
    let tag = case.token();
    request.headers.set(Name::To, NameAddr::new(uri).with_tag(&tag));
    if request.method == Method::Invite {
        case.describe(FIRST, &mut request)?;
    }
    let AnsweredRequest { request, response, .. } = case.ask(&request)?;
    if request.method == Method::Invite && response.status.is_success() {
        let mut dialog = TestDialog::of_caller(FIRST, &request, &response)?;
        case.acknowledge(&mut dialog)?;
        end(case, &mut dialog)?;
    }
    Ok(response)
}

fn refuses_an_unknown_bye(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = of_no_dialog(case, Method::Bye)?;
    ensure!(
        response.status.code() == 481,
        "a BYE of a dialog that never was was answered {}",
        line_of(&response)
    );
    Ok(())
}

fn refuses_an_unknown_invite(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = of_no_dialog(case, Method::Invite)?;
    takes_or_refuses_with_481(&response, "an INVITE")
}

/// RFC 3261 section 12.2.2: a server may recreate a dialog that it does not know. If it does not, it answers 481.
fn takes_or_refuses_with_481(response: &Response, what: &str) -> PurposeOutcome {
    ensure!(
        response.status.is_success() || response.status.code() == 481,
        "{what} of a dialog that never was was refused with {}",
        line_of(response)
    );
    Ok(())
}

fn absorbs_invites(case: &mut TestCase<'_>) -> PurposeOutcome {
    let request = invite(case)?;
    let answered = case.ask(&request)?;
    success(&answered.response, "an INVITE")?;
    let bytes = netrig_sip::Message::Request(answered.request.clone()).to_bytes();
    case.send_bytes(FIRST, &bytes)?;
    let mut again = Vec::new();
    let until = case.now() + Duration::from_millis(1200);
    while let Some(response) = case.response(FIRST, &answered.request, until.since(case.now()))? {
        again.push(response);
    }
    let mut dialog = TestDialog::of_caller(FIRST, &answered.request, &answered.response)?;
    case.acknowledge(&mut dialog)?;
    end(case, &mut dialog)?;
    require!(!again.is_empty(), "neither was the INVITE that was sent again answered, nor the 2xx repeated");
    let is_of_another =
        |response: &&Response| response.status.code() > 100 && tag(response) != tag(&answered.response);
    let other = again.iter().find(is_of_another);
    ensure!(other.is_none(), "an INVITE that was sent again got {} with another tag", line_or_silence(other));
    Ok(())
}

fn refuses_merged_requests(case: &mut TestCase<'_>) -> PurposeOutcome {
    let request = invite(case)?;
    let answered = case.ask(&request)?;
    success(&answered.response, "an INVITE")?;
    let mut merged = answered.request.clone();
    case.renew_branch(FIRST, &mut merged)?;
    let second = case.ask_plainly(FIRST, &merged);
    let mut dialog = TestDialog::of_caller(FIRST, &answered.request, &answered.response)?;
    case.acknowledge(&mut dialog)?;
    end(case, &mut dialog)?;
    let second = second?.response;
    ensure!(
        second.status.code() == 482,
        "an INVITE that came along a second way was answered {}",
        line_of(&second)
    );
    Ok(())
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
    if response.status.is_success() {
        let mut dialog = TestDialog::of_caller(FIRST, &request, &response)?;
        case.acknowledge(&mut dialog)?;
        end(case, &mut dialog)?;
    }
    ensure!(response.status.code() == 415, "a body of an unknown type was answered {}", line_of(&response));
    ensure!(response.headers.get(&Name::Accept).is_some(), "the 415 has no Accept");
    Ok(())
}

fn takes_the_ack_of_a_failure(case: &mut TestCase<'_>) -> PurposeOutcome {
    let mut request = invite(case)?;
    request.headers.set(Name::Require, "netrig-unknown");
    let answered = case.ask(&request)?;
    require!(
        !answered.response.status.is_success(),
        "the INVITE was answered {}",
        line_of(&answered.response)
    );
    let again = case.response(FIRST, &answered.request, TWO_REPETITIONS)?;
    ensure!(again.is_none(), "after the ACK of a failure {} came", line_or_silence(again.as_ref()));
    Ok(())
}

fn refuses_old_requests(case: &mut TestCase<'_>) -> PurposeOutcome {
    let mut request = invite(case)?;
    request.headers.set(Name::CSeq, CSeq { number: 10, method: Method::Invite });
    let (_, mut dialog) = case.call_server_with(&request)?;
    // An OPTIONS is processed as outside of the dialog, where no order holds.
    let mut old = case.within(&mut dialog, Method::Bye)?;
    old.headers.set(Name::CSeq, CSeq { number: 5, method: Method::Bye });
    let response = case.ask_plainly(FIRST, &old)?.response;
    end(case, &mut dialog)?;
    ensure!(response.status.code() == 500, "a BYE with a lower CSeq was answered {}", line_of(&response));
    Ok(())
}

fn takes_gaps(case: &mut TestCase<'_>) -> PurposeOutcome {
    within_a_call(case, |case, _, dialog| {
        dialog.number += 100;
        let request = case.within(dialog, Method::Options)?;
        let response = case.ask(&request)?.response;
        success(&response, "a request after a gap of CSeq")
    })
}

fn takes_the_last_hop(case: &mut TestCase<'_>) -> PurposeOutcome {
    let mut request = options(case)?;
    request.headers.set(Name::MaxForwards, 0);
    let response = case.ask(&request)?.response;
    success(&response, "an OPTIONS with Max-Forwards: 0")
}

/// An INVITE that rings, with the provisional response.
fn ringing(case: &mut TestCase<'_>, request: Request) -> Result<(Request, Response), PurposeEnd> {
    let mut request = request;
    for _ in 0..3 {
        case.send(&request)?;
        let end = case.now() + case.target().patience;
        loop {
            let left = end.since(case.now());
            let Some(response) = case.response(FIRST, &request, left)? else {
                return Err(PurposeEnd::Inconclusive("the call did not ring".to_owned()));
            };
            if response.status.is_final() {
                case.acknowledge_failure(FIRST, &request, &response)?;
                let Some(next) = case.with_credentials(FIRST, &request, &response)? else {
                    if response.status.is_success() {
                        let mut dialog = TestDialog::of_caller(FIRST, &request, &response)?;
                        case.acknowledge(&mut dialog)?;
                        case.open_dialog(&dialog);
                    }
                    return Err(PurposeEnd::Inconclusive(format!(
                        "the call did not ring: {}",
                        line_of(&response)
                    )));
                };
                request = next;
                break;
            }
            if response.status.code() > 100 {
                return Ok((request, response));
            }
        }
    }
    Err(PurposeEnd::Inconclusive("the server challenged the request again and again".to_owned()))
}

/// A call that rang and was cancelled: the INVITE, its provisional response, the response to the CANCEL, and the final one.
struct Cancelled {
    ringing: Response,
    of_cancel: Response,
    last: Option<Response>,
}

fn cancelled(case: &mut TestCase<'_>) -> Result<Cancelled, PurposeEnd> {
    let request = invite(case)?;
    let (request, ringing) = ringing(case, request)?;
    let cancel = case.cancel_of(&request);
    let of_cancel = case.ask_plainly(FIRST, &cancel)?.response;
    let patience = case.target().patience;
    let mut last = None;
    while let Some(response) = case.response(FIRST, &request, patience)? {
        if response.status.is_final() {
            case.acknowledge_failure(FIRST, &request, &response)?;
            if response.status.is_success() {
                let mut dialog = TestDialog::of_caller(FIRST, &request, &response)?;
                case.acknowledge(&mut dialog)?;
                case.open_dialog(&dialog);
            }
            last = Some(response);
            break;
        }
    }
    Ok(Cancelled { ringing, of_cancel, last })
}

fn answers_cancel(case: &mut TestCase<'_>) -> PurposeOutcome {
    let cancelled = cancelled(case)?;
    ensure!(
        cancelled.of_cancel.status.code() == 200,
        "a CANCEL was answered {}",
        line_of(&cancelled.of_cancel)
    );
    Ok(())
}

fn terminates_the_invite(case: &mut TestCase<'_>) -> PurposeOutcome {
    let cancelled = cancelled(case)?;
    let code = cancelled.last.as_ref().map(|response| response.status.code());
    ensure!(
        code == Some(487),
        "an INVITE that was cancelled got {}",
        line_or_silence(cancelled.last.as_ref())
    );
    Ok(())
}

fn tag(response: &Response) -> Option<String> {
    response.headers.to().ok().flatten().and_then(|to| to.tag().map(str::to_owned))
}

fn cancels_with_one_tag(case: &mut TestCase<'_>) -> PurposeOutcome {
    let cancelled = cancelled(case)?;
    require!(
        cancelled.of_cancel.status.code() == 200,
        "a CANCEL was answered {}",
        line_of(&cancelled.of_cancel)
    );
    let (own, of_invite) = (tag(&cancelled.of_cancel), tag(&cancelled.ringing));
    ensure!(
        own == of_invite,
        "the tag of the CANCEL's response is {own:?}, and of the INVITE's {of_invite:?}"
    );
    Ok(())
}

fn refuses_an_unknown_cancel(case: &mut TestCase<'_>) -> PurposeOutcome {
    let request = invite(case)?;
    let cancel = case.cancel_of(&request);
    let response = case.ask_plainly(FIRST, &cancel)?.response;
    ensure!(response.status.code() == 481, "a CANCEL of nothing was answered {}", line_of(&response));
    Ok(())
}

fn keeps_answered_calls(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (answered, mut dialog) = case.call_server()?;
    let cancel = case.cancel_of(&answered.request);
    let _ = case.ask_plainly(FIRST, &cancel)?;
    while let Some(response) = case.response(FIRST, &answered.request, T1)? {
        ensure!(
            response.status.is_success(),
            "after a CANCEL that came too late the INVITE was answered {}",
            line_of(&response)
        );
    }
    // An OPTIONS would be answered without the call, too.
    let response = case.hang_up(&mut dialog)?.response;
    ensure!(
        response.status.code() != 481,
        "after a CANCEL that came too late the call is over: the BYE was answered {}",
        line_of(&response)
    );
    require!(response.status.is_success(), "the BYE was answered {}", line_of(&response));
    Ok(())
}

fn rings_with_a_tag(case: &mut TestCase<'_>) -> PurposeOutcome {
    let cancelled = cancelled(case)?;
    ensure!(tag(&cancelled.ringing).is_some(), "a {} has no tag in To", line_of(&cancelled.ringing));
    let has_contact = cancelled.ringing.headers.get(&Name::Contact).is_some();
    ensure!(has_contact, "a {} has a tag in To and no Contact", line_of(&cancelled.ringing));
    Ok(())
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

/// The last provisional response comes again within T1: what comes later may come by itself.
fn provisional_again(case: &mut TestCase<'_>, request: &Request, last: &Response) -> PurposeOutcome {
    let until = case.now() + T1;
    while let Some(again) = case.response(FIRST, request, until.since(case.now()))? {
        if again.status == last.status {
            return Ok(());
        }
        if again.status.is_final() {
            case.acknowledge_failure(FIRST, request, &again)?;
            if again.status.is_success() {
                let mut dialog = TestDialog::of_caller(FIRST, request, &again)?;
                case.acknowledge(&mut dialog)?;
                case.open_dialog(&dialog);
            }
            return Err(PurposeEnd::Inconclusive(format!(
                "the call was answered {} within {T1} after the repetition",
                line_of(&again)
            )));
        }
    }
    Err(PurposeEnd::Fail(format!(
        "an INVITE that was sent again did not get the {} again within {T1}",
        line_of(last)
    )))
}

fn answers_with_the_same_tag(case: &mut TestCase<'_>) -> PurposeOutcome {
    let request = invite(case)?;
    let answered = case.ask(&request)?;
    success(&answered.response, "an INVITE")?;
    let mut dialog = TestDialog::of_caller(FIRST, &answered.request, &answered.response)?;
    case.acknowledge(&mut dialog)?;
    end(case, &mut dialog)?;
    let ringing = answered.provisional.iter().filter(|response| response.status.code() > 100);
    for ringing in ringing {
        ensure!(
            tag(ringing) == tag(&answered.response),
            "the tag of the {} is not that of the 2xx",
            line_of(ringing)
        );
    }
    Ok(())
}

/// RFC 3261 sections 13.3.1.3 and 14.2: an offer may be refused as a whole, and there is no answer to look at.
fn may_refuse_the_offer(response: &Response) -> PurposeOutcome {
    require!(
        ![488, 606].contains(&response.status.code()),
        "the offer was refused with {}",
        line_of(response)
    );
    Ok(())
}

/// The answer to an offer that `change` has changed.
fn answer_to(
    case: &mut TestCase<'_>,
    change: impl FnOnce(&mut SessionDescription),
) -> Result<(SessionDescription, SessionDescription), PurposeEnd> {
    let local = case.local(FIRST)?;
    let mut offer = SessionDescription::audio(local.ip(), 40_000, 7);
    change(&mut offer);
    let mut request = invite(case)?;
    request.body = Bytes::from(offer.to_string());
    let answered = case.ask(&request)?;
    may_refuse_the_offer(&answered.response)?;
    success(&answered.response, "the INVITE")?;
    let mut dialog = TestDialog::of_caller(FIRST, &answered.request, &answered.response)?;
    case.acknowledge(&mut dialog)?;
    end(case, &mut dialog)?;
    let answer = description(&answered.response.body, "the 2xx")?;
    ensure!(
        answer.media.len() == offer.media.len(),
        "an offer with {} media got an answer with {}",
        offer.media.len(),
        answer.media.len()
    );
    Ok((offer, answer))
}

fn answers_each_medium(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (offer, answer) = answer_to(case, |offer| {
        let mut second = offer.media[0].clone();
        second.port = 40_002;
        offer.media.push(second);
    })?;
    for (offered, answered) in offer.media.iter().zip(&answer.media) {
        ensure!(offered.kind == answered.kind, "a medium {} was answered as {}", offered.kind, answered.kind);
    }
    Ok(())
}

fn direction_of(case: &mut TestCase<'_>, offered: &str) -> Result<&'static str, PurposeEnd> {
    let name = offered.to_owned();
    let (_, answer) = answer_to(case, |offer| {
        offer.media[0].attributes.push(netrig_sip::sdp::Attribute::new(&name, None));
    })?;
    require!(answer.media[0].port != 0, "the medium was refused");
    Ok(answer.direction(&answer.media[0]).name())
}

fn answers_sendonly(case: &mut TestCase<'_>) -> PurposeOutcome {
    let answered = direction_of(case, "sendonly")?;
    ensure!(["recvonly", "inactive"].contains(&answered), "sendonly was answered {answered}");
    Ok(())
}

fn answers_inactive(case: &mut TestCase<'_>) -> PurposeOutcome {
    let answered = direction_of(case, "inactive")?;
    ensure!(answered == "inactive", "inactive was answered {answered}");
    Ok(())
}

fn answers_port_zero(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (_, answer) = answer_to(case, |offer| {
        let mut second = offer.media[0].clone();
        second.port = 0;
        offer.media.push(second);
    })?;
    ensure!(
        answer.media[1].port == 0,
        "a medium with port 0 was answered with port {}",
        answer.media[1].port
    );
    Ok(())
}

fn answers_with_offered_formats(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (offer, answer) = answer_to(case, |_| {})?;
    for (offered, answered) in offer.media.iter().zip(&answer.media) {
        // The formats of a medium that is refused mean nothing.
        require!(answered.port != 0, "the medium was refused");
        let known = answered.formats.iter().any(|format| offered.formats.contains(format));
        ensure!(known, "formats {:?} were answered with {:?}", offered.formats, answered.formats);
    }
    Ok(())
}

fn refuses_unknown_media(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (_, answer) = answer_to(case, |offer| {
        let mut second = offer.media[0].clone();
        "netrig".clone_into(&mut second.kind);
        second.port = 40_002;
        second.formats = vec!["99".to_owned()];
        second.attributes.clear();
        offer.media.push(second);
    })?;
    require!(answer.media[0].port != 0, "the audio was refused");
    ensure!(
        answer.media[1].port == 0,
        "a medium of an unknown kind was answered with port {}",
        answer.media[1].port
    );
    Ok(())
}

/// The final response to an offer without a format that is known. A call that it makes is ended.
fn answer_to_unknown_formats(case: &mut TestCase<'_>) -> Result<Response, PurposeEnd> {
    let local = case.local(FIRST)?;
    let mut offer = SessionDescription::audio(local.ip(), 40_000, 7);
    offer.media[0].formats = vec!["99".to_owned()];
    offer.media[0].attributes =
        vec![netrig_sip::sdp::Attribute::new("rtpmap", Some("99 netrig-unknown/8000"))];
    let mut request = invite(case)?;
    request.body = Bytes::from(offer.to_string());
    let answered = case.ask(&request)?;
    if answered.response.status.is_success() {
        let mut dialog = TestDialog::of_caller(FIRST, &answered.request, &answered.response)?;
        case.acknowledge(&mut dialog)?;
        end(case, &mut dialog)?;
    }
    Ok(answered.response)
}

fn refuses_unknown_formats(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = answer_to_unknown_formats(case)?;
    if !response.status.is_success() {
        return Ok(());
    }
    let answer = description(&response.body, "the 2xx")?;
    let port = answer.media.first().map(|media| media.port);
    ensure!(port == Some(0), "an offer of an unknown format was taken: port {port:?}");
    Ok(())
}

fn refuses_offers_with_488(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = answer_to_unknown_formats(case)?;
    require!(!response.status.is_success(), "the INVITE was answered {}", line_of(&response));
    ensure!(
        response.status.code() == 488,
        "an offer of an unknown format was refused with {}",
        line_of(&response)
    );
    Ok(())
}

fn describes_rightly(case: &mut TestCase<'_>) -> PurposeOutcome {
    within_a_call(case, |_, answered, _| {
        description(&answered.response.body, "the 2xx")?;
        let kind = answered.response.headers.get(&Name::ContentType).unwrap_or_default();
        ensure!(kind.starts_with("application/sdp"), "the 2xx has Content-Type: {kind}");
        Ok(())
    })
}

/// The 2xx to an INVITE within a call, acknowledged.
fn reinvited(
    case: &mut TestCase<'_>,
    dialog: &mut TestDialog,
    change: impl FnOnce(&mut Request),
) -> Result<Response, PurposeEnd> {
    let response = reinvited_without_ack(case, dialog, change)?;
    case.acknowledge(dialog)?;
    Ok(response)
}

/// The 2xx to an INVITE within a call.
fn reinvited_without_ack(
    case: &mut TestCase<'_>,
    dialog: &mut TestDialog,
    change: impl FnOnce(&mut Request),
) -> Result<Response, PurposeEnd> {
    let mut again = case.within(dialog, Method::Invite)?;
    case.describe(FIRST, &mut again)?;
    change(&mut again);
    let answered = case.ask(&again)?;
    if let Ok(Some(cseq)) = answered.request.headers.cseq() {
        (dialog.number, dialog.invite_number) = (cseq.number, cseq.number);
    }
    may_refuse_the_offer(&answered.response)?;
    success(&answered.response, "an INVITE within a call")?;
    Ok(answered.response)
}

fn takes_a_reinvite(case: &mut TestCase<'_>) -> PurposeOutcome {
    within_a_call(case, |case, _, dialog| {
        let response = reinvited(case, dialog, |_| {})?;
        description(&response.body, "the 2xx to an INVITE within a call").map(drop)
    })
}

fn counts_versions(case: &mut TestCase<'_>) -> PurposeOutcome {
    within_a_call(case, |case, answered, dialog| {
        let before = description(&answered.response.body, "the 2xx")?;
        let response = reinvited(case, dialog, |_| {})?;
        let after = description(&response.body, "the 2xx to an INVITE within a call")?;
        ensure!(
            before.origin.id == after.origin.id,
            "the session's number was {} and is {}",
            before.origin.id,
            after.origin.id
        );
        let is_same = before.media == after.media && before.connection == after.connection;
        let (old, new) = (before.origin.version, after.origin.version);
        ensure!(new >= old, "the version of the description was {old} and is {new}");
        ensure!(is_same || new > old, "the description has changed, and its version is still {new}");
        Ok(())
    })
}

fn follows_the_target(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (_, mut dialog) = case.call_server()?;
    let other = case.contact(TestAgent::Second)?;
    let contact = NameAddr::new(Uri::Sip(other)).to_string();
    reinvited_without_ack(case, &mut dialog, |request| request.headers.set(Name::Contact, &contact))?;
    // Without an ACK the server ends the call by a BYE (RFC 3261 section 14.2), unless it sends another request before.
    let until = case.now() + GIVEN_UP;
    let mut before = None;
    while case.now() < until && before.is_none() {
        if let Some(request) = case.request_within(&dialog, TestAgent::Second, Duration::from_millis(50))? {
            if request.method == Method::Bye {
                case.is_over(&dialog);
            } else {
                case.acknowledge(&mut dialog)?;
            }
            return Ok(());
        }
        before = case.request_within(&dialog, FIRST, Duration::from_millis(50))?;
    }
    case.acknowledge(&mut dialog)?;
    end(case, &mut dialog)?;
    if let Some(before) = before {
        return Err(PurposeEnd::Fail(format!(
            "after an INVITE with another Contact a {} came to the Contact before",
            before.method
        )));
    }
    Err(PurposeEnd::Inconclusive(format!(
        "the server sent no request within {GIVEN_UP} after its 2xx, which got no ACK"
    )))
}

fn holds_and_resumes(case: &mut TestCase<'_>) -> PurposeOutcome {
    within_a_call(case, |case, _, dialog| {
        let local = case.local(FIRST)?;
        for (version, direction) in [(2, "sendonly"), (3, "sendrecv")] {
            let mut offer = SessionDescription::audio(local.ip(), 40_000, 7);
            offer.origin.version = version;
            offer.media[0].attributes.push(netrig_sip::sdp::Attribute::new(direction, None));
            let body = Bytes::from(offer.to_string());
            let response = reinvited(case, dialog, |request| request.body = body)?;
            let answer = description(&response.body, "the 2xx to an INVITE within a call")?;
            let own = answer.media.first().map(|media| answer.direction(media).name());
            let right: &[&str] =
                if version == 2 { &["recvonly", "inactive"] } else { &["sendrecv", "sendonly", "recvonly"] };
            ensure!(
                own.is_some_and(|own| right.contains(&own)),
                "{direction} within a call was answered {own:?}"
            );
        }
        Ok(())
    })
}

fn takes_an_update(case: &mut TestCase<'_>) -> PurposeOutcome {
    within_a_call(case, |case, _, dialog| {
        let request = case.within(dialog, Method::Update)?;
        let response = case.ask(&request)?.response;
        success(&response, "an UPDATE within a call")
    })
}

fn refuses_an_unknown_update(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = of_no_dialog(case, Method::Update)?;
    takes_or_refuses_with_481(&response, "an UPDATE")
}

fn answers_options(case: &mut TestCase<'_>) -> PurposeOutcome {
    let request = options(case)?;
    let response = case.ask(&request)?.response;
    ensure!(response.status.code() == 200, "OPTIONS was answered {}", line_of(&response));
    Ok(())
}

fn tells_options(case: &mut TestCase<'_>) -> PurposeOutcome {
    let request = options(case)?;
    let response = case.ask(&request)?.response;
    for name in [Name::Allow, Name::Accept, Name::Supported] {
        ensure!(response.headers.get(&name).is_some(), "the response to OPTIONS has no {name}");
    }
    Ok(())
}

fn answers_options_in_a_call(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (_, mut dialog) = case.call_server()?;
    let request = case.within(&mut dialog, Method::Options)?;
    let response = case.ask(&request)?.response;
    success(&response, "OPTIONS within a call")?;
    let answered = case.hang_up(&mut dialog)?;
    success(&answered.response, "the BYE after it")
}

/// An INVITE that requires 100rel, with its first reliable provisional response.
fn rung_reliably(case: &mut TestCase<'_>) -> Result<(Request, Response), PurposeEnd> {
    let mut request = invite(case)?;
    request.headers.set(Name::Require, "100rel");
    let (request, ringing) = ringing(case, request)?;
    let number = ringing.headers.number(&Name::RSeq).ok().flatten();
    let is_reliable = number.is_some() && ringing.headers.has_token(&Name::Require, "100rel");
    ensure!(
        is_reliable,
        "an INVITE that requires 100rel got a {} without RSeq and Require: 100rel",
        line_of(&ringing)
    );
    Ok((request, ringing))
}

/// The PRACK of a provisional response, and its final response.
fn acknowledged(
    case: &mut TestCase<'_>,
    request: &Request,
    ringing: &Response,
    by: u32,
) -> Result<Response, PurposeEnd> {
    let mut dialog = TestDialog::of_caller(FIRST, request, ringing)?;
    let mut prack = case.within(&mut dialog, Method::Prack)?;
    let response = ringing.headers.number(&Name::RSeq).ok().flatten().unwrap_or(1).wrapping_add(by);
    let number = request.headers.cseq().ok().flatten().map_or(1, |cseq| cseq.number);
    prack.headers.push(Name::RAck, RAck { response, request: CSeq { number, method: Method::Invite } });
    Ok(case.ask(&prack)?.response)
}

/// Ends an INVITE that rings: by a CANCEL, or by a BYE if it has been answered.
fn give_up(case: &mut TestCase<'_>, request: &Request) -> PurposeOutcome {
    let cancel = case.cancel_of(request);
    let _ = case.ask_plainly(FIRST, &cancel);
    while let Some(response) = case.response(FIRST, request, Duration::from_secs(1))? {
        if response.status.is_final() {
            case.acknowledge_failure(FIRST, request, &response)?;
            if response.status.is_success() {
                let mut dialog = TestDialog::of_caller(FIRST, request, &response)?;
                case.acknowledge(&mut dialog)?;
                end(case, &mut dialog)?;
            }
            break;
        }
    }
    Ok(())
}

fn rings_reliably(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (request, ringing) = rung_reliably(case)?;
    let _ = acknowledged(case, &request, &ringing, 0);
    give_up(case, &request)
}

fn repeats_reliably(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (request, ringing) = rung_reliably(case)?;
    let again = case.response(FIRST, &request, Duration::from_millis(1200))?;
    let _ = acknowledged(case, &request, &ringing, 0);
    give_up(case, &request)?;
    let number = |response: &Response| response.headers.number(&Name::RSeq).ok().flatten();
    // "it SHOULD NOT continue to retransmit the unacknowledged reliable provisional responses" once it has answered.
    require!(
        again.as_ref().is_none_or(|again| !again.status.is_final()),
        "the call was answered before a repetition was due"
    );
    ensure!(
        again.is_some_and(|again| number(&again) == number(&ringing)),
        "a reliable {} without a PRACK was not sent again within 1.2 s",
        line_of(&ringing)
    );
    Ok(())
}

fn answers_prack(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (request, ringing) = rung_reliably(case)?;
    let response = acknowledged(case, &request, &ringing, 0);
    give_up(case, &request)?;
    success(&response?, "a PRACK")
}

fn refuses_an_unknown_prack(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (request, ringing) = rung_reliably(case)?;
    let response = acknowledged(case, &request, &ringing, 77);
    let _ = acknowledged(case, &request, &ringing, 0);
    give_up(case, &request)?;
    let response = response?;
    ensure!(response.status.code() == 481, "a PRACK of no response was answered {}", line_of(&response));
    Ok(())
}

fn rings_plainly(case: &mut TestCase<'_>) -> PurposeOutcome {
    let cancelled = cancelled(case)?;
    let is_reliable = cancelled.ringing.headers.get(&Name::RSeq).is_some();
    ensure!(!is_reliable, "a caller without 100rel got a {} with RSeq", line_of(&cancelled.ringing));
    Ok(())
}

/// The response to an INVITE with this Session-Expires.
fn with_interval(
    case: &mut TestCase<'_>,
    interval: &str,
    knows_timers: bool,
) -> Result<Response, PurposeEnd> {
    let mut request = invite(case)?;
    request.headers.set(Name::SessionExpires, interval);
    if knows_timers {
        request.headers.set(Name::Supported, "timer");
    }
    let answered = case.ask(&request)?;
    if answered.response.status.is_success() {
        let mut dialog = TestDialog::of_caller(FIRST, &answered.request, &answered.response)?;
        case.acknowledge(&mut dialog)?;
        end(case, &mut dialog)?;
    }
    Ok(answered.response)
}

fn interval(response: &Response) -> Option<u32> {
    response.headers.get(&Name::SessionExpires)?.split(';').next()?.trim().parse().ok()
}

fn tells_the_interval(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = with_interval(case, "1800", true)?;
    success(&response, "an INVITE with Session-Expires: 1800")?;
    let field = response.headers.get(&Name::SessionExpires).unwrap_or_default();
    ensure!(field.contains("refresher="), "the 2xx has Session-Expires: {field}");
    Ok(())
}

fn refuses_short_intervals(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = with_interval(case, "30", true)?;
    // RFC 4028 section 9: a server may refuse such an interval.
    require!(response.status.code() == 422, "Session-Expires: 30 was answered {}", line_of(&response));
    let least = response.headers.number(&Name::MinSe).ok().flatten();
    ensure!(
        least.is_some_and(|least| least >= 90),
        "the 422 has Min-SE: {:?}",
        response.headers.get(&Name::MinSe)
    );
    Ok(())
}

fn keeps_the_interval(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = with_interval(case, "1800", true)?;
    success(&response, "an INVITE with Session-Expires: 1800")?;
    let own = interval(&response);
    ensure!(own.is_none_or(|own| own <= 1800), "Session-Expires: 1800 was answered {own:?}");
    Ok(())
}

fn requires_timer(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = with_interval(case, "1800;refresher=uac", true)?;
    success(&response, "an INVITE with Session-Expires: 1800;refresher=uac")?;
    let requires = response.headers.has_token(&Name::Require, "timer");
    ensure!(
        requires,
        "the 2xx to a caller that refreshes has Require: {:?}",
        response.headers.get(&Name::Require)
    );
    Ok(())
}

fn spares_old_callers(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = with_interval(case, "1800", false)?;
    require!(response.status.is_success(), "the INVITE was answered {}", line_of(&response));
    let requires = response.headers.has_token(&Name::Require, "timer");
    ensure!(!requires, "a caller that does not know timers got Require: timer");
    Ok(())
}
