//! `netrig sip load --scenario-file` and `netrig sip serve scenario`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use netrig_core::{Duration, Fraction, SpanDistribution};
use netrig_host::host_of_target;
use netrig_host::tls::{self, Identity};
use netrig_sip::header::Transport;
use netrig_sip::load::Pace;
use netrig_sip::settings::Connections;
use netrig_sip::transaction::Timing;
use netrig_sip_net::{EndAddress, ListeningPoint};
use netrig_sip_tester::keep::LoadEvidence;
use netrig_sip_tester::media::{MediaOrder, MediaSource};
use netrig_sip_tester::request::{LoadRequest, TestedServer};
use netrig_sip_tester::scenario::{
    CallScript, InjectionFile, LinkOrder, OWN_ANSWER, OWN_CALL, ScenarioDocument, ScenarioOrder,
    ScenarioSecond, ScenarioWatch, ScriptConnections, ScriptSettings, ScriptSide, ScriptWords, read_scenario,
    read_sipp_scenario, run_scenario,
};

use super::arguments::{ScriptArguments, ServedScenario};
use crate::build::BUILD;
use crate::commands::sip::keeping::evidence;
use crate::commands::sip::load::Load;
use crate::commands::sip::refusal::refused;
use crate::failure::{Failure, exit_code, print_report};
use crate::input::{password, random_seed};
use crate::interruption::until_interrupted;
use crate::output::terminal_width;

/// Duration of the starts if the request has none and its arrivals have no end.
const LASTS: Duration = Duration::from_secs(10);

/// The keyword of the caller in the tester's own scenario.
const CALLER: &str = "caller";

/// The scenario of a file, and the name of the file. Without a file, the scenario is `own`.
fn script_of(
    file: Option<&Path>,
    own: &str,
    keys: &[(String, String)],
) -> Result<(CallScript, PathBuf), Failure> {
    if let Some(file) = file {
        let (script, warnings) = read_scenario(file, keys).map_err(Failure::request)?;
        for warning in &warnings {
            eprintln!("warning: {}: line {}: {}", file.display(), warning.line, warning.what);
        }
        return Ok((script, file.to_owned()));
    }
    let mut keys = keys.to_vec();
    if keys.iter().all(|(name, _)| name != CALLER) {
        keys.push((CALLER.to_owned(), "netrig".to_owned()));
    }
    let read = read_sipp_scenario(own, ScriptWords { keys: &keys });
    let (script, _) = read.map_err(|error| Failure::failed(format!("the own scenario: {error}")))?;
    Ok((script, PathBuf::from("netrig")))
}

/// Runs a load of calls that follow a scenario.
pub fn load_of(typed: &Load) -> Result<ExitCode, Failure> {
    let (script, file) =
        script_of(typed.script.scenario_file.as_deref(), OWN_CALL, &typed.script.script.key)?;
    if ScriptSide::of(&script) == ScriptSide::Callee {
        return Err(Failure::request(format!(
            "{}: the scenario begins with a message that is received: netrig sip serve scenario {} answers calls with it",
            file.display(),
            file.display()
        )));
    }
    let (request, period) = typed.settings()?;
    let LoadRequest { load, tester } = &request;
    let TestedServer { transport, host, address: server, may_test, tls } =
        TestedServer::of(tester, load.connections).map_err(refused)?;
    let address = EndAddress::towards(server, transport, tester.local, tls)
        .map_err(|error| Failure::request(format!("{host}: {error}")))?;
    let address = EndAddress { port: tester.local_port.unwrap_or(0), ..address };
    let SpanDistribution::Constant(hold) = load.hold.0 else {
        return Err(Failure::request(
            "--hold: of a scenario's pauses that say no time, expected one time; <pause> can draw others",
        ));
    };
    let pace = request.pace().map_err(refused)?;
    let own = if let Pace::Open(arrivals) = &pace { arrivals.lasts() } else { None };
    let usual = order(&typed.script.script, script, file, address, tester.password_env.as_deref())?;
    let order = ScenarioOrder {
        settings: ScriptSettings {
            remote_host: host_of_target(&host).to_owned(),
            pause: hold,
            t2: load.t2.unwrap_or(Timing::default().t2),
            users: load.users.unwrap_or(0),
            ..usual.settings
        },
        connections: match load.connections {
            Some(Connections::PerAttempt) => ScriptConnections::PerCall,
            Some(Connections::PerUser) => {
                return Err(Failure::request("--connections per-user: a scenario has one, or per-attempt"));
            }
            _ => ScriptConnections::One,
        },
        lasts: period.lasts.or(own).or_else(|| load.count.is_none().then_some(LASTS)),
        pace,
        count: load.count,
        users: load.users,
        most_open: load.most_calls as usize,
        seed: tester.seed,
        may_test,
        ..usual
    };
    carry_out(order, evidence(&typed.keeping, &typed.records)?, typed.json)
}

/// Answers calls by a scenario.
pub fn serve(typed: &ServedScenario) -> Result<ExitCode, Failure> {
    let (script, path) = script_of(typed.file.as_deref(), OWN_ANSWER, &typed.script.key)?;
    let file = path.display();
    if ScriptSide::of(&script) == ScriptSide::Caller {
        return Err(Failure::request(format!(
            "{file}: the scenario begins with a message that is sent: netrig sip load TARGET --scenario-file {file} begins calls \
             with it"
        )));
    }
    let ListeningPoint { transport, address } = typed.listen;
    if typed.listen.is_open_to_network() && !typed.open {
        return Err(Failure::request(format!(
            "{} can be reached over a network, and a scenario does not authenticate callers: allow that with --open, or listen at \
             127.0.0.1",
            typed.listen
        )));
    }
    let server_tls = if transport == Transport::Tls {
        let identity = match (&typed.certificate, &typed.private_key) {
            (Some(certificate), Some(key)) => Identity::read(certificate, key),
            _ => Identity::self_signed(vec!["localhost".to_owned(), address.ip().to_string()]),
        };
        Some(tls::server(&identity.map_err(Failure::request)?, None).map_err(Failure::request)?)
    } else {
        None
    };
    let end = EndAddress::towards(address, transport, Some(address.into()), None).map_err(Failure::failed)?;
    let end = EndAddress { port: address.port(), server_tls, answers_strangers: true, ..end };
    let usual = order(&typed.script, script, path.clone(), end, typed.password_env.as_deref())?;
    let order = ScenarioOrder {
        settings: ScriptSettings {
            pause: typed.hold,
            t2: typed.t2,
            users: typed.users.unwrap_or(0),
            ..usual.settings
        },
        lasts: typed.lasts,
        count: typed.count,
        users: typed.users,
        most_open: typed.most_calls as usize,
        seed: typed.seed,
        ..usual
    };
    carry_out(order, evidence(&typed.keeping, &typed.records)?, typed.json)
}

/// The order of a load of calls that follow a scenario.
fn order(
    typed: &ScriptArguments,
    script: CallScript,
    file: PathBuf,
    address: EndAddress,
    password_env: Option<&str>,
) -> Result<ScenarioOrder, Failure> {
    let link = link(typed, &script)?;
    let mut order = ScenarioOrder::new(script, address);
    let settings = &mut order.settings;
    if let Some(service) = &typed.service {
        settings.service.clone_from(service);
    }
    settings.username = typed.auth_user.as_ref().unwrap_or(&settings.service).clone();
    match (&typed.auth_password, password_env) {
        (Some(password), _) => settings.password.clone_from(password),
        (None, Some(name)) => settings.password = password(name)?,
        (None, None) => {}
    }
    if let Some(port) = typed.media_port {
        settings.media.set_port(port);
    }
    settings.codec = typed.media;
    settings.patience = typed.message_timeout;
    settings.ends_sessions = !typed.leave_sessions;
    settings.answers_by_itself = typed.answer_requests;
    // Tags and branches of two runs must differ, because a server may still have the transactions of the first run.
    settings.run_number = (random_seed()? & 0x3FFF_FFFF) as u32;
    settings.version.clone_from(&BUILD);
    Ok(ScenarioOrder {
        file,
        files: files(typed)?,
        variables: typed.variable.clone(),
        link,
        media: media(typed)?,
        runs_programs: typed.allow_commands,
        ..order
    })
}

/// The media of the calls; `None` without `--media`.
fn media(typed: &ScriptArguments) -> Result<Option<MediaOrder>, Failure> {
    let Some(codec) = typed.media else { return Ok(None) };
    let source = typed.media_source.as_deref().map_or(Ok(MediaSource::Tone), MediaSource::read);
    let source = source.map_err(|error| Failure::request(format!("--media-source: {error}")))?;
    let share = typed.media_share.map_or(1.0, Fraction::get);
    Ok(Some(MediaOrder { codec, source, share }))
}

/// Injection files by their names in the scenario.
fn files(typed: &ScriptArguments) -> Result<Vec<(String, InjectionFile)>, Failure> {
    let mut files = Vec::new();
    for path in &typed.inject {
        let mut file = InjectionFile::read(path).map_err(Failure::request)?;
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

/// The connection to the other processes of the test.
fn link(typed: &ScriptArguments, script: &CallScript) -> Result<Option<LinkOrder>, Failure> {
    if let Some(address) = typed.third_party {
        let listens = ScriptSide::of(script) == ScriptSide::Commanded;
        return Ok(Some(LinkOrder::Pair { address, listens }));
    }
    let named = typed.process.as_ref().zip(typed.processes.as_ref());
    named.map(|(own, path)| LinkOrder::read(path, own).map_err(Failure::request)).transpose()
}

fn carry_out(order: ScenarioOrder, keeping: LoadEvidence, json: bool) -> Result<ExitCode, Failure> {
    let stop = until_interrupted()?;
    let is_served = ScriptSide::of(&order.script) != ScriptSide::Caller;
    let transport = order.address.transport;
    let mut ready = |local: SocketAddr| {
        if is_served {
            let point = ListeningPoint { transport, address: local };
            eprintln!("ready: scenario at {point}");
        }
    };
    let mut second = |row: &ScenarioSecond| {
        if !is_served {
            eprintln!("{}", row.text());
        }
    };
    let watch = ScenarioWatch { stop: &stop, taps: keeping.taps(), ready: &mut ready, second: &mut second };
    let document = run_scenario(order, watch, &BUILD);
    // The kept messages are also finished if the load has failed.
    let (messages, records) = keeping.finish();
    let document = ScenarioDocument { messages, records, ..document.map_err(Failure::request)? };
    print_report(json, &document, || document.text(terminal_width()))?;
    let is_good = document.failed == 0 && document.stopped.is_none();
    Ok(exit_code(document.interrupted, document.valid, is_good))
}
