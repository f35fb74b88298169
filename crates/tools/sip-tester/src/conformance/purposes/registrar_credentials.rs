//! Credentials of registrations (RFC 3261 section 22, RFC 7616).

use netrig_sip::digest::DigestChallenge;
use netrig_sip::header::NameAddr;
use netrig_sip::{Method, Name, Request, Response, Uri};

use super::super::case::TestCase;
use super::super::messages::{ensure_code, ensure_status, line_of};
use super::super::outcome::{PurposeEnd, PurposeOutcome, ensured, failure, require};
use super::super::purpose::purposes;
use super::super::target::{FIRST, SECOND};
use super::registrar::{bindings, contact, has, plain};

purposes! {
    Registrar "REG";
    "credentials" {
        "AUTH-01" Must "RFC 3261 section 22.2" "A registration without credentials is answered 401." => |case| challenged(case).map(drop), needs [RegistrationDigest], in basic;
        "AUTH-02" Must "RFC 3261 section 22.2" "The 401 has a WWW-Authenticate with a usable digest challenge." => challenge_is_right, needs [RegistrationDigest], in basic;
        "AUTH-03" Must "RFC 3261 section 22.4" "The challenge offers qop." => offers_qop, needs [RegistrationDigest];
        "AUTH-04" Must "RFC 3261 section 22.2" "The challenge names a realm." => names_a_realm, needs [RegistrationDigest];
        "AUTH-05" Must "RFC 3261 section 22.2" "A response for a wrong password is refused." => refuses_a_wrong_password, needs [RegistrationDigest], in basic;
        "AUTH-06" Must "RFC 3261 section 22.4" "A response for another method is refused." => refuses_another_method, needs [RegistrationDigest];
        "AUTH-07" Must "RFC 7616 section 3.3" "A nonce that the server did not make is refused." => refuses_a_made_up_nonce, needs [RegistrationDigest];
        "AUTH-08" Must "RFC 3261 section 22" "Basic credentials are not accepted." => refuses_basic, needs [RegistrationDigest];
        "AUTH-09" Should "RFC 3261 section 10.3" "A user cannot change the bindings of another user." => refuses_other_users, needs [RegistrationDigest];
        "AUTH-10" Must "RFC 3261 section 10.3" "A request with wrong credentials changes no binding." => keeps_bindings, needs [RegistrationDigest];
        "AUTH-11" Must "RFC 3261 section 22.2" "A user who does not exist is refused." => refuses_unknown_users, needs [RegistrationDigest];
        "AUTH-12" Must "RFC 7616 section 3.4" "Credentials whose fields break the grammar are refused." => refuses_garbled_credentials, needs [RegistrationDigest];
    }
}

/// Sends a REGISTER without credentials. Returns the REGISTER and its 401.
fn challenged(case: &mut TestCase<'_>) -> PurposeOutcome<(Request, Response)> {
    let request = plain(case)?;
    let response = case.ask_plainly(FIRST, &request)?.response;
    ensure_code(&response, 401, "a REGISTER without credentials")?;
    Ok((request, response))
}

fn challenge_of(response: &Response) -> PurposeOutcome<DigestChallenge> {
    let challenge = response.headers.all(&Name::WwwAuthenticate).find_map(DigestChallenge::of_value);
    challenge.ok_or_else(|| {
        let fields: Vec<&str> = response.headers.all(&Name::WwwAuthenticate).collect();
        failure!("the 401 has no digest challenge that can be answered: {fields:?}")
    })
}

fn challenge_is_right(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (_, response) = challenged(case)?;
    let challenge = challenge_of(&response)?;
    ensured!(!challenge.nonce.is_empty(), "the nonce of the challenge is empty")
}

fn offers_qop(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (_, response) = challenged(case)?;
    let challenge = challenge_of(&response)?;
    ensured!(!challenge.qualities.is_empty(), "the challenge offers no qop")
}

fn names_a_realm(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (_, response) = challenged(case)?;
    let challenge = challenge_of(&response)?;
    ensured!(!challenge.realm.is_empty(), "the realm of the challenge is empty")
}

/// The final response to a REGISTER whose credentials `change` has made wrong. `change` receives the correct
/// credentials.
fn spoilt(
    case: &mut TestCase<'_>,
    change: impl FnOnce(&mut TestCase<'_>, &mut Request, &str),
) -> PurposeOutcome<Response> {
    let (request, response) = challenged(case)?;
    let next = case.with_credentials(FIRST, &request, &response)?;
    let Some(mut next) = next else { return Ok(response) };
    let credentials = next.headers.get(&Name::Authorization).unwrap_or_default().to_owned();
    require!(!credentials.is_empty(), "no credentials could be made for the challenge");
    change(case, &mut next, &credentials);
    Ok(case.ask_plainly(FIRST, &next)?.response)
}

fn is_refused(response: &Response) -> PurposeOutcome {
    ensure_status(response, 400..500, "the request")
}

/// Replaces the value of a parameter of credentials.
fn replaced(credentials: &str, name: &str, value: &str) -> String {
    let start = format!("{name}=\"");
    let Some(at) = credentials.find(&start).map(|at| at + start.len()) else { return credentials.to_owned() };
    let length = credentials[at..].find('"').unwrap_or(0);
    format!("{}{value}{}", &credentials[..at], &credentials[at + length..])
}

/// Credentials whose response has another first digit: it is wrong, but follows the grammar.
pub(super) fn with_wrong_response(credentials: &str) -> String {
    let start = "response=\"";
    let Some(at) = credentials.find(start).map(|at| at + start.len()) else { return credentials.to_owned() };
    let digit = if credentials[at..].starts_with('0') { '1' } else { '0' };
    let rest = credentials[at..].chars().skip(1).collect::<String>();
    format!("{}{digit}{rest}", &credentials[..at])
}

fn refuses_a_wrong_password(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = spoilt(case, |_, request, credentials| {
        request.headers.set(Name::Authorization, with_wrong_response(credentials));
    })?;
    is_refused(&response)
}

fn refuses_another_method(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = spoilt(case, |case, request, _| {
        let method = std::mem::replace(&mut request.method, Method::Invite);
        case.authorize(FIRST, request);
        request.method = method;
    })?;
    is_refused(&response)
}

fn refuses_a_made_up_nonce(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (request, response) = challenged(case)?;
    let mut challenge = challenge_of(&response)?;
    challenge.nonce = case.token();
    let mut made_up = response;
    made_up.headers.set(Name::WwwAuthenticate, challenge.write());
    let next = case.with_credentials(FIRST, &request, &made_up)?;
    let Some(next) = next else { return Ok(()) };
    is_refused(&case.ask_plainly(FIRST, &next)?.response)
}

fn refuses_basic(case: &mut TestCase<'_>) -> PurposeOutcome {
    let mut request = plain(case)?;
    request.headers.set(Name::Authorization, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    is_refused(&case.ask_plainly(FIRST, &request)?.response)
}

fn refuses_other_users(case: &mut TestCase<'_>) -> PurposeOutcome {
    // The first user registers the second user's address of record, with the first user's credentials.
    let mut request = plain(case)?;
    let other = NameAddr::new(Uri::Sip(case.address_of_record(SECOND)));
    request.headers.set(Name::To, other);
    let response = case.ask(&request);
    match response {
        Ok(answered) => is_refused(&answered.response),
        // The server refused the credentials, which is correct.
        Err(PurposeEnd::Inconclusive(text)) if text.contains("were refused") => Ok(()),
        Err(end) => Err(end),
    }
}

fn keeps_bindings(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.clear_bindings(FIRST)?;
    let uri = contact(case, 7)?;
    let other = NameAddr::new(Uri::Sip(uri.clone())).to_string();
    let response = spoilt(case, |_, request, credentials| {
        request.headers.set(Name::Authorization, with_wrong_response(credentials));
        request.headers.set(Name::Contact, &other);
    })?;
    require!(!response.status.is_success(), "wrong credentials were answered {}", line_of(&response));
    case.renew_credentials(FIRST);
    let bindings = bindings(case)?;
    ensured!(!has(&bindings, &uri), "a refused request created a binding")
}

fn refuses_unknown_users(case: &mut TestCase<'_>) -> PurposeOutcome {
    let name = format!("unregistered{}", case.token());
    let response = spoilt(case, |_, request, credentials| {
        request.headers.set(Name::Authorization, replaced(credentials, "username", &name));
    })?;
    is_refused(&response)
}

fn refuses_garbled_credentials(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = spoilt(case, |_, request, credentials| {
        request.headers.set(Name::Authorization, replaced(credentials, "response", "not hexadecimal"));
    })?;
    is_refused(&response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_response_differs_in_one_digit() {
        for (digit, other) in [('0', '1'), ('a', '0')] {
            let credentials = format!("Digest username=\"u\", response=\"{digit}bcdef\", algorithm=MD5");
            let expected = format!("Digest username=\"u\", response=\"{other}bcdef\", algorithm=MD5");
            assert_eq!(with_wrong_response(&credentials), expected);
        }
    }
}
