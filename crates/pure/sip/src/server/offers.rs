//! Offers and answers of an answering machine (RFC 3264), in INVITE, PRACK and UPDATE.

use super::answering_policy::AnsweringPolicy;
use super::incoming_call::IncomingCall;
use super::reply::reply;
use crate::multipart::{ALTERNATIVE_TYPE, MIXED_TYPE, SessionBody, is_required, session_body};
use crate::sdp::{SDP_TYPE, SessionDescription};
use crate::{Name, Request, Response, Status};

/// The supported types of bodies, for `Accept`.
pub(super) fn body_types() -> String {
    format!("{SDP_TYPE}, {MIXED_TYPE}, {ALTERNATIVE_TYPE}")
}

pub(super) fn describe(response: &mut Response, description: &SessionDescription) {
    response.headers.push(Name::ContentType, SDP_TYPE);
    response.body = description.to_string().into();
}

/// Adds a session description to the 2xx to a request within the call: the answer to the offer of the request, or an
/// offer if the request has none. If that fails, `response` becomes a refusal: "the session parameters MUST remain
/// unchanged".
pub(super) fn answer_offer(
    manners: &AnsweringPolicy,
    call: &mut IncomingCall,
    request: &Request,
    response: &mut Response,
) {
    match description(manners, request) {
        Ok(mut description) => {
            // "the version in the origin field MUST increment by one from the previous SDP" if the description changed (RFC 3264
            // section 8).
            let version = call.description.origin.version;
            description.origin.version = version;
            description.origin.version += u64::from(description != call.description);
            describe(response, &description);
            call.description = description;
        }
        Err(status) => *response = not_understood(request, status),
    }
}

/// A refusal of a body. "The response MUST contain an Accept header field listing the types of all bodies it understands", and
/// for encodings "an Accept-Encoding header field" (RFC 3261 section 8.2.3).
pub(super) fn not_understood(request: &Request, status: Status) -> Response {
    let mut response = reply(request, status);
    if status == Status::UNSUPPORTED_MEDIA_TYPE {
        response.headers.push(Name::Accept, body_types());
        response.headers.push(Name::new("Accept-Encoding"), "identity");
    }
    response
}

/// The answer to the offer of a request, or an offer if the request has none.
///
/// # Errors
/// The body is unsupported or malformed, or no medium can be accepted: 415, 400 or 488.
pub(super) fn description(
    manners: &AnsweringPolicy,
    request: &Request,
) -> Result<SessionDescription, Status> {
    let (address, port) = (manners.media.ip(), manners.media.port());
    if request.body.is_empty() {
        return Ok(SessionDescription::audio(address, port, 1));
    }
    let of = |name: Name| request.headers.get(&name);
    if of(Name::ContentEncoding).is_some_and(|own| !own.eq_ignore_ascii_case("identity")) {
        return Err(Status::UNSUPPORTED_MEDIA_TYPE);
    }
    let offer = match session_body(of(Name::ContentType).unwrap_or_default(), &request.body) {
        SessionBody::Description(offer) => offer,
        // An optional body of unknown type is ignored (RFC 3261 section 8.2.3), so there is no offer.
        SessionBody::NotUnderstood if !is_required(&request.headers) => {
            return Ok(SessionDescription::audio(address, port, 1));
        }
        SessionBody::NotUnderstood => return Err(Status::UNSUPPORTED_MEDIA_TYPE),
        SessionBody::Malformed => return Err(Status::BAD_REQUEST),
    };
    let offer = std::str::from_utf8(offer).ok().and_then(|text| SessionDescription::parse(text).ok());
    let offer = offer.ok_or(Status::BAD_REQUEST)?;
    let answer = offer.answer(address, port, 1, &["0", "8", "101"]);
    // No medium can be accepted (RFC 3261 section 21.4.26).
    if answer.media.iter().all(|media| media.port == 0) {
        return Err(Status::NOT_ACCEPTABLE_HERE);
    }
    Ok(answer)
}
