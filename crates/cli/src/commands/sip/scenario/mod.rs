//! `netrig sip scenario`: files that say what a call does.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use netrig_agent::user_file;
use netrig_report::wrapped;
use netrig_sip_tester::scenario::{CallScript, ScenarioWarning, ScriptWords, read_sipp_scenario};

use crate::failure::{Failure, print};
use crate::output::terminal_width;

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
    /// Read a scenario of SIPp (XML), and list its steps and what is doubtful in it
    Check(CheckArguments),
}

/// `netrig sip scenario check`.
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// The scenario
    #[arg(value_name = "FILE.xml")]
    pub file: PathBuf,
    /// A keyword of one's own: `[tenant]` stands for the value; given several times
    #[arg(long, value_name = "KEYWORD=VALUE", value_parser = keyword)]
    pub key: Vec<(String, String)>,
}

fn keyword(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}`: expected KEYWORD=VALUE")),
    }
}

/// Carries a verb out.
pub fn scenario(typed: &ScenarioArguments) -> Result<ExitCode, Failure> {
    match &typed.kind {
        ScenarioVerb::Check(typed) => check(typed),
    }
}

fn check(typed: &CheckArguments) -> Result<ExitCode, Failure> {
    let file = typed.file.display();
    let bytes = user_file::read(&typed.file, LONGEST_SCENARIO);
    let bytes = bytes.map_err(|error| Failure::request(format!("cannot read {file}: {error}")))?;
    // SIPp's own scenarios say ISO 8859-1, in which each byte is a character.
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|error| error.into_bytes().into_iter().map(char::from).collect());
    let (script, warnings) = read_sipp_scenario(&text, ScriptWords { keys: &typed.key })
        .map_err(|error| Failure::request(format!("{file}: {error}")))?;
    print(report(&script, &warnings, terminal_width()).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

fn report(script: &CallScript, warnings: &[ScenarioWarning], width: usize) -> String {
    let count = script.steps.len();
    let steps = if count == 1 { "1 step" } else { &format!("{count} steps") };
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
