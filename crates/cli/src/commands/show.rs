//! `netrig show`.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use netrig_core::Instant;
use netrig_experiment::{Experiment, Trace};
use netrig_store::{ExperimentId, Replication, Store};
use netrig_transport::{Constant, Profile, sctp, tcp};

use crate::arguments::{ProfileName, ProtocolName, Show, Shown, Where};
use crate::failure::{Failure, print};
use crate::request::substrate;
use crate::stored_run::{again, find};
use crate::studies::{self, STUDIES};

/// Shows a study, a profile or a run.
pub fn show(arguments: &Show) -> Result<ExitCode, Failure> {
    match &arguments.what {
        Shown::Study { name } => study(name)?,
        Shown::Profile { profile, protocol } => show_profile(*profile, *protocol)?,
        Shown::Run { id, place } => run(id, place)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn study(name: &str) -> Result<(), Failure> {
    let Some((study, text)) = studies::find(name) else {
        let names: Vec<_> = STUDIES.iter().flat_map(|study| study.names().map(|(name, _)| name)).collect();
        return Err(Failure::request(format!("there is no study `{name}`; there are: {}", names.join(", "))));
    };
    if study.name != name {
        return print(text.trim_end());
    }
    print(format!("{}: {}\n", study.name, study.title))?;
    for (name, text) in study.names() {
        let question = Experiment::parse_runs(&name, text).map_err(Failure::failed)?.question;
        print(format!("  netrig run {name:<28} {question}"))?;
    }
    match study.readme {
        Some(readme) => print(format!("\n{}", readme.trim_end())),
        None => Ok(()),
    }
}

fn show_profile(name: ProfileName, only: Option<ProtocolName>) -> Result<(), Failure> {
    let profile = match name {
        ProfileName::Rfc => Profile::Rfc,
        ProfileName::Linux => Profile::Linux,
        ProfileName::Ns2 => Profile::Ns2,
    };
    let tables = [
        (ProtocolName::Tcp, "TCP", tcp::Config::constants(profile)),
        (ProtocolName::Sctp, "SCTP", sctp::Config::constants(profile)),
    ];
    for (protocol, title, constants) in tables {
        if only.is_none_or(|only| only == protocol) {
            print(format!("{title}, profile {profile}\n"))?;
            for constant in constants {
                print(entry(&constant))?;
            }
        }
    }
    Ok(())
}

fn entry(constant: &Constant) -> String {
    let Constant { name, doc, value, source } = constant;
    format!("{name} = {value}\n    {doc}\n    source: {source}\n")
}

/// A run's levels, responses and time line.
fn run(id: &str, place: &Where) -> Result<(), Failure> {
    let store = Store::open_read_only(&place.store).map_err(Failure::request)?;
    let (experiment, replication) = find(&store, id)?;
    let stored = &replication.run;
    let (number, seed) = (replication.number, stored.seed);
    print(format!("run {} on {}, replication {number}, seed {seed}", stored.identity, stored.substrate))?;
    for (factor, level) in &replication.point.0 {
        print(format!("  {factor} = {level}"))?;
    }
    for (name, response) in &stored.responses {
        let value = response.measured.value().map_or_else(|| "not measured".to_owned(), |v| v.to_string());
        print(format!("  {name}: {value} {}", response.unit))?;
    }
    if let Some(lasted) = stored.end.lasted() {
        print(format!("  ended at {lasted}: the flows that it waited for were done"))?;
    }
    if let Some(why) = stored.end.why() {
        print(format!("  does not count: {why}"))?;
    }
    time_line(&store, experiment, &replication)
}

/// What happened and when, as the store has it; of a run that was not traced, as it happens when it is made again.
fn time_line(store: &Store, experiment: ExperimentId, replication: &Replication) -> Result<(), Failure> {
    let stored = store.notes(&replication.run.identity).map_err(Failure::failed)?;
    if !stored.is_empty() {
        print("")?;
        return stored.iter().try_for_each(|note| line(note.at, &note.text));
    }
    let (run, mut trace) = (again(store, experiment, replication)?, Trace::new());
    let substrate = substrate(&replication.run.substrate)?;
    let ended = substrate.run(&run, &mut trace, &AtomicBool::new(false));
    print("")?;
    trace.notes().iter().try_for_each(|note| line(note.at, &note.text))?;
    // Of a run that fails, the time line up to there has been told.
    ended.map(drop).map_err(Failure::failed)
}

fn line(at: Instant, text: &str) -> Result<(), Failure> {
    print(format!("{:>12}  {text}", at.to_string()))
}
