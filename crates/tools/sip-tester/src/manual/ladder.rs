//! What was sent and what came, in its order.

use std::fmt::Write as _;

use bytes::Bytes;
use netrig_core::Instant;
use netrig_sip::manual::{ReceivedMessage, SendReason, Step};
use netrig_sip::{ParseError, Violation};
use serde::Serialize;

/// A message.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// ms since the first.
    pub at_ms: f64,
    /// `sent`, `received`.
    pub direction: &'static str,
    /// The first line.
    pub line: String,
    /// Whether it had been sent or had come before.
    pub again: bool,
    /// Whether a person sent it: if not, netrig by itself.
    pub by_hand: bool,
    /// What it answers: `invite`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<&'static str>,
    /// How long after that was first sent, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<f64>,
    /// The rules that it breaks.
    pub breaks: Vec<Broken>,
    /// All of it.
    pub text: String,
}

/// A rule that a message breaks.
#[derive(Clone, Debug, Serialize)]
pub struct Broken {
    /// `RFC 3261 section 8.1.1.5`.
    pub rule: &'static str,
    /// What is wrong.
    pub what: String,
}

/// All messages of a call.
#[derive(Debug, Default)]
pub struct Ladder {
    entries: Vec<Entry>,
    begun: Option<Instant>,
}

impl Ladder {
    fn ms(&mut self, at: Instant) -> f64 {
        millis(at, *self.begun.get_or_insert(at))
    }

    /// Something is sent.
    pub fn sent(&mut self, at: Instant, bytes: &Bytes, step: Option<Step>, why: SendReason) -> &Entry {
        let at_ms = self.ms(at);
        self.push(Entry {
            at_ms,
            direction: "sent",
            line: first_line(bytes),
            again: why == SendReason::Again,
            by_hand: why == SendReason::Person && step.is_some(),
            answers: None,
            after_ms: None,
            breaks: broken(bytes),
            text: String::from_utf8_lossy(bytes).into_owned(),
        })
    }

    /// Something has come.
    pub fn came(&mut self, at: Instant, came: &ReceivedMessage) -> &Entry {
        let at_ms = self.ms(at);
        let breaks = match &came.message {
            Err(error) => vec![unreadable(error)],
            Ok(_) => came.violations.iter().map(Broken::from).collect(),
        };
        self.push(Entry {
            at_ms,
            direction: "received",
            line: first_line(&came.bytes),
            again: came.is_again,
            by_hand: false,
            answers: came.answers.map(|(step, _)| step.name()),
            after_ms: came.answers.map(|(_, after)| after.as_secs_f64() * 1e3),
            breaks,
            text: String::from_utf8_lossy(&came.bytes).into_owned(),
        })
    }

    fn push(&mut self, entry: Entry) -> &Entry {
        self.entries.push(entry);
        &self.entries[self.entries.len() - 1]
    }

    /// All of them.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

impl Entry {
    /// As people read it: a line that says when, and the message below it if it is new.
    pub fn words(&self) -> String {
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
        for Broken { rule, what } in &self.breaks {
            let _ = writeln!(text, "           ! {what} ({rule})");
        }
        if !self.again && self.direction == "received" {
            text.push_str(&indented(&self.text));
        }
        text
    }
}

/// A message for people, each line behind a bar.
pub fn indented(message: &str) -> String {
    message.trim_end().lines().map(|line| format!("           | {line}\n")).collect()
}

/// The rules that a message breaks which is to be sent.
pub fn broken(bytes: &Bytes) -> Vec<Broken> {
    match netrig_sip::Message::parse(bytes) {
        Err(error) => vec![unreadable(&error)],
        Ok(message) => message.violations().iter().map(Broken::from).collect(),
    }
}

fn unreadable(error: &ParseError) -> Broken {
    Broken { rule: error.rule, what: format!("at byte {}: expected {}", error.at, error.expected) }
}

impl From<&Violation> for Broken {
    fn from(broken: &Violation) -> Self {
        Self { rule: broken.rule, what: broken.what.to_string() }
    }
}

fn first_line(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).lines().next().unwrap_or_default().to_owned()
}

fn millis(at: Instant, since: Instant) -> f64 {
    (at - since).as_secs_f64() * 1e3
}
