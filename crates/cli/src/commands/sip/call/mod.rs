//! `netrig sip call`: one call, message by message.

mod arguments;

use std::io::Write;
use std::process::ExitCode;

use netrig_sip::manual::{ManualClientConfig, MessageChange};
use netrig_sip::transaction::Timing;
use netrig_sip::{SipUri, Uri};
use netrig_sip_net::{Line, Transport};
use netrig_sip_tester::manual::{
    Conversation, ManualCallEnd, ManualCallError, ManualCallOrder, parse_course, usual_course,
};
use netrig_sip_tester::request::TestedServer;
use netrig_sip_tester::screen::terminal;

use crate::failure::{FAILED, Failure, INTERRUPTED, print, print_json, unwritten};
use crate::input::{password, random_seed, read};
use crate::interruption::until_interrupted;

pub use arguments::Call;

/// The longest session description, bytes. A message with it must fit into a datagram.
const LONGEST_DESCRIPTION: u64 = 60_000;

/// One call.
pub fn call(typed: &Call) -> Result<ExitCode, Failure> {
    let course = match &typed.course.script {
        Some(file) => parse_course(&read(file)?)
            .map_err(|error| Failure::request(format!("{}:{error}", file.display())))?,
        None => usual_course(typed.course.register, typed.course.hold),
    };
    let TestedServer { transport, host, address, tls, .. } = typed.reach.server(&typed.target)?;
    let line = Line::open(transport, address, typed.reach.local(), tls)
        .map_err(|error| Failure::failed(format!("there is no way to {}: {error}", typed.target)))?;
    let party = party(typed, transport, &host, &line)?;
    let changes = typed.messages.header.iter().cloned().map(MessageChange::added);
    let has_keys =
        typed.course.script.is_none() && !typed.course.no_keys && !typed.json && terminal::can_be_screen();
    let output: Box<dyn Write> =
        if typed.json { Box::new(std::io::sink()) } else { Box::new(std::io::stdout()) };
    let order = ManualCallOrder {
        line,
        changes: typed.messages.set.iter().cloned().chain(changes).collect(),
        flaw: typed.messages.fault.clone(),
        patience: typed.course.patience,
        seed: random_seed()?,
        output,
        stop: until_interrupted()?,
    };
    let mut conversation = Conversation::new(party, order);
    let end = if has_keys { conversation.talk() } else { conversation.perform(&course) };
    let end = end.map_err(|error| match error {
        ManualCallError::Output(error) => unwritten(&error),
        error => Failure::failed(error),
    })?;
    if typed.json {
        let document = conversation.document(&typed.target, &end);
        print_json(&document)?;
    } else if let ManualCallEnd::Failed(why) = &end {
        print(format!("not held: {why}"))?;
    }
    Ok(match end {
        ManualCallEnd::Held => ExitCode::SUCCESS,
        ManualCallEnd::Failed(_) => ExitCode::from(FAILED),
        ManualCallEnd::Interrupted => ExitCode::from(INTERRUPTED),
    })
}

/// The host as text in messages, without the interface of a link-local address, which is significant on this host only
/// (RFC 4007 section 6).
fn without_interface(host: &str) -> String {
    match host.split_once('%') {
        None => host.to_owned(),
        Some((ip, behind)) => {
            let port = behind.split_once(']').map_or("", |(_, port)| port);
            format!("[{}]{port}", ip.trim_start_matches('['))
        }
    }
}

/// The configuration of the caller: its URIs, its credentials and its settings.
fn party(typed: &Call, transport: Transport, host: &str, line: &Line) -> Result<ManualClientConfig, Failure> {
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
        (Some(name), Some(user)) => Some((user, password(name)?)),
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
        description: messages.sdp.to_usize(),
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
