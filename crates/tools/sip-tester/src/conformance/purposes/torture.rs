//! The messages of RFC 4475.

use bytes::Bytes;
use netrig_sip::torture::{MESSAGES, TortureMessage, TortureTreatment};
use netrig_sip::{Method, Name, Request, Response, Uri};

use super::super::case::TestCase;
use super::super::dialog::TestDialog;
use super::super::messages::line_of;
use super::super::outcome::{PurposeOutcome, ensure, failure, inconclusive, require, required};
use super::super::purpose::{PurposeCarrier, RequirementLevel, TestPurpose, TestedRole};
use super::super::target::FIRST;
use super::general::{SubjectRequest, final_response, requires_an_answer};
use super::malformed::{lives_on, survives};
use super::{proxy, redirect, registrar, uas};

/// Messages that test the parameters of their Via. They keep these parameters, and no Via is added.
const WITH_OWN_VIA: [&str; 2] = ["badbranch", "inv2543"];

/// The purposes of a role: for each message its index in [`MESSAGES`] and its name.
macro_rules! torture_purposes {
    ($role:ident $prefix:literal) => {
        torture_purposes! { @ $role $prefix;
            0 "WSINV", 1 "INTMETH", 2 "ESC01", 3 "ESCNULL", 4 "ESC02", 5 "LWSDISP", 6 "LONGREQ", 7 "DBLREQ" Datagrams, 8
            "SEMIURI", 9 "TRANSPORTS", 10 "MPART01", 11 "UNREASON", 12 "NOREASON", 13 "BADINV01", 14 "CLERR" Datagrams, 15
            "NCL" Datagrams, 16 "SCALAR02", 17 "SCALARLG", 18 "QUOTBAL", 19 "LTGTRURI", 20 "LWSRURI", 21 "LWSSTART", 22
            "TRWS", 23 "ESCRURI", 24 "BADDATE", 25 "REGBADCT", 26 "BADASPEC", 27 "BADDN", 28 "BADVERS", 29 "MISMATCH01",
            30 "MISMATCH02", 31 "BIGCODE", 32 "BADBRANCH", 33 "INSUF", 34 "UNKSCM", 35 "NOVELSC", 36 "UNKSM2", 37
            "BEXT01", 38 "INVUT", 39 "REGAUT01", 40 "MULTI01", 41 "MCL01" Datagrams, 42 "BCAST", 43 "ZEROMF", 44 "CPARAM01", 45
            "CPARAM02", 46 "REGESCRT", 47 "SDP01", 48 "INV2543" Datagrams
        }
    };
    (@ $role:ident $prefix:literal; $($place:literal $name:literal $($carrier:ident)?),+) => {
        &[$(TestPurpose {
            id: concat!($prefix, "-TORTURE-", $name),
            role: TestedRole::$role,
            group: "torture",
            section: MESSAGES[$place].section,
            level: level_of(TestedRole::$role, MESSAGES[$place].treatment),
            requirement: requirement_of(TestedRole::$role, &MESSAGES[$place]),
            needs: &[],
            carrier: torture_purposes!(@carrier $($carrier)?),
            is_basic: false,
            procedure: |case| treats(case, TestedRole::$role, &MESSAGES[$place]),
        }),+]
    };
    (@carrier) => { PurposeCarrier::Any };
    (@carrier $carrier:ident) => { PurposeCarrier::$carrier };
}

pub(super) const OF_REGISTRARS: &[TestPurpose] = torture_purposes!(Registrar "REG");
pub(super) const OF_PROXIES: &[TestPurpose] = torture_purposes!(Proxy "PRX");
pub(super) const OF_REDIRECT_SERVERS: &[TestPurpose] = torture_purposes!(Redirect "RED");
pub(super) const OF_USER_AGENTS: &[TestPurpose] = torture_purposes!(Uas "UAS");

/// The strength of a requirement. RFC 4475 says how an element "should" treat broken messages. RFC 3261 requires that
/// an element accepts correct messages, is not harmed by broken ones, and refuses a body and extensions that it does
/// not understand (sections 8.2.2.3, 8.2.3 and 16.3). The message with unknown extensions is an OPTIONS. A registrar
/// need not support OPTIONS, and a redirect server ignores extensions (section 8.3).
const fn level_of(role: TestedRole, treatment: TortureTreatment) -> RequirementLevel {
    match treatment {
        TortureTreatment::Taken
        | TortureTreatment::Discarded
        | TortureTreatment::RefusedByEndpoints(&[415]) => RequirementLevel::Must,
        TortureTreatment::Refused(&[420]) if matches!(role, TestedRole::Proxy | TestedRole::Uas) => {
            RequirementLevel::Must
        }
        _ => RequirementLevel::Should,
    }
}

/// RFC 3261 section 8.3: a redirect server ignores unknown extensions in Require.
const fn requirement_of(role: TestedRole, message: &TortureMessage) -> &'static str {
    match (role, message.treatment) {
        (TestedRole::Redirect, TortureTreatment::Refused(&[420])) => {
            "A request that requires unknown extensions is answered."
        }
        _ => message.requirement,
    }
}

const fn subject_of(role: TestedRole) -> SubjectRequest {
    match role {
        TestedRole::Registrar => registrar::SUBJECT,
        TestedRole::Proxy => proxy::SUBJECT,
        TestedRole::Redirect => redirect::SUBJECT,
        TestedRole::Uas => uas::SUBJECT,
    }
}

fn treats(case: &mut TestCase<'_>, role: TestedRole, message: &TortureMessage) -> PurposeOutcome {
    requires_an_answer(case, subject_of(role))?;
    let codes: &[u16] = match message.treatment {
        TortureTreatment::Discarded => {
            return survives(case, subject_of(role), &Bytes::from_static(message.bytes));
        }
        TortureTreatment::Refused(codes) if role != TestedRole::Redirect || *codes != [420] => codes,
        TortureTreatment::RefusedByEndpoints(codes) if role == TestedRole::Uas => codes,
        TortureTreatment::Any | TortureTreatment::Refused(_) => {
            let response = answer_to(case, message)?;
            lives_on(case, subject_of(role), response.is_some())?;
            ensure!(response.is_some(), "the message got no response");
            return Ok(());
        }
        _ => {
            let Some(response) = answer_to(case, message)? else {
                lives_on(case, subject_of(role), false)?;
                // A proxy may have forwarded it to the domain in the message. A user agent must answer it.
                require!(role == TestedRole::Uas, "the message got no response; it may have been forwarded");
                return Err(failure!("the message got no response"));
            };
            ensure!(response.status.code() != 400, "the message was answered {}", line_of(&response));
            return Ok(());
        }
    };
    let response = answer_to(case, message)?;
    lives_on(case, subject_of(role), response.is_some())?;
    let Some(response) = response else {
        return Err(failure!("the message got no response"));
    };
    let code = response.status.code();
    ensure!(code >= 400, "the message was answered {}", line_of(&response));
    // A server may check the user or the domain first.
    required!(
        codes.contains(&code),
        "the message was refused with {}, possibly for another reason",
        line_of(&response)
    )
}

/// The final response to a message, with credentials if the server asks for them; `None` if there is none.
fn answer_to(case: &mut TestCase<'_>, message: &TortureMessage) -> PurposeOutcome<Option<Response>> {
    let mut credentials = Vec::new();
    for _ in 0..3 {
        let (bytes, mut request) = addressed(case, message, &credentials)?;
        case.send_bytes(FIRST, &bytes)?;
        let Some(response) = final_response(case, &request)? else { return Ok(None) };
        finish(case, &mut request, &response);
        if ![401, 407].contains(&response.status.code()) {
            return Ok(Some(response));
        }
        case.with_credentials(FIRST, &request, &response)?;
        case.authorize(FIRST, &mut request);
        let known = [Name::Authorization, Name::ProxyAuthorization];
        let fields = request.headers.iter().filter(|(name, _)| known.contains(name));
        credentials = fields.map(|(name, value)| format!("{name}: {value}").into_bytes()).collect();
    }
    Err(inconclusive!("the server challenged the message repeatedly"))
}

/// A message with the address of the tester in the topmost Via, so that the response arrives, and with a new Call-ID,
/// so that the message is not a retransmission. Also returns the request to which the response belongs.
fn addressed(
    case: &mut TestCase<'_>,
    message: &TortureMessage,
    credentials: &[Vec<u8>],
) -> PurposeOutcome<(Bytes, Request)> {
    let end =
        message.bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(message.bytes.len());
    let (head, rest) = message.bytes.split_at(end);
    let mut lines: Vec<Vec<u8>> = head
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_vec())
        .collect();
    let start = String::from_utf8_lossy(&lines[0]).into_owned();
    let mut words = start.split_ascii_whitespace();
    let method = words.next().and_then(|word| word.parse().ok()).unwrap_or(Method::Options);
    let uri = words.next().and_then(|word| word.parse::<Uri>().ok()).unwrap_or_else(|| case.callee_uri());
    let mut request = Request::new(method, uri);
    let token = case.token();
    if let Some(call_id) = lines.iter_mut().find(|line| is_field(line, ["call-id", "i"])) {
        *call_id = [call_id.trim_ascii_end(), b".", token.as_bytes()].concat();
    }
    let via = case.via(FIRST)?.to_string();
    let own = lines.iter().position(|line| is_field(line, ["via", "v"]));
    if let Some(place) = own.filter(|_| WITH_OWN_VIA.contains(&message.name)) {
        let value = String::from_utf8_lossy(&lines[place]).trim_end().to_owned();
        let parameters =
            value.split_once(';').map_or(String::new(), |(_, parameters)| format!(";{parameters}"));
        let value = format!("{}{parameters}", via.split(';').next().unwrap_or_default());
        lines[place] = format!("Via: {value}").into_bytes();
        request.headers.push(Name::Via, value);
    } else {
        lines.insert(1, format!("Via: {via}").into_bytes());
        request.headers.push(Name::Via, via);
    }
    lines.splice(1..1, credentials.iter().cloned());
    Ok((Bytes::from([lines.join(&b"\r\n"[..]), rest.to_vec()].concat()), request))
}

/// Whether a line begins a header field with one of these names.
fn is_field(line: &[u8], names: [&str; 2]) -> bool {
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    names.iter().any(|known| name.trim_ascii().eq_ignore_ascii_case(known.as_bytes()))
}

/// Ends what the message has started: a refused INVITE by its ACK, a call by a BYE.
fn finish(case: &mut TestCase<'_>, request: &mut Request, response: &Response) {
    for name in [Name::From, Name::CallId, Name::CSeq] {
        if let Some(value) = response.headers.get(&name) {
            request.headers.set(name, value);
        }
    }
    // Other purposes test how the server handles the ACK and the BYE.
    let _ = case.final_response(FIRST, request, response);
    if request.method == Method::Invite
        && response.status.is_success()
        && let Ok(mut dialog) = TestDialog::of_caller(FIRST, request, response)
    {
        let _ = case.acknowledge(&mut dialog);
        let _ = case.hang_up(&mut dialog);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_of_rfc_4475_is_a_purpose_of_each_role() {
        for purposes in [OF_REGISTRARS, OF_PROXIES, OF_REDIRECT_SERVERS, OF_USER_AGENTS] {
            let names: Vec<_> =
                purposes.iter().filter_map(|purpose| purpose.id.split('-').next_back()).collect();
            let expected: Vec<_> = MESSAGES.iter().map(|message| message.name.to_ascii_uppercase()).collect();
            assert_eq!(names, expected);
        }
    }
}
