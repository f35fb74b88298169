//! `netrig sip scenario`: checks, converts and makes scenario files. It makes no call.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use netrig_host::user_file;
use netrig_sip_tester::ladder;
use netrig_sip_tester::scenario::{
    CallScript, CapturedSide, captured_scenario, read_scenario, write_scenario_form,
};
use netrig_sip_tester::trace::SipTrace;

use super::arguments::pair;
use crate::failure::{Failure, print};
use crate::input::read_bytes;
use crate::output::{replace, terminal_width};
use crate::typed::named;

/// `netrig sip scenario`.
#[derive(Debug, Args)]
pub struct ScenarioArguments {
    /// What to do
    #[command(subcommand)]
    pub kind: ScenarioVerb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum ScenarioVerb {
    /// Read a scenario, of SIPp (XML) or in netrig's form (TOML), and list its steps and possible faults
    Check(CheckArguments),
    /// Write a scenario of SIPp (XML) in netrig's form (TOML)
    Convert(ConvertArguments),
    /// Make a scenario from a call in a capture or message log
    From(FromArguments),
}

/// `netrig sip scenario check`.
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// The scenario
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// A keyword of your own: `tenant=7` puts 7 in place of `[tenant]`; may be repeated
    #[arg(long, value_name = "KEYWORD=VALUE", value_parser = pair)]
    pub key: Vec<(String, String)>,
}

/// `netrig sip scenario convert`.
#[derive(Debug, Args)]
pub struct ConvertArguments {
    /// The scenario
    #[arg(value_name = "FILE.xml")]
    pub file: PathBuf,
    /// A keyword of your own: `tenant=7` puts 7 in place of `[tenant]`; may be repeated
    #[arg(long, value_name = "KEYWORD=VALUE", value_parser = pair)]
    pub key: Vec<(String, String)>,
    /// Write it to this file instead of the terminal
    #[arg(long, value_name = "FILE.toml")]
    pub out: Option<PathBuf>,
}

/// `netrig sip scenario from`.
#[derive(Debug, Args)]
pub struct FromArguments {
    /// The capture (pcap, pcapng) or message log
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The call; not needed if there is only one
    #[arg(value_name = "CALL-ID")]
    pub call: Option<String>,
    /// The side of the call that becomes the scenario
    #[arg(long, value_parser = named::<CapturedSide>(), default_value = "caller")]
    pub side: CapturedSide,
    /// Write it to this file instead of the terminal
    #[arg(long, value_name = "FILE.toml")]
    pub out: Option<PathBuf>,
}

/// Runs a verb.
pub fn scenario(typed: &ScenarioArguments) -> Result<ExitCode, Failure> {
    match &typed.kind {
        ScenarioVerb::Check(typed) => check(typed),
        ScenarioVerb::Convert(typed) => convert(typed),
        ScenarioVerb::From(typed) => from_capture(typed),
    }
}

fn check(typed: &CheckArguments) -> Result<ExitCode, Failure> {
    let (script, warnings) = read_scenario(&typed.file, &typed.key).map_err(Failure::request)?;
    print(script.text(&warnings, terminal_width()).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

fn convert(typed: &ConvertArguments) -> Result<ExitCode, Failure> {
    let (script, warnings) = read_scenario(&typed.file, &typed.key).map_err(Failure::request)?;
    for warning in warnings {
        eprintln!("warning: {}: line {}: {}", typed.file.display(), warning.line, warning.what);
    }
    written(&script, typed.out.as_deref())
}

fn from_capture(typed: &FromArguments) -> Result<ExitCode, Failure> {
    let file = typed.file.display();
    let told = |why: String| Failure::request(format!("{file}: {why}"));
    let bytes = read_bytes(&typed.file, user_file::LONGEST_DATA)?;
    let trace = SipTrace::read(&bytes).map_err(|error| told(error.to_string()))?;
    let call = match &typed.call {
        Some(call) => call.clone(),
        None => {
            let calls = ladder::calls(&trace);
            let [call] = &*calls else {
                return Err(told(format!(
                    "it has {} calls: say which, as `netrig sip show {file}` lists them",
                    calls.len()
                )));
            };
            call.call_id.clone()
        }
    };
    let script = captured_scenario(&trace, &call, typed.side).map_err(|error| told(error.to_string()))?;
    written(&script, typed.out.as_deref())
}

/// Writes a scenario in netrig's own form to a file or the terminal.
fn written(script: &CallScript, out: Option<&Path>) -> Result<ExitCode, Failure> {
    let text = write_scenario_form(script);
    match out {
        Some(out) => replace(out, text.as_bytes())?,
        None => print(text.trim_end())?,
    }
    Ok(ExitCode::SUCCESS)
}
