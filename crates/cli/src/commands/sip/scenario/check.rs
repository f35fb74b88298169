//! `netrig sip scenario`: files that say what a call does, looked at without a call.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use netrig_core::number::counted;
use netrig_core::text::wrapped;
use netrig_host::user_file;
use netrig_sip_tester::ladder;
use netrig_sip_tester::scenario::{
    CallScript, CapturedSide, ScenarioWarning, ScriptWords, captured_scenario, read_scenario_form,
    read_sipp_scenario, write_scenario_form,
};
use netrig_sip_tester::trace::SipTrace;

use super::arguments::pair;
use crate::failure::{Failure, print};
use crate::output::{replace, terminal_width};

/// Bytes of a scenario at most: sixteen times what SIPp takes.
const LONGEST_SCENARIO: u64 = 1 << 20;

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
    /// Read a scenario, of SIPp (XML) or of netrig's own form (TOML), and list its steps and what is doubtful in it
    Check(CheckArguments),
    /// Write a scenario of SIPp (XML) in netrig's own form (TOML)
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
    /// A keyword of one's own: `[tenant]` stands for the value; given several times
    #[arg(long, value_name = "KEYWORD=VALUE", value_parser = pair)]
    pub key: Vec<(String, String)>,
}

/// `netrig sip scenario convert`.
#[derive(Debug, Args)]
pub struct ConvertArguments {
    /// The scenario
    #[arg(value_name = "FILE.xml")]
    pub file: PathBuf,
    /// A keyword of one's own, whose value is put in its place; given several times
    #[arg(long, value_name = "KEYWORD=VALUE", value_parser = pair)]
    pub key: Vec<(String, String)>,
    /// Write it there instead of to the terminal
    #[arg(long, value_name = "FILE.toml")]
    pub out: Option<PathBuf>,
}

/// `netrig sip scenario from`.
#[derive(Debug, Args)]
pub struct FromArguments {
    /// The capture (pcap, pcapng) or message log
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The call; not needed if there is one only
    #[arg(value_name = "CALL-ID")]
    pub call: Option<String>,
    /// Which side of the call the scenario is
    #[arg(long, value_enum, default_value_t = SideName::Caller)]
    pub side: SideName,
    /// Write it there instead of to the terminal
    #[arg(long, value_name = "FILE.toml")]
    pub out: Option<PathBuf>,
}

/// A side of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SideName {
    /// Who sent its first message
    Caller,
    /// Who received it
    Callee,
}

/// Carries a verb out.
pub fn scenario(typed: &ScenarioArguments) -> Result<ExitCode, Failure> {
    match &typed.kind {
        ScenarioVerb::Check(typed) => check(typed),
        ScenarioVerb::Convert(typed) => convert(typed),
        ScenarioVerb::From(typed) => from_capture(typed),
    }
}

fn check(typed: &CheckArguments) -> Result<ExitCode, Failure> {
    let (script, warnings) = read_script(&typed.file, &typed.key)?;
    print(report(&script, &warnings, terminal_width()).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// A scenario from its file.
pub fn read_script(
    path: &Path,
    keys: &[(String, String)],
) -> Result<(CallScript, Vec<ScenarioWarning>), Failure> {
    let file = path.display();
    let bytes = user_file::read(path, LONGEST_SCENARIO);
    let bytes = bytes.map_err(|error| Failure::request(format!("cannot read {file}: {error}")))?;
    // SIPp's own scenarios say ISO 8859-1, in which each byte is a character.
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|error| error.into_bytes().into_iter().map(char::from).collect());
    if path.extension().is_some_and(|ending| ending == "toml") {
        let read = read_scenario_form(&text, ScriptWords { keys });
        let script = read.map_err(|error| Failure::request(format!("{file}: {error}")))?;
        return Ok((script, Vec::new()));
    }
    read_sipp_scenario(&text, ScriptWords { keys })
        .map_err(|error| Failure::request(format!("{file}: {error}")))
}

fn convert(typed: &ConvertArguments) -> Result<ExitCode, Failure> {
    let (script, warnings) = read_script(&typed.file, &typed.key)?;
    for warning in warnings {
        eprintln!("warning: {}: line {}: {}", typed.file.display(), warning.line, warning.what);
    }
    written(&script, typed.out.as_deref())
}

fn from_capture(typed: &FromArguments) -> Result<ExitCode, Failure> {
    let file = typed.file.display();
    let told = |why: String| Failure::request(format!("{file}: {why}"));
    let bytes =
        user_file::read(&typed.file, user_file::LONGEST_DATA).map_err(|error| told(error.to_string()))?;
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
    let side = match typed.side {
        SideName::Caller => CapturedSide::Caller,
        SideName::Callee => CapturedSide::Callee,
    };
    let script = captured_scenario(&trace, &call, side).map_err(|error| told(error.to_string()))?;
    written(&script, typed.out.as_deref())
}

/// A scenario in netrig's own form, to a file or the terminal.
fn written(script: &CallScript, out: Option<&Path>) -> Result<ExitCode, Failure> {
    let text = write_scenario_form(script);
    match out {
        Some(out) => replace(out, text.as_bytes())?,
        None => print(text.trim_end())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn report(script: &CallScript, warnings: &[ScenarioWarning], width: usize) -> String {
    let steps = counted(script.steps.len() as u64, "step", "steps");
    let mut text = format!("{:?}: {steps}\n", script.name);
    for (step, number) in script.steps.iter().zip(1..) {
        let line = format!("{number:>4}  line {:<5} {}", step.line, step.words());
        // Writing to a text does not fail.
        let _ = writeln!(text, "{}", wrapped(&line, width, 18));
    }
    for ScenarioWarning { line, what } in warnings {
        let _ = writeln!(text, "{}", wrapped(&format!("warning: line {line}: {what}"), width, 4));
    }
    text
}
