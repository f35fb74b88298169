//! `netrig sip call`: one call, message by message.

mod arguments;
mod conversation;
mod editor;
mod keys;
mod ladder;
mod raw_keys;
mod script;

use std::process::ExitCode;

use netrig_core::Seeds;
use netrig_host::{HostAddress, random};
use netrig_sip::manual::{ManualClient, ManualClientConfig, MessageChange};
use netrig_sip::transaction::Timing;
use netrig_sip::{SipUri, Uri};
use netrig_sip_net::Line;
use serde::Serialize;

use self::conversation::{Conversation, Ended};
use self::ladder::{Entry, Ladder};
use super::subject::target;
use crate::failure::{FAILED, Failure, INTERRUPTED, print};
use crate::interruption::until_interrupted;
use netrig_sip_tester::screen::terminal;

pub use arguments::Call;

/// The longest session description, bytes: a message has to fit into a datagram.
const LONGEST_DESCRIPTION: u64 = 60_000;

/// What a call has come to.
#[derive(Debug, Serialize)]
struct Document<'a> {
    target: &'a str,
    local: String,
    /// Whether all went as it should.
    held: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    interrupted: bool,
    messages: &'a [Entry],
}

/// One call.
pub fn call(typed: &Call) -> Result<ExitCode, Failure> {
    let acts = match &typed.course.script {
        Some(file) => script::script(file)?,
        None => script::usual(typed.course.register, typed.course.hold),
    };
    let line = line(typed)?;
    let local = line.local();
    let party = party(typed, &line)?;
    let has_credentials = party.credentials.is_some();
    let seed = u64::from_le_bytes(random().map_err(Failure::failed)?);
    let desk = ManualClient::new(party, Seeds::new(seed).stream("sip/call"));
    let changes = typed.messages.header.iter().cloned().map(MessageChange::added);
    let changes: Vec<MessageChange> = typed.messages.set.iter().cloned().chain(changes).collect();
    let stop = until_interrupted()?;
    let has_keys =
        typed.course.script.is_none() && !typed.course.no_keys && !typed.json && terminal::can_be_screen();
    let mut conversation = Conversation {
        line,
        desk,
        changes,
        flaw: typed.messages.fault.clone(),
        ladder: Ladder::default(),
        has_credentials,
        patience: typed.course.patience,
        is_silent: typed.json,
        heard: None,
        stop,
    };
    let ended = if has_keys { keys::talk(&mut conversation)? } else { conversation.perform(&acts)? };
    let why = match &ended {
        Ended::Failed(why) => Some(why.as_str()),
        Ended::Held | Ended::Interrupted => None,
    };
    if typed.json {
        let document = Document {
            target: &typed.target,
            local: HostAddress::text_with_port(local),
            held: ended == Ended::Held,
            why,
            interrupted: ended == Ended::Interrupted,
            messages: conversation.ladder.entries(),
        };
        print(serde_json::to_string_pretty(&document).map_err(Failure::failed)?)?;
    } else if let Some(why) = why {
        print(format!("not held: {why}"))?;
    }
    Ok(match ended {
        Ended::Held => ExitCode::SUCCESS,
        Ended::Failed(_) => ExitCode::from(FAILED),
        Ended::Interrupted => ExitCode::from(INTERRUPTED),
    })
}

/// The socket to the server, which may be tested.
fn line(typed: &Call) -> Result<Line, Failure> {
    let (transport, address, tls) = typed.reach.server(&typed.target)?;
    let opened = Line::open(transport, address, typed.reach.local, tls);
    opened.map_err(|error| Failure::failed(format!("there is no way to {}: {error}", typed.target)))
}

/// A host as messages name it: the interface of an address of a link means something to this host only (RFC 4007 section 6).
fn without_interface(host: &str) -> String {
    match host.split_once('%') {
        None => host.to_owned(),
        Some((ip, behind)) => {
            let port = behind.split_once(']').map_or("", |(_, port)| port);
            format!("[{}]{port}", ip.trim_start_matches('['))
        }
    }
}

/// Who calls whom.
fn party(typed: &Call, line: &Line) -> Result<ManualClientConfig, Failure> {
    let (transport, host) = target(&typed.target)?;
    let parties = &typed.parties;
    let server: Uri = format!("sip:{}", without_interface(host))
        .parse()
        .map_err(|error| Failure::request(format!("`{host}` is no host of a SIP URI: {error}")))?;
    let named = |user: &str| match &server {
        Uri::Sip(uri) => Uri::Sip(SipUri::clone(uri).with_user(user)),
        other => other.clone(),
    };
    let from = parties.from.clone().unwrap_or_else(|| named("netrig"));
    let to = parties.to.clone().unwrap_or_else(|| server.clone());
    let user = from.as_sip().and_then(|uri| uri.user.clone());
    let credentials = match (&parties.password_env, parties.user.clone().or(user)) {
        (None, _) => None,
        (Some(_), None) => return Err(Failure::request("--password-env needs a --user, or one in --from")),
        (Some(name), Some(user)) => {
            let password = std::env::var(name)
                .map_err(|error| Failure::request(format!("the password in `{name}`: {error}")))?;
            Some((user, password))
        }
    };
    let messages = &typed.messages;
    if messages.t1.is_zero() {
        return Err(Failure::request("--t1 must be above zero"));
    }
    if messages.sdp.bytes() > LONGEST_DESCRIPTION {
        return Err(Failure::request("--sdp: a message of SIP takes at most 60 KB of it"));
    }
    Ok(ManualClientConfig {
        local: line.local(),
        transport,
        target: parties.request_uri.clone().unwrap_or_else(|| to.clone()),
        from,
        to,
        registrar: server,
        credentials,
        description: usize::try_from(messages.sdp.bytes()).unwrap_or(usize::MAX),
        text: messages.text.clone(),
        expires: u32::try_from(messages.expires.as_secs_f64().ceil() as u64).unwrap_or(u32::MAX),
        timing: Timing::of(messages.t1, None, Timing::default().t4),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_a_host_without_its_interface() {
        for (typed, named) in [
            ("[fe80::2%eth0]:5070", "[fe80::2]:5070"),
            ("[fe80::2%eth0]", "[fe80::2]"),
            ("fe80::2%eth0", "[fe80::2]"),
            ("[2001:db8::1]:5070", "[2001:db8::1]:5070"),
            ("example.com:5070", "example.com:5070"),
        ] {
            assert_eq!(without_interface(typed), named);
        }
    }
}
