//! From what was typed to an order.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use netrig_core::{Duration, Fraction};
use netrig_host::{random, user_file};
use netrig_sip_net::EndAddress;
use netrig_sip_tester::media::{MediaOrder, MediaSource};
use netrig_sip_tester::scenario::{
    CALLEE_MEDIA_PORT, CALLER_MEDIA_PORT, CallScript, InjectionFile, LinkOrder, ScriptSettings, ScriptSide,
};

use super::arguments::ScriptArguments;
use crate::build::BUILD;
use crate::failure::Failure;

/// What all calls have in common, beside the flags of scenarios.
pub struct ScriptPlace<'a> {
    /// The server, and how it was typed; any address if the other side begins calls.
    pub address: &'a EndAddress,
    pub remote_host: String,
    pub hold: Duration,
    pub t2: Duration,
    pub users: Option<u32>,
    pub password_env: Option<&'a str>,
}

/// What keywords stand for, and how calls are carried out.
pub fn settings(typed: &ScriptArguments, place: &ScriptPlace<'_>) -> Result<ScriptSettings, Failure> {
    let service = typed.service.clone().unwrap_or_else(|| "service".to_owned());
    let password = match (&typed.auth_password, place.password_env) {
        (Some(password), _) => password.clone(),
        (None, Some(name)) => std::env::var(name)
            .map_err(|_| Failure::request(format!("there is no variable {name} in the environment")))?,
        (None, None) => "password".to_owned(),
    };
    let address = place.address;
    let usual_port = if address.answers_strangers { CALLEE_MEDIA_PORT } else { CALLER_MEDIA_PORT };
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, typed.media_port.unwrap_or(usual_port)));
    Ok(ScriptSettings {
        remote: address.server,
        remote_host: place.remote_host.clone(),
        codec: typed.media,
        // The addresses of the sockets, once they are open.
        local: any,
        media: any,
        transport: address.transport,
        username: typed.auth_user.clone().unwrap_or_else(|| service.clone()),
        service,
        pause: place.hold,
        patience: typed.message_timeout,
        password,
        t2: place.t2,
        ends_sessions: !typed.leave_sessions,
        answers_by_itself: typed.answer_requests,
        // Tags and branches of two runs must not be the same: a server may know those of the first.
        run_number: u32::from_le_bytes(random().map_err(Failure::failed)?) & 0x3FFF_FFFF,
        users: place.users.unwrap_or(0),
        version: BUILD.clone(),
    })
}

/// The media of sessions.
pub fn media(typed: &ScriptArguments) -> Result<Option<MediaOrder>, Failure> {
    let Some(codec) = typed.media else { return Ok(None) };
    let source = match typed.media_source.as_deref() {
        None | Some("tone") => MediaSource::Tone,
        Some("silence") => MediaSource::Silence,
        Some("echo") => MediaSource::Echo,
        Some("nothing") => MediaSource::Nothing,
        Some(file) => {
            let bytes = user_file::read(Path::new(file), user_file::LONGEST_DATA);
            let bytes = bytes.map_err(|error| {
                Failure::request(format!(
                    "--media-source: expected tone, silence, echo, nothing or a file; cannot read {file}: {error}"
                ))
            })?;
            if bytes.is_empty() {
                return Err(Failure::request(format!("--media-source: {file} is empty")));
            }
            MediaSource::File(bytes.into())
        }
    };
    let share = typed.media_share.map_or(1.0, Fraction::get);
    Ok(Some(MediaOrder { codec, source, share }))
}

/// Injection files by the names by which the scenario knows them.
pub fn files(typed: &ScriptArguments) -> Result<Vec<(String, InjectionFile)>, Failure> {
    let mut files = Vec::new();
    for path in &typed.inject {
        let told = |why: String| Failure::request(format!("{}: {why}", path.display()));
        let text =
            user_file::read_text(path, user_file::LONGEST_DATA).map_err(|error| told(error.to_string()))?;
        let mut file = InjectionFile::parse(&text).map_err(|error| told(error.to_string()))?;
        let name = path.display().to_string();
        if let Some((_, field)) = typed.inject_index.iter().find(|(own, _)| *own == name) {
            file.index_by(*field);
        }
        files.push((name, file));
    }
    if let Some((name, _)) =
        typed.inject_index.iter().find(|(own, _)| files.iter().all(|(name, _)| name != own))
    {
        return Err(Failure::request(format!("--inject-index {name}: there is no --inject {name}")));
    }
    Ok(files)
}

/// The other processes of the test.
pub fn link(typed: &ScriptArguments, script: &CallScript) -> Result<Option<LinkOrder>, Failure> {
    if let Some(address) = typed.third_party {
        let listens = ScriptSide::of(script) == ScriptSide::Commanded;
        return Ok(Some(LinkOrder::Pair { address, listens }));
    }
    let (Some(own), Some(path)) = (&typed.process, &typed.processes) else { return Ok(None) };
    let file = path.display();
    let text = user_file::read_text(path, user_file::LONGEST_SETTINGS)
        .map_err(|error| Failure::request(format!("{file}: {error}")))?;
    let addresses = LinkOrder::addresses(&text)
        .map_err(|line| Failure::request(format!("{file}: line {line}: expected NAME;IP:PORT")))?;
    if !addresses.contains_key(own) {
        return Err(Failure::request(format!("{file}: there is no process `{own}`")));
    }
    Ok(Some(LinkOrder::Named { own: own.clone(), addresses }))
}
