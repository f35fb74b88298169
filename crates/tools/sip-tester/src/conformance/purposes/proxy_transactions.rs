//! The transactions of a proxy: retransmissions, failures and CANCEL (RFC 3261 sections 9, 16.10 and 17).

use netrig_core::Duration;
use netrig_sip::header::CSeq;
use netrig_sip::{Method, Name, Request};

use super::super::case::TestCase;
use super::super::messages::{Forwarded, branch_of, cancel_of, ensure_code, line_of, line_or_silence};
use super::super::outcome::{PurposeOutcome, ensure, ensured, failure};
use super::super::purpose::purposes;
use super::super::target::{FIRST, SECOND};
use super::proxy::{SOON, asked, comes_back, has_not_arrived, invited, top_branch};

purposes! {
    Proxy "PRX";
    "transactions" {
        "TRANS-01" Must "RFC 3261 section 17.2.1" "An INVITE gets a 100 within 200 ms if its recipient is silent." => says_trying, needs [Transactions], in basic;
        "TRANS-02" Must "RFC 3261 section 17.2.1" "A retransmitted INVITE is not forwarded as a new one." => absorbs_invites, needs [Transactions], over Datagrams;
        "TRANS-03" Must "RFC 3261 section 17.2.1" "A retransmitted INVITE gets the last provisional response again." => repeats_provisional_responses, needs [Transactions], over Datagrams;
        "TRANS-04" Must "RFC 3261 section 17.1.1.2" "The proxy retransmits an unanswered INVITE." => repeats_invites, needs [Transactions], over Datagrams;
        "TRANS-05" Must "RFC 3261 section 17.1.1.3" "The proxy acknowledges a failure itself, in the transaction of the INVITE." => acknowledges_failures, needs [Transactions], in basic;
        "TRANS-06" Must "RFC 3261 section 17.2.1" "A failure is retransmitted until its ACK arrives." => repeats_failures, needs [Transactions], over Datagrams;
        "TRANS-07" Must "RFC 3261 section 17.2.1" "The ACK of a failure ends its retransmission and is not forwarded." => ends_with_the_ack, needs [Transactions];
        "TRANS-08" Must "RFC 3261 section 17.2.2" "A request that is retransmitted after its final response gets that response again and is not forwarded." => answers_repeated_requests, needs [Transactions], over Datagrams;
        "TRANS-09" Must "RFC 3261 section 16.10" "A CANCEL is answered 200 by the proxy." => answers_cancel, needs [Transactions], in basic;
        "TRANS-10" Must "RFC 3261 section 16.10" "A CANCEL of a ringing INVITE reaches its recipient." => cancels, needs [Transactions], in basic;
        "TRANS-11" Must "RFC 3261 section 9.1" "The forwarded CANCEL has the Request-URI, Call-ID, To, From, CSeq number and topmost Via of the INVITE." => cancels_as_it_invited, needs [Transactions];
        "TRANS-12" Must "RFC 3261 section 16.7" "The 487 of a cancelled INVITE is forwarded." => forwards_request_terminated, needs [Transactions], in basic;
        "TRANS-13" Must "RFC 4320 section 4.1" "A request other than INVITE gets no provisional response except 100, and over UDP no immediate 100." => keeps_non_invites_quiet;
        "TRANS-14" Must "RFC 3261 section 17.1.2.2" "The proxy retransmits an unanswered request other than INVITE." => repeats_requests, needs [Transactions], over Datagrams;
    }
}

fn says_trying(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    let trying = case.response(FIRST, &forwarded.sent, Duration::from_millis(300))?;
    case.finish(&forwarded, 486)?;
    let code = trying.as_ref().map(|response| response.status.code());
    ensured!(
        code == Some(100),
        "within 300 ms of an INVITE that its recipient did not answer, the caller got {}",
        line_or_silence(trying.as_ref())
    )
}

fn absorbs_invites(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    case.answer(&forwarded, 180)?;
    comes_back(case, &forwarded, 180)?;
    case.send(&forwarded.sent)?;
    let again = case.arriving(SECOND, &Method::Invite, SOON)?;
    case.finish(&forwarded, 486)?;
    let Some((again, _)) = again else { return Ok(()) };
    let [first, second] = [&forwarded.arrived, &again].map(top_branch);
    ensure!(first? == second?, "a retransmitted INVITE was forwarded as a new one");
    Err(failure!("a retransmitted INVITE was forwarded again"))
}

fn repeats_provisional_responses(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    case.answer(&forwarded, 180)?;
    comes_back(case, &forwarded, 180)?;
    case.send(&forwarded.sent)?;
    let again = comes_back(case, &forwarded, 180);
    case.finish(&forwarded, 486)?;
    match again {
        Ok(_) => Ok(()),
        Err(_) => Err(failure!("a retransmitted INVITE did not get the last provisional response again")),
    }
}

fn repeats_invites(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    let again = case.arriving(SECOND, &Method::Invite, Duration::from_millis(1200))?;
    case.finish(&forwarded, 486)?;
    ensured!(again.is_some(), "an unanswered INVITE was not retransmitted within 1.2 s")
}

fn acknowledges_failures(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    case.answer(&forwarded, 486)?;
    let ack = case.arriving(SECOND, &Method::Ack, Duration::from_secs(1))?;
    let _ = case.final_of(&forwarded);
    let Some((ack, _)) = ack else { return Err(failure!("a 486 got no ACK within 1 s")) };
    let (invite, own) = (top_branch(&forwarded.arrived)?, top_branch(&ack)?);
    ensured!(invite == own, "the ACK of a 486 has the branch {own:?}, but the INVITE has {invite:?}")
}

fn repeats_failures(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    case.answer(&forwarded, 486)?;
    let first = comes_back(case, &forwarded, 486)?;
    let again = case.response(FIRST, &forwarded.sent, Duration::from_millis(1200))?;
    case.final_response(FIRST, &forwarded.sent, &first)?;
    ensured!(again.is_some(), "a 486 without an ACK was not retransmitted within 1.2 s")
}

fn ends_with_the_ack(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = invited(case)?;
    case.answer(&forwarded, 486)?;
    case.final_of(&forwarded)?;
    // The proxy itself sends an ACK.
    case.arriving(SECOND, &Method::Ack, SOON)?;
    let again = case.response(FIRST, &forwarded.sent, Duration::from_millis(1200))?;
    ensure!(again.is_none(), "a 486 was retransmitted after its ACK");
    if let Some((ack, _)) = case.arriving(SECOND, &Method::Ack, Duration::ZERO)? {
        let own = branch_of(&ack.headers);
        ensure!(own == branch_of(&forwarded.arrived.headers), "the ACK of a failure was forwarded");
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
        "a request that was retransmitted after its {} got {}",
        line_of(&first),
        line_or_silence(again.as_ref())
    );
    has_not_arrived(case, &Method::Options)
}

/// Sends an INVITE, lets the callee ring, and sends a CANCEL. Returns both requests.
pub(super) fn cancelled(case: &mut TestCase<'_>) -> PurposeOutcome<(Forwarded, Request)> {
    let forwarded = invited(case)?;
    case.answer(&forwarded, 180)?;
    comes_back(case, &forwarded, 180)?;
    let cancel = cancel_of(&forwarded.sent);
    case.send(&cancel)?;
    Ok((forwarded, cancel))
}

/// Waits for the CANCEL of a forwarded INVITE, and answers the CANCEL with 200 and the INVITE with 487. Returns the CANCEL
/// as it arrived.
pub(super) fn cancel_arrives(case: &mut TestCase<'_>, forwarded: &Forwarded) -> PurposeOutcome<Request> {
    let patience = case.target().patience;
    let Some((arrived, path)) = case.arriving(forwarded.at, &Method::Cancel, patience)? else {
        return Err(failure!("the CANCEL did not arrive within {patience}"));
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
    ensured!(
        response.as_ref().is_some_and(|response| response.status.code() == 200),
        "a CANCEL whose recipient is silent got {}",
        line_or_silence(response.as_ref())
    )
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
        "the CANCEL is for {}, but the INVITE was for {}",
        cancel.uri,
        invite.uri
    );
    for name in [Name::CallId, Name::From, Name::To] {
        let [own, of_invite] = [&cancel, invite].map(|request| request.headers.get(&name));
        ensure!(own == of_invite, "{name} of the CANCEL is {own:?}, that of the INVITE is {of_invite:?}");
    }
    let number = |request: &Request| request.headers.cseq().ok().flatten().map(|CSeq { number, .. }| number);
    ensure!(number(&cancel) == number(invite), "the CSeq number of the CANCEL is not that of the INVITE");
    ensured!(
        top_branch(&cancel)? == top_branch(invite)?,
        "the branch of the CANCEL is not that of the INVITE"
    )
}

fn forwards_request_terminated(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (forwarded, _) = cancelled(case)?;
    cancel_arrives(case, &forwarded)?;
    let response = case.final_of(&forwarded)?;
    ensure_code(&response, 487, "a cancelled INVITE")
}

fn keeps_non_invites_quiet(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = asked(case, Method::Options)?;
    let until = case.now() + Duration::from_secs(1);
    let mut early = None;
    while let Some(response) = case.response(FIRST, &forwarded.sent, until.since(case.now()))? {
        // Over a reliable transport, a 100 is allowed at any time.
        if response.status.code() != 100 || case.is_over_datagrams() {
            early = Some(response);
            break;
        }
    }
    case.finish(&forwarded, 200)?;
    ensured!(early.is_none(), "an OPTIONS got {} within 1 s", line_or_silence(early.as_ref()))
}

fn repeats_requests(case: &mut TestCase<'_>) -> PurposeOutcome {
    let forwarded = asked(case, Method::Options)?;
    let again = case.arriving(SECOND, &Method::Options, Duration::from_millis(1200))?;
    case.finish(&forwarded, 200)?;
    ensured!(again.is_some(), "an unanswered OPTIONS was not retransmitted within 1.2 s")
}
