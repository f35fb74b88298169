//! What a proxy does with requests and responses (RFC 3261 section 16).

use netrig_core::Duration;
use netrig_sip::header::{CSeq, MAGIC_COOKIE, NameAddr};
use netrig_sip::{Method, Name, Request, Response, SipUri, Uri};

use super::super::case::TestCase;
use super::super::messages::{Forwarded, line_of, line_or_silence, status};
use super::super::outcome::{PurposeEnd, PurposeOutcome, ensure, require};
use super::super::purpose::purposes;
use super::super::target::TestAgent;
use super::general::SubjectRequest;
use super::registrar_credentials::with_wrong_response;

const FIRST: TestAgent = TestAgent::First;
const SECOND: TestAgent = TestAgent::Second;
const THIRD: TestAgent = TestAgent::Third;

/// Long enough for a server on the same network.
const SOON: Duration = Duration::from_millis(400);

purposes! {
    Proxy "PRX";
    "forwarding" {
        "FWD-01" Must "RFC 3261 section 16.6" "A request for a registered user goes to the user's contact." => forwards_to_the_contact, in basic;
        "FWD-02" Must "RFC 3261 section 16.6" "The Request-URI of what is forwarded is the contact." => sets_the_request_uri, in basic;
        "FWD-03" Must "RFC 3261 section 16.6" "Max-Forwards is one less." => lowers_max_forwards, in basic;
        "FWD-04" Must "RFC 3261 section 16.6" "The proxy puts a Via of its own on top, with a branch of RFC 3261." => adds_a_via, in basic;
        "FWD-05" Must "RFC 3261 section 16.6" "The Via values below stay as they were." => keeps_vias;
        "FWD-06" Must "RFC 3581 section 4" "The Via of the sender gets received and rport." => fills_in_the_via_of_the_sender, over Datagrams;
        "FWD-07" Must "RFC 3261 section 16.6" "From, To, Call-ID and CSeq stay as they were." => keeps_the_dialog, in basic;
        "FWD-08" Must "RFC 3261 section 16.6" "Header fields that the proxy does not know stay as they were." => keeps_unknown_fields;
        "FWD-09" Must "RFC 3261 section 16.6" "The body stays as it was." => keeps_the_body, in basic;
        "FWD-10" Must "RFC 3261 section 16.6" "A request without Max-Forwards gets one." => adds_max_forwards;
        "FWD-11" Must "RFC 3261 section 16.3" "A request with Max-Forwards: 0 is refused with 483, and not forwarded." => refuses_too_many_hops, in basic;
        "FWD-12" Must "RFC 3261 section 16.1" "A request of a method that the proxy does not know is forwarded." => forwards_unknown_methods;
        "FWD-13" Must "RFC 3261 section 16.3" "A request that requires an unknown extension of the proxy is refused with 420, which names it in Unsupported." => refuses_proxy_require;
        "FWD-14" Must "RFC 3261 section 20.32" "What a request requires of its recipient is not the proxy's affair." => ignores_require;
        "FWD-15" Must "RFC 3261 section 16.5" "A request for a user without a registration is refused." => refuses_unknown_users, in basic;
        "FWD-16" Should "RFC 3261 section 16.3" "A Request-URI of a scheme that the proxy does not know is refused with 416." => refuses_unknown_schemes;
        "FWD-17" Must "RFC 3261 section 8.1.1.7" "Each request that is forwarded has a branch of its own." => draws_branches;
        "FWD-18" Must "RFC 3261 section 7" "What is forwarded keeps to the grammar and to the rules of its header fields." => writes_right_requests;
        "FWD-19" Must "RFC 3261 section 16.6" "The contact of the sender stays as it was." => keeps_the_contact;
    }
    "responses" {
        "RSP-01" Must "RFC 3261 section 16.7" "A provisional response other than 100 is forwarded." => forwards_ringing, in basic;
        "RSP-02" Must "RFC 3261 section 16.7" "A 100 of the recipient is not forwarded." => keeps_trying_to_itself, needs [Transactions];
        "RSP-03" Must "RFC 3261 section 16.7" "A 200 is forwarded." => forwards_success, in basic;
        "RSP-04" Must "RFC 3261 section 16.7" "A failure is forwarded." => forwards_failures, in basic;
        "RSP-05" Must "RFC 3261 section 16.7" "The Via of the proxy is taken off a response." => removes_its_via, in basic;
        "RSP-06" Must "RFC 3261 section 16.7" "To, Contact and unknown header fields of a response stay as they were." => keeps_fields_of_responses;
        "RSP-07" Must "RFC 3261 section 16.7" "The body of a response stays as it was." => keeps_the_answer, in basic;
        "RSP-08" Must "RFC 3261 section 16.7" "A status that the proxy does not know is forwarded as it is (434)." => forwards_unknown_statuses;
        "RSP-09" Must "RFC 3261 section 16.7" "A failure of class 6 is forwarded." => forwards_global_failures;
        "RSP-10" Should "RFC 3261 section 16.7" "A 503 is not forwarded as such." => replaces_service_unavailable;
        "RSP-11" Must "RFC 3261 section 16.7" "A 200 to an INVITE that is sent again is forwarded again." => forwards_success_again, over Datagrams;
        "RSP-12" Must "RFC 3261 section 18.1.2" "A response whose topmost Via is not the proxy's is discarded." => discards_foreign_responses, over Datagrams;
        "RSP-13" Must "RFC 3261 section 16.7" "A redirection is forwarded, or followed." => forwards_redirections;
    }
    "transactions" {
        "TRANS-01" Must "RFC 3261 section 17.2.1" "An INVITE gets a 100 within 200 ms if its recipient is silent." => says_trying, needs [Transactions], in basic;
        "TRANS-02" Must "RFC 3261 section 17.2.1" "An INVITE that is sent again is not forwarded as another one." => absorbs_invites, needs [Transactions], over Datagrams;
        "TRANS-03" Must "RFC 3261 section 17.2.1" "An INVITE that is sent again gets the last provisional response again." => repeats_provisional_responses, needs [Transactions], over Datagrams;
        "TRANS-04" Must "RFC 3261 section 17.1.1.2" "The proxy sends an INVITE again that its recipient does not answer." => repeats_invites, needs [Transactions], over Datagrams;
        "TRANS-05" Must "RFC 3261 section 17.1.1.3" "The proxy acknowledges a failure itself, in the transaction of the INVITE." => acknowledges_failures, needs [Transactions], in basic;
        "TRANS-06" Must "RFC 3261 section 17.2.1" "A failure is sent again until its ACK has come." => repeats_failures, needs [Transactions], over Datagrams;
        "TRANS-07" Must "RFC 3261 section 17.2.1" "The ACK of a failure ends that, and is not forwarded." => ends_with_the_ack, needs [Transactions];
        "TRANS-08" Must "RFC 3261 section 17.2.2" "A request that is sent again after its final response gets that again, and is not forwarded." => answers_repeated_requests, needs [Transactions], over Datagrams;
        "TRANS-09" Must "RFC 3261 section 16.10" "A CANCEL is answered 200 by the proxy." => answers_cancel, needs [Transactions], in basic;
        "TRANS-10" Must "RFC 3261 section 16.10" "A CANCEL of an INVITE that rings reaches its recipient." => cancels, needs [Transactions], in basic;
        "TRANS-11" Must "RFC 3261 section 9.1" "The CANCEL that is sent has the Request-URI, Call-ID, To, From, CSeq number and topmost Via of the INVITE." => cancels_as_it_invited, needs [Transactions];
        "TRANS-12" Must "RFC 3261 section 16.7" "The 487 of an INVITE that was cancelled comes back." => forwards_request_terminated, needs [Transactions], in basic;
        "TRANS-13" Must "RFC 4320 section 4.1" "A request that is no INVITE gets no provisional response but 100, and over UDP no 100 at once." => keeps_non_invites_quiet;
        "TRANS-14" Must "RFC 3261 section 17.1.2.2" "The proxy sends a request that is no INVITE again if its recipient does not answer." => repeats_requests, needs [Transactions], over Datagrams;
    }
    "dialogs" {
        "DLG-01" Must "RFC 3261 section 13.2.2.4" "The ACK of a 200 reaches the callee." => passes_the_ack, in basic;
        "DLG-02" Must "RFC 3261 section 16.6" "The URI that the proxy puts into Record-Route has the parameter lr." => records_a_loose_route, needs [RecordRoute], in basic;
        "DLG-03" Must "RFC 3261 section 16.12" "A BYE of the caller comes along the route set, and reaches the callee." => passes_a_bye, needs [RecordRoute], in basic;
        "DLG-04" Must "RFC 3261 section 16.4" "The proxy takes its own Route off, and leaves the Request-URI." => removes_its_route, needs [RecordRoute];
        "DLG-05" Must "RFC 3261 section 16.12" "A BYE of the callee comes along the route set, and reaches the caller." => passes_a_bye_back, needs [RecordRoute], in basic;
        "DLG-06" Must "RFC 3261 section 16.12" "An INVITE within a call comes along the route set." => passes_a_reinvite, needs [RecordRoute];
        "DLG-07" Must "RFC 3261 section 16.6" "A request with another Route below the proxy's goes there, with its Request-URI unchanged." => follows_the_route, needs [RecordRoute];
        "DLG-08" Must "RFC 3261 section 16.6" "If that Route is strict, its URI becomes the Request-URI, and the old one the last Route." => serves_strict_routers, needs [RecordRoute];
        "DLG-09" Must "RFC 3261 section 16.6" "A Record-Route that was there before stays, below the proxy's." => keeps_record_routes, needs [RecordRoute];
    }
    "forking" {
        "FORK-01" Must "RFC 3261 section 16.6" "An INVITE goes to all contacts, with a branch for each." => forks, needs [Forking];
        "FORK-02" Must "RFC 3261 section 16.7" "A 200 is forwarded at once, and the other branches are cancelled." => cancels_the_others, needs [Forking];
        "FORK-03" Must "RFC 3261 section 16.7" "A failure is not forwarded as long as another branch has no final response." => waits_for_all, needs [Forking];
        "FORK-04" Must "RFC 3261 section 16.7" "Of failures one of class 6 is forwarded, if there is one." => prefers_global_failures, needs [Forking];
        "FORK-05" Should "RFC 3261 section 16.7" "Of other failures one of the lowest class is forwarded." => prefers_the_lowest_class, needs [Forking];
        "FORK-06" Must "RFC 3261 section 16.7" "The 200 of a second branch is forwarded, too." => forwards_both, needs [Forking];
        "FORK-07" Must "RFC 3261 section 16.10" "A CANCEL reaches all branches." => cancels_all, needs [Forking];
        "FORK-08" Must "RFC 3261 section 16.7" "Provisional responses of all branches are forwarded." => forwards_all_ringing, needs [Forking];
    }
    "credentials" {
        "AUTH-01" Must "RFC 3261 section 22.3" "An INVITE without credentials is answered 407 with a Proxy-Authenticate." => challenges, needs [ProxyDigest], in basic;
        "AUTH-02" Must "RFC 3261 section 22.3" "An INVITE with a wrong response is not forwarded." => refuses_wrong_responses, needs [ProxyDigest];
        "AUTH-03" Must "RFC 3261 section 22.4" "The challenge offers qop." => offers_qop, needs [ProxyDigest];
        "AUTH-04" Must "RFC 3261 section 22.1" "A CANCEL without credentials is taken." => takes_cancel_without_credentials, needs [ProxyDigest];
        "AUTH-05" Must "RFC 3261 section 22.3" "Authorization, and Proxy-Authorization of other realms, stay as they were." => keeps_credentials_of_others;
        "AUTH-06" Must "RFC 3261 section 16.7" "The WWW-Authenticate of a 401 stays as it was." => keeps_challenges_of_others;
    }
}

/// An OPTIONS for a user without a registration, which the proxy answers itself.
pub(super) const SUBJECT: SubjectRequest = SubjectRequest {
    make: for_nobody,
    takes: |response| [404, 410, 480, 604].contains(&response.status.code()),
};

fn for_nobody(case: &mut TestCase<'_>) -> Result<Request, PurposeEnd> {
    let name = format!("unregistered{}", case.token());
    let uri = case.uri_of_user(&name);
    case.request(Method::Options, Uri::Sip(uri))
}

/// The second user is registered; an INVITE of the first for the second, as it arrives.
fn invited(case: &mut TestCase<'_>) -> Result<Forwarded, PurposeEnd> {
    case.register(SECOND)?;
    let request = invite(case)?;
    case.forward(&request, SECOND)
}

fn invite(case: &mut TestCase<'_>) -> Result<Request, PurposeEnd> {
    let uri = case.address_of_record(SECOND);
    case.invite_request(Uri::Sip(uri))
}

/// A request of this method, as it arrives; the second user is registered.
pub(super) fn asked(case: &mut TestCase<'_>, method: Method) -> Result<Forwarded, PurposeEnd> {
    case.register(SECOND)?;
    let uri = case.address_of_record(SECOND);
    let request = case.request(method, Uri::Sip(uri))?;
    case.forward(&request, SECOND)
}

/// Ends an INVITE that was only looked at.
fn finish(case: &mut TestCase<'_>, forwarded: &Forwarded) -> PurposeOutcome {
    case.answer(forwarded, 486)?;
    // How the failure comes back is another purpose's affair.
    let _ = case.final_of(forwarded);
    Ok(())
}

fn forwards_to_the_contact(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    finish(case, &forwarded)
}

fn sets_the_request_uri(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    finish(case, &forwarded)?;
    let contact = Uri::Sip(case.contact(SECOND)?);
    let uri = &forwarded.arrived.uri;
    ensure!(uri.is_equivalent(&contact), "the Request-URI is {uri}, and the contact is {contact}");
    Ok(())
}

fn lowers_max_forwards(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let mut request = invite(case)?;
    request.headers.set(Name::MaxForwards, 33);
    let forwarded = case.forward(&request, SECOND)?;
    finish(case, &forwarded)?;
    let left = forwarded.arrived.headers.number(&Name::MaxForwards).ok().flatten();
    ensure!(
        left == Some(32),
        "Max-Forwards: 33 became {:?}",
        forwarded.arrived.headers.get(&Name::MaxForwards)
    );
    Ok(())
}

fn adds_a_via(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    finish(case, &forwarded)?;
    let vias = vias(&forwarded.arrived)?;
    ensure!(vias.len() >= 2, "the request arrived with {} Via values", vias.len());
    let branch = vias[0].branch().unwrap_or_default();
    ensure!(branch.starts_with(MAGIC_COOKIE), "the branch of the proxy's Via is \"{branch}\"");
    Ok(())
}

fn vias(request: &Request) -> Result<Vec<netrig_sip::header::Via>, PurposeEnd> {
    let vias = request.headers.vias();
    vias.map_err(|error| PurposeEnd::Fail(format!("a Via that was forwarded breaks the grammar: {error}")))
}

fn keeps_vias(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let mut request = invite(case)?;
    let below = "SIP/2.0/UDP below.example.invalid:5066;branch=z9hG4bKbelow;netrig=kept";
    request.headers.push(Name::Via, below);
    let forwarded = case.forward(&request, SECOND)?;
    finish(case, &forwarded)?;
    let (sent, came) = (vias(&forwarded.sent)?, vias(&forwarded.arrived)?);
    ensure!(
        came.len() > sent.len(),
        "the request had {} Via values and arrived with {}",
        sent.len(),
        came.len()
    );
    let own = &came[came.len() - sent.len()..];
    for (sent, came) in sent.iter().zip(own) {
        ensure!(
            (sent.branch(), &sent.host, sent.port) == (came.branch(), &came.host, came.port),
            "the Via {sent} arrived as {came}"
        );
    }
    ensure!(own[own.len() - 1].parameters.value("netrig") == Some("kept"), "a parameter of a Via is gone");
    Ok(())
}

fn fills_in_the_via_of_the_sender(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    finish(case, &forwarded)?;
    let local = case.local(FIRST)?;
    let vias = vias(&forwarded.arrived)?;
    let Some(own) = vias.last() else { return Err(PurposeEnd::Fail("the request has no Via".to_owned())) };
    ensure!(
        own.rport() == Some(Some(local.port())) && own.received() == Some(local.ip()),
        "the Via of the sender arrived as {own}, and the request came from {local}"
    );
    Ok(())
}

fn keeps_the_dialog(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    finish(case, &forwarded)?;
    for name in [Name::From, Name::To] {
        let [sent, came] = [&forwarded.sent, &forwarded.arrived]
            .map(|request| request.headers.addresses(&name).ok().and_then(|mut found| found.pop()));
        let same = matches!((&sent, &came), (Some(sent), Some(came)) if sent.uri.is_equivalent(&came.uri) && sent.tag() == came.tag());
        ensure!(same, "{name} arrived as {:?}", forwarded.arrived.headers.get(&name));
    }
    for name in [Name::CallId, Name::CSeq] {
        let [sent, came] = [&forwarded.sent, &forwarded.arrived].map(|request| request.headers.get(&name));
        ensure!(sent == came, "{name} arrived as {came:?}");
    }
    Ok(())
}

fn keeps_unknown_fields(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let mut request = invite(case)?;
    let name = Name::new("X-Netrig-Kept");
    for value in ["one", "two;x=\"y, z\""] {
        request.headers.push(name.clone(), value);
    }
    let forwarded = case.forward(&request, SECOND)?;
    finish(case, &forwarded)?;
    let came: Vec<&str> = forwarded.arrived.headers.all(&name).collect();
    ensure!(came == ["one", "two;x=\"y, z\""], "two unknown header fields arrived as {came:?}");
    Ok(())
}

fn keeps_the_body(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    finish(case, &forwarded)?;
    ensure!(forwarded.sent.body == forwarded.arrived.body, "the body arrived changed");
    let [sent, came] =
        [&forwarded.sent, &forwarded.arrived].map(|request| request.headers.get(&Name::ContentType));
    ensure!(sent == came, "Content-Type arrived as {came:?}");
    Ok(())
}

fn adds_max_forwards(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let mut request = invite(case)?;
    request.headers.remove(&Name::MaxForwards);
    let forwarded = case.forward(&request, SECOND)?;
    finish(case, &forwarded)?;
    let left = forwarded.arrived.headers.number(&Name::MaxForwards).ok().flatten();
    ensure!(left.is_some(), "a request without Max-Forwards arrived without");
    Ok(())
}

fn refuses_too_many_hops(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let mut request = invite(case)?;
    request.headers.set(Name::MaxForwards, 0);
    let response = case.ask(&request)?.response;
    ensure!(response.status.code() == 483, "Max-Forwards: 0 was answered {}", line_of(&response));
    has_not_arrived(case, &Method::Invite)
}

pub(super) fn has_not_arrived(case: &mut TestCase<'_>, method: &Method) -> PurposeOutcome {
    let arrived = case.arriving(SECOND, method, SOON)?;
    ensure!(arrived.is_none(), "the {method} was forwarded all the same");
    Ok(())
}

fn forwards_unknown_methods(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = asked(case, Method::Other("NETRIG".into()))?;
    case.answer(&forwarded, 200)?;
    let response = case.final_of(&forwarded)?;
    ensure!(response.status.is_success(), "a 200 to an unknown method came back as {}", line_of(&response));
    Ok(())
}

fn refuses_proxy_require(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let mut request = invite(case)?;
    request.headers.set(Name::ProxyRequire, "netrig-unknown");
    case.local(SECOND)?;
    case.send(&request)?;
    let mut final_response = None;
    while final_response.is_none() {
        // The recipient answers if it is asked, so that the purpose ends.
        if let Some((arrived, path)) = case.arriving(SECOND, &Method::Invite, Duration::from_millis(20))? {
            let forwarded = Forwarded { sent: request.clone(), arrived, path, at: SECOND };
            finish(case, &forwarded)?;
            return Err(PurposeEnd::Fail("a request with an unknown Proxy-Require was forwarded".to_owned()));
        }
        match case.response(FIRST, &request, SOON)? {
            Some(response) if response.status.is_final() => {
                case.acknowledge_failure(FIRST, &request, &response)?;
                match case.with_credentials(FIRST, &request, &response)? {
                    Some(next) => {
                        request = next;
                        case.send(&request)?;
                    }
                    None => final_response = Some(response),
                }
            }
            _ => require!(
                case.now().since(netrig_core::Instant::ZERO) < case.target().patience.saturating_mul(3),
                "no response to a request with an unknown Proxy-Require"
            ),
        }
    }
    let Some(response) = final_response else { return Ok(()) };
    ensure!(response.status.code() == 420, "an unknown Proxy-Require was answered {}", line_of(&response));
    let named = response.headers.has_token(&Name::Unsupported, "netrig-unknown");
    ensure!(named, "the 420 does not name the extension in Unsupported");
    Ok(())
}

fn ignores_require(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let mut request = invite(case)?;
    request.headers.set(Name::Require, "netrig-unknown");
    let forwarded = case.forward(&request, SECOND)?;
    finish(case, &forwarded)?;
    let kept = forwarded.arrived.headers.has_token(&Name::Require, "netrig-unknown");
    ensure!(kept, "Require arrived as {:?}", forwarded.arrived.headers.get(&Name::Require));
    Ok(())
}

fn refuses_unknown_users(case: &mut TestCase<'_>) -> PurposeOutcome {
    let name = format!("unregistered{}", case.token());
    let uri = case.uri_of_user(&name);
    let request = case.invite_request(Uri::Sip(uri))?;
    let response = case.ask(&request)?.response;
    let code = response.status.code();
    ensure!(
        (400..700).contains(&code),
        "an INVITE for a user without a registration was answered {}",
        line_of(&response)
    );
    Ok(())
}

fn refuses_unknown_schemes(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = Uri::Other { scheme: "netrig".to_owned(), rest: "user".to_owned() };
    let mut request = case.request(Method::Options, uri)?;
    request.headers.set(Name::To, NameAddr::new(Uri::Sip(case.address_of_record(SECOND))));
    let response = case.ask(&request)?.response;
    ensure!(
        response.status.code() == 416,
        "a Request-URI of an unknown scheme was answered {}",
        line_of(&response)
    );
    Ok(())
}

fn draws_branches(case: &mut TestCase<'_>) -> PurposeOutcome {
    let mut branches = Vec::new();
    case.register(SECOND)?;
    for _ in 0..3 {
        let request = invite(case)?;
        let forwarded = case.forward(&request, SECOND)?;
        finish(case, &forwarded)?;
        branches.push(vias(&forwarded.arrived)?.remove(0).branch().unwrap_or_default().to_owned());
    }
    let count = branches.len();
    branches.sort();
    branches.dedup();
    ensure!(branches.len() == count, "of three INVITEs two were forwarded with one branch");
    Ok(())
}

fn writes_right_requests(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    finish(case, &forwarded)?;
    let violations = netrig_sip::Message::Request(forwarded.arrived).violations();
    let told: Vec<String> = violations.iter().map(ToString::to_string).collect();
    ensure!(told.is_empty(), "what was forwarded breaks rules: {}", told.join("; "));
    Ok(())
}

fn keeps_the_contact(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    finish(case, &forwarded)?;
    let own = Uri::Sip(case.contact(FIRST)?);
    let came = forwarded.arrived.headers.addresses(&Name::Contact).unwrap_or_default();
    let same = came.len() == 1 && came[0].uri.is_equivalent(&own);
    ensure!(same, "Contact arrived as {:?}", forwarded.arrived.headers.get(&Name::Contact));
    Ok(())
}

/// The next response with this status at the caller.
fn comes_back(case: &mut TestCase<'_>, forwarded: &Forwarded, code: u16) -> Result<Response, PurposeEnd> {
    let end = case.now() + case.target().patience;
    loop {
        let left = end.since(case.now());
        match case.response(FIRST, &forwarded.sent, left)? {
            Some(response) if response.status.code() == code => return Ok(response),
            Some(response) if response.status.is_final() => {
                case.acknowledge_failure(FIRST, &forwarded.sent, &response)?;
                return Err(PurposeEnd::Fail(format!("a {code} came back as {}", line_of(&response))));
            }
            Some(_) => {}
            None => {
                return Err(PurposeEnd::Fail(format!(
                    "a {code} did not come back within {}",
                    case.target().patience
                )));
            }
        }
    }
}

fn forwards_ringing(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    case.answer(&forwarded, 180)?;
    comes_back(case, &forwarded, 180)?;
    finish(case, &forwarded)
}

fn keeps_trying_to_itself(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    let mut trying = case.response_of(&forwarded, 100)?;
    trying.reason = "Netrig Is Trying".to_owned();
    case.answer_with(&forwarded, &trying)?;
    case.answer(&forwarded, 180)?;
    comes_back(case, &forwarded, 180)?;
    finish(case, &forwarded)?;
    let ours = case.evidence().iter().filter(|message| !message.is_sent);
    let came =
        ours.filter(|message| message.bytes.windows(16).any(|part| part == b"Netrig Is Trying")).count();
    ensure!(came == 0, "a 100 of the recipient came back");
    Ok(())
}

fn forwards_success(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let mut call = case.call()?;
    ensure!(call.response.status.code() == 200, "a 200 came back as {}", line_of(&call.response));
    end_call(case, &mut call)
}

/// Ends a call: the callee answers the BYE if it arrives.
fn end_call(case: &mut TestCase<'_>, call: &mut super::super::case::TestCall) -> PurposeOutcome {
    case.is_over(&call.caller);
    let bye = case.within(&mut call.caller, Method::Bye)?;
    case.send(&bye)?;
    if let Some((arrived, path)) = case.arriving(SECOND, &Method::Bye, SOON)? {
        let forwarded = Forwarded { sent: bye, arrived, path, at: SECOND };
        case.answer(&forwarded, 200)?;
    }
    Ok(())
}

fn forwards_failures(case: &mut TestCase<'_>) -> PurposeOutcome {
    status_comes_back(case, 486)
}

fn status_comes_back(case: &mut TestCase<'_>, code: u16) -> PurposeOutcome {
    let forwarded = invited(case)?;
    case.answer(&forwarded, code)?;
    let response = case.final_of(&forwarded)?;
    ensure!(response.status == status(code), "a {code} came back as {}", line_of(&response));
    Ok(())
}

fn removes_its_via(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    case.answer(&forwarded, 486)?;
    let response = case.final_of(&forwarded)?;
    let (sent, came) =
        (vias(&forwarded.sent)?.len(), response.headers.vias().map(|vias| vias.len()).unwrap_or(0));
    ensure!(came == sent, "a request with {sent} Via got a response with {came}");
    Ok(())
}

fn keeps_fields_of_responses(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    let name = Name::new("X-Netrig-Kept");
    let mut response = case.response_of(&forwarded, 180)?;
    response.headers.push(name.clone(), "one");
    response.reason = "Ringing And Ringing".to_owned();
    case.answer_with(&forwarded, &response)?;
    let came = comes_back(case, &forwarded, 180)?;
    finish(case, &forwarded)?;
    ensure!(came.headers.get(&name) == Some("one"), "an unknown header field of a response is gone");
    for name in [Name::To, Name::Contact] {
        let [sent, came] = [&response, &came]
            .map(|response| response.headers.addresses(&name).ok().and_then(|mut found| found.pop()));
        let same = matches!((&sent, &came), (Some(sent), Some(came)) if sent.uri.is_equivalent(&came.uri) && sent.tag() == came.tag());
        ensure!(same, "{name} of a response came back as {came:?}");
    }
    Ok(())
}

fn keeps_the_answer(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    let response = case.answer(&forwarded, 200)?;
    let came = case.final_of(&forwarded)?;
    acknowledge(case, &forwarded, &came)?;
    ensure!(came.body == response.body, "the body of a 200 came back changed");
    Ok(())
}

/// Acknowledges a 200, and ends the call.
fn acknowledge(case: &mut TestCase<'_>, forwarded: &Forwarded, response: &Response) -> PurposeOutcome {
    let mut dialog = super::super::dialog::TestDialog::of_caller(FIRST, &forwarded.sent, response)?;
    case.acknowledge(&mut dialog)?;
    case.open_dialog(&dialog);
    Ok(())
}

fn forwards_unknown_statuses(case: &mut TestCase<'_>) -> PurposeOutcome {
    status_comes_back(case, 434)
}

fn forwards_global_failures(case: &mut TestCase<'_>) -> PurposeOutcome {
    status_comes_back(case, 603)
}

fn replaces_service_unavailable(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    case.answer(&forwarded, 503)?;
    let response = case.final_of(&forwarded)?;
    ensure!(response.status.code() != 503, "a 503 came back as it was");
    Ok(())
}

fn forwards_success_again(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    let response = case.answer(&forwarded, 200)?;
    let came = case.final_of(&forwarded)?;
    case.answer_with(&forwarded, &response)?;
    let again = case.response(FIRST, &forwarded.sent, case.patience())?;
    acknowledge(case, &forwarded, &came)?;
    ensure!(again.is_some(), "a 200 that the callee sent again did not come back");
    Ok(())
}

fn discards_foreign_responses(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    let mut foreign = case.response_of(&forwarded, 183)?;
    let below: Vec<String> =
        foreign.headers.vias().unwrap_or_default().iter().skip(1).map(ToString::to_string).collect();
    let other = "SIP/2.0/UDP foreign.example.invalid:5099;branch=z9hG4bKforeign".to_owned();
    foreign.headers.set_all(&Name::Via, std::iter::once(other).chain(below));
    case.reply_to_server(&forwarded, &foreign)?;
    case.answer(&forwarded, 180)?;
    comes_back(case, &forwarded, 180)?;
    finish(case, &forwarded)?;
    let is_foreign = |message: &&super::super::messages::EvidenceMessage| {
        !message.is_sent && message.bytes.starts_with(b"SIP/2.0 183")
    };
    let came = case.evidence().iter().filter(is_foreign).count();
    ensure!(came == 0, "a response whose topmost Via names another host came back");
    Ok(())
}

fn forwards_redirections(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    let mut response = case.response_of(&forwarded, 302)?;
    let third = case.contact(THIRD)?;
    response.headers.set(Name::Contact, NameAddr::new(Uri::Sip(third)));
    case.answer_with(&forwarded, &response)?;
    let end = case.now() + case.target().patience;
    while case.now() < end {
        if let Some(response) = case.response(FIRST, &forwarded.sent, Duration::from_millis(20))?
            && response.status.is_final()
        {
            case.acknowledge_failure(FIRST, &forwarded.sent, &response)?;
            let has_contact = response.headers.get(&Name::Contact).is_some();
            ensure!(response.status.code() == 302, "a 302 came back as {}", line_of(&response));
            ensure!(has_contact, "a 302 came back without its Contact");
            return Ok(());
        }
        if let Some((arrived, path)) = case.arriving(THIRD, &Method::Invite, Duration::from_millis(20))? {
            let followed = Forwarded { sent: forwarded.sent.clone(), arrived, path, at: THIRD };
            return finish(case, &followed);
        }
    }
    Err(PurposeEnd::Fail("a 302 neither came back nor was followed".to_owned()))
}

fn says_trying(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    let trying = case.response(FIRST, &forwarded.sent, Duration::from_millis(300))?;
    finish(case, &forwarded)?;
    let code = trying.as_ref().map(|response| response.status.code());
    ensure!(
        code == Some(100),
        "300 ms after an INVITE that its recipient has not answered it got {}",
        line_or_silence(trying.as_ref())
    );
    Ok(())
}

fn absorbs_invites(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    case.answer(&forwarded, 180)?;
    comes_back(case, &forwarded, 180)?;
    case.send(&forwarded.sent)?;
    let again = case.arriving(SECOND, &Method::Invite, SOON)?;
    finish(case, &forwarded)?;
    let Some((again, _)) = again else { return Ok(()) };
    let [first, second] =
        [&forwarded.arrived, &again].map(|request| vias(request).map(|mut vias| vias.remove(0)));
    ensure!(
        first?.branch() == second?.branch(),
        "an INVITE that was sent again was forwarded as another one"
    );
    Err(PurposeEnd::Fail("an INVITE that was sent again was forwarded again".to_owned()))
}

fn repeats_provisional_responses(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    case.answer(&forwarded, 180)?;
    comes_back(case, &forwarded, 180)?;
    case.send(&forwarded.sent)?;
    let again = comes_back(case, &forwarded, 180);
    finish(case, &forwarded)?;
    match again {
        Ok(_) => Ok(()),
        Err(_) => Err(PurposeEnd::Fail(
            "an INVITE that was sent again did not get the last provisional response again".to_owned(),
        )),
    }
}

fn repeats_invites(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    let again = case.arriving(SECOND, &Method::Invite, Duration::from_millis(1200))?;
    finish(case, &forwarded)?;
    ensure!(again.is_some(), "an INVITE that its recipient does not answer was not sent again within 1.2 s");
    Ok(())
}

fn acknowledges_failures(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    case.answer(&forwarded, 486)?;
    let ack = case.arriving(SECOND, &Method::Ack, Duration::from_secs(1))?;
    let _ = case.final_of(&forwarded);
    let Some((ack, _)) = ack else { return Err(PurposeEnd::Fail("a 486 got no ACK within 1 s".to_owned())) };
    let [invite, own] =
        [&forwarded.arrived, &ack].map(|request| vias(request).map(|mut vias| vias.remove(0)));
    let (invite, own) = (invite?, own?);
    ensure!(
        invite.branch() == own.branch(),
        "the ACK of a 486 has the branch {:?}, and the INVITE {:?}",
        own.branch(),
        invite.branch()
    );
    Ok(())
}

fn repeats_failures(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    case.answer(&forwarded, 486)?;
    let first = comes_back(case, &forwarded, 486)?;
    let again = case.response(FIRST, &forwarded.sent, Duration::from_millis(1200))?;
    case.acknowledge_failure(FIRST, &forwarded.sent, &first)?;
    ensure!(again.is_some(), "a 486 without an ACK was not sent again within 1.2 s");
    Ok(())
}

fn ends_with_the_ack(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    case.answer(&forwarded, 486)?;
    case.final_of(&forwarded)?;
    // The ACK of the proxy itself.
    case.arriving(SECOND, &Method::Ack, SOON)?;
    let again = case.response(FIRST, &forwarded.sent, Duration::from_millis(1200))?;
    ensure!(again.is_none(), "a 486 was sent again though its ACK was sent");
    let branch =
        forwarded.arrived.headers.top_via().ok().flatten().and_then(|via| via.branch().map(str::to_owned));
    if let Some((ack, _)) = case.arriving(SECOND, &Method::Ack, Duration::ZERO)? {
        let own = ack.headers.top_via().ok().flatten().and_then(|via| via.branch().map(str::to_owned));
        ensure!(own == branch, "the ACK of a failure was forwarded");
    }
    Ok(())
}

fn answers_repeated_requests(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = asked(case, Method::Options)?;
    case.answer(&forwarded, 200)?;
    let first = case.final_of(&forwarded)?;
    case.send(&forwarded.sent)?;
    let again = case.response(FIRST, &forwarded.sent, case.patience())?;
    ensure!(
        again.as_ref().is_some_and(|again| again.status == first.status),
        "a request that was sent again after its {} got {}",
        line_of(&first),
        line_or_silence(again.as_ref())
    );
    has_not_arrived(case, &Method::Options)
}

/// An INVITE that rings, and that the caller has cancelled, with the CANCEL.
fn cancelled(case: &mut TestCase<'_>) -> Result<(Forwarded, Request), PurposeEnd> {
    let forwarded = invited(case)?;
    case.answer(&forwarded, 180)?;
    comes_back(case, &forwarded, 180)?;
    let cancel = case.cancel_of(&forwarded.sent);
    case.send(&cancel)?;
    Ok((forwarded, cancel))
}

/// The CANCEL as it arrives, answered.
fn cancel_arrives(case: &mut TestCase<'_>, forwarded: &Forwarded) -> Result<Request, PurposeEnd> {
    let patience = case.target().patience;
    let Some((arrived, path)) = case.arriving(forwarded.at, &Method::Cancel, patience)? else {
        return Err(PurposeEnd::Fail(format!("the CANCEL did not arrive within {patience}")));
    };
    let own = Forwarded { sent: forwarded.sent.clone(), arrived: arrived.clone(), path, at: forwarded.at };
    case.answer(&own, 200)?;
    case.answer(forwarded, 487)?;
    Ok(arrived)
}

fn answers_cancel(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (forwarded, cancel) = cancelled(case)?;
    let response = case.response(FIRST, &cancel, case.patience())?;
    cancel_arrives(case, &forwarded)?;
    let _ = case.final_of(&forwarded);
    ensure!(
        response.as_ref().is_some_and(|response| response.status.code() == 200),
        "a CANCEL whose recipient is silent got {}",
        line_or_silence(response.as_ref())
    );
    Ok(())
}

fn cancels(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (forwarded, _) = cancelled(case)?;
    cancel_arrives(case, &forwarded)?;
    let _ = case.final_of(&forwarded);
    Ok(())
}

fn cancels_as_it_invited(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (forwarded, _) = cancelled(case)?;
    let cancel = cancel_arrives(case, &forwarded)?;
    let _ = case.final_of(&forwarded);
    let invite = &forwarded.arrived;
    ensure!(
        cancel.uri == invite.uri,
        "the CANCEL is for {}, and the INVITE was for {}",
        cancel.uri,
        invite.uri
    );
    for name in [Name::CallId, Name::From, Name::To] {
        let [own, of_invite] = [&cancel, invite].map(|request| request.headers.get(&name));
        ensure!(own == of_invite, "{name} of the CANCEL is {own:?}, and of the INVITE {of_invite:?}");
    }
    let number = |request: &Request| request.headers.cseq().ok().flatten().map(|CSeq { number, .. }| number);
    ensure!(number(&cancel) == number(invite), "the CSeq number of the CANCEL is not that of the INVITE");
    let [own, of_invite] = [&cancel, invite].map(|request| vias(request).map(|mut vias| vias.remove(0)));
    let (own, of_invite) = (own?, of_invite?);
    ensure!(own.branch() == of_invite.branch(), "the branch of the CANCEL is not that of the INVITE");
    Ok(())
}

fn forwards_request_terminated(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (forwarded, _) = cancelled(case)?;
    cancel_arrives(case, &forwarded)?;
    let response = case.final_of(&forwarded)?;
    ensure!(
        response.status.code() == 487,
        "an INVITE that was cancelled was answered {}",
        line_of(&response)
    );
    Ok(())
}

fn keeps_non_invites_quiet(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = asked(case, Method::Options)?;
    let until = case.now() + Duration::from_secs(1);
    let mut early = None;
    while let Some(response) = case.response(FIRST, &forwarded.sent, until.since(case.now()))? {
        // Over a reliable transport a 100 may be sent at any time.
        if response.status.code() != 100 || case.is_over_datagrams() {
            early = Some(response);
            break;
        }
    }
    case.answer(&forwarded, 200)?;
    let _ = case.final_of(&forwarded);
    ensure!(early.is_none(), "an OPTIONS got {} within 1 s", line_or_silence(early.as_ref()));
    Ok(())
}

fn repeats_requests(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = asked(case, Method::Options)?;
    let again = case.arriving(SECOND, &Method::Options, Duration::from_millis(1200))?;
    case.answer(&forwarded, 200)?;
    let _ = case.final_of(&forwarded);
    ensure!(again.is_some(), "an OPTIONS that its recipient does not answer was not sent again within 1.2 s");
    Ok(())
}

fn passes_the_ack(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let mut call = case.call()?;
    end_call(case, &mut call)
}

fn records_a_loose_route(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    finish(case, &forwarded)?;
    let routes = forwarded.arrived.headers.addresses(&Name::RecordRoute);
    let routes =
        routes.map_err(|error| PurposeEnd::Fail(format!("Record-Route breaks the grammar: {error}")))?;
    require!(!routes.is_empty(), "the INVITE arrived without Record-Route");
    let is_loose = |route: &NameAddr| route.uri.as_sip().is_some_and(SipUri::is_loose);
    ensure!(
        routes.iter().all(is_loose),
        "Record-Route is {:?}",
        forwarded.arrived.headers.get(&Name::RecordRoute)
    );
    Ok(())
}

/// A call, and the BYE of the caller as it arrives.
fn hung_up(case: &mut TestCase<'_>) -> Result<(Request, Request), PurposeEnd> {
    case.register(SECOND)?;
    let mut call = case.call()?;
    case.is_over(&call.caller);
    let bye = case.within(&mut call.caller, Method::Bye)?;
    let forwarded = case.forward(&bye, SECOND)?;
    case.answer(&forwarded, 200)?;
    let response = case.final_of(&forwarded)?;
    ensure!(response.status.is_success(), "the 200 of a BYE came back as {}", line_of(&response));
    Ok((bye, forwarded.arrived))
}

fn passes_a_bye(case: &mut TestCase<'_>) -> PurposeOutcome {
    hung_up(case).map(drop)
}

fn removes_its_route(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (sent, arrived) = hung_up(case)?;
    require!(sent.headers.get(&Name::Route).is_some(), "the call has no route set");
    ensure!(
        arrived.headers.get(&Name::Route).is_none(),
        "a BYE whose only routes were the proxy's arrived with Route: {:?}",
        arrived.headers.get(&Name::Route)
    );
    ensure!(sent.uri.is_equivalent(&arrived.uri), "the Request-URI {} arrived as {}", sent.uri, arrived.uri);
    Ok(())
}

fn passes_a_bye_back(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let mut call = case.call()?;
    case.is_over(&call.caller);
    let bye = case.within(&mut call.callee, Method::Bye)?;
    let forwarded = case.forward_of(SECOND, &bye, FIRST)?;
    case.answer(&forwarded, 200)?;
    let response = case.response(SECOND, &forwarded.sent, case.patience())?;
    ensure!(
        response.is_some_and(|response| response.status.is_success()),
        "the 200 of a BYE did not come back"
    );
    Ok(())
}

fn passes_a_reinvite(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let mut call = case.call()?;
    let mut again = case.within(&mut call.caller, Method::Invite)?;
    case.describe(FIRST, &mut again)?;
    let forwarded = case.forward(&again, SECOND)?;
    case.answer(&forwarded, 200)?;
    let response = case.final_of(&forwarded)?;
    case.acknowledge(&mut call.caller)?;
    let ack = case.arriving(SECOND, &Method::Ack, case.patience())?;
    ensure!(
        response.status.is_success(),
        "the 200 of an INVITE within a call came back as {}",
        line_of(&response)
    );
    ensure!(ack.is_some(), "the ACK of an INVITE within a call did not arrive");
    end_call(case, &mut call)
}

/// A call, and an OPTIONS within it with a Route to the third user agent below the proxy's, as it arrives there.
fn routed(case: &mut TestCase<'_>, is_loose: bool) -> Result<(Request, Request, SipUri), PurposeEnd> {
    case.register(SECOND)?;
    let mut call = case.call()?;
    require!(!call.caller.routes.is_empty(), "the call has no route set");
    let third = case.contact(THIRD)?;
    let hop = if is_loose { third.clone().with_parameter("lr", None) } else { third.clone() };
    let mut dialog = call.caller.clone();
    dialog.routes.push(NameAddr::new(Uri::Sip(hop)));
    let request = case.within(&mut dialog, Method::Options)?;
    call.caller.number = dialog.number;
    let forwarded = case.forward(&request, THIRD)?;
    case.answer(&forwarded, 200)?;
    let _ = case.final_of(&forwarded);
    end_call(case, &mut call)?;
    Ok((request, forwarded.arrived, third))
}

fn follows_the_route(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (sent, arrived, third) = routed(case, true)?;
    ensure!(sent.uri.is_equivalent(&arrived.uri), "the Request-URI {} arrived as {}", sent.uri, arrived.uri);
    let routes = arrived.headers.addresses(&Name::Route).unwrap_or_default();
    let is_third = |route: &NameAddr| {
        route
            .uri
            .as_sip()
            .is_some_and(|uri| (&uri.host, uri.port, &uri.user) == (&third.host, third.port, &third.user))
    };
    ensure!(routes.first().is_some_and(is_third), "Route arrived as {:?}", arrived.headers.get(&Name::Route));
    Ok(())
}

fn serves_strict_routers(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (sent, arrived, third) = routed(case, false)?;
    ensure!(
        arrived.uri.is_equivalent(&Uri::Sip(third.clone())),
        "the Request-URI for the strict router {third} is {}",
        arrived.uri
    );
    let routes = arrived.headers.addresses(&Name::Route).unwrap_or_default();
    let is_last = routes.last().is_some_and(|route| route.uri.is_equivalent(&sent.uri));
    ensure!(
        is_last,
        "the Request-URI {} is not the last Route: {:?}",
        sent.uri,
        arrived.headers.get(&Name::Route)
    );
    Ok(())
}

fn keeps_record_routes(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let mut request = invite(case)?;
    request.headers.push(Name::RecordRoute, "<sip:before.example.invalid;lr;netrig=kept>");
    let forwarded = case.forward(&request, SECOND)?;
    finish(case, &forwarded)?;
    let routes = forwarded.arrived.headers.addresses(&Name::RecordRoute).unwrap_or_default();
    let kept = |route: &NameAddr| {
        route.uri.as_sip().is_some_and(|uri| uri.parameters.value("netrig") == Some("kept"))
    };
    ensure!(
        routes.len() >= 2 && routes.last().is_some_and(kept) && !kept(&routes[0]),
        "with a Record-Route before, the INVITE arrived with {:?}",
        forwarded.arrived.headers.all(&Name::RecordRoute).collect::<Vec<_>>()
    );
    Ok(())
}

/// The contacts of the second user at two user agents, and an INVITE as it arrives at both.
fn forked(case: &mut TestCase<'_>) -> Result<[Forwarded; 2], PurposeEnd> {
    let contacts = [case.contact(SECOND)?, case.contact(THIRD)?];
    let contacts = contacts.map(|uri| NameAddr::new(Uri::Sip(uri)).to_string());
    case.register_contacts(SECOND, &contacts)?;
    let request = invite(case)?;
    let first = case.forward(&request, SECOND)?;
    let patience = case.target().patience;
    let Some((arrived, path)) = case.arriving(THIRD, &Method::Invite, patience)? else {
        finish(case, &first)?;
        return Err(PurposeEnd::Fail(
            "an INVITE for a user with two contacts arrived at one of them only".to_owned(),
        ));
    };
    let second = Forwarded { sent: first.sent.clone(), arrived, path, at: THIRD };
    case.is_to_answer(&second);
    Ok([first, second])
}

fn forks(case: &mut TestCase<'_>) -> PurposeOutcome {
    let [first, second] = forked(case)?;
    case.answer(&first, 486)?;
    case.answer(&second, 486)?;
    let _ = case.final_of(&first);
    let branch = |forwarded: &Forwarded| vias(&forwarded.arrived).map(|mut vias| vias.remove(0));
    let (one, two) = (branch(&first)?, branch(&second)?);
    ensure!(one.branch() != two.branch(), "both branches have the branch {:?}", one.branch());
    Ok(())
}

fn cancels_the_others(case: &mut TestCase<'_>) -> PurposeOutcome {
    let [first, second] = forked(case)?;
    case.answer(&second, 180)?;
    case.answer(&first, 200)?;
    let response = case.final_of(&first)?;
    acknowledge(case, &first, &response)?;
    ensure!(response.status.is_success(), "the 200 of one branch came back as {}", line_of(&response));
    cancel_arrives(case, &second).map(drop)
}

fn waits_for_all(case: &mut TestCase<'_>) -> PurposeOutcome {
    let [first, second] = forked(case)?;
    case.answer(&second, 180)?;
    case.answer(&first, 486)?;
    comes_back(case, &first, 180)?;
    let early = case.response(FIRST, &first.sent, SOON)?;
    case.answer(&second, 486)?;
    if let Some(early) = early.filter(|early| early.status.is_final()) {
        case.acknowledge_failure(FIRST, &first.sent, &early)?;
        return Err(PurposeEnd::Fail(format!("{} came back while another branch rang", line_of(&early))));
    }
    case.final_of(&first).map(drop)
}

/// The response to an INVITE whose branches end with these statuses.
fn best_of(case: &mut TestCase<'_>, codes: [u16; 2]) -> Result<Response, PurposeEnd> {
    let forwarded = forked(case)?;
    for (forwarded, code) in forwarded.iter().zip(codes) {
        case.answer(forwarded, code)?;
    }
    case.final_of(&forwarded[0])
}

fn prefers_global_failures(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = best_of(case, [404, 603])?;
    ensure!(response.status.code() == 603, "of 404 and 603 came back {}", line_of(&response));
    Ok(())
}

fn prefers_the_lowest_class(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = best_of(case, [500, 486])?;
    ensure!(response.status.code() == 486, "of 500 and 486 came back {}", line_of(&response));
    Ok(())
}

fn forwards_both(case: &mut TestCase<'_>) -> PurposeOutcome {
    let [first, second] = forked(case)?;
    case.answer(&first, 200)?;
    let one = case.final_of(&first)?;
    acknowledge(case, &first, &one)?;
    // Before the CANCEL, or in spite of it.
    case.answer(&second, 200)?;
    let two = case.response(FIRST, &first.sent, case.target().patience)?;
    let Some(two) = two else {
        return Err(PurposeEnd::Fail("the 200 of a second branch did not come back".to_owned()));
    };
    acknowledge(case, &first, &two)?;
    let tag =
        |response: &Response| response.headers.to().ok().flatten().and_then(|to| to.tag().map(str::to_owned));
    ensure!(
        tag(&one) != tag(&two),
        "the 200 of the first branch came back twice, and not that of the second"
    );
    Ok(())
}

fn cancels_all(case: &mut TestCase<'_>) -> PurposeOutcome {
    let [first, second] = forked(case)?;
    case.answer(&first, 180)?;
    case.answer(&second, 180)?;
    comes_back(case, &first, 180)?;
    let cancel = case.cancel_of(&first.sent);
    case.send(&cancel)?;
    cancel_arrives(case, &first)?;
    cancel_arrives(case, &second)?;
    let _ = case.final_of(&first);
    Ok(())
}

fn forwards_all_ringing(case: &mut TestCase<'_>) -> PurposeOutcome {
    let [first, second] = forked(case)?;
    let mut tags = Vec::new();
    for forwarded in [&first, &second] {
        case.answer(forwarded, 180)?;
        let came = comes_back(case, &first, 180);
        tags.push(
            came.map(|came| came.headers.to().ok().flatten().and_then(|to| to.tag().map(str::to_owned))),
        );
    }
    case.answer(&first, 486)?;
    case.answer(&second, 486)?;
    let _ = case.final_of(&first);
    let tags: Vec<_> = tags.into_iter().collect::<Result<_, _>>()?;
    ensure!(tags[0] != tags[1], "the 180s of two branches came back with one tag");
    Ok(())
}

/// An INVITE without credentials, and its final response, which is acknowledged.
fn unauthorized(case: &mut TestCase<'_>) -> Result<(Request, Response), PurposeEnd> {
    case.register(SECOND)?;
    let request = invite(case)?;
    let response = case.ask_plainly(FIRST, &request)?.response;
    ensure!(
        response.status.code() == 407,
        "an INVITE without credentials was answered {}",
        line_of(&response)
    );
    Ok((request, response))
}

fn challenges(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (_, response) = unauthorized(case)?;
    let challenge = response
        .headers
        .all(&Name::ProxyAuthenticate)
        .find_map(netrig_sip::digest::DigestChallenge::of_value);
    ensure!(challenge.is_some(), "the 407 has no digest challenge in Proxy-Authenticate");
    Ok(())
}

fn refuses_wrong_responses(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (request, response) = unauthorized(case)?;
    let Some(mut next) = case.with_credentials(FIRST, &request, &response)? else { return Ok(()) };
    let credentials = next.headers.get(&Name::ProxyAuthorization).unwrap_or_default().to_owned();
    next.headers.set(Name::ProxyAuthorization, with_wrong_response(&credentials));
    let response = case.ask_plainly(FIRST, &next)?.response;
    let code = response.status.code();
    ensure!(
        (400..500).contains(&code),
        "an INVITE with a wrong response was answered {}",
        line_of(&response)
    );
    has_not_arrived(case, &Method::Invite)
}

fn offers_qop(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (_, response) = unauthorized(case)?;
    let challenge = response
        .headers
        .all(&Name::ProxyAuthenticate)
        .find_map(netrig_sip::digest::DigestChallenge::of_value);
    ensure!(
        challenge.is_some_and(|challenge| !challenge.qualities.is_empty()),
        "the challenge offers no qop"
    );
    Ok(())
}

fn takes_cancel_without_credentials(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (forwarded, cancel) = cancelled(case)?;
    let response = case.response(FIRST, &cancel, SOON)?;
    cancel_arrives(case, &forwarded)?;
    let _ = case.final_of(&forwarded);
    let code = response.as_ref().map(|response| response.status.code());
    ensure!(!matches!(code, Some(401 | 407)), "a CANCEL was answered {code:?}");
    Ok(())
}

fn keeps_credentials_of_others(case: &mut TestCase<'_>) -> PurposeOutcome {
    let credentials = "Digest username=\"netrig\", realm=\"elsewhere.example.invalid\", nonce=\"n\", uri=\"sip:x\", \
                       response=\"0123456789abcdef0123456789abcdef\"";
    case.register(SECOND)?;
    let mut request = invite(case)?;
    request.headers.push(Name::Authorization, credentials);
    request.headers.push(Name::ProxyAuthorization, credentials);
    let forwarded = case.forward(&request, SECOND)?;
    finish(case, &forwarded)?;
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
    ensure!(
        kept,
        "a 401 came back as {} with WWW-Authenticate {:?}",
        line_of(&came),
        came.headers.get(&Name::WwwAuthenticate)
    );
    Ok(())
}
