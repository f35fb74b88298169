//! Kept messages of the SIP flows of runs.

use crate::arguments::RunKeep;
use crate::failure::Failure;
use crate::request::ExperimentRequest;

/// The substrate whose runs can keep messages.
const ON: &str = "netns";

/// Starts to keep the messages of all following runs.
pub fn begin(typed: &RunKeep, request: &ExperimentRequest) -> Result<(), Failure> {
    let Some(policy) = typed.keep else { return Ok(()) };
    let others: Vec<_> =
        request.substrates.iter().map(|substrate| substrate.name()).filter(|name| *name != ON).collect();
    let why = format!(
        "--keep {policy}: only runs on {ON} keep messages; for a run on sim, `netrig export --run ID --pcapng --out FILE` writes the \
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

/// One line per fact about the kept messages.
#[cfg(target_os = "linux")]
pub fn lines(typed: &RunKeep, ran: u64) -> Vec<String> {
    if typed.keep.is_none() {
        return Vec::new();
    }
    crate::request::namespaces().take_kept().lines(ran, &typed.keep_to)
}

/// Only Linux has the substrate that keeps messages.
#[cfg(not(target_os = "linux"))]
pub fn lines(_typed: &RunKeep, _ran: u64) -> Vec<String> {
    Vec::new()
}
