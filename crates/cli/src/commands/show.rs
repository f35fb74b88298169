//! `netrig show`.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use netrig_core::Instant;
use netrig_experiment::{Experiment, Trace};
use netrig_link::{AccessConstant, Preset, asymmetry};
use netrig_store::{ExperimentId, Replication, Store};
use netrig_transport::{Constant, Profile, sctp, tcp};

use crate::arguments::{ProfileName, ProtocolName, Show, Shown, Where};
use crate::failure::{Failure, print};
use crate::request::substrate;
use crate::stored_run::{again, find};
use crate::studies::{self, STUDIES};

/// Shows a study, a profile, a preset or a run.
pub fn show(arguments: &Show) -> Result<ExitCode, Failure> {
    match &arguments.what {
        Shown::Study { name } => study(name)?,
        Shown::Profile { profile, protocol } => show_profile(*profile, *protocol)?,
        Shown::Preset { name } => presets(name.as_deref())?,
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

/// Prints a preset with all its constants. Without a name, lists the presets.
fn presets(name: Option<&str>) -> Result<(), Failure> {
    let Some(name) = name else {
        return Preset::ALL.iter().try_for_each(|preset| {
            let [rate, ..] = preset.constants();
            print(format!("{:<8} {} ({} down, {} up)", preset.name(), preset.title(), rate.down, rate.up))
        });
    };
    let Some(preset) = Preset::ALL.into_iter().find(|preset| preset.name() == name) else {
        let names = Preset::ALL.map(Preset::name).join(", ");
        return Err(Failure::request(format!("there is no preset `{name}`; there are: {names}")));
    };
    print(format!("{}: {}\n", preset.name(), preset.title()))?;
    for AccessConstant { name, down, up, source } in preset.constants() {
        let value = if down == up { down.to_owned() } else { format!("{down} down, {up} up") };
        print(format!("{name} = {value}\n    source: {source}\n"))?;
    }
    print(asymmetry_of(preset))
}

/// The asymmetry of a preset, in words, for packets of its MTU and for TCP acknowledgements with time stamps over IPv4.
fn asymmetry_of(preset: Preset) -> String {
    const ACKNOWLEDGEMENT: u32 = 20 + 20 + 12;
    let [up, down] = preset.lines();
    let longest = down.mtu.and_then(|mtu| u32::try_from(mtu.bytes()).ok()).unwrap_or(1500);
    let k = asymmetry(&down, &up, longest, ACKNOWLEDGEMENT);
    format!(
        "asymmetry k = {k:.2} (RFC 3449 section 3.1, for packets of {longest} B and acknowledgements of {ACKNOWLEDGEMENT} B)"
    )
}

/// A run's levels, responses and time line.
fn run(id: &str, place: &Where) -> Result<(), Failure> {
    let store = Store::open_read_only(&place.store).map_err(Failure::request)?;
    let (experiment, replication) = find(&store, id)?;
    let stored = &replication.run;
    let (number, seed) = (replication.number, stored.seed);
    print(format!("run {} on {}, replication {number}, seed {seed}", stored.identity, stored.substrate))?;
    for (factor, level) in replication.point.levels() {
        print(format!("  {factor} = {level}"))?;
    }
    for (name, response) in &stored.responses {
        let value = response.measured.value().map_or_else(|| "not measured".to_owned(), |v| v.to_string());
        print(format!("  {name}: {value} {}", response.unit))?;
    }
    if let Some(lasted) = stored.end.lasted() {
        print(format!("  ended at {lasted}: its flows were done"))?;
    }
    if let Some(why) = stored.end.why() {
        print(format!("  does not count: {why}"))?;
    }
    for remark in stored.end.remarks() {
        print(format!("  remark: {}", remark.text))?;
        remark.details.iter().try_for_each(|line| print(format!("    {line}")))?;
    }
    time_line(&store, experiment, &replication)
}

/// Prints the time line from the store. If the store has no time line of the run, the run is repeated.
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
    // The time line of a failed run is printed up to the failure.
    ended.map(drop).map_err(Failure::failed)
}

fn line(at: Instant, text: &str) -> Result<(), Failure> {
    print(format!("{:>12}  {text}", at.to_string()))
}
