//! What is sent without somebody at the keys.

use netrig_core::Duration;
use netrig_sip::Status;
use netrig_sip::manual::{MessageChange, Step};

/// A thing to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// A request is sent with these changes; once more with credentials, if it is challenged and there are some.
    Send(Step, Vec<MessageChange>),
    /// The last request's response is waited for.
    Wait(Wanted),
    /// Nothing is done but what the transactions do.
    Pause(Duration),
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A final response, whatever it is.
    Final,
    /// A response of this status.
    Status(Status),
}

/// The course of a call: registered if wanted, called, acknowledged, held, hung up; each is to succeed.
pub fn usual(registers: bool, hold: Duration) -> Vec<Act> {
    let sent = |step| Act::Send(step, Vec::new());
    let accepted = || Act::Wait(Wanted::Status(Status::OK));
    let mut acts = if registers { vec![sent(Step::Register), accepted()] } else { Vec::new() };
    acts.extend([
        sent(Step::Invite),
        accepted(),
        sent(Step::Ack),
        Act::Pause(hold),
        sent(Step::Bye),
        accepted(),
    ]);
    acts
}

/// A line of a script that says nothing to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {why}")]
pub struct CourseError {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

/// Reads a script.
///
/// # Errors
/// If a line is neither a request, a change of one, `wait` nor `pause`.
pub fn parse(text: &str) -> Result<Vec<Act>, CourseError> {
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
                Some(Act::Send(_, changes)) => changes.push(change),
                _ => return Err(wrong("a change stands below the request that is changed".to_owned())),
            }
            continue;
        }
        acts.push(match words.split_once(' ') {
            None => Act::Send(words.parse().map_err(wrong)?, Vec::new()),
            Some(("pause", span)) => {
                Act::Pause(span.trim().parse().map_err(|error| wrong(format!("{error}")))?)
            }
            Some(("wait", what)) => Act::Wait(wanted(what.trim()).map_err(wrong)?),
            Some(_) => {
                return Err(wrong(format!(
                    "`{words}` is nothing to do: expected a request, `wait` or `pause`"
                )));
            }
        });
    }
    Ok(acts)
}

fn wanted(text: &str) -> Result<Wanted, String> {
    if text == "final" {
        return Ok(Wanted::Final);
    }
    let status = text.parse().ok().and_then(Status::new);
    status
        .map(Wanted::Status)
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
            Act::Send(Step::Invite, changes.into()),
            Act::Wait(Wanted::Status(Status::new(483).unwrap())),
            Act::Pause(Duration::from_secs(1)),
            Act::Send(Step::ReInvite, Vec::new()),
            Act::Wait(Wanted::Final),
        ];
        assert_eq!(parse(text).unwrap(), expected);
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
            let CourseError { line: number, why } = parse(text).unwrap_err();
            assert!(number == line && why.contains(words), "{text}: {number}: {why}");
        }
    }
}
