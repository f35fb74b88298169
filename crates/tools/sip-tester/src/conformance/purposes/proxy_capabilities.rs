//! Handling of OPTIONS by a proxy: for the proxy itself, and for a user behind it (RFC 3261 section 11).

use netrig_sip::{Method, Name, Response, Uri};

use super::super::case::TestCase;
use super::super::messages::{ensure_success, line_of};
use super::super::outcome::{PurposeOutcome, ensure, ensured};
use super::super::purpose::purposes;
use super::super::target::SECOND;
use super::proxy::{asked, changed, has_not_arrived};

purposes! {
    Proxy "PRX";
    "capabilities" {
        "OPT-01" Must "RFC 3261 section 16.6" "An OPTIONS for a user is forwarded." => forwards_options, in basic;
        "OPT-02" Must "RFC 3261 section 11.2" "The header fields of the recipient's response are forwarded: Allow, Accept, Accept-Encoding, Accept-Language, Supported." => keeps_what_is_told;
        "OPT-03" Must "RFC 3261 section 11" "An OPTIONS without a user is answered by the proxy." => answers_itself;
        "OPT-04" Should "RFC 3261 section 11.2" "That response has Accept, Accept-Encoding, Accept-Language and Supported." => tells_its_own;
        "OPT-05" Must "RFC 3261 section 16.3" "An OPTIONS with Max-Forwards: 0 is not forwarded. The proxy answers it or refuses it with 483." => answers_the_last_hop;
        "OPT-06" Must "RFC 3261 section 11.1" "An OPTIONS without a Contact is forwarded." => forwards_without_contact;
    }
}

/// Header fields of the callee's response to OPTIONS.
const FIELDS: [(&str, &str); 5] = [
    ("Allow", "INVITE, ACK, BYE, CANCEL, OPTIONS, NETRIG"),
    ("Accept", "application/sdp, text/netrig"),
    ("Accept-Encoding", "netrig"),
    ("Accept-Language", "x-netrig"),
    ("Supported", "netrig"),
];

fn forwards_options(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = asked(case, Method::Options)?;
    case.succeed(&forwarded, "a 200 to OPTIONS").map(drop)
}

fn keeps_what_is_told(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = asked(case, Method::Options)?;
    let mut response = case.response_of(&forwarded, 200)?;
    for (name, value) in FIELDS {
        response.headers.set(Name::new(name), value);
    }
    case.answer_with(&forwarded, &response)?;
    let came = case.final_of(&forwarded)?;
    for (name, value) in FIELDS {
        let words = |text: &str| text.split(',').map(|word| word.trim().to_owned()).collect::<Vec<_>>();
        let found: Vec<String> = came.headers.all(&Name::new(name)).flat_map(words).collect();
        ensure!(found == words(value), "{name}: {value} was received as {found:?}");
    }
    Ok(())
}

/// The response to an OPTIONS without a user.
fn of_the_domain(case: &mut TestCase<'_>) -> PurposeOutcome<Response> {
    let request = case.request(Method::Options, Uri::Sip(case.domain_uri()))?;
    Ok(case.ask(&request)?.response)
}

fn answers_itself(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = of_the_domain(case)?;
    ensure_success(&response, "an OPTIONS for the domain")
}

fn tells_its_own(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = of_the_domain(case)?;
    let is_absent = |(name, _): &&(&'static str, &str)| response.headers.get(&Name::new(name)).is_none();
    // A proxy forwards all methods, so its Allow is meaningless.
    let absent: Vec<&str> = FIELDS.iter().skip(1).filter(is_absent).map(|(name, _)| *name).collect();
    ensured!(absent.is_empty(), "the response to OPTIONS has no {}", absent.join(", no "))
}

fn answers_the_last_hop(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let mut request = case.request_to(SECOND, Method::Options)?;
    request.headers.set(Name::MaxForwards, 0);
    let response = case.ask(&request)?.response;
    ensure!(
        response.status.is_success() || response.status.code() == 483,
        "an OPTIONS with Max-Forwards: 0 was answered {}",
        line_of(&response)
    );
    has_not_arrived(case, &Method::Options)
}

fn forwards_without_contact(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = changed(case, Method::Options, |request| request.headers.remove(&Name::Contact))?;
    case.succeed(&forwarded, "a 200 to OPTIONS").map(drop)
}
