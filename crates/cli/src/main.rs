//! The program `netrig`: arguments, progress and exit codes. The libraries contain everything else.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the program reads and writes files, and shows progress in real time"
)]

mod arguments;
mod build;
mod commands;
mod coverage;
mod failure;
mod input;
mod interruption;
mod output;
mod progress;
mod request;
mod stored_run;
mod studies;
mod typed;
mod which;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};
use failure::Failure;

fn main() -> ExitCode {
    let words = commands::spelled(std::env::args_os().collect());
    match carry_out(Arguments::parse_from(words).command) {
        Ok(code) => code,
        Err(failure) => failure.tell(),
    }
}

fn carry_out(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Run(arguments) => commands::run(&arguments),
        Command::Check(arguments) => commands::check(&arguments),
        Command::Plan(arguments) => commands::plan(&arguments),
        Command::List(arguments) => commands::list(&arguments),
        Command::Show(arguments) => commands::show(&arguments),
        Command::Report(arguments) => commands::report(&arguments),
        Command::Compare(arguments) => commands::compare(&arguments),
        Command::Export(arguments) => commands::export(&arguments),
        Command::Lab(arguments) => commands::lab(&arguments),
        Command::Probe(arguments) => commands::probe(&arguments),
        Command::Speed(arguments) => commands::speed(&arguments),
        Command::Sip(arguments) => commands::sip(&arguments),
        Command::Split(arguments) => commands::split(&arguments),
        Command::Chunk(arguments) => commands::chunk(&arguments),
        Command::Merge(arguments) => commands::merge(&arguments),
        Command::Sweep(arguments) => commands::sweep(&arguments),
        Command::Doctor(arguments) => commands::doctor(&arguments),
        Command::Schema(arguments) => commands::schema(&arguments),
        Command::Agent(arguments) => commands::agent(&arguments),
    }
}
