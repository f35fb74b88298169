//! `netrig sip`, with a module for each subcommand and for the parts that they share.

mod call;
mod capacity;
mod comparison;
mod conform;
mod environment;
mod keeping;
pub mod load;
mod metrics_arguments;
mod reach;
mod refusal;
mod scenario;
mod serve;
mod show;
mod watching;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::failure::Failure;

pub use capacity::CapacityDocument;
pub use load::LoadDocument;
pub use scenario::spelled;

/// `netrig sip`.
#[derive(Debug, Args)]
pub struct Sip {
    /// What to do
    #[command(subcommand)]
    pub kind: Kind,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Kind {
    /// Run a SIP server, until Ctrl-C or for a time
    Serve(Box<serve::Serve>),
    /// Put a load of calls or registrations on a server, and measure its answers
    Load(Box<load::Load>),
    /// Search for the highest rate that a server sustains
    Capacity(Box<capacity::Capacity>),
    /// Make one call, message by message: show, change and send each message, and check the received ones
    Call(Box<call::Call>),
    /// Test a server against the rules of SIP, one test purpose after the other
    Conform(Box<conform::Conform>),
    /// Compare two results of loads, searches or conformance tests, and show which values are significantly worse
    Compare(comparison::Compare),
    /// Check, convert and make scenario files of calls
    Scenario(scenario::ScenarioArguments),
    /// Show the calls of a capture or message log, and draw the ladder diagram of one
    Show(show::Show),
}

/// SIP over real sockets.
pub fn sip(arguments: &Sip) -> Result<ExitCode, Failure> {
    match &arguments.kind {
        Kind::Serve(arguments) => serve::serve(arguments),
        Kind::Load(arguments) => load::load(arguments),
        Kind::Capacity(arguments) => capacity::capacity(arguments),
        Kind::Call(arguments) => call::call(arguments),
        Kind::Conform(arguments) => conform::conform(arguments),
        Kind::Compare(arguments) => comparison::compare(arguments),
        Kind::Scenario(arguments) => scenario::scenario(arguments),
        Kind::Show(arguments) => show::show(arguments),
    }
}
