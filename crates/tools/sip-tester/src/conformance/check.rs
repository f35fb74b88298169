//! Tests whether a server shows a capability, before the purposes that need it are run.

use netrig_core::Duration;
use netrig_sip::header::NameAddr;
use netrig_sip::{Method, Name, Response, Uri};

use super::capability::Capability;
use super::case::TestCase;
use super::messages::{AnsweredRequest, Forwarded, ensure_code, ensure_success};
use super::outcome::{PurposeOutcome, inconclusive, require, required};
use super::purposes::{asks_the_tester, invited, redirected};
use super::target::{FIRST, SECOND, THIRD};

/// Tries a capability. `Ok` if the server shows it; else the reason.
pub(super) fn check(capability: Capability, case: &mut TestCase<'_>) -> PurposeOutcome {
    match capability {
        Capability::Registration => case.register(FIRST),
        Capability::RegistrationDigest => asks_for_credentials(case),
        Capability::SeveralContacts => keeps_two_contacts(case),
        Capability::MinExpires => refuses_short_expirations(case),
        Capability::Forwarding => forwards(case).map(drop),
        Capability::ProxyDigest => asks_callers_for_credentials(case),
        Capability::Transactions => says_trying(case),
        Capability::RecordRoute => records_its_route(case),
        Capability::Forking => forks(case),
        Capability::Dns => asks_the_tester(case),
        Capability::Redirection => redirected(case).map(drop),
        Capability::Answering => answers(case).map(drop),
        Capability::Ringing => rings(case),
        Capability::ReliableProvisional => names(case, &Name::Supported, "100rel"),
        Capability::SessionTimer => names(case, &Name::Supported, "timer"),
        Capability::Update => names(case, &Name::Allow, "UPDATE"),
        Capability::Reinvite => takes_another_offer(case),
    }
}

fn asks_for_credentials(case: &mut TestCase<'_>) -> PurposeOutcome {
    let request = case.register_request(FIRST, &[])?;
    let response = case.ask_plainly(FIRST, &request)?.response;
    ensure_code(&response, 401, "a REGISTER without credentials")
}

fn keeps_two_contacts(case: &mut TestCase<'_>) -> PurposeOutcome {
    let own = case.contact(FIRST)?;
    let contacts = [own.clone().with_port(40_001), own.with_port(40_002)];
    let contacts = contacts.map(|uri| NameAddr::new(Uri::Sip(uri)).to_string());
    case.register_contacts(FIRST, &contacts)?;
    let request = case.register_request(FIRST, &[])?;
    let response = case.ask(&request)?.response;
    let count = response.headers.addresses(&Name::Contact).map(|contacts| contacts.len()).unwrap_or(0);
    required!(count == 2, "after two contacts were registered, the server lists {count}")
}

fn refuses_short_expirations(case: &mut TestCase<'_>) -> PurposeOutcome {
    let contact = NameAddr::new(Uri::Sip(case.contact(FIRST)?)).to_string();
    let request = case.register_request(FIRST, &[format!("{contact};expires=1")])?;
    let response = case.ask(&request)?.response;
    ensure_code(&response, 423, "a REGISTER with expires=1")
}

/// Sends an INVITE to the second user, who answers 486. Returns the INVITE as it arrived.
fn forwards(case: &mut TestCase<'_>) -> PurposeOutcome<Forwarded> {
    let forwarded = invited(case)?;

    case.answer(&forwarded, 486)?;
    case.final_of(&forwarded)?;
    Ok(forwarded)
}

fn asks_callers_for_credentials(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let request = case.request_to(SECOND, Method::Invite)?;
    case.send(&request)?;
    let answered = |response: &Response| response.status.code() != 100;
    let response = case.response(FIRST, &request, Duration::from_secs(1))?.filter(answered);
    if let Some(response) = response {
        case.final_response(FIRST, &request, &response)?;
        return ensure_code(&response, 407, "an INVITE without credentials");
    }
    Err(inconclusive!("an INVITE without credentials is not challenged"))
}

fn says_trying(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;

    let trying = case.response(FIRST, &forwarded.sent, Duration::from_secs(1))?;
    required!(trying.is_some_and(|response| response.status.code() == 100), "an INVITE gets no 100")
}

fn records_its_route(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = forwards(case)?;
    required!(
        forwarded.arrived.headers.get(&Name::RecordRoute).is_some(),
        "an INVITE arrives without Record-Route"
    )
}

fn forks(case: &mut TestCase<'_>) -> PurposeOutcome {
    let contacts = [case.contact(SECOND)?, case.contact(THIRD)?];
    let contacts = contacts.map(|uri| NameAddr::new(Uri::Sip(uri)).to_string());
    case.register_contacts(SECOND, &contacts)?;
    let uri = case.address_of_record(SECOND);
    let request = case.invite_request(Uri::Sip(uri))?;
    let first = case.forward(&request, SECOND)?;
    let second = case.arriving(THIRD, &Method::Invite, Duration::from_secs(1))?;
    if let Some((arrived, path)) = &second {
        let second = Forwarded { arrived: arrived.clone(), path: *path, at: THIRD, ..first.clone() };
        case.answer(&second, 486)?;
    }
    case.answer(&first, 486)?;
    let _ = case.final_of(&first);
    required!(second.is_some(), "an INVITE for a user with two contacts arrives at only one of them")
}

/// Calls the server and ends the call. Returns the INVITE and its 2xx.
fn answers(case: &mut TestCase<'_>) -> PurposeOutcome<AnsweredRequest> {
    let (answered, mut dialog) = case.call_server()?;
    case.hang_up(&mut dialog)?;
    Ok(answered)
}

fn rings(case: &mut TestCase<'_>) -> PurposeOutcome {
    let request = case.invite_request(case.callee_uri())?;
    let before = case.now();
    let (answered, mut dialog) = case.call_server_with(&request)?;
    let took = case.now().since(before);
    case.hang_up(&mut dialog)?;
    let has_rung = answered.provisional.iter().any(|response| response.status.code() > 100);
    require!(has_rung, "the call was answered without ringing");
    required!(took >= Duration::from_millis(200), "the call rang for only {took}")
}

/// Whether the server names an option in Supported, or a method in Allow.
fn names(case: &mut TestCase<'_>, field: &Name, value: &str) -> PurposeOutcome {
    let request = case.request(Method::Options, case.callee_uri())?;
    let response = case.ask(&request)?.response;
    let named = response.headers.has_token(field, value);
    required!(named, "the response to OPTIONS has {field}: {:?}", response.headers.get(field))
}

fn takes_another_offer(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (_, mut dialog) = case.call_server()?;
    let mut again = case.within(&mut dialog, Method::Invite)?;
    case.describe(FIRST, &mut again)?;
    let answered = case.ask(&again)?;
    if let Ok(Some(cseq)) = answered.request.headers.cseq() {
        (dialog.number, dialog.invite_number) = (cseq.number, cseq.number);
    }
    if answered.response.status.is_success() {
        case.acknowledge(&mut dialog)?;
    }
    case.hang_up(&mut dialog)?;
    ensure_success(&answered.response, "an INVITE within a call")
}
