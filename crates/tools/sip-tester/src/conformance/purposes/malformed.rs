//! Requests that break one rule: the server refuses them and continues to work.

use bytes::Bytes;
use netrig_core::Duration;
use netrig_sip::Response;

use super::super::case::TestCase;
use super::super::messages::line_of;
use super::super::outcome::{PurposeEnd, PurposeOutcome, ensure, failure};
use super::super::target::FIRST;
use super::general::{SubjectRequest, ask_changed};

/// How long a server may take to discard a message.
const SOON: Duration = Duration::from_millis(700);

/// The server refuses or discards a request that `change` has changed. Afterwards it accepts a correct request.
pub fn does_not_take(
    case: &mut TestCase<'_>,
    subject: SubjectRequest,
    change: impl Fn(String) -> String,
) -> PurposeOutcome {
    let answered = ask_changed(case, subject, change);
    let refused = match answered {
        Ok(response) => {
            ensure!(!subject.takes(&response), "the request was answered {}", line_of(&response));
            true
        }
        // A server may also refuse a request by not answering it.
        Err(PurposeEnd::Fail(_)) => false,
        Err(end) => return Err(end),
    };
    lives_on(case, subject, refused)
}

/// The server refuses a request that `change` has changed, with one of these status codes.
pub fn refuses_with(
    case: &mut TestCase<'_>,
    subject: SubjectRequest,
    codes: &[u16],
    change: impl Fn(String) -> String,
) -> PurposeOutcome {
    let response: Response = ask_changed(case, subject, change)?;
    let code = response.status.code();
    let expected: Vec<String> = codes.iter().map(u16::to_string).collect();
    ensure!(
        codes.contains(&code),
        "the request was answered {}, expected {}",
        line_of(&response),
        expected.join(" or ")
    );
    lives_on(case, subject, true)
}

/// Bytes that are not a message do no harm.
pub fn survives(case: &mut TestCase<'_>, subject: SubjectRequest, bytes: &Bytes) -> PurposeOutcome {
    case.send_bytes(FIRST, bytes)?;
    case.pause(SOON)?;
    // The server may close a stream that it cannot parse.
    case.disconnect_if_over_connections(FIRST);
    case.forget(FIRST);
    lives_on(case, subject, true)
}

/// The server answers a correct request after a broken one. If the broken message was not answered, the server may have
/// closed the connection, so a new one is opened.
pub fn lives_on(case: &mut TestCase<'_>, subject: SubjectRequest, was_answered: bool) -> PurposeOutcome {
    if !was_answered {
        case.disconnect_if_over_connections(FIRST);
    }
    let request = (subject.make)(case)?;
    match case.ask(&request) {
        Ok(_) => Ok(()),
        Err(PurposeEnd::Fail(text)) => Err(failure!("afterwards, a correct request is not answered: {text}")),
        Err(end) => Err(end),
    }
}

/// [`does_not_take`] for a request whose header field `name` has another value, or is absent.
pub fn refuses_with_field(
    case: &mut TestCase<'_>,
    subject: SubjectRequest,
    name: &str,
    value: Option<&str>,
) -> PurposeOutcome {
    does_not_take(case, subject, |text| with_field(&text, name, value))
}

pub fn refuses_a_garbled_cseq(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    does_not_take(case, subject, |text| {
        let method = text.split(' ').next().unwrap_or_default().to_owned();
        with_field(&text, "CSeq", Some(&format!("one {method}")))
    })
}

pub fn refuses_an_open_quotation(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    let to = format!("\"Alice <{}>", case.address_of_record(FIRST));
    refuses_with_field(case, subject, "To", Some(&to))
}

pub fn survives_garbage(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    survives(case, subject, &Bytes::from_static(b"\x00\xff\x80GARBAGE sip:\x01 SIP/2.0\r\n:::\r\n\r\n"))
}

/// RFC 3261 section 8.2.1: a method that the server does not know.
pub fn refuses_an_unknown_method(case: &mut TestCase<'_>, subject: SubjectRequest) -> PurposeOutcome {
    refuses_with(case, subject, &[405, 501], |text| {
        let method = text.split(' ').next().unwrap_or_default().to_owned();
        text.replacen(&format!("{method} "), "NETRIG ", 1).replace(&format!(" {method}\r\n"), " NETRIG\r\n")
    })
}

/// Replaces the value of the first header field with this name. Without a value, removes the header field.
pub fn with_field(text: &str, name: &str, value: Option<&str>) -> String {
    let start = format!("{name}: ");
    let mut is_done = false;
    let mut lines = Vec::new();
    for line in text.split("\r\n") {
        if !is_done && line.starts_with(&start) {
            is_done = true;
            lines.extend(value.map(|value| format!("{start}{value}")));
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.join("\r\n")
}
