//! Responses of a redirect server (RFC 3261 section 8.3).

use netrig_core::Duration;
use netrig_sip::header::NameAddr;
use netrig_sip::{Method, Name, Request, Response, Uri};

use super::super::case::TestCase;
use super::super::messages::{cancel_of, ensure_status, line_of, line_or_silence};
use super::super::outcome::{PurposeOutcome, as_inconclusive, ensure, ensured, failure};
use super::super::purpose::purposes;
use super::super::target::{FIRST, SECOND, THIRD};
use super::general::SubjectRequest;
use super::proxy::{SOON, invite, refuses_unknown_users};

purposes! {
    Redirect "RED";
    "redirection" {
        "RED-01" Must "RFC 3261 section 8.3" "An INVITE for a registered user is answered with a status of class 3." => |case| redirected(case).map(drop), in basic;
        "RED-02" Must "RFC 3261 section 8.3" "The response contains the contact of the user." => names_the_contact, in basic;
        "RED-03" Must "RFC 3261 section 8.3" "The response contains all contacts of the user." => names_all_contacts, needs [SeveralContacts];
        "RED-04" Must "RFC 3261 section 8.3" "The response does not contain the Request-URI." => does_not_name_the_request_uri;
        "RED-05" Must "RFC 3261 section 8.3" "The request is not forwarded." => does_not_forward, in basic;
        "RED-06" Must "RFC 3261 section 21.3.4" "The redirection is not a 305, which only user agents send." => says_moved, in basic;
        "RED-07" Must "RFC 3261 section 8.3" "A request other than INVITE is redirected or refused." => redirects_other_requests;
        "RED-08" Must "RFC 3261 section 21.4.5" "A request for a user without a registration is refused." => refuses_unknown_users, in basic;
        "RED-09" Must "RFC 3261 section 8.3" "An INVITE for a user whose contact was removed is not redirected." => forgets_removed_contacts;
        "RED-10" Must "RFC 3261 section 8.3" "The response contains the contact that was registered last." => names_the_last_contact;
        "RED-11" Must "RFC 3261 section 17.2.1" "The ACK of a redirection gets no response." => takes_the_ack, in basic;
        "RED-12" Should "RFC 3261 section 8.3" "A CANCEL is answered with a 2xx or with 481." => answers_cancel;
        "RED-13" Must "RFC 3261 section 20.10" "Parameters of the contact's URI stay unchanged." => keeps_parameters_of_uris;
    }
}

/// An INVITE for the second user, which is redirected.
pub(super) const SUBJECT: SubjectRequest =
    SubjectRequest { make: invite_callee, takes: |response| (300..400).contains(&response.status.code()) };

fn invite_callee(case: &mut TestCase<'_>) -> PurposeOutcome<Request> {
    case.register(SECOND)?;
    invite(case)
}

/// The redirection of an INVITE for the second user, whose contact is the second user agent.
pub(in crate::conformance) fn redirected(case: &mut TestCase<'_>) -> PurposeOutcome<Response> {
    case.register(SECOND)?;
    let response = answered(case)?;
    ensure_status(&response, 300..400, "an INVITE for a registered user")?;
    Ok(response)
}

/// The final response to an INVITE for the second user, with the present bindings.
fn answered(case: &mut TestCase<'_>) -> PurposeOutcome<Response> {
    let request = invite(case)?;
    Ok(case.ask(&request)?.response)
}

fn contacts(response: &Response) -> PurposeOutcome<Vec<NameAddr>> {
    let contacts = response.headers.addresses(&Name::Contact);
    contacts.map_err(|error| failure!("Contact of the redirection breaks the grammar: {error}"))
}

fn shown(response: &Response) -> String {
    let all: Vec<&str> = response.headers.all(&Name::Contact).collect();
    if all.is_empty() { "no Contact".to_owned() } else { format!("Contact: {}", all.join(", ")) }
}

fn names(response: &Response, uri: &Uri) -> PurposeOutcome<bool> {
    Ok(contacts(response)?.iter().any(|contact| contact.uri.is_equivalent(uri)))
}

fn names_the_contact(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = redirected(case)?;
    let own = Uri::Sip(case.contact(SECOND)?);
    ensured!(names(&response, &own)?, "a user at {own} is redirected with {}", shown(&response))
}

fn names_all_contacts(case: &mut TestCase<'_>) -> PurposeOutcome {
    let both = [Uri::Sip(case.contact(SECOND)?), Uri::Sip(case.contact(THIRD)?)];
    case.register_contacts(SECOND, &both.clone().map(|uri| NameAddr::new(uri).to_string()))?;
    let response = answered(case)?;

    for uri in &both {
        ensure!(names(&response, uri)?, "a user with two contacts is redirected with {}", shown(&response));
    }
    Ok(())
}

fn does_not_name_the_request_uri(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = redirected(case)?;
    let own = Uri::Sip(case.address_of_record(SECOND));
    ensured!(!names(&response, &own)?, "{own} is redirected to itself: {}", shown(&response))
}

fn does_not_forward(case: &mut TestCase<'_>) -> PurposeOutcome {
    redirected(case)?;
    let arrived = case.arriving(SECOND, &Method::Invite, SOON)?;
    ensured!(arrived.is_none(), "the INVITE was also forwarded")
}

fn says_moved(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = redirected(case)?;
    ensured!(response.status.code() != 305, "a user is redirected with {}", line_of(&response))
}

fn redirects_other_requests(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let request = case.request_to(SECOND, Method::Options)?;
    let response = case.ask(&request)?.response;
    ensure_status(&response, 300..700, "an OPTIONS for a registered user")
}

fn forgets_removed_contacts(case: &mut TestCase<'_>) -> PurposeOutcome {
    redirected(case)?;
    case.clear_bindings(SECOND)?;
    let response = answered(case)?;

    let code = response.status.code();
    ensured!(
        (400..700).contains(&code),
        "a user without a contact was answered {} with {}",
        line_of(&response),
        shown(&response)
    )
}

fn names_the_last_contact(case: &mut TestCase<'_>) -> PurposeOutcome {
    redirected(case)?;
    let third = Uri::Sip(case.contact(THIRD)?);
    case.register_contacts(SECOND, &[NameAddr::new(third.clone()).to_string()])?;
    let response = answered(case)?;

    ensured!(names(&response, &third)?, "a user who moved to {third} is redirected with {}", shown(&response))
}

fn takes_the_ack(case: &mut TestCase<'_>) -> PurposeOutcome {
    let request = invite_callee(case)?;
    let answered = case.ask(&request)?;
    ensure_status(&answered.response, 300..700, "the INVITE").map_err(as_inconclusive)?;
    // After the ACK, the server must not send a response to it, or the redirection again.
    let again = case.response(FIRST, &answered.request, Duration::from_millis(1200))?;
    ensured!(
        again.is_none(),
        "after its ACK, the redirection {} was received",
        line_or_silence(again.as_ref())
    )
}

fn answers_cancel(case: &mut TestCase<'_>) -> PurposeOutcome {
    let request = invite_callee(case)?;
    let answered = case.ask(&request)?;
    let cancel = cancel_of(&answered.request);
    let response = case.ask_plainly(FIRST, &cancel)?.response;
    let code = response.status.code();
    ensured!((200..300).contains(&code) || code == 481, "a CANCEL was answered {}", line_of(&response))
}

fn keeps_parameters_of_uris(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = case.contact(SECOND)?.with_parameter("netrig", Some("kept"));
    case.register_contacts(SECOND, &[NameAddr::new(Uri::Sip(uri)).to_string()])?;
    let response = answered(case)?;

    let kept = |contact: &NameAddr| {
        contact.uri.as_sip().is_some_and(|uri| uri.parameters.value("netrig") == Some("kept"))
    };
    ensured!(
        contacts(&response)?.iter().any(kept),
        "a parameter of the contact's URI was removed: {}",
        shown(&response)
    )
}
