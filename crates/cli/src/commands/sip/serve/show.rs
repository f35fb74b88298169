//! What a server has done, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use netrig_core::text::AlignedTable;
use netrig_sip_net::server::Tally;
use netrig_sip_net::tap::KeptMessages;
use serde::Serialize;

/// The document of `--json`.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    server: &'a str,
    listens: &'a [String],
    #[serde(flatten)]
    tally: &'a Tally,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<&'a KeptMessages>,
}

/// A server's document.
pub const fn document<'a>(
    server: &'a str,
    listens: &'a [String],
    tally: &'a Tally,
    messages: Option<&'a KeptMessages>,
) -> Document<'a> {
    Document { server, listens, tally, messages }
}

/// A table of messages, and a line for each thing that went wrong.
pub fn table(tally: &Tally) -> String {
    let mut text = String::new();
    let mut table = AlignedTable::list("lrr");
    table.row(["", "received", "sent"].map(str::to_owned));
    for (came, left) in
        [(&tally.received.requests, &tally.sent.requests), (&tally.received.responses, &tally.sent.responses)]
    {
        for (name, came, left) in joined(came, left) {
            table.row([name.to_owned(), came.to_string(), left.to_string()]);
        }
    }
    table.write(&mut text);
    let mut line = |words: String| writeln!(text, "{words}").unwrap_or_default();
    line(String::new());
    let connections = &tally.connections;
    line(format!(
        "connections: {} accepted, {} refused, {} opened",
        connections.accepted, connections.refused, connections.opened
    ));
    line(format!("datagrams that the sockets had no room for: {}", tally.socket_drops));
    for (what, reasons) in [
        ("connections broken", &connections.broken),
        ("messages not sent", &tally.unsent),
        ("messages that are no SIP", &tally.unreadable),
    ] {
        for (why, count) in &reasons.0 {
            line(format!("{what}: {count}, {why}"));
        }
    }
    text
}

/// Names that either has, with what each counts.
fn joined<'a>(
    came: &'a BTreeMap<&'static str, u64>,
    left: &'a BTreeMap<&'static str, u64>,
) -> impl Iterator<Item = (&'a str, u64, u64)> {
    let mut names: Vec<&str> = came.keys().chain(left.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let of = |counts: &BTreeMap<&'static str, u64>, name| counts.get(name).copied().unwrap_or(0);
    names.into_iter().map(move |name| (name, of(came, name), of(left, name)))
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
        assert_eq!(table(&tally), expected);
    }
}
