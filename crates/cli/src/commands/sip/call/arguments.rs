//! What may be typed behind `netrig sip call`.

use std::path::PathBuf;

use clap::Args;
use netrig_core::{Duration, Size};
use netrig_sip::Uri;
use netrig_sip::manual::{Flaw, MessageChange};

use crate::commands::sip::reach::ServerReach;

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
    pub reach: ServerReach,
    /// Print one JSON document instead of the messages: each with when it was sent or came, and the rules that it breaks
    #[arg(long)]
    pub json: bool,
}

/// Who calls whom.
#[derive(Debug, Args)]
#[command(next_help_heading = "Parties")]
pub struct Parties {
    /// Who calls; `sip:netrig@` and the target's host if not given
    #[arg(long, value_name = "URI")]
    pub from: Option<Uri>,
    /// Who is called; the server itself if not given
    #[arg(long, value_name = "URI")]
    pub to: Option<Uri>,
    /// The Request-URI of what is asked outside of a call; that of `--to` if not given
    #[arg(long, value_name = "URI")]
    pub request_uri: Option<Uri>,
    /// The name with which challenges are answered; the user of `--from` if not given
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// A variable of the environment with the password, for servers that ask for one
    #[arg(long, value_name = "NAME")]
    pub password_env: Option<String>,
}

/// What messages are like.
#[derive(Debug, Args)]
#[command(next_help_heading = "Messages")]
pub struct Messages {
    /// A header field beside those of its name: `X-Test: 1`, or `INVITE Subject: x` of one method; given several times
    #[arg(long, value_name = "[METHOD ]NAME: VALUE")]
    pub header: Vec<MessageChange>,
    /// A header field in the place of those of its name, none without a value: `Max-Forwards: 0`, `INVITE Contact:`. Also
    /// `Request-URI`, `Request-Line` and `Body`. What is wrong is sent as it is; given several times
    #[arg(long, value_name = "[METHOD ]NAME: VALUE")]
    pub set: Vec<MessageChange>,
    /// Break a rule of SIP on purpose, which is told with the message: `garbled-via`, or `INVITE garbled-via` of one method;
    /// the page on `sip call` has them all
    #[arg(long, value_name = "[METHOD ]FAULT")]
    pub fault: Option<Flaw>,
    /// The size of the session descriptions; `0B` for none
    #[arg(long, value_name = "SIZE", default_value = "300B")]
    pub sdp: Size,
    /// The text of a MESSAGE
    #[arg(long, value_name = "TEXT", default_value = "hello")]
    pub text: String,
    /// How long a registration is to last
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub expires: Duration,
    /// T1 of RFC 3261: what is not answered is sent again after it, and given up after 64 of it
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    pub t1: Duration,
}

/// What is sent without somebody at the keys.
#[derive(Debug, Args)]
#[command(next_help_heading = "Course")]
pub struct Course {
    /// What is sent, line by line: a request and, indented below it, its changes; `wait 180`, `wait final`, `pause 1s`
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Register before the call
    #[arg(long, conflicts_with = "script")]
    pub register: bool,
    /// How long the call is held
    #[arg(long, value_name = "TIME", default_value = "1s", conflicts_with = "script")]
    pub hold: Duration,
    /// The longest that a call rings, and that a script waits for something
    #[arg(long, value_name = "TIME", default_value = "40s")]
    pub patience: Duration,
    /// Go through the course even where there is a terminal with somebody at its keys
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
        assert_eq!(typed("fe80::1%lo").unwrap().call.reach.local, Some("fe80::1%lo".parse().unwrap()));
        let unscoped = typed("fe80::1").unwrap_err().to_string();
        assert!(unscoped.contains("needs an interface"), "{unscoped}");
    }
}
