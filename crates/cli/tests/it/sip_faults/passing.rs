//! A message in the relay, and the changes to it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// The relay's state for a planted fault.
#[derive(Debug, Default)]
pub struct FaultMemory {
    /// Messages to the tester so far.
    pub seen: BTreeSet<String>,
    /// Ends of the tester that have got a 400.
    pub refused: BTreeSet<SocketAddr>,
    /// Branches of requests that had credentials.
    pub with_credentials: BTreeSet<String>,
    /// Branches of requests within a dialog.
    pub within_dialogs: BTreeSet<String>,
    /// The end of the tester that got the first INVITE of a Call-ID.
    pub first_callee: BTreeMap<String, SocketAddr>,
    /// The first Contact of the tester in each Call-ID.
    pub first_contact: BTreeMap<String, String>,
    /// Ends of the tester for which the server is dead.
    pub dead: BTreeSet<SocketAddr>,
    /// Contacts of all registrations.
    pub contacts: BTreeSet<String>,
    /// Messages that got a unique value.
    pub count: u32,
}

/// A message in transit. Each byte of it is a letter of `text` (ISO 8859-1), so text that is not UTF-8 passes
/// unchanged.
#[derive(Debug)]
pub struct PassingMessage<'a> {
    /// From the server to the tester, or the other way.
    pub to_tester: bool,
    /// The end of the tester.
    pub tester: SocketAddr,
    /// The server's address, as it occurs in messages.
    pub server: SocketAddr,
    pub text: String,
    pub memory: &'a mut FaultMemory,
    /// It is dropped.
    pub is_dropped: bool,
    /// It waits for this time.
    pub delay: Duration,
    /// It goes to the port after the tester's.
    pub to_next_port: bool,
    /// Additional messages, each with its delay.
    pub copies: Vec<(Duration, String)>,
    /// Messages to the end of the tester with the last Via.
    pub to_caller: Option<String>,
    /// Messages to the end of the tester that its Request-URI names.
    pub to_contact: Option<String>,
}

impl PassingMessage<'_> {
    pub fn is_request(&self) -> bool {
        !self.text.starts_with("SIP/2.0 ")
    }

    pub fn is_forwarded(&self) -> bool {
        self.to_tester && self.is_request()
    }

    /// Status of a response to the tester; 0 for all others.
    pub fn status(&self) -> u16 {
        if self.to_tester { self.any_status() } else { 0 }
    }

    pub fn any_status(&self) -> u16 {
        let digits = self.text.strip_prefix("SIP/2.0 ").and_then(|rest| rest.get(..3));
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }

    /// Method of CSeq.
    pub fn method(&self) -> String {
        let cseq = self.value("CSeq").unwrap_or_default();
        cseq.split_whitespace().nth(1).unwrap_or_default().to_owned()
    }

    /// The first value of a header field.
    pub fn value(&self, name: &str) -> Option<String> {
        let mut lines = self.head().0.lines();
        lines.find_map(|line| value_of(line, name)).map(str::to_owned)
    }

    /// All values of a header field, a line each.
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

    /// Head with its last line end, and body.
    fn head(&self) -> (&str, &str) {
        self.text.find("\r\n\r\n").map_or((&*self.text, ""), |end| self.text.split_at(end + 2))
    }

    pub fn body(&self) -> String {
        self.head().1.get(2..).unwrap_or_default().to_owned()
    }

    /// Each header field of this name is replaced, or removed.
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

    /// A header field below the first line.
    pub fn add(&mut self, field: &str) {
        if let Some(end) = self.text.find("\r\n") {
            self.text.insert_str(end + 2, &format!("{field}\r\n"));
        }
    }

    /// Lines of a header field after a change of their order or number.
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

    /// The body of a message to the tester, if it has one.
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
