//! The course of a call that is controlled by a script.

use netrig_core::Duration;
use netrig_sip::Status;
use netrig_sip::manual::{MessageChange, Step};

/// One action of a course.
#[derive(Clone, Debug, PartialEq)]
pub enum CourseAct {
    /// Send a request with these changes. If it is challenged while a response is awaited, and there are credentials,
    /// it is sent again with them.
    Send(Step, Vec<MessageChange>),
    /// Wait for a response to the last request.
    Wait(AwaitedResponse),
    /// Wait for this time. Only retransmissions and automatic responses are sent.
    Pause(Duration),
}

/// The response that is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AwaitedResponse {
    /// Any final response.
    Final,
    /// A response with this status.
    Status(Status),
}

/// A course that registers if `registers` is set, calls, holds the call for `hold` and hangs up. Each request must
/// succeed.
pub fn usual_course(registers: bool, hold: Duration) -> Vec<CourseAct> {
    let sent = |step| CourseAct::Send(step, Vec::new());
    let accepted = || CourseAct::Wait(AwaitedResponse::Status(Status::OK));
    let mut acts = if registers { vec![sent(Step::Register), accepted()] } else { Vec::new() };
    acts.extend([
        sent(Step::Invite),
        accepted(),
        sent(Step::Ack),
        CourseAct::Pause(hold),
        sent(Step::Bye),
        accepted(),
    ]);
    acts
}

/// An invalid line of a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {why}")]
pub struct CourseError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Why the line is invalid.
    pub why: String,
}

/// Reads a script.
///
/// # Errors
/// If a line is not a request, a change of a request, `wait` or `pause`.
pub fn parse_course(text: &str) -> Result<Vec<CourseAct>, CourseError> {
    let mut acts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words = line.trim();
        if words.is_empty() || words.starts_with('#') {
            continue;
        }
        let wrong = |why: String| CourseError { line: number, why };
        if line.starts_with([' ', '\t']) {
            let change = words.parse().map_err(|error| wrong(format!("{error}")))?;
            match acts.last_mut() {
                Some(CourseAct::Send(_, changes)) => changes.push(change),
                _ => return Err(wrong("a change must be below the request that it changes".to_owned())),
            }
            continue;
        }
        acts.push(match words.split_once(' ') {
            None => CourseAct::Send(words.parse().map_err(wrong)?, Vec::new()),
            Some(("pause", span)) => {
                CourseAct::Pause(span.trim().parse().map_err(|error| wrong(format!("{error}")))?)
            }
            Some(("wait", what)) => CourseAct::Wait(awaited(what.trim()).map_err(wrong)?),
            Some(_) => {
                return Err(wrong(format!(
                    "`{words}` is nothing to do: expected a request, `wait` or `pause`"
                )));
            }
        });
    }
    Ok(acts)
}

fn awaited(text: &str) -> Result<AwaitedResponse, String> {
    if text == "final" {
        return Ok(AwaitedResponse::Final);
    }
    let status = text.parse().ok().and_then(Status::new);
    status
        .map(AwaitedResponse::Status)
        .ok_or_else(|| format!("`{text}` is no response: expected `final` or a status, as 180"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_requests_with_their_changes_and_waits() {
        let text =
            "# a call\ninvite\n    Max-Forwards: 0\n\twait: x\nwait 483\n\npause 1s\nre-invite\nwait final\n";
        let changes = ["Max-Forwards: 0", "wait: x"].map(|text| text.parse().unwrap());
        let expected = [
            CourseAct::Send(Step::Invite, changes.into()),
            CourseAct::Wait(AwaitedResponse::Status(Status::new(483).unwrap())),
            CourseAct::Pause(Duration::from_secs(1)),
            CourseAct::Send(Step::ReInvite, Vec::new()),
            CourseAct::Wait(AwaitedResponse::Final),
        ];
        assert_eq!(parse_course(text).unwrap(), expected);
    }

    #[test]
    fn an_invalid_step_is_reported_with_its_line() {
        for (text, line, words) in [
            ("invite\nhello", 2, "`hello` is not a request"),
            ("  X: y", 1, "below the request"),
            ("invite\n  X", 2, "is not a change"),
            ("wait soon", 1, "is no response"),
            ("pause soon", 1, "soon"),
            ("send bye", 1, "nothing to do"),
        ] {
            let CourseError { line: number, why } = parse_course(text).unwrap_err();
            assert!(number == line && why.contains(words), "{text}: {number}: {why}");
        }
    }
}
