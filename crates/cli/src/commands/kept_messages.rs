//! Messages of the flows of SIP of runs that are kept.

use crate::arguments::RunKeep;
use crate::failure::Failure;
use crate::request::ExperimentRequest;

/// The substrate whose runs have messages to be kept.
const ON: &str = "netns";

/// Flows of which each is told by itself.
#[cfg(target_os = "linux")]
const MOST_TOLD: usize = 12;

/// Has the runs that follow keep what was asked for.
pub fn begin(typed: &RunKeep, request: &ExperimentRequest) -> Result<(), Failure> {
    let Some(policy) = typed.keep else { return Ok(()) };
    let others: Vec<_> =
        request.substrates.iter().map(|substrate| substrate.name()).filter(|name| *name != ON).collect();
    let why = format!(
        "--keep {policy}: messages are kept of runs on {ON}; of a run on sim, `netrig export --run ID --pcapng --out FILE` writes the \
         packets, and `netrig sip show FILE` reads them"
    );
    if others.len() == request.substrates.len() {
        return Err(Failure::request(why));
    }
    if !others.is_empty() {
        eprintln!("{why}");
    }
    #[cfg(target_os = "linux")]
    {
        let folder = std::path::absolute(&typed.keep_to)
            .map_err(|error| Failure::request(format!("--keep-to {}: {error}", typed.keep_to.display())))?;
        let stem = request.experiment.design.name.clone();
        let most_bytes = typed.keep_most.bytes();
        crate::request::namespaces().keep(netrig_netns::KeepRequest { policy, folder, stem, most_bytes });
    }
    Ok(())
}

/// Says in lines what was kept of the runs that were made.
#[cfg(target_os = "linux")]
pub fn lines(typed: &RunKeep, ran: u64) -> Vec<String> {
    use crate::commands::sip::load::{counted, kept};

    if typed.keep.is_none() {
        return Vec::new();
    }
    let flows = crate::request::namespaces().take_kept();
    if flows.is_empty() {
        let why = if ran == 0 { "no run was made" } else { "no run that was made has a flow of SIP" };
        return vec![format!("kept: no messages, for {why}")];
    }
    let told = flows.iter().take(MOST_TOLD);
    let mut lines: Vec<String> = told.flat_map(|flow| kept(&flow.messages)).collect();
    if flows.len() > MOST_TOLD {
        let rest = &flows[MOST_TOLD..];
        let sum = |count: fn(&netrig_agent::sip::tap::KeptMessages) -> u64| {
            rest.iter().map(|flow| count(&flow.messages)).sum::<u64>()
        };
        let messages = counted(sum(|kept| kept.messages), "message", "messages");
        let lost = sum(|kept| kept.dropped + kept.without_room);
        let lost = if lost > 0 { format!("; {lost} found no room or time") } else { String::new() };
        lines.push(format!(
            "kept: {messages} of {} more flows in {}{lost}",
            rest.len(),
            typed.keep_to.display()
        ));
    }
    lines
}

/// Nothing is kept where there is no such substrate.
#[cfg(not(target_os = "linux"))]
pub fn lines(_typed: &RunKeep, _ran: u64) -> Vec<String> {
    Vec::new()
}
