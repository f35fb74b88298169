//! A message in the relay, and methods that change it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// The state of the relay that planted faults need.
#[derive(Debug, Default)]
pub struct FaultMemory {
    /// All messages to the tester so far.
    pub seen: BTreeSet<String>,
    /// Addresses of the tester that have got a 400.
    pub refused: BTreeSet<SocketAddr>,
    /// Branches of requests that had credentials.
    pub with_credentials: BTreeSet<String>,
    /// Branches of requests within a dialog.
    pub within_dialogs: BTreeSet<String>,
    /// The address of the tester that got the first INVITE with a Call-ID.
    pub first_callee: BTreeMap<String, SocketAddr>,
    /// The first Contact of the tester for each Call-ID.
    pub first_contact: BTreeMap<String, String>,
    /// Addresses of the tester to which nothing is forwarded any more.
    pub dead: BTreeSet<SocketAddr>,
    /// The contacts of all registrations.
    pub contacts: BTreeSet<String>,
    /// Number of messages in which a unique value was inserted.
    pub count: u32,
}

/// A message in transit. Each byte is a character of `text` (ISO 8859-1), so that text that is not UTF-8 passes
/// unchanged.
#[derive(Debug)]
pub struct PassingMessage<'a> {
    /// Whether the message goes from the server to the tester.
    pub to_tester: bool,
    /// The address of the tester.
    pub tester: SocketAddr,
    /// The address of the server, as it occurs in messages.
    pub server: SocketAddr,
    pub text: String,
    pub memory: &'a mut FaultMemory,
    /// Whether the message is dropped.
    pub is_dropped: bool,
    /// The message is delayed by this time.
    pub delay: Duration,
    /// Whether the message is sent to the port after the tester's.
    pub to_next_port: bool,
    /// Additional messages with their delays.
    pub copies: Vec<(Duration, String)>,
    /// A message to the address of the tester in the last Via.
    pub to_caller: Option<String>,
    /// A message to the address of the tester in its Request-URI.
    pub to_contact: Option<String>,
}

impl PassingMessage<'_> {
    pub fn is_request(&self) -> bool {
        !self.text.starts_with("SIP/2.0 ")
    }

    pub fn is_forwarded(&self) -> bool {
        self.to_tester && self.is_request()
    }

    /// The status of a response to the tester; 0 for all other messages.
    pub fn status(&self) -> u16 {
        if self.to_tester { self.any_status() } else { 0 }
    }

    pub fn any_status(&self) -> u16 {
        let digits = self.text.strip_prefix("SIP/2.0 ").and_then(|rest| rest.get(..3));
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }

    /// The method in CSeq.
    pub fn method(&self) -> String {
        let cseq = self.value("CSeq").unwrap_or_default();
        cseq.split_whitespace().nth(1).unwrap_or_default().to_owned()
    }

    /// The value of the first header field with this name.
    pub fn value(&self, name: &str) -> Option<String> {
        let mut lines = self.head().0.lines();
        lines.find_map(|line| value_of(line, name)).map(str::to_owned)
    }

    /// The values of all header fields with this name.
    pub fn values(&self, name: &str) -> Vec<String> {
        self.head().0.lines().filter_map(|line| value_of(line, name)).map(str::to_owned).collect()
    }

    pub fn branch(&self) -> String {
        let via = self.value("Via").unwrap_or_default();
        via.split("branch=")
            .nth(1)
            .unwrap_or_default()
            .split([';', ','])
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    pub fn is_within_dialog(&self) -> bool {
        self.value("To").is_some_and(|to| to.contains("tag="))
    }

    /// The start line and the header fields, and the rest with the empty line and the body.
    fn head(&self) -> (&str, &str) {
        self.text.find("\r\n\r\n").map_or((&*self.text, ""), |end| self.text.split_at(end + 2))
    }

    pub fn body(&self) -> String {
        self.head().1.get(2..).unwrap_or_default().to_owned()
    }

    /// Replaces the value of each header field with this name, or removes the header field if `change` returns `None`.
    pub fn edit(&mut self, name: &str, change: impl Fn(&str) -> Option<String>) {
        let (head, rest) = self.head();
        let edited: String = head
            .split_inclusive("\r\n")
            .filter_map(|line| match value_of(line.trim_end_matches("\r\n"), name) {
                None => Some(line.to_owned()),
                Some(value) => change(value).map(|value| format!("{name}: {value}\r\n")),
            })
            .collect();
        self.text = edited + rest;
    }

    pub fn remove(&mut self, names: &[&str]) {
        for name in names {
            self.edit(name, |_| None);
        }
    }

    /// Inserts a header field after the start line.
    pub fn add(&mut self, field: &str) {
        if let Some(end) = self.text.find("\r\n") {
            self.text.insert_str(end + 2, &format!("{field}\r\n"));
        }
    }

    /// Replaces all header fields with this name by those that `change` returns.
    pub fn rearrange(&mut self, name: &str, change: impl Fn(Vec<String>) -> Vec<String>) {
        let values = self.values(name);
        self.remove(&[name]);
        for value in change(values).into_iter().rev() {
            self.add(&format!("{name}: {value}"));
        }
    }

    pub fn answer(&mut self, line: &str) {
        let rest = self.text.split_once("\r\n").map_or("", |(_, rest)| rest).to_owned();
        self.text = format!("SIP/2.0 {line}\r\n{rest}");
    }

    pub fn set_request_uri(&mut self, uri: &str) {
        let mut words = self.text.splitn(3, ' ');
        let (method, rest) = (words.next().unwrap_or_default(), words.nth(1).unwrap_or_default());
        self.text = format!("{method} {uri} {rest}");
    }

    pub fn set_body(&mut self, body: &str) {
        let (head, _) = self.head();
        self.text = format!("{head}\r\n{body}");
        self.edit("Content-Length", |_| Some(body.len().to_string()));
    }

    /// Changes the body of a message to the tester, if it has one.
    pub fn edit_body(&mut self, change: impl Fn(&str) -> String) {
        let body = self.body();
        if self.to_tester && !body.is_empty() {
            let changed = change(&body);
            self.set_body(&changed);
        }
    }
}

fn value_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (found, value) = line.split_once(':')?;
    found.trim_end().eq_ignore_ascii_case(name).then_some(value.trim())
}
