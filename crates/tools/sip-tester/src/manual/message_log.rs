//! The messages of a call, in order.

use std::fmt::Write as _;

use bytes::Bytes;
use netrig_core::Instant;
use netrig_sip::manual::{ReceivedMessage, SendReason, Step};
use netrig_sip::{Message, ParseError, Violation};
use serde::Serialize;

/// The document of a call.
#[derive(Debug, Serialize)]
pub struct ManualCallDocument<'a> {
    pub(super) target: &'a str,
    pub(super) local: String,
    pub(super) held: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<&'a str>,
    pub(super) interrupted: bool,
    pub(super) messages: &'a [LoggedMessage],
}

/// A message.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LoggedMessage {
    /// Time since the first message, ms.
    at_ms: f64,
    /// `sent` or `received`.
    direction: &'static str,
    /// The start line.
    line: String,
    /// Whether it is a retransmission.
    again: bool,
    /// Whether the user sent it, in contrast to a message that netrig sent automatically.
    by_hand: bool,
    /// The request that a response answers, such as `invite`.
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<&'static str>,
    /// Time since that request was first sent, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    after_ms: Option<f64>,
    /// The rules that it breaks.
    breaks: Vec<BrokenRule>,
    /// The whole message.
    text: String,
}

/// A rule that a message breaks.
#[derive(Clone, Debug, Serialize)]
struct BrokenRule {
    /// The rule, such as `RFC 3261 section 8.1.1.5`.
    rule: &'static str,
    /// The deviation from the rule, in words.
    what: String,
}

/// All messages of a call.
#[derive(Debug, Default)]
pub(super) struct MessageLog {
    messages: Vec<LoggedMessage>,
    begin: Option<Instant>,
}

impl MessageLog {
    pub(super) fn sent(
        &mut self,
        at: Instant,
        bytes: &Bytes,
        step: Option<Step>,
        why: SendReason,
    ) -> &LoggedMessage {
        self.push(at, "sent", bytes, |message| LoggedMessage {
            again: why == SendReason::Again,
            by_hand: why == SendReason::Person && step.is_some(),
            breaks: broken_rules(bytes),
            ..message
        })
    }

    pub(super) fn received(&mut self, at: Instant, received: &ReceivedMessage) -> &LoggedMessage {
        self.push(at, "received", &received.bytes, |message| LoggedMessage {
            again: received.is_again,
            answers: received.answers.map(|(step, _)| step.name()),
            after_ms: received.answers.map(|(_, after)| after.as_secs_f64() * 1e3),
            breaks: match &received.message {
                Err(error) => vec![error.into()],
                Ok(_) => received.violations.iter().map(BrokenRule::from).collect(),
            },
            ..message
        })
    }

    fn push(
        &mut self,
        at: Instant,
        direction: &'static str,
        bytes: &Bytes,
        complete: impl FnOnce(LoggedMessage) -> LoggedMessage,
    ) -> &LoggedMessage {
        let text = String::from_utf8_lossy(bytes).into_owned();
        self.messages.push(complete(LoggedMessage {
            at_ms: (at - *self.begin.get_or_insert(at)).as_secs_f64() * 1e3,
            direction,
            line: text.lines().next().unwrap_or_default().to_owned(),
            again: false,
            by_hand: false,
            answers: None,
            after_ms: None,
            breaks: Vec::new(),
            text,
        }));
        &self.messages[self.messages.len() - 1]
    }

    pub(super) fn messages(&self) -> &[LoggedMessage] {
        &self.messages
    }
}

impl LoggedMessage {
    /// A line with the time. The whole message follows if it was received for the first time.
    pub(super) fn text(&self) -> String {
        let arrow = if self.direction == "sent" { "-->" } else { "<--" };
        let mut text = format!("{:>10.3} ms {arrow} {}", self.at_ms, self.line);
        if let (Some(step), Some(after)) = (self.answers, self.after_ms) {
            let _ = write!(text, "   {after:.3} ms after {step}");
        }
        if self.again {
            text.push_str("   (again)");
        } else if self.direction == "sent" && !self.by_hand {
            text.push_str("   (by itself)");
        }
        text.push('\n');
        text.push_str(&lines(&self.breaks));
        if !self.again && self.direction == "received" {
            text.push_str(&behind_bars(&self.text));
        }
        text
    }
}

/// A message that is not yet sent, with the rules that it breaks.
pub(super) fn message_text(bytes: &Bytes) -> String {
    behind_bars(&String::from_utf8_lossy(bytes)) + &lines(&broken_rules(bytes))
}

/// A message with a bar before each line.
fn behind_bars(message: &str) -> String {
    message.trim_end().lines().map(|line| format!("           | {line}\n")).collect()
}

fn lines(broken: &[BrokenRule]) -> String {
    broken.iter().map(|BrokenRule { rule, what }| format!("           ! {what} ({rule})\n")).collect()
}

/// The rules that a message breaks.
fn broken_rules(bytes: &Bytes) -> Vec<BrokenRule> {
    match Message::parse(bytes) {
        Err(error) => vec![(&error).into()],
        Ok(message) => message.violations().iter().map(BrokenRule::from).collect(),
    }
}

impl From<&ParseError> for BrokenRule {
    fn from(error: &ParseError) -> Self {
        Self { rule: error.rule, what: format!("at byte {}: expected {}", error.at, error.expected) }
    }
}

impl From<&Violation> for BrokenRule {
    fn from(violation: &Violation) -> Self {
        Self { rule: violation.rule, what: violation.what.to_string() }
    }
}
