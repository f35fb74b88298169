//! `netrig sip load --scenario-file` and `netrig sip serve scenario`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use netrig_core::{Duration, SpanDistribution};
use netrig_host::tls::{self, Identity};
use netrig_sip::header::Transport;
use netrig_sip::load::{Arrivals, Gaps, Pace};
use netrig_sip_net::{EndAddress, ListeningPoint, source_towards};
use netrig_sip_tester::scenario::{
    CallScript, OWN_ANSWER, OWN_CALL, ScenarioDocument, ScenarioLoadError, ScenarioOrder, ScenarioSecond,
    ScenarioWatch, ScriptConnections, ScriptSide, ScriptWords, read_sipp_scenario, run_scenario,
};

use super::arguments::ServedScenario;
use super::check::read_script;
use super::order::{self, ScriptPlace};
use super::show;
use crate::build::BUILD;
use crate::commands::probe::host as typed_host;
use crate::commands::sip::keeping::evidence;
use crate::commands::sip::load::{Load, pace};
use crate::commands::sip::reach::permit;
use crate::commands::sip::subject::{self, ConnectionsName};
use crate::failure::{FAILED, Failure, INTERRUPTED, TESTER, print};
use crate::interruption::until_interrupted;
use crate::output::terminal_width;
use netrig_sip_tester::keep::LoadEvidence;

/// How long calls begin if neither that is said nor what is offered has an end.
const LASTS: Duration = Duration::from_secs(10);

/// What the kernel takes for a datagram of SIP in a socket, and for how many there is room, bytes.
const ROOM: u32 = 8 << 20;

/// Connections that peers may open to the tester.
const MOST_ACCEPTED: usize = 10_000;

/// The scenario of a file, or the tester's own, with the name of the file.
fn script_of(
    file: Option<&Path>,
    own: &str,
    keys: &[(String, String)],
) -> Result<(CallScript, PathBuf), Failure> {
    if let Some(file) = file {
        let (script, warnings) = read_script(file, keys)?;
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

/// The keyword of the own scenario that stands for the user who calls.
const CALLER: &str = "caller";

/// Puts calls of a scenario on a server.
pub fn load_of(typed: &Load) -> Result<ExitCode, Failure> {
    let (script, file) =
        script_of(typed.script.scenario_file.as_deref(), OWN_CALL, &typed.script.script.key)?;
    let side = ScriptSide::of(&script);
    if side == ScriptSide::Callee {
        return Err(Failure::request(format!(
            "{}: the scenario begins with a message that is received: netrig sip serve scenario {} answers calls with it",
            file.display(),
            file.display()
        )));
    }
    let (tester, call) = (&typed.subject.tester, &typed.subject.call);
    let (transport, host) = subject::target(&typed.subject.target)?;
    let server = subject::address(host, transport)?;
    let may_test = permit(server.ip(), host, tester.i_may_test.as_deref())?;
    let tls = subject::client_tls(&typed.subject.connections, transport, host, server.ip())?;
    let local = match tester.local {
        Some(local) => local,
        None => source_towards(server).map_err(|error| Failure::request(format!("{host}: {error}")))?,
    };
    let address = EndAddress {
        transport,
        server,
        local,
        port: tester.local_port,
        tls,
        server_tls: None,
        room: ROOM,
        most_accepted: MOST_ACCEPTED,
        answers_strangers: false,
    };
    let SpanDistribution::Constant(hold) = call.hold else {
        return Err(Failure::request(
            "--hold: of a scenario's pauses that say no time, expected one time; <pause> can draw others",
        ));
    };
    let place = ScriptPlace {
        address: &address,
        remote_host: typed_host(host).to_owned(),
        hold,
        t2: call.t2.unwrap_or_else(|| Duration::from_secs(4).max(call.t1)),
        users: typed.subject.population.users,
        password_env: typed.subject.population.password_env.as_deref(),
    };
    let script_typed = &typed.script.script;
    let pace = pace(&typed.arrivals)?;
    let own = if let Pace::Open(arrivals) = &pace { arrivals.lasts() } else { None };
    let has_count = typed.arrivals.count.is_some();
    let lasts = typed.arrivals.lasts.or(own).or_else(|| (!has_count).then_some(LASTS));
    let order = ScenarioOrder {
        settings: order::settings(script_typed, &place)?,
        files: order::files(script_typed)?,
        variables: script_typed.variable.clone(),
        link: order::link(script_typed, &script)?,
        script,
        media: order::media(script_typed)?,
        file,
        connections: match typed.subject.connections.connections {
            Some(ConnectionsName::PerAttempt) => ScriptConnections::PerCall,
            Some(ConnectionsName::PerUser) => {
                return Err(Failure::request("--connections per-user: a scenario has one, or per-attempt"));
            }
            _ => ScriptConnections::One,
        },
        address,
        pace,
        lasts,
        count: typed.arrivals.count,
        users: typed.subject.population.users,
        most_open: tester.most_calls as usize,
        seed: typed.arrivals.seed,
        runs_programs: script_typed.allow_commands,
        may_test,
    };
    carry_out(order, evidence(&typed.keeping, &typed.records)?, typed.json)
}

/// Answers calls with a scenario.
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
    if !address.ip().is_loopback() && !typed.open {
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
    let end = EndAddress {
        transport,
        server: address,
        local: address.into(),
        port: address.port(),
        tls: None,
        server_tls,
        room: ROOM,
        most_accepted: MOST_ACCEPTED,
        answers_strangers: true,
    };
    let place = ScriptPlace {
        address: &end,
        remote_host: address.ip().to_string(),
        hold: typed.hold,
        t2: typed.t2,
        users: typed.users,
        password_env: typed.password_env.as_deref(),
    };
    let order = ScenarioOrder {
        settings: order::settings(&typed.script, &place)?,
        files: order::files(&typed.script)?,
        variables: typed.script.variable.clone(),
        link: order::link(&typed.script, &script)?,
        script,
        media: order::media(&typed.script)?,
        file: path.clone(),
        connections: ScriptConnections::One,
        address: end,
        pace: Pace::Open(Arrivals::at(0.0, Gaps::Constant)),
        lasts: typed.lasts,
        count: typed.count,
        users: typed.users,
        most_open: typed.most_calls as usize,
        seed: typed.seed,
        runs_programs: typed.script.allow_commands,
        may_test: false,
    };
    carry_out(order, evidence(&typed.keeping, &typed.records)?, typed.json)
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
            eprintln!("{}", show::second(row));
        }
    };
    let watch = ScenarioWatch { stop: &stop, taps: keeping.taps(), ready: &mut ready, second: &mut second };
    let document = run_scenario(order, watch, &BUILD);
    // Also what a load has sent that could not go on is evidence.
    let (messages, records) = keeping.finish();
    let document = ScenarioDocument { messages, records, ..document.map_err(failure)? };
    if json {
        print(serde_json::to_string_pretty(&document).map_err(Failure::failed)?)?;
    } else {
        print(show::table(&document, terminal_width()).trim_end())?;
    }
    Ok(exit_code(&document))
}

fn exit_code(document: &ScenarioDocument) -> ExitCode {
    match document {
        ScenarioDocument { interrupted: true, .. } => ExitCode::from(INTERRUPTED),
        ScenarioDocument { valid: false, .. } => ExitCode::from(TESTER),
        ScenarioDocument { failed: 1.., .. } | ScenarioDocument { stopped: Some(_), .. } => {
            ExitCode::from(FAILED)
        }
        _ => ExitCode::SUCCESS,
    }
}

fn failure(error: ScenarioLoadError) -> Failure {
    Failure::request(error)
}
