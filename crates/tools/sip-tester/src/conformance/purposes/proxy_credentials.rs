//! Challenges of a proxy, and forwarding of other servers' credentials (RFC 3261 section 22).

use netrig_sip::digest::DigestChallenge;
use netrig_sip::{Method, Name, Request, Response};

use super::super::case::TestCase;
use super::super::messages::{ensure_code, ensure_status, line_of};
use super::super::outcome::{PurposeOutcome, ensure, ensured};
use super::super::purpose::purposes;
use super::super::target::{FIRST, SECOND};
use super::proxy::{SOON, has_not_arrived, inspected, invite, invited};
use super::proxy_transactions::{cancel_arrives, cancelled};
use super::registrar_credentials::with_wrong_response;

purposes! {
    Proxy "PRX";
    "credentials" {
        "AUTH-01" Must "RFC 3261 section 22.3" "An INVITE without credentials is answered 407 with a Proxy-Authenticate." => challenges, needs [ProxyDigest], in basic;
        "AUTH-02" Must "RFC 3261 section 22.3" "An INVITE with a wrong response is not forwarded." => refuses_wrong_responses, needs [ProxyDigest];
        "AUTH-03" Must "RFC 3261 section 22.4" "The challenge offers qop." => offers_qop, needs [ProxyDigest];
        "AUTH-04" Must "RFC 3261 section 22.1" "A CANCEL without credentials is accepted." => takes_cancel_without_credentials, needs [ProxyDigest];
        "AUTH-05" Must "RFC 3261 section 22.3" "Authorization, and Proxy-Authorization of other realms, stay unchanged." => keeps_credentials_of_others;
        "AUTH-06" Must "RFC 3261 section 16.7" "The WWW-Authenticate of a 401 stays unchanged." => keeps_challenges_of_others;
    }
}

/// Sends an INVITE without credentials. Returns the INVITE and its final response, which is acknowledged.
fn unauthorized(case: &mut TestCase<'_>) -> PurposeOutcome<(Request, Response)> {
    case.register(SECOND)?;
    let request = invite(case)?;
    let response = case.ask_plainly(FIRST, &request)?.response;
    ensure_code(&response, 407, "an INVITE without credentials")?;
    Ok((request, response))
}

fn challenge_of(response: &Response) -> Option<DigestChallenge> {
    response.headers.all(&Name::ProxyAuthenticate).find_map(DigestChallenge::of_value)
}

fn challenges(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (_, response) = unauthorized(case)?;
    let challenge = challenge_of(&response);

    ensured!(challenge.is_some(), "the 407 has no digest challenge in Proxy-Authenticate")
}

fn refuses_wrong_responses(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (request, response) = unauthorized(case)?;
    let Some(mut next) = case.with_credentials(FIRST, &request, &response)? else { return Ok(()) };
    let credentials = next.headers.get(&Name::ProxyAuthorization).unwrap_or_default().to_owned();
    next.headers.set(Name::ProxyAuthorization, with_wrong_response(&credentials));
    let response = case.ask_plainly(FIRST, &next)?.response;
    ensure_status(&response, 400..500, "an INVITE with a wrong response")?;
    has_not_arrived(case, &Method::Invite)
}

fn offers_qop(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (_, response) = unauthorized(case)?;
    let challenge = challenge_of(&response);

    ensured!(
        challenge.is_some_and(|challenge| !challenge.qualities.is_empty()),
        "the challenge offers no qop"
    )
}

fn takes_cancel_without_credentials(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (forwarded, cancel) = cancelled(case)?;
    let response = case.response(FIRST, &cancel, SOON)?;
    cancel_arrives(case, &forwarded)?;
    let _ = case.final_of(&forwarded);
    let code = response.as_ref().map(|response| response.status.code());
    ensured!(!matches!(code, Some(401 | 407)), "a CANCEL was answered {code:?}")
}

fn keeps_credentials_of_others(case: &mut TestCase<'_>) -> PurposeOutcome {
    let credentials = "Digest username=\"netrig\", realm=\"elsewhere.example.invalid\", nonce=\"n\", uri=\"sip:x\", \
                       response=\"0123456789abcdef0123456789abcdef\"";
    let forwarded = inspected(case, |request| {
        request.headers.push(Name::Authorization, credentials);
        request.headers.push(Name::ProxyAuthorization, credentials);
    })?;
    for name in [Name::Authorization, Name::ProxyAuthorization] {
        let kept =
            forwarded.arrived.headers.all(&name).any(|value| value.contains("elsewhere.example.invalid"));
        ensure!(kept, "{name} of another realm did not arrive");
    }
    Ok(())
}

fn keeps_challenges_of_others(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    let mut response = case.response_of(&forwarded, 401)?;
    response.headers.push(
        Name::WwwAuthenticate,
        "Digest realm=\"callee.example.invalid\", nonce=\"kept\", algorithm=MD5, qop=\"auth\"",
    );
    case.answer_with(&forwarded, &response)?;
    let came = case.final_of(&forwarded)?;
    let kept = came
        .headers
        .all(&Name::WwwAuthenticate)
        .any(|value| value.contains("callee.example.invalid") && value.contains("kept"));
    ensured!(
        kept,
        "a 401 was received as {} with WWW-Authenticate {:?}",
        line_of(&came),
        came.headers.get(&Name::WwwAuthenticate)
    )
}
