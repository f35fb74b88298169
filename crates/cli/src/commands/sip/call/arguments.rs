//! The arguments of `netrig sip call`.

use std::path::PathBuf;

use clap::Args;
use netrig_core::{Duration, Size};
use netrig_sip::Uri;
use netrig_sip::manual::{Flaw, MessageChange};
use netrig_sip_tester::request::ReachSettings;

use crate::typed::Typed;

/// `netrig sip call`.
#[derive(Debug, Args)]
pub struct Call {
    /// The server: `udp:192.0.2.1:5060`, `tcp:example.com`, `tls:[2001:db8::1]:5061`, `udp:[fe80::1%eth0]:5060`
    #[arg(value_name = "TARGET")]
    pub target: String,
    #[command(flatten)]
    pub parties: Parties,
    #[command(flatten)]
    pub messages: Messages,
    #[command(flatten)]
    pub course: Course,
    #[command(flatten)]
    pub reach: Typed<ReachSettings>,
    /// Print one JSON document instead of the messages: each with its time, sent or received, and the rules that it breaks
    #[arg(long)]
    pub json: bool,
}

/// The caller and the callee.
#[derive(Debug, Args)]
#[command(next_help_heading = "Parties")]
pub struct Parties {
    /// The caller; by default `sip:netrig@` and the target's host
    #[arg(long, value_name = "URI")]
    pub from: Option<Uri>,
    /// The callee; by default the server itself
    #[arg(long, value_name = "URI")]
    pub to: Option<Uri>,
    /// The Request-URI of requests outside a call; by default the URI of `--to`
    #[arg(long, value_name = "URI")]
    pub request_uri: Option<Uri>,
    /// The user name for challenges; by default the user of `--from`
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// The variable of the environment with the password, for a server that requires one
    #[arg(long, value_name = "NAME")]
    pub password_env: Option<String>,
}

/// The content of messages.
#[derive(Debug, Args)]
#[command(next_help_heading = "Messages")]
pub struct Messages {
    /// Add a header field: `X-Test: 1`, or for one method `INVITE Subject: x`; may be repeated
    #[arg(long, value_name = "[METHOD ]NAME: VALUE")]
    pub header: Vec<MessageChange>,
    /// Replace the header fields of a name, or remove them if there is no value: `Max-Forwards: 0`, `INVITE Contact:`. Also
    /// `Request-URI`, `Request-Line` and `Body`. Wrong values are sent as they are; may be repeated
    #[arg(long, value_name = "[METHOD ]NAME: VALUE")]
    pub set: Vec<MessageChange>,
    /// Break a rule of SIP on purpose; the message is marked: `garbled-via`, or for one method `INVITE garbled-via`. The page on
    /// `sip call` lists all faults
    #[arg(long, value_name = "[METHOD ]FAULT")]
    pub fault: Option<Flaw>,
    /// Size of the session descriptions; `0B` for none
    #[arg(long, value_name = "SIZE", default_value = "300B")]
    pub sdp: Size,
    /// The text of a MESSAGE
    #[arg(long, value_name = "TEXT", default_value = "hello")]
    pub text: String,
    /// Duration of a registration
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub expires: Duration,
    /// T1 of RFC 3261: an unanswered request is retransmitted after T1, and times out after 64 × T1
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    pub t1: Duration,
}

/// A call without a user at the keyboard.
#[derive(Debug, Args)]
#[command(next_help_heading = "Course")]
pub struct Course {
    /// A script: on each line a request and, indented below it, its changes; or `wait 180`, `wait final`, `pause 1s`
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Register before the call
    #[arg(long, conflicts_with = "script")]
    pub register: bool,
    /// Duration of the call
    #[arg(long, value_name = "TIME", default_value = "1s", conflicts_with = "script")]
    pub hold: Duration,
    /// The longest time that a call rings, and that a script waits
    #[arg(long, value_name = "TIME", default_value = "40s")]
    pub patience: Duration,
    /// Make the call without the keyboard, even on a terminal
    #[arg(long)]
    pub no_keys: bool,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        call: Call,
    }

    #[test]
    fn a_call_is_sent_from_an_address_of_a_link_with_its_interface() {
        let typed = |local: &str| Line::try_parse_from(["call", "udp:[fe80::2%lo]:5060", "--local", local]);
        assert_eq!(typed("fe80::1%lo").unwrap().call.reach.local(), Some("fe80::1%lo".parse().unwrap()));
        let unscoped = typed("fe80::1").unwrap_err().to_string();
        assert!(unscoped.contains("needs an interface"), "{unscoped}");
    }
}
