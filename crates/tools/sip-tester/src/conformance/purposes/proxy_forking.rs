//! Forking: how a proxy forwards an INVITE to all contacts, and which responses it forwards (RFC 3261 sections 16.6 and 16.7).

use netrig_sip::header::NameAddr;
use netrig_sip::{Method, Response, Uri};

use super::super::case::TestCase;
use super::super::messages::{Forwarded, cancel_of, line_of, tag_of};
use super::super::outcome::{PurposeOutcome, ensure, ensured, failure};
use super::super::purpose::purposes;
use super::super::target::{FIRST, SECOND, THIRD};
use super::proxy::{SOON, acknowledge, comes_back, invite, top_branch};
use super::proxy_transactions::cancel_arrives;

purposes! {
    Proxy "PRX";
    "forking" {
        "FORK-01" Must "RFC 3261 section 16.6" "An INVITE goes to all contacts, with a branch for each." => forks, needs [Forking];
        "FORK-02" Must "RFC 3261 section 16.7" "A 200 is forwarded at once, and the other branches are cancelled." => cancels_the_others, needs [Forking];
        "FORK-03" Must "RFC 3261 section 16.7" "A failure is not forwarded while another branch has no final response." => waits_for_all, needs [Forking];
        "FORK-04" Must "RFC 3261 section 16.7" "If a failure has class 6, one of that class is forwarded." => prefers_global_failures, needs [Forking];
        "FORK-05" Should "RFC 3261 section 16.7" "Otherwise, a failure of the lowest class is forwarded." => prefers_the_lowest_class, needs [Forking];
        "FORK-06" Must "RFC 3261 section 16.7" "The 200 of a second branch is also forwarded." => forwards_both, needs [Forking];
        "FORK-07" Must "RFC 3261 section 16.10" "A CANCEL reaches all branches." => cancels_all, needs [Forking];
        "FORK-08" Must "RFC 3261 section 16.7" "Provisional responses of all branches are forwarded." => forwards_all_ringing, needs [Forking];
    }
}

/// Registers the second user at two user agents, and sends an INVITE. Returns the INVITE as it arrived at each.
fn forked(case: &mut TestCase<'_>) -> PurposeOutcome<[Forwarded; 2]> {
    let contacts = [case.contact(SECOND)?, case.contact(THIRD)?];
    let contacts = contacts.map(|uri| NameAddr::new(Uri::Sip(uri)).to_string());
    case.register_contacts(SECOND, &contacts)?;
    let request = invite(case)?;
    let first = case.forward(&request, SECOND)?;
    let patience = case.target().patience;
    let Some((arrived, path)) = case.arriving(THIRD, &Method::Invite, patience)? else {
        case.finish(&first, 486)?;
        return Err(failure!("an INVITE for a user with two contacts arrived at only one of them"));
    };
    let second = Forwarded { sent: first.sent.clone(), arrived, path, at: THIRD };
    case.note_unanswered(&second);
    Ok([first, second])
}

fn forks(case: &mut TestCase<'_>) -> PurposeOutcome {
    let [first, second] = forked(case)?;
    case.answer(&second, 486)?;
    case.finish(&first, 486)?;
    let (one, two) = (top_branch(&first.arrived)?, top_branch(&second.arrived)?);
    ensured!(one != two, "both branches have the branch {one:?}")
}

fn cancels_the_others(case: &mut TestCase<'_>) -> PurposeOutcome {
    let [first, second] = forked(case)?;
    case.answer(&second, 180)?;
    case.answer(&first, 200)?;
    let response = case.final_of(&first)?;
    acknowledge(case, &first, &response)?;
    ensure!(response.status.is_success(), "the 200 of one branch was received as {}", line_of(&response));
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
        case.final_response(FIRST, &first.sent, &early)?;
        return Err(failure!("{} was received while another branch rang", line_of(&early)));
    }
    case.final_of(&first).map(drop)
}

/// The final response to an INVITE whose two branches are answered with these status codes.
fn best_of(case: &mut TestCase<'_>, codes: [u16; 2]) -> PurposeOutcome<Response> {
    let forwarded = forked(case)?;
    for (forwarded, code) in forwarded.iter().zip(codes) {
        case.answer(forwarded, code)?;
    }
    case.final_of(&forwarded[0])
}

fn prefers_global_failures(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = best_of(case, [404, 603])?;
    ensured!(response.status.code() == 603, "of 404 and 603, the caller received {}", line_of(&response))
}

fn prefers_the_lowest_class(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = best_of(case, [500, 486])?;
    ensured!(response.status.code() == 486, "of 500 and 486, the caller received {}", line_of(&response))
}

fn forwards_both(case: &mut TestCase<'_>) -> PurposeOutcome {
    let [first, second] = forked(case)?;
    case.answer(&first, 200)?;
    let one = case.final_of(&first)?;
    acknowledge(case, &first, &one)?;
    // The second branch also accepts, before or despite the CANCEL of the proxy.
    case.answer(&second, 200)?;
    let two = case.response(FIRST, &first.sent, case.target().patience)?;
    let Some(two) = two else {
        return Err(failure!("the 200 of a second branch was not received"));
    };
    acknowledge(case, &first, &two)?;
    ensured!(
        tag_of(&one) != tag_of(&two),
        "the 200 of the first branch was received twice, and that of the second was not received"
    )
}

fn cancels_all(case: &mut TestCase<'_>) -> PurposeOutcome {
    let [first, second] = forked(case)?;
    case.answer(&first, 180)?;
    case.answer(&second, 180)?;
    comes_back(case, &first, 180)?;
    let cancel = cancel_of(&first.sent);
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
        tags.push(comes_back(case, &first, 180).map(|came| tag_of(&came)));
    }
    case.answer(&second, 486)?;
    case.finish(&first, 486)?;
    let tags: Vec<_> = tags.into_iter().collect::<Result<_, _>>()?;
    ensured!(tags[0] != tags[1], "the 180s of two branches were received with one tag")
}
