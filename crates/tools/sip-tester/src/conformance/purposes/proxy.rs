//! Handling of requests and responses by a proxy (RFC 3261 section 16).

use netrig_core::Duration;
use netrig_sip::header::{MAGIC_COOKIE, NameAddr};
use netrig_sip::{Headers, Method, Name, Request, Response, Uri};

use super::super::case::TestCase;
use super::super::dialog::TestDialog;
use super::super::messages::{Forwarded, ensure_code, ensure_status, line_of, status};
use super::super::outcome::{PurposeOutcome, ensure, ensured, failure, require};
use super::super::purpose::purposes;
use super::super::target::{FIRST, SECOND, THIRD};
use super::general::SubjectRequest;

/// How long to wait for a message of a server on the same network.
pub(super) const SOON: Duration = Duration::from_millis(400);

purposes! {
    Proxy "PRX";
    "forwarding" {
        "FWD-01" Must "RFC 3261 section 16.6" "A request for a registered user goes to the user's contact." => |case| inspected(case, |_| {}).map(drop), in basic;
        "FWD-02" Must "RFC 3261 section 16.6" "The Request-URI of the forwarded request is the contact." => sets_the_request_uri, in basic;
        "FWD-03" Must "RFC 3261 section 16.6" "Max-Forwards is one less." => lowers_max_forwards, in basic;
        "FWD-04" Must "RFC 3261 section 16.6" "The proxy puts a Via of its own on top, with a branch of RFC 3261." => adds_a_via, in basic;
        "FWD-05" Must "RFC 3261 section 16.6" "The Via values below stay unchanged." => keeps_vias;
        "FWD-06" Must "RFC 3581 section 4" "The Via of the sender gets received and rport." => fills_in_the_via_of_the_sender, over Datagrams;
        "FWD-07" Must "RFC 3261 section 16.6" "From, To, Call-ID and CSeq stay unchanged." => keeps_the_dialog, in basic;
        "FWD-08" Must "RFC 3261 section 16.6" "Header fields that the proxy does not know stay unchanged." => keeps_unknown_fields;
        "FWD-09" Must "RFC 3261 section 16.6" "The body stays unchanged." => keeps_the_body, in basic;
        "FWD-10" Must "RFC 3261 section 16.6" "A request without Max-Forwards gets one." => adds_max_forwards;
        "FWD-11" Must "RFC 3261 section 16.3" "A request with Max-Forwards: 0 is refused with 483, and not forwarded." => refuses_too_many_hops, in basic;
        "FWD-12" Must "RFC 3261 section 16.1" "A request with an unknown method is forwarded." => forwards_unknown_methods;
        "FWD-13" Must "RFC 3261 section 16.3" "A request that requires an unknown extension from the proxy is refused with 420, which names it in Unsupported." => refuses_proxy_require;
        "FWD-14" Must "RFC 3261 section 20.32" "The proxy ignores what a request requires from its recipient." => ignores_require;
        "FWD-15" Must "RFC 3261 section 16.5" "A request for a user without a registration is refused." => refuses_unknown_users, in basic;
        "FWD-16" Should "RFC 3261 section 16.3" "A Request-URI with an unknown scheme is refused with 416." => refuses_unknown_schemes;
        "FWD-17" Must "RFC 3261 section 8.1.1.7" "Each forwarded request has its own branch." => draws_branches;
        "FWD-18" Must "RFC 3261 section 7" "A forwarded request follows the grammar and the rules of its header fields." => writes_right_requests;
        "FWD-19" Must "RFC 3261 section 16.6" "The contact of the sender stays unchanged." => keeps_the_contact;
    }
    "responses" {
        "RSP-01" Must "RFC 3261 section 16.7" "A provisional response other than 100 is forwarded." => forwards_ringing, in basic;
        "RSP-02" Must "RFC 3261 section 16.7" "A 100 of the recipient is not forwarded." => keeps_trying_to_itself, needs [Transactions];
        "RSP-03" Must "RFC 3261 section 16.7" "A 200 is forwarded." => forwards_success, in basic;
        "RSP-04" Must "RFC 3261 section 16.7" "A failure is forwarded." => |case| status_comes_back(case, 486), in basic;
        "RSP-05" Must "RFC 3261 section 16.7" "The proxy removes its Via from a response." => removes_its_via, in basic;
        "RSP-06" Must "RFC 3261 section 16.7" "To, Contact and unknown header fields of a response stay unchanged." => keeps_fields_of_responses;
        "RSP-07" Must "RFC 3261 section 16.7" "The body of a response stays unchanged." => keeps_the_answer, in basic;
        "RSP-08" Must "RFC 3261 section 16.7" "An unknown status is forwarded unchanged (434)." => |case| status_comes_back(case, 434);
        "RSP-09" Must "RFC 3261 section 16.7" "A failure of class 6 is forwarded." => |case| status_comes_back(case, 603);
        "RSP-10" Should "RFC 3261 section 16.7" "A 503 is not forwarded as such." => replaces_service_unavailable;
        "RSP-11" Must "RFC 3261 section 16.7" "A retransmitted 200 to an INVITE is forwarded again." => forwards_success_again, over Datagrams;
        "RSP-12" Must "RFC 3261 section 18.1.2" "A response whose topmost Via is not the proxy's is discarded." => discards_foreign_responses, over Datagrams;
        "RSP-13" Must "RFC 3261 section 16.7" "A redirection is forwarded or followed." => forwards_redirections;
    }
}

/// An OPTIONS for a user without a registration, which the proxy answers itself.
pub(super) const SUBJECT: SubjectRequest = SubjectRequest {
    make: for_unknown_user,
    takes: |response| [404, 410, 480, 604].contains(&response.status.code()),
};

fn for_unknown_user(case: &mut TestCase<'_>) -> PurposeOutcome<Request> {
    let name = format!("unregistered{}", case.token());
    case.request(Method::Options, Uri::Sip(case.uri_of_user(&name)))
}

/// Registers the second user, and sends a request of the first user to the second, changed by `change`. Returns the
/// request as it arrives.
pub(super) fn changed(
    case: &mut TestCase<'_>,
    method: Method,
    change: impl FnOnce(&mut Request),
) -> PurposeOutcome<Forwarded> {
    case.register(SECOND)?;
    let mut request = case.request_to(SECOND, method)?;
    change(&mut request);
    case.forward(&request, SECOND)
}

/// [`changed`] without a change.
pub(super) fn asked(case: &mut TestCase<'_>, method: Method) -> PurposeOutcome<Forwarded> {
    changed(case, method, |_| {})
}

/// [`asked`] for an INVITE.
pub(in crate::conformance) fn invited(case: &mut TestCase<'_>) -> PurposeOutcome<Forwarded> {
    asked(case, Method::Invite)
}

pub(super) fn invite(case: &mut TestCase<'_>) -> PurposeOutcome<Request> {
    case.request_to(SECOND, Method::Invite)
}

/// [`changed`] for an INVITE that is only inspected: it is answered with 486.
pub(super) fn inspected(
    case: &mut TestCase<'_>,
    change: impl FnOnce(&mut Request),
) -> PurposeOutcome<Forwarded> {
    let forwarded = changed(case, Method::Invite, change)?;
    case.finish(&forwarded, 486)?;
    Ok(forwarded)
}

fn sets_the_request_uri(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = inspected(case, |_| {})?;
    let contact = Uri::Sip(case.contact(SECOND)?);
    let uri = &forwarded.arrived.uri;
    ensured!(uri.is_equivalent(&contact), "the Request-URI is {uri}, but the contact is {contact}")
}

fn lowers_max_forwards(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = inspected(case, |request| request.headers.set(Name::MaxForwards, 33))?;
    let left = forwarded.arrived.headers.number(&Name::MaxForwards).ok().flatten();
    ensured!(
        left == Some(32),
        "Max-Forwards: 33 became {:?}",
        forwarded.arrived.headers.get(&Name::MaxForwards)
    )
}

fn adds_a_via(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = inspected(case, |_| {})?;
    let vias = vias(&forwarded.arrived)?;
    ensure!(vias.len() >= 2, "the request arrived with {} Via values", vias.len());
    let branch = vias[0].branch().unwrap_or_default();
    ensured!(branch.starts_with(MAGIC_COOKIE), "the branch of the proxy's Via is \"{branch}\"")
}

pub(super) fn vias(request: &Request) -> PurposeOutcome<Vec<netrig_sip::header::Via>> {
    let vias = request.headers.vias();
    vias.map_err(|error| failure!("a forwarded Via breaks the grammar: {error}"))
}

/// The branch of the topmost Via.
pub(super) fn top_branch(request: &Request) -> PurposeOutcome<Option<String>> {
    Ok(vias(request)?.first().and_then(|via| via.branch().map(str::to_owned)))
}

fn keeps_vias(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = inspected(case, |request| {
        let below = "SIP/2.0/UDP below.example.invalid:5066;branch=z9hG4bKbelow;netrig=kept";
        request.headers.push(Name::Via, below);
    })?;
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
    ensured!(
        own[own.len() - 1].parameters.value("netrig") == Some("kept"),
        "a parameter of a Via was removed"
    )
}

fn fills_in_the_via_of_the_sender(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = inspected(case, |_| {})?;
    let local = case.local(FIRST)?;
    let vias = vias(&forwarded.arrived)?;
    let Some(own) = vias.last() else { return Err(failure!("the request has no Via")) };
    ensured!(
        own.rport() == Some(Some(local.port())) && own.received() == Some(local.ip()),
        "the Via of the sender arrived as {own}, but the request came from {local}"
    )
}

fn keeps_the_dialog(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = inspected(case, |_| {})?;
    for name in [Name::From, Name::To] {
        let (same, _) = compared([&forwarded.sent.headers, &forwarded.arrived.headers], &name);

        ensure!(same, "{name} arrived as {:?}", forwarded.arrived.headers.get(&name));
    }
    for name in [Name::CallId, Name::CSeq] {
        let [sent, came] = [&forwarded.sent, &forwarded.arrived].map(|request| request.headers.get(&name));
        ensure!(sent == came, "{name} arrived as {came:?}");
    }
    Ok(())
}

/// Whether an address header field arrived with the URI and the tag that were sent. Also returns the received address.
fn compared(headers: [&Headers; 2], name: &Name) -> (bool, Option<NameAddr>) {
    let [sent, came] = headers.map(|headers| headers.addresses(name).ok().and_then(|mut found| found.pop()));
    let same = matches!((&sent, &came), (Some(sent), Some(came)) if sent.uri.is_equivalent(&came.uri) && sent.tag() == came.tag());
    (same, came)
}

fn keeps_unknown_fields(case: &mut TestCase<'_>) -> PurposeOutcome {
    let name = Name::new("X-Netrig-Kept");
    let forwarded = inspected(case, |request| {
        for value in ["one", "two;x=\"y, z\""] {
            request.headers.push(name.clone(), value);
        }
    })?;
    let came: Vec<&str> = forwarded.arrived.headers.all(&name).collect();
    ensured!(came == ["one", "two;x=\"y, z\""], "two unknown header fields arrived as {came:?}")
}

fn keeps_the_body(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = inspected(case, |_| {})?;
    ensure!(forwarded.sent.body == forwarded.arrived.body, "the body arrived changed");
    let [sent, came] =
        [&forwarded.sent, &forwarded.arrived].map(|request| request.headers.get(&Name::ContentType));
    ensured!(sent == came, "Content-Type arrived as {came:?}")
}

fn adds_max_forwards(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = inspected(case, |request| request.headers.remove(&Name::MaxForwards))?;
    let left = forwarded.arrived.headers.number(&Name::MaxForwards).ok().flatten();
    ensured!(left.is_some(), "a request without Max-Forwards arrived without one")
}

fn refuses_too_many_hops(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let mut request = invite(case)?;
    request.headers.set(Name::MaxForwards, 0);
    let response = case.ask(&request)?.response;
    ensure_code(&response, 483, "Max-Forwards: 0")?;
    has_not_arrived(case, &Method::Invite)
}

pub(super) fn has_not_arrived(case: &mut TestCase<'_>, method: &Method) -> PurposeOutcome {
    let arrived = case.arriving(SECOND, method, SOON)?;
    ensured!(arrived.is_none(), "the {method} was forwarded nevertheless")
}

fn forwards_unknown_methods(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = asked(case, Method::Other("NETRIG".into()))?;
    case.succeed(&forwarded, "a 200 to an unknown method").map(drop)
}

fn refuses_proxy_require(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let mut request = invite(case)?;
    request.headers.set(Name::ProxyRequire, "netrig-unknown");
    case.local(SECOND)?;
    case.send(&request)?;
    let mut final_response = None;
    while final_response.is_none() {
        // If the request was forwarded, its recipient answers it, so that the transaction ends.
        if let Some((arrived, path)) = case.arriving(SECOND, &Method::Invite, Duration::from_millis(20))? {
            let forwarded = Forwarded { sent: request.clone(), arrived, path, at: SECOND };
            case.finish(&forwarded, 486)?;
            return Err(failure!("a request with an unknown Proxy-Require was forwarded"));
        }
        match case.response(FIRST, &request, SOON)? {
            Some(response) if response.status.is_final() => {
                case.final_response(FIRST, &request, &response)?;
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
    ensure_code(&response, 420, "an unknown Proxy-Require")?;
    let named = response.headers.has_token(&Name::Unsupported, "netrig-unknown");
    ensured!(named, "the 420 does not name the extension in Unsupported")
}

fn ignores_require(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = inspected(case, |request| request.headers.set(Name::Require, "netrig-unknown"))?;
    let kept = forwarded.arrived.headers.has_token(&Name::Require, "netrig-unknown");
    ensured!(kept, "Require arrived as {:?}", forwarded.arrived.headers.get(&Name::Require))
}

pub(super) fn refuses_unknown_users(case: &mut TestCase<'_>) -> PurposeOutcome {
    let name = format!("unregistered{}", case.token());
    let request = case.invite_request(Uri::Sip(case.uri_of_user(&name)))?;
    let response = case.ask(&request)?.response;
    ensure_status(&response, 400..700, "an INVITE for a user without a registration")
}

fn refuses_unknown_schemes(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = Uri::Other { scheme: "netrig".to_owned(), rest: "user".to_owned() };
    let mut request = case.request(Method::Options, uri)?;
    request.headers.set(Name::To, NameAddr::new(Uri::Sip(case.address_of_record(SECOND))));
    let response = case.ask(&request)?.response;
    ensure_code(&response, 416, "a Request-URI of an unknown scheme")
}

fn draws_branches(case: &mut TestCase<'_>) -> PurposeOutcome {
    let mut branches = Vec::new();
    case.register(SECOND)?;
    for _ in 0..3 {
        let request = invite(case)?;
        let forwarded = case.forward(&request, SECOND)?;
        case.finish(&forwarded, 486)?;
        branches.push(top_branch(&forwarded.arrived)?);
    }
    let count = branches.len();
    branches.sort();
    branches.dedup();
    ensured!(branches.len() == count, "two of three INVITEs were forwarded with the same branch")
}

fn writes_right_requests(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = inspected(case, |_| {})?;
    let violations = netrig_sip::Message::Request(forwarded.arrived).violations();
    let violations: Vec<String> = violations.iter().map(ToString::to_string).collect();
    ensured!(violations.is_empty(), "the forwarded request breaks rules: {}", violations.join("; "))
}

fn keeps_the_contact(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = inspected(case, |_| {})?;
    let own = Uri::Sip(case.contact(FIRST)?);
    let came = forwarded.arrived.headers.addresses(&Name::Contact).unwrap_or_default();
    let same = came.len() == 1 && came[0].uri.is_equivalent(&own);
    ensured!(same, "Contact arrived as {:?}", forwarded.arrived.headers.get(&Name::Contact))
}

/// The next response with this status code that the caller receives.
pub(super) fn comes_back(
    case: &mut TestCase<'_>,
    forwarded: &Forwarded,
    code: u16,
) -> PurposeOutcome<Response> {
    let end = case.now() + case.target().patience;
    loop {
        let left = end.since(case.now());
        match case.response(FIRST, &forwarded.sent, left)? {
            Some(response) if response.status.code() == code => return Ok(response),
            Some(response) if response.status.is_final() => {
                case.final_response(FIRST, &forwarded.sent, &response)?;
                return Err(failure!("a {code} was received as {}", line_of(&response)));
            }
            Some(_) => {}
            None => {
                return Err(failure!("a {code} was not received within {}", case.target().patience));
            }
        }
    }
}

fn forwards_ringing(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    case.answer(&forwarded, 180)?;
    comes_back(case, &forwarded, 180)?;
    case.finish(&forwarded, 486)
}

fn keeps_trying_to_itself(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    let mut trying = case.response_of(&forwarded, 100)?;
    trying.reason = "Netrig Is Trying".to_owned();
    case.answer_with(&forwarded, &trying)?;
    case.answer(&forwarded, 180)?;
    comes_back(case, &forwarded, 180)?;
    case.finish(&forwarded, 486)?;
    let ours = case.evidence().iter().filter(|message| !message.is_sent);
    let came =
        ours.filter(|message| message.bytes.windows(16).any(|part| part == b"Netrig Is Trying")).count();
    ensured!(came == 0, "a 100 of the recipient was forwarded")
}

fn forwards_success(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let mut call = case.call()?;
    ensure!(call.response.status.code() == 200, "a 200 was received as {}", line_of(&call.response));
    end_call(case, &mut call)
}

/// Ends a call: the callee answers the BYE if it arrives.
pub(super) fn end_call(case: &mut TestCase<'_>, call: &mut super::super::case::TestCall) -> PurposeOutcome {
    case.is_over(&call.caller);
    let bye = case.within(&mut call.caller, Method::Bye)?;
    case.send(&bye)?;
    if let Some((arrived, path)) = case.arriving(SECOND, &Method::Bye, SOON)? {
        let forwarded = Forwarded { sent: bye, arrived, path, at: SECOND };
        case.answer(&forwarded, 200)?;
    }
    Ok(())
}

fn status_comes_back(case: &mut TestCase<'_>, code: u16) -> PurposeOutcome {
    let forwarded = invited(case)?;
    case.answer(&forwarded, code)?;
    let response = case.final_of(&forwarded)?;
    ensured!(response.status == status(code), "a {code} was received as {}", line_of(&response))
}

fn removes_its_via(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    case.answer(&forwarded, 486)?;
    let response = case.final_of(&forwarded)?;
    let (sent, came) =
        (vias(&forwarded.sent)?.len(), response.headers.vias().map(|vias| vias.len()).unwrap_or(0));
    ensured!(came == sent, "a request with {sent} Via values got a response with {came}")
}

fn keeps_fields_of_responses(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    let name = Name::new("X-Netrig-Kept");
    let mut response = case.response_of(&forwarded, 180)?;
    response.headers.push(name.clone(), "one");
    response.reason = "Ringing And Ringing".to_owned();
    case.answer_with(&forwarded, &response)?;
    let came = comes_back(case, &forwarded, 180)?;
    case.finish(&forwarded, 486)?;
    ensure!(came.headers.get(&name) == Some("one"), "an unknown header field of a response was removed");
    for name in [Name::To, Name::Contact] {
        let (same, came) = compared([&response.headers, &came.headers], &name);

        ensure!(same, "{name} of a response was received as {came:?}");
    }
    Ok(())
}

fn keeps_the_answer(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    let response = case.answer(&forwarded, 200)?;
    let came = case.final_of(&forwarded)?;
    acknowledge(case, &forwarded, &came)?;
    ensured!(came.body == response.body, "the body of a 200 was received changed")
}

/// Acknowledges a 200. The case ends the call at its end.
pub(super) fn acknowledge(
    case: &mut TestCase<'_>,
    forwarded: &Forwarded,
    response: &Response,
) -> PurposeOutcome {
    let mut dialog = TestDialog::of_caller(FIRST, &forwarded.sent, response)?;
    case.acknowledge(&mut dialog)?;
    case.open_dialog(&dialog);
    Ok(())
}

fn replaces_service_unavailable(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    case.answer(&forwarded, 503)?;
    let response = case.final_of(&forwarded)?;
    ensured!(response.status.code() != 503, "a 503 was forwarded unchanged")
}

fn forwards_success_again(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    let response = case.answer(&forwarded, 200)?;
    let came = case.final_of(&forwarded)?;
    case.answer_with(&forwarded, &response)?;
    let again = case.response(FIRST, &forwarded.sent, case.patience())?;
    acknowledge(case, &forwarded, &came)?;
    ensured!(again.is_some(), "a retransmitted 200 of the callee was not received")
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
    case.finish(&forwarded, 486)?;
    let is_foreign = |message: &&super::super::messages::EvidenceMessage| {
        !message.is_sent && message.bytes.starts_with(b"SIP/2.0 183")
    };
    let came = case.evidence().iter().filter(is_foreign).count();
    ensured!(came == 0, "a response whose topmost Via names another host was forwarded")
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
            case.final_response(FIRST, &forwarded.sent, &response)?;
            let has_contact = response.headers.get(&Name::Contact).is_some();
            ensure!(response.status.code() == 302, "a 302 was received as {}", line_of(&response));
            ensure!(has_contact, "a 302 was received without its Contact");
            return Ok(());
        }
        if let Some((arrived, path)) = case.arriving(THIRD, &Method::Invite, Duration::from_millis(20))? {
            let followed = Forwarded { sent: forwarded.sent.clone(), arrived, path, at: THIRD };
            return case.finish(&followed, 486);
        }
    }
    Err(failure!("a 302 was neither forwarded nor followed"))
}
