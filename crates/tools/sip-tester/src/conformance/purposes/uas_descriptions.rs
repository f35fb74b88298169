//! Session descriptions of a user agent: its answers to offers (RFC 3264).

use bytes::Bytes;
use netrig_sip::sdp::{Media, SessionDescription};
use netrig_sip::{Name, Response};

use super::super::case::TestCase;
use super::super::messages::{AnsweredRequest, ensure_success, line_of};
use super::super::outcome::{PurposeOutcome, ensure, ensured, require, required};
use super::super::purpose::purposes;
use super::super::target::FIRST;
use super::uas::{description, end_opened, invite, within_a_call};

purposes! {
    Uas "UAS";
    "descriptions" {
        "SDP-01" Must "RFC 3264 section 6" "The answer has as many media as the offer, in their order." => answers_each_medium, in basic;
        "SDP-02" Must "RFC 3264 section 6.1" "An offer of sendonly is answered recvonly or inactive." => answers_sendonly;
        "SDP-03" Must "RFC 3264 section 6.1" "An offer of inactive is answered inactive." => answers_inactive;
        "SDP-04" Must "RFC 3264 section 6" "A medium offered with port 0 is answered with port 0." => answers_port_zero;
        "SDP-05" Must "RFC 3264 section 6.1" "The answer has a format of the offer." => answers_with_offered_formats, in basic;
        "SDP-06" Must "RFC 3264 section 6" "An unknown medium is answered with port 0 beside an accepted one." => refuses_unknown_media;
        "SDP-07" Must "RFC 3264 section 6" "A medium with unknown formats only is refused: by the response to the INVITE, or by port 0." => refuses_unknown_formats;
        "SDP-08" Must "RFC 4566 section 5" "The description follows the grammar." => describes_rightly, in basic;
        "SDP-09" Should "RFC 3261 section 13.3.1.3" "An INVITE with a refused offer is answered 488." => refuses_offers_with_488;
    }
}

/// RFC 3261 sections 13.3.1.3 and 14.2: if an offer is refused as a whole, there is no answer to check.
pub(super) fn may_refuse_the_offer(response: &Response) -> PurposeOutcome {
    required!(
        ![488, 606].contains(&response.status.code()),
        "the offer was refused with {}",
        line_of(response)
    )
}

/// Sends an INVITE with an offer that `change` has changed. Returns the offer, and the INVITE with its final response.
fn offered(
    case: &mut TestCase<'_>,
    change: impl FnOnce(&mut SessionDescription),
) -> PurposeOutcome<(SessionDescription, AnsweredRequest)> {
    let local = case.local(FIRST)?;
    let mut offer = SessionDescription::audio(local.ip(), 40_000, 7);
    change(&mut offer);
    let mut request = invite(case)?;
    request.body = Bytes::from(offer.to_string());
    Ok((offer, case.ask(&request)?))
}

/// Establishes a call with an offer that `change` has changed, and ends it. Returns the offer and the answer.
fn answer_to(
    case: &mut TestCase<'_>,
    change: impl FnOnce(&mut SessionDescription),
) -> PurposeOutcome<(SessionDescription, SessionDescription)> {
    let (offer, answered) = offered(case, change)?;
    may_refuse_the_offer(&answered.response)?;
    ensure_success(&answered.response, "the INVITE")?;
    end_opened(case, &answered.request, &answered.response)?;
    let answer = description(&answered.response.body, "the 2xx")?;
    ensure!(
        answer.media.len() == offer.media.len(),
        "an offer with {} media got an answer with {}",
        offer.media.len(),
        answer.media.len()
    );
    Ok((offer, answer))
}

/// Adds a second medium to an offer: a copy of the first one, changed by `change`.
fn with_second(offer: &mut SessionDescription, change: impl FnOnce(&mut Media)) {
    let mut second = offer.media[0].clone();
    change(&mut second);
    offer.media.push(second);
}

fn answers_each_medium(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (offer, answer) = answer_to(case, |offer| with_second(offer, |second| second.port = 40_002))?;
    for (offered, answered) in offer.media.iter().zip(&answer.media) {
        ensure!(offered.kind == answered.kind, "a medium {} was answered as {}", offered.kind, answered.kind);
    }
    Ok(())
}

fn direction_of(case: &mut TestCase<'_>, offered: &str) -> PurposeOutcome<&'static str> {
    let name = offered.to_owned();
    let (_, answer) = answer_to(case, |offer| {
        offer.media[0].attributes.push(netrig_sip::sdp::Attribute::new(&name, None));
    })?;
    require!(answer.media[0].port != 0, "the medium was refused");
    Ok(answer.direction(&answer.media[0]).name())
}

fn answers_sendonly(case: &mut TestCase<'_>) -> PurposeOutcome {
    let answered = direction_of(case, "sendonly")?;
    ensured!(["recvonly", "inactive"].contains(&answered), "sendonly was answered {answered}")
}

fn answers_inactive(case: &mut TestCase<'_>) -> PurposeOutcome {
    let answered = direction_of(case, "inactive")?;
    ensured!(answered == "inactive", "inactive was answered {answered}")
}

fn answers_port_zero(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (_, answer) = answer_to(case, |offer| with_second(offer, |second| second.port = 0))?;
    ensured!(
        answer.media[1].port == 0,
        "a medium with port 0 was answered with port {}",
        answer.media[1].port
    )
}

fn answers_with_offered_formats(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (offer, answer) = answer_to(case, |_| {})?;
    for (offered, answered) in offer.media.iter().zip(&answer.media) {
        // The formats of a refused medium are meaningless.
        require!(answered.port != 0, "the medium was refused");
        let known = answered.formats.iter().any(|format| offered.formats.contains(format));
        ensure!(known, "formats {:?} were answered with {:?}", offered.formats, answered.formats);
    }
    Ok(())
}

fn refuses_unknown_media(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (_, answer) = answer_to(case, |offer| {
        with_second(offer, |second| {
            "netrig".clone_into(&mut second.kind);
            second.port = 40_002;
            second.formats = vec!["99".to_owned()];
            second.attributes.clear();
        });
    })?;
    require!(answer.media[0].port != 0, "the audio was refused");
    ensured!(
        answer.media[1].port == 0,
        "a medium of an unknown kind was answered with port {}",
        answer.media[1].port
    )
}

/// The final response to an INVITE whose offer has only unknown formats. If a call is established, it is ended.
fn answer_to_unknown_formats(case: &mut TestCase<'_>) -> PurposeOutcome<Response> {
    let (_, answered) = offered(case, |offer| {
        offer.media[0].formats = vec!["99".to_owned()];
        offer.media[0].attributes =
            vec![netrig_sip::sdp::Attribute::new("rtpmap", Some("99 netrig-unknown/8000"))];
    })?;
    end_opened(case, &answered.request, &answered.response)?;
    Ok(answered.response)
}

fn refuses_unknown_formats(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = answer_to_unknown_formats(case)?;
    if !response.status.is_success() {
        return Ok(());
    }
    let answer = description(&response.body, "the 2xx")?;
    let port = answer.media.first().map(|media| media.port);
    ensured!(port == Some(0), "an offer of an unknown format was accepted: port {port:?}")
}

fn refuses_offers_with_488(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = answer_to_unknown_formats(case)?;
    require!(!response.status.is_success(), "the INVITE was answered {}", line_of(&response));
    ensured!(
        response.status.code() == 488,
        "an offer of an unknown format was refused with {}",
        line_of(&response)
    )
}

fn describes_rightly(case: &mut TestCase<'_>) -> PurposeOutcome {
    within_a_call(case, |_, answered, _| {
        description(&answered.response.body, "the 2xx")?;
        let kind = answered.response.headers.get(&Name::ContentType).unwrap_or_default();
        ensured!(kind.starts_with("application/sdp"), "the 2xx has Content-Type: {kind}")
    })
}
