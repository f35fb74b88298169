//! Requests within a dialog through a proxy: Record-Route and Route (RFC 3261 sections 16.4, 16.6 and 16.12).

use netrig_sip::header::NameAddr;
use netrig_sip::{Method, Name, Request, SipUri, Uri};

use super::super::case::TestCase;
use super::super::outcome::{PurposeOutcome, ensure, ensured, failure, require};
use super::super::purpose::purposes;
use super::super::target::{FIRST, SECOND, THIRD};
use super::proxy::{end_call, inspected};

purposes! {
    Proxy "PRX";
    "dialogs" {
        "DLG-01" Must "RFC 3261 section 13.2.2.4" "The ACK of a 200 reaches the callee." => passes_the_ack, in basic;
        "DLG-02" Must "RFC 3261 section 16.6" "The URI that the proxy puts into Record-Route has the parameter lr." => records_a_loose_route, needs [RecordRoute], in basic;
        "DLG-03" Must "RFC 3261 section 16.12" "A BYE of the caller follows the route set and reaches the callee." => |case| hung_up(case).map(drop), needs [RecordRoute], in basic;
        "DLG-04" Must "RFC 3261 section 16.4" "The proxy removes its own Route and leaves the Request-URI." => removes_its_route, needs [RecordRoute];
        "DLG-05" Must "RFC 3261 section 16.12" "A BYE of the callee follows the route set and reaches the caller." => passes_a_bye_back, needs [RecordRoute], in basic;
        "DLG-06" Must "RFC 3261 section 16.12" "An INVITE within a call follows the route set." => passes_a_reinvite, needs [RecordRoute];
        "DLG-07" Must "RFC 3261 section 16.6" "A request with another Route below the proxy's goes there, with its Request-URI unchanged." => follows_the_route, needs [RecordRoute];
        "DLG-08" Must "RFC 3261 section 16.6" "If that Route is strict, its URI becomes the Request-URI, and the old one the last Route." => serves_strict_routers, needs [RecordRoute];
        "DLG-09" Must "RFC 3261 section 16.6" "An existing Record-Route stays, below that of the proxy." => keeps_record_routes, needs [RecordRoute];
    }
}

fn passes_the_ack(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let mut call = case.call()?;
    end_call(case, &mut call)
}

fn records_a_loose_route(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = inspected(case, |_| {})?;
    let routes = forwarded.arrived.headers.addresses(&Name::RecordRoute);
    let routes = routes.map_err(|error| failure!("Record-Route breaks the grammar: {error}"))?;
    require!(!routes.is_empty(), "the INVITE arrived without Record-Route");
    let is_loose = |route: &NameAddr| route.uri.as_sip().is_some_and(SipUri::is_loose);
    ensured!(
        routes.iter().all(is_loose),
        "Record-Route is {:?}",
        forwarded.arrived.headers.get(&Name::RecordRoute)
    )
}

/// Makes a call that the caller ends by a BYE. Returns the BYE as sent and as it arrived.
fn hung_up(case: &mut TestCase<'_>) -> PurposeOutcome<(Request, Request)> {
    case.register(SECOND)?;
    let mut call = case.call()?;
    case.is_over(&call.caller);
    let bye = case.within(&mut call.caller, Method::Bye)?;
    let forwarded = case.forward(&bye, SECOND)?;
    case.succeed(&forwarded, "the 200 of a BYE")?;

    Ok((bye, forwarded.arrived))
}

fn removes_its_route(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (sent, arrived) = hung_up(case)?;
    require!(sent.headers.get(&Name::Route).is_some(), "the call has no route set");
    ensure!(
        arrived.headers.get(&Name::Route).is_none(),
        "a BYE whose only routes were the proxy's arrived with Route: {:?}",
        arrived.headers.get(&Name::Route)
    );
    ensured!(sent.uri.is_equivalent(&arrived.uri), "the Request-URI {} arrived as {}", sent.uri, arrived.uri)
}

fn passes_a_bye_back(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let mut call = case.call()?;
    case.is_over(&call.caller);
    let bye = case.within(&mut call.callee, Method::Bye)?;
    let forwarded = case.forward_of(SECOND, &bye, FIRST)?;
    case.answer(&forwarded, 200)?;
    let response = case.response(SECOND, &forwarded.sent, case.patience())?;
    ensured!(
        response.is_some_and(|response| response.status.is_success()),
        "the 200 of a BYE was not received"
    )
}

fn passes_a_reinvite(case: &mut TestCase<'_>) -> PurposeOutcome {
    case.register(SECOND)?;
    let mut call = case.call()?;
    let mut again = case.within(&mut call.caller, Method::Invite)?;
    case.describe(FIRST, &mut again)?;
    let forwarded = case.forward(&again, SECOND)?;
    let response = case.succeed(&forwarded, "the 200 of an INVITE within a call");
    case.acknowledge(&mut call.caller)?;
    let ack = case.arriving(SECOND, &Method::Ack, case.patience())?;
    response?;

    ensure!(ack.is_some(), "the ACK of an INVITE within a call did not arrive");
    end_call(case, &mut call)
}

/// Makes a call, and sends an OPTIONS within it whose last Route is the third user agent. Returns the OPTIONS as sent,
/// the OPTIONS as it arrived at the third user agent, and that user agent's URI.
fn routed(case: &mut TestCase<'_>, is_loose: bool) -> PurposeOutcome<(Request, Request, SipUri)> {
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
    case.finish(&forwarded, 200)?;
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
    ensured!(routes.first().is_some_and(is_third), "Route arrived as {:?}", arrived.headers.get(&Name::Route))
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
    ensured!(
        is_last,
        "the Request-URI {} is not the last Route: {:?}",
        sent.uri,
        arrived.headers.get(&Name::Route)
    )
}

fn keeps_record_routes(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = inspected(case, |request| {
        request.headers.push(Name::RecordRoute, "<sip:before.example.invalid;lr;netrig=kept>")
    })?;
    let routes = forwarded.arrived.headers.addresses(&Name::RecordRoute).unwrap_or_default();
    let kept = |route: &NameAddr| {
        route.uri.as_sip().is_some_and(|uri| uri.parameters.value("netrig") == Some("kept"))
    };
    ensured!(
        routes.len() >= 2 && routes.last().is_some_and(kept) && !kept(&routes[0]),
        "after a first Record-Route, the INVITE arrived with {:?}",
        forwarded.arrived.headers.all(&Name::RecordRoute).collect::<Vec<_>>()
    )
}
