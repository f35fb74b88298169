//! The counts of a server as text and as a document.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use netrig_core::text::AlignedTable;
use serde::Serialize;

use super::Tally;
use crate::tap::KeptMessages;

/// The JSON document of a server.
#[derive(Debug, Serialize)]
pub struct ServerDocument<'a, T> {
    /// The server.
    pub server: &'a str,
    /// The listening addresses.
    pub listens: &'a [String],
    /// Its counts.
    #[serde(flatten)]
    pub tally: &'a T,
    /// The messages that were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<&'a KeptMessages>,
}

impl ServerDocument<'_, Tally> {
    /// The counts, and the messages that were kept.
    pub fn text(&self) -> String {
        let kept = self.messages.iter().flat_map(|kept| kept.lines());
        kept.fold(self.tally.text(), |text, line| text + &line + "\n")
    }
}

impl Tally {
    /// A table of message counts, and a line for each kind of failure.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut table = AlignedTable::list("lrr");
        table.row(["", "received", "sent"].map(str::to_owned));
        for (received, sent) in
            [(&self.received.requests, &self.sent.requests), (&self.received.responses, &self.sent.responses)]
        {
            for (name, received, sent) in joined(received, sent) {
                table.row([name.to_owned(), received.to_string(), sent.to_string()]);
            }
        }
        table.write(&mut text);
        let mut line = |words: String| writeln!(text, "{words}").unwrap_or_default();
        line(String::new());
        let connections = &self.connections;
        line(format!(
            "connections: {} accepted, {} refused, {} opened",
            connections.accepted, connections.refused, connections.opened
        ));
        line(format!("datagrams that the sockets had no room for: {}", self.socket_drops));
        for (what, reasons) in [
            ("connections broken", &connections.broken),
            ("messages not sent", &self.unsent),
            ("messages that are no SIP", &self.unreadable),
        ] {
            for (why, count) in &reasons.0 {
                line(format!("{what}: {count}, {why}"));
            }
        }
        text
    }
}

/// The names in either map, each with both counts.
fn joined<'a>(
    received: &'a BTreeMap<&'static str, u64>,
    sent: &'a BTreeMap<&'static str, u64>,
) -> impl Iterator<Item = (&'a str, u64, u64)> {
    let mut names: Vec<&str> = received.keys().chain(sent.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let of = |counts: &BTreeMap<&'static str, u64>, name| counts.get(name).copied().unwrap_or(0);
    names.into_iter().map(move |name| (name, of(received, name), of(sent, name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_stands_beside_what_left() {
        let mut tally = Tally { socket_drops: 2, ..Tally::default() };
        tally.received.requests.insert("INVITE", 12);
        tally.sent.responses.insert("1xx", 12);
        tally.unreadable.count("x");
        let expected = "        received  sent\n\
                        INVITE        12     0\n\
                        1xx            0    12\n\n\
                        connections: 0 accepted, 0 refused, 0 opened\n\
                        datagrams that the sockets had no room for: 2\n\
                        messages that are no SIP: 1, x\n";
        assert_eq!(tally.text(), expected);
    }
}
