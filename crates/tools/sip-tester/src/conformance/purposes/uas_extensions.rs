//! Extensions of a user agent: reliable provisional responses (RFC 3262) and session timers (RFC 4028).

use netrig_core::Duration;
use netrig_sip::header::{CSeq, RAck};
use netrig_sip::{Method, Name, Request, Response};

use super::super::case::TestCase;
use super::super::dialog::TestDialog;
use super::super::messages::{ensure_code, ensure_success, line_of};
use super::super::outcome::{PurposeOutcome, ensure, ensured, require};
use super::super::purpose::purposes;
use super::super::target::FIRST;
use super::uas::{cancelled, end_opened, give_up, invite, ringing};

purposes! {
    Uas "UAS";
    "reliability" {
        "REL-01" Must "RFC 3262 section 3" "An INVITE that requires 100rel gets only reliable provisional responses, with RSeq and Require." => rings_reliably, needs [ReliableProvisional];
        "REL-02" Must "RFC 3262 section 3" "A reliable provisional response is retransmitted until its PRACK arrives." => repeats_reliably, needs [ReliableProvisional], over Datagrams;
        "REL-03" Must "RFC 3262 section 3" "The PRACK of a reliable provisional response is answered with a 2xx." => answers_prack, needs [ReliableProvisional];
        "REL-04" Must "RFC 3262 section 3" "A PRACK that matches no response is answered 481." => refuses_an_unknown_prack, needs [ReliableProvisional];
        "REL-05" Must "RFC 3262 section 3" "A caller without 100rel gets no reliable provisional response." => rings_plainly, needs [Ringing];
    }
    "timers" {
        "TIMER-01" Must "RFC 4028 section 9" "A 2xx to an INVITE with Session-Expires has Session-Expires with a refresher." => tells_the_interval, needs [SessionTimer];
        "TIMER-02" Must "RFC 4028 section 9" "A 422 to a too small interval contains the least interval in Min-SE." => refuses_short_intervals, needs [SessionTimer];
        "TIMER-03" Must "RFC 4028 section 9" "The interval is not lengthened." => keeps_the_interval, needs [SessionTimer];
        "TIMER-04" Must "RFC 4028 section 9" "If the caller refreshes, the 2xx requires timer." => requires_timer, needs [SessionTimer];
        "TIMER-05" Must "RFC 4028 section 9" "A caller without support for timers gets no Require: timer." => spares_old_callers, needs [SessionTimer];
    }
}

/// Sends an INVITE that requires 100rel. Returns the INVITE and its first reliable provisional response.
fn rung_reliably(case: &mut TestCase<'_>) -> PurposeOutcome<(Request, Response)> {
    let mut request = invite(case)?;
    request.headers.set(Name::Require, "100rel");
    let (request, ringing) = ringing(case, request)?;
    let number = ringing.headers.number(&Name::RSeq).ok().flatten();
    let is_reliable = number.is_some() && ringing.headers.has_token(&Name::Require, "100rel");
    ensure!(
        is_reliable,
        "an INVITE that requires 100rel got a {} without RSeq and Require: 100rel",
        line_of(&ringing)
    );
    Ok((request, ringing))
}

/// Sends a PRACK for a provisional response, with its RSeq plus `by`. Returns the final response to the PRACK.
fn acknowledged(
    case: &mut TestCase<'_>,
    request: &Request,
    ringing: &Response,
    by: u32,
) -> PurposeOutcome<Response> {
    let mut dialog = TestDialog::of_caller(FIRST, request, ringing)?;
    let mut prack = case.within(&mut dialog, Method::Prack)?;
    let response = ringing.headers.number(&Name::RSeq).ok().flatten().unwrap_or(1).wrapping_add(by);
    let number = request.headers.cseq().ok().flatten().map_or(1, |cseq| cseq.number);
    prack.headers.push(Name::RAck, RAck { response, request: CSeq { number, method: Method::Invite } });
    Ok(case.ask(&prack)?.response)
}

fn rings_reliably(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (request, ringing) = rung_reliably(case)?;
    let _ = acknowledged(case, &request, &ringing, 0);
    give_up(case, &request)
}

fn repeats_reliably(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (request, ringing) = rung_reliably(case)?;
    let again = case.response(FIRST, &request, Duration::from_millis(1200))?;
    let _ = acknowledged(case, &request, &ringing, 0);
    give_up(case, &request)?;
    let number = |response: &Response| response.headers.number(&Name::RSeq).ok().flatten();
    // RFC 3262 section 3, once it has answered: "it SHOULD NOT continue to retransmit the unacknowledged reliable provisional
    // responses".
    require!(
        again.as_ref().is_none_or(|again| !again.status.is_final()),
        "the call was answered before a retransmission was due"
    );
    ensured!(
        again.is_some_and(|again| number(&again) == number(&ringing)),
        "a reliable {} without a PRACK was not retransmitted within 1.2 s",
        line_of(&ringing)
    )
}

fn answers_prack(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (request, ringing) = rung_reliably(case)?;
    let response = acknowledged(case, &request, &ringing, 0);
    give_up(case, &request)?;
    ensure_success(&response?, "a PRACK")
}

fn refuses_an_unknown_prack(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (request, ringing) = rung_reliably(case)?;
    let response = acknowledged(case, &request, &ringing, 77);
    let _ = acknowledged(case, &request, &ringing, 0);
    give_up(case, &request)?;
    let response = response?;
    ensure_code(&response, 481, "a PRACK without a response")
}

fn rings_plainly(case: &mut TestCase<'_>) -> PurposeOutcome {
    let cancelled = cancelled(case)?;
    let is_reliable = cancelled.ringing.headers.get(&Name::RSeq).is_some();
    ensured!(!is_reliable, "a caller without 100rel got a {} with RSeq", line_of(&cancelled.ringing))
}

/// The final response to an INVITE with this Session-Expires. If `knows_timers` is set, the INVITE supports the
/// extension `timer`.
fn with_interval(case: &mut TestCase<'_>, interval: &str, knows_timers: bool) -> PurposeOutcome<Response> {
    let mut request = invite(case)?;
    request.headers.set(Name::SessionExpires, interval);
    if knows_timers {
        request.headers.set(Name::Supported, "timer");
    }
    let answered = case.ask(&request)?;
    end_opened(case, &answered.request, &answered.response)?;
    Ok(answered.response)
}

fn interval(response: &Response) -> Option<u32> {
    response.headers.get(&Name::SessionExpires)?.split(';').next()?.trim().parse().ok()
}

fn tells_the_interval(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = with_interval(case, "1800", true)?;
    ensure_success(&response, "an INVITE with Session-Expires: 1800")?;
    let field = response.headers.get(&Name::SessionExpires).unwrap_or_default();
    ensured!(field.contains("refresher="), "the 2xx has Session-Expires: {field}")
}

fn refuses_short_intervals(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = with_interval(case, "30", true)?;
    // RFC 4028 section 9: a server may, but need not, refuse such an interval.
    require!(response.status.code() == 422, "Session-Expires: 30 was answered {}", line_of(&response));
    let least = response.headers.number(&Name::MinSe).ok().flatten();
    ensured!(
        least.is_some_and(|least| least >= 90),
        "the 422 has Min-SE: {:?}",
        response.headers.get(&Name::MinSe)
    )
}

fn keeps_the_interval(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = with_interval(case, "1800", true)?;
    ensure_success(&response, "an INVITE with Session-Expires: 1800")?;
    let own = interval(&response);
    ensured!(own.is_none_or(|own| own <= 1800), "Session-Expires: 1800 was answered {own:?}")
}

fn requires_timer(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = with_interval(case, "1800;refresher=uac", true)?;
    ensure_success(&response, "an INVITE with Session-Expires: 1800;refresher=uac")?;
    let requires = response.headers.has_token(&Name::Require, "timer");
    ensured!(
        requires,
        "the 2xx to a refreshing caller has Require: {:?}",
        response.headers.get(&Name::Require)
    )
}

fn spares_old_callers(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = with_interval(case, "1800", false)?;
    require!(response.status.is_success(), "the INVITE was answered {}", line_of(&response));
    let requires = response.headers.has_token(&Name::Require, "timer");
    ensured!(!requires, "a caller without support for timers got Require: timer")
}
