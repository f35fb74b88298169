//! Changes of a call: re-INVITE, UPDATE (RFC 3311) and OPTIONS within it (RFC 3261 sections 11 and 14).

use bytes::Bytes;
use netrig_core::Duration;
use netrig_sip::header::NameAddr;
use netrig_sip::sdp::SessionDescription;
use netrig_sip::{Method, Name, Request, Response, Uri};

use super::super::case::TestCase;
use super::super::dialog::TestDialog;
use super::super::messages::{ensure_code, ensure_success};
use super::super::outcome::{PurposeOutcome, ensure, ensured, failure, inconclusive};
use super::super::purpose::purposes;
use super::super::target::{FIRST, SECOND};
use super::uas::{
    GIVEN_UP, description, end, of_no_dialog, options, takes_or_refuses_with_481, within_a_call,
};
use super::uas_descriptions::may_refuse_the_offer;

purposes! {
    Uas "UAS";
    "changes" {
        "MOD-01" Must "RFC 3261 section 14.2" "An INVITE within a call is answered with a 2xx that has an answer." => takes_a_reinvite, needs [Reinvite];
        "MOD-02" Must "RFC 3264 section 8" "The version of the description rises if and only if the description has changed." => counts_versions, needs [Reinvite];
        "MOD-03" Must "RFC 3261 section 12.2.2" "After an INVITE within a call with another Contact, the server sends its requests to that Contact." => follows_the_target, needs [Reinvite];
        "MOD-04" Must "RFC 3261 section 14.2" "A call that is held by an INVITE stays up and is resumed by another INVITE." => holds_and_resumes, needs [Reinvite];
        "MOD-05" Must "RFC 3311 section 5.2" "An UPDATE within a call is answered with a 2xx." => takes_an_update, needs [Update];
        "MOD-06" Must "RFC 3261 section 12.2.2" "An UPDATE of a dialog that never existed is accepted or refused with 481." => refuses_an_unknown_update, needs [Update];
    }
    "options" {
        "OPT-01" Must "RFC 3261 section 11.2" "OPTIONS is answered as an INVITE would be: 200." => answers_options, in basic;
        "OPT-02" Should "RFC 3261 section 11.2" "The response to OPTIONS has Allow, Accept and Supported." => tells_options;
        "OPT-03" Must "RFC 3261 section 11.2" "OPTIONS within a call does not change it." => answers_options_in_a_call;
    }
}

/// The 2xx to an INVITE within a call, acknowledged.
fn reinvited(
    case: &mut TestCase<'_>,
    dialog: &mut TestDialog,
    change: impl FnOnce(&mut Request),
) -> PurposeOutcome<Response> {
    let response = reinvited_without_ack(case, dialog, change)?;
    case.acknowledge(dialog)?;
    Ok(response)
}

/// The 2xx to an INVITE within a call.
fn reinvited_without_ack(
    case: &mut TestCase<'_>,
    dialog: &mut TestDialog,
    change: impl FnOnce(&mut Request),
) -> PurposeOutcome<Response> {
    let mut again = case.within(dialog, Method::Invite)?;
    case.describe(FIRST, &mut again)?;
    change(&mut again);
    let answered = case.ask(&again)?;
    if let Ok(Some(cseq)) = answered.request.headers.cseq() {
        (dialog.number, dialog.invite_number) = (cseq.number, cseq.number);
    }
    may_refuse_the_offer(&answered.response)?;
    ensure_success(&answered.response, "an INVITE within a call")?;
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
            "the session identifier was {} and is {}",
            before.origin.id,
            after.origin.id
        );
        let is_same = before.media == after.media && before.connection == after.connection;
        let (old, new) = (before.origin.version, after.origin.version);
        ensure!(new >= old, "the version of the description was {old} and is {new}");
        ensured!(is_same || new > old, "the description has changed, but its version is still {new}")
    })
}

fn follows_the_target(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (_, mut dialog) = case.call_server()?;
    let other = case.contact(SECOND)?;
    let contact = NameAddr::new(Uri::Sip(other)).to_string();
    reinvited_without_ack(case, &mut dialog, |request| request.headers.set(Name::Contact, &contact))?;
    // Without an ACK, the server ends the call by a BYE (RFC 3261 section 14.2), unless it sends another request before.
    let until = case.now() + GIVEN_UP;
    let mut before = None;
    while case.now() < until && before.is_none() {
        if let Some(request) = case.request_within(&dialog, SECOND, Duration::from_millis(50))? {
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
        return Err(failure!(
            "after an INVITE with another Contact, a {} went to the old Contact",
            before.method
        ));
    }
    Err(inconclusive!("the server sent no request within {GIVEN_UP} after its unacknowledged 2xx"))
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
        ensure_success(&response, "an UPDATE within a call")
    })
}

fn refuses_an_unknown_update(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = of_no_dialog(case, Method::Update)?;
    takes_or_refuses_with_481(&response, "an UPDATE")
}

fn answers_options(case: &mut TestCase<'_>) -> PurposeOutcome {
    let request = options(case)?;
    let response = case.ask(&request)?.response;
    ensure_code(&response, 200, "OPTIONS")
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
    ensure_success(&response, "OPTIONS within a call")?;
    let answered = case.hang_up(&mut dialog)?;
    ensure_success(&answered.response, "the BYE after it")
}
